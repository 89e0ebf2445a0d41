"""HEAD in a rollback: when it moves, when it may not, and what the result says."""

from __future__ import annotations

from typing import Any

import pytest

from turnback.errors import TurnbackError
from turnback.policy.heads import HeadFacts, check_heads, head_move

T, H = "1" * 40, "2" * 40
BASE: dict[str, Any] = {
    "repo": "std",
    "target_head": T,
    "target_branch": "main",
    "now_head": H,
    "now_branch": "main",
    "is_ancestor": True,
    "dropped": 2,
}


def facts(**changed: Any) -> HeadFacts:
    return HeadFacts(**BASE | changed)


def refused(*heads: HeadFacts, keep_head: bool = False) -> TurnbackError | None:
    try:
        check_heads(heads, keep_head=keep_head)
    except TurnbackError as error:
        return error
    return None


@pytest.mark.contract("V-193", "V-285", "V-290", "V-291", "V-292")
@pytest.mark.parametrize(
    ("changed", "keep_head", "expected"),
    [
        ({}, False, (True, H, T, 2)),
        ({}, True, (False, H, H, 0)),
        ({"guarded": True}, False, (False, H, H, 0)),
        ({"now_head": T, "dropped": 0}, False, (False, T, T, 0)),
        ({"now_head": T, "now_branch": "other"}, False, (False, T, T, 0)),
        ({"target_branch": None, "now_branch": None}, False, (True, H, T, 2)),
        ({"target_head": None, "now_head": None}, False, (False, None, None, 0)),
    ],
    ids=str,
)
def test_where_it_goes(changed: dict[str, Any], keep_head: bool, expected: tuple[Any, ...]) -> None:
    found = facts(**changed)
    assert refused(found, keep_head=keep_head) is None
    move = head_move(found, keep_head=keep_head)
    assert (move.moves, move.before, move.after, move.commits) == expected
    assert move.to_dict() == dict(zip(("moves", "from", "to", "commits"), expected, strict=True))


@pytest.mark.contract("V-280", "V-286", "V-287", "V-288", "V-433")
@pytest.mark.parametrize(
    ("changed", "data"),
    [
        ({"is_ancestor": False}, {"repo": "std", "expected": T, "actual": H, "branch": "main"}),
        ({"now_branch": "other"}, {"repo": "std", "expected": T, "actual": H, "branch": "other"}),
        ({"now_branch": None}, {"repo": "std", "expected": T, "actual": H}),
        ({"target_branch": None}, {"repo": "std", "expected": T, "actual": H, "branch": "main"}),
        ({"target_head": None}, {"repo": "std", "expected": None, "actual": H, "branch": "main"}),
        ({"now_head": None}, {"repo": "std", "expected": T, "actual": None, "branch": "main"}),
    ],
    ids=str,
)
def test_head_moved(changed: dict[str, Any], data: dict[str, Any]) -> None:
    error = refused(facts(**changed))
    assert error is not None
    assert (error.code, error.data) == ("conflict.head_moved", data)
    assert "--keep-head" in error.message
    assert refused(facts(**changed), keep_head=True) is None
    assert refused(facts(**changed, guarded=True)) is None, (
        "a guarded tree behaves as if keep_head were given"
    )


@pytest.mark.contract("V-289", "V-434", "A-30")
def test_commits_pushed() -> None:
    pushed = facts(pushed_commits=(H,), pushed_refs=("refs/remotes/origin/main",))
    error = refused(pushed)
    assert error is not None
    assert error.code == "conflict.commits_pushed"
    assert error.data == {"repo": "std", "commits": [H], "refs": ["refs/remotes/origin/main"]}
    assert "--keep-head" in error.message
    assert refused(facts(pushed_commits=(H,), pushed_refs=("r",), guarded=True)) is None
    assert refused(pushed, keep_head=True) is None


@pytest.mark.contract("V-211")
def test_moved_in_any_repo_goes_before_pushed_in_another() -> None:
    error = refused(facts(pushed_commits=(H,), pushed_refs=("r",)), facts(repo="core", is_ancestor=False))
    assert error is not None
    assert error.code == "conflict.head_moved"
