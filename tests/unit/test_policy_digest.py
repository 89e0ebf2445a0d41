"""Around the plan: its digest, the order of the writes, the state expected after them, its scope and its JSON."""

from __future__ import annotations

import hashlib
from typing import Any

import pytest

from turnback.changes import FILE, ChangeKind, Entry
from turnback.policy.plan import (
    Left,
    LeftReason,
    PathClass,
    Step,
    digest,
    expected_entries,
    in_scope,
    order,
    raw_hash,
)

TREE, HEAD = "6a1f0c2d3e4b5a69788f9e0d1c2b3a4f5e6d7c8b", "8f3a1c9e5d7b2046a1c3e5f708192a3b4c5d6e7f"
CONTRACT = (
    '{"checkpoint":"k2","restore":"all","outside":null,"keep_head":false,"repos":[{"repo":"venom-std",'
    f'"tree":"{TREE}","head":"{HEAD}"}}]}}'
)
A, B, C = (Entry(FILE, letter * 40) for letter in "abc")


def of(text: str) -> str:
    return "p1-" + hashlib.sha256(text.encode()).hexdigest()[:16]


def asked(**changed: Any) -> str:
    base: dict[str, Any] = {
        "checkpoint": "k2",
        "restore": "all",
        "outside": None,
        "keep_head": False,
        "repos": [("venom-std", TREE, HEAD)],
    }
    return digest(**base | changed)


@pytest.mark.contract("V-222", "X-04")
def test_the_vector_of_the_contract() -> None:
    assert asked() == "p1-721bd71abfebcbfe" == of(CONTRACT)


@pytest.mark.contract("V-225")
@pytest.mark.parametrize(
    "changed",
    [
        {"checkpoint": "k3"},
        {"restore": "files"},
        {"outside": "keep"},
        {"outside": "refuse"},
        {"keep_head": True},
        {"repos": [("venom-std", HEAD, HEAD)]},
        {"repos": [("venom-std", TREE, TREE)]},
        {"repos": [("venom-std", TREE, None)]},
        {"repos": [("other", TREE, HEAD)]},
        {"paths": [b"a"]},
        {"raw": {"venom-std": "1" * 64}},
    ],
    ids=str,
)
def test_every_choice_and_every_state_is_in_it(changed: dict[str, Any]) -> None:
    assert asked(**changed) != asked()


@pytest.mark.contract("V-222", "V-223")
def test_repos_are_sorted_and_null_is_null() -> None:
    repos = [("b", "1" * 40, None), ("a", "2" * 40, "3" * 40)]
    expected = of(
        '{"checkpoint":"k1","restore":"files","outside":"keep","keep_head":true,"repos":['
        f'{{"repo":"a","tree":"{"2" * 40}","head":"{"3" * 40}"}},{{"repo":"b","tree":"{"1" * 40}","head":null}}]}}'
    )
    assert digest("k1", "files", "keep", True, repos) == expected
    assert digest("k1", "files", "keep", True, repos[::-1]) == expected


def test_paths_and_raw_are_members_only_when_given() -> None:
    """DESIGN part 7: the digest of a call without them is the contract's."""
    assert asked(paths=None, raw={}) == asked() == asked(raw={"venom-std": None})
    with_paths = CONTRACT.removesuffix("}") + ',"paths":["a","é",{"path":"\ufffd","path_b64":"/w=="}]}'
    assert asked(paths=[b"\xff", "é".encode(), b"a", b"a"]) == of(with_paths), (
        "sorted, each once, exact bytes"
    )
    with_raw = CONTRACT.replace(f'"head":"{HEAD}"', f'"head":"{HEAD}","raw":"{"4" * 64}"')
    assert asked(raw={"venom-std": "4" * 64}) == of(with_raw)


def test_no_escapes_beyond_jsons() -> None:
    """A-12: JSON as UTF-8."""
    repos = [('é"\\\n', TREE, None)]
    text = (
        '{"checkpoint":"k1","restore":"all","outside":null,"keep_head":false,"repos":['
        f'{{"repo":"é\\"\\\\\\n","tree":"{TREE}","head":null}}]}}'
    )
    assert digest("k1", "all", None, False, repos) == of(text)
    assert digest("k1", "all", None, False, [("\udcff", TREE, None)]).startswith("p1-"), "a name of any bytes"


def test_the_hash_of_raw_bytes() -> None:
    assert raw_hash([]) is None
    rows = [(b"a", "1" * 64), (b"\xff", "2" * 64)]
    assert raw_hash(rows) == raw_hash(rows[::-1]) != raw_hash(rows[:1])
    assert raw_hash([(b"a", "1" * 64)]) != raw_hash([(b"a", "2" * 64)]) != raw_hash([(b"b", "1" * 64)])


def step(path: bytes, change: ChangeKind, target: Entry | None = None, *, filtered: bool = False) -> Step:
    return Step(path, change, PathClass.TURN, target, None, filtered=filtered)


@pytest.mark.contract("V-262")
def test_deletions_first_longest_first_then_writes() -> None:
    steps = [
        step(b"a", ChangeKind.CREATE, A),
        step(b"a/b", ChangeKind.DELETE),
        step(b"z", ChangeKind.DELETE),
        step(b"a/b2/c", ChangeKind.DELETE),
        step(b"m", ChangeKind.MODIFY, B),
        step(b"b/c", ChangeKind.CREATE, A),
        step(b"a/d", ChangeKind.DELETE),
    ]
    deletions, writes = order(steps)
    assert [found.path for found in deletions] == [b"a/b2/c", b"a/b", b"a/d", b"z"]
    assert [found.path for found in writes] == [b"a", b"b/c", b"m"]


@pytest.mark.contract("V-271")
def test_the_expected_tree_is_s_with_the_steps() -> None:
    state = {b"keep": A, b"gone": A, b"changed": A, b"filtered": A}
    steps = [
        step(b"gone", ChangeKind.DELETE),
        step(b"changed", ChangeKind.MODIFY, B),
        step(b"new/x", ChangeKind.CREATE, C),
        step(b"filtered", ChangeKind.MODIFY, B, filtered=True),
    ]
    expected = {b"keep": A, b"changed": B, b"new/x": C, b"filtered": A}
    assert expected_entries(state, steps) == expected
    assert state[b"gone"] == A, "S itself is left as it was"


@pytest.mark.parametrize(
    ("path", "scope", "found"),
    [
        (b"a", None, True),
        (b"a", [b"a"], True),
        (b"a/b", [b"a"], True),
        (b"ab", [b"a"], False),
        (b"a", [b"a/b"], False),
        (b"a/b/c", [b"x", b"a/b"], True),
    ],
)
def test_scope(path: bytes, scope: list[bytes] | None, found: bool) -> None:
    assert in_scope(path, scope) is found


def test_the_forms_in_json() -> None:
    deleted = Step(b"src/x", ChangeKind.DELETE, PathClass.TURN, None, A)
    assert deleted.to_dict() == {"path": "src/x", "change": "delete", "class": "turn"}
    merged = Step(b"\xff", ChangeKind.MODIFY, PathClass.OUTSIDE, C, A, merged=True)
    assert merged.to_dict() == {
        "path": "\ufffd",
        "path_b64": "/w==",
        "change": "modify",
        "class": "outside",
        "merged": True,
    }
    assert Left(b"sub", LeftReason.GITLINK, "c" * 40).to_dict() == {
        "path": "sub",
        "reason": "gitlink",
        "detail": "c" * 40,
    }
