"""The checks before a rollback: each code with its data and exit code, and the order of every adjacent pair."""

from __future__ import annotations

from itertools import pairwise
from typing import Any, NamedTuple

import pytest

from turnback.errors import TurnbackError
from turnback.policy.conversation import Verdict, Why
from turnback.policy.grants import Grant, Principal
from turnback.policy.heads import HeadFacts
from turnback.policy.preflight import (
    CHECKS,
    LIVE,
    Facts,
    check_call,
    check_choices,
    outside_edits,
    preflight,
    rollback_running,
    rollback_stale,
)

PLAN = "p1-721bd71abfebcbfe"
FINE = Verdict(True, None, True, "t1", ("t2",), True, False)
MOVED = HeadFacts(
    repo="std",
    target_head="1" * 40,
    target_branch="main",
    now_head="2" * 40,
    now_branch="main",
    is_ancestor=True,
    dropped=2,
)
PUSHED = HeadFacts(
    repo="std",
    target_head="1" * 40,
    target_branch="main",
    now_head="2" * 40,
    now_branch="main",
    is_ancestor=True,
    dropped=1,
    pushed_commits=("2" * 40,),
    pushed_refs=("refs/remotes/origin/main",),
)
REBASED = HeadFacts(
    repo="core", target_head="1" * 40, target_branch="main", now_head="2" * 40, now_branch="main"
)

BASE: dict[str, Any] = {
    "agent": "a2",
    "checkpoint": "k2",
    "plan": PLAN,
    "principal": Principal.person(),
    "grant": Grant.WRITE,
    "descendants": (),
    "agent_exists": True,
    "has_repo": True,
    "checkpoint_exists": True,
    "missing_ref": None,
    "state": "settled",
    "pending": None,
    "rollback_running": None,
    "checkpoint_pending": False,
    "stale_requests": (),
    "live_children": (),
    "live_sharers": (),
    "git_operations": (),
    "verdict": FINE,
    "heads": (MOVED,),
    "guarded": False,
}


def refused(**changed: Any) -> TurnbackError | None:
    try:
        preflight(Facts(**BASE | changed))
    except TurnbackError as error:
        return error
    return None


class Stage(NamedTuple):
    """One thing that refuses a rollback: what to set, and what comes of it. ``item`` is its place in 7.1, as X-02 widens it."""

    item: str
    changed: dict[str, Any]
    code: str
    data: dict[str, Any]
    exit_code: int


AGENT = Principal.agent("a1")
# In the order of 7.1 with X-02's places for the parameters, the grant and the agents' rules.
STAGES = [
    Stage("parameters", {"plan": None}, "invalid_params.plan", {}, 2),
    Stage("parameters", {"restore": "some"}, "invalid_params.restore", {}, 2),
    Stage("grant", {"grant": Grant.READ}, "denied.grant", {}, 4),
    Stage("1", {"agent_exists": False}, "not_found.agent", {}, 3),
    Stage("1", {"has_repo": False}, "unsupported.checkpoint_no_repo", {}, 10),
    Stage("1", {"checkpoint_exists": False}, "not_found.checkpoint", {"checkpoint": "k2"}, 3),
    Stage("1", {"missing_ref": "std"}, "not_found.checkpoint", {"checkpoint": "k2", "repo": "std"}, 3),
    Stage("11.4", {"principal": AGENT}, "denied.agent_caller", {}, 4),
    Stage("2", {"state": "archived"}, "conflict.invalid_transition", {}, 5),
    Stage("3", {"state": "handed_over"}, "conflict.handed_over", {}, 5),
    Stage("4", {"pending": "turn"}, "conflict.turn_running", {}, 5),
    Stage("5", {"rollback_running": "a7"}, "conflict.rollback_running", {"agent": "a7"}, 5),
    Stage("6", {"checkpoint_pending": True}, "conflict.checkpoint_pending", {}, 5),
    Stage("7", {"stale_requests": ["q1", "q2"]}, "conflict.stale_requests", {"requests": ["q1", "q2"]}, 5),
    Stage("8", {"live_children": ("a3",)}, "conflict.live_children", {"children": ["a3"]}, 5),
    Stage("9", {"live_sharers": ("a4", "a5")}, "conflict.tree_shared", {"agents": ["a4", "a5"]}, 5),
    Stage(
        "10",
        {"git_operations": [("std", "merge"), ("core", "rebase")]},
        "conflict.git_operation",
        {"repo": "std", "operation": "merge"},
        5,
    ),
    Stage(
        "11",
        {"verdict": Verdict(False, None, True, "t1", ("t2",), True, True)},
        "unsupported.harness_capability",
        {"fix": "--restore=files"},
        10,
    ),
    Stage(
        "11",
        {"verdict": Verdict(False, Why.OVERLAP, False, "t1", (), False, False)},
        "conflict.checkpoint_files_only",
        {"why": "overlap"},
        5,
    ),
    Stage(
        "12",
        {"heads": (MOVED, REBASED)},
        "conflict.head_moved",
        {"repo": "core", "expected": "1" * 40, "actual": "2" * 40, "branch": "main"},
        5,
    ),
    Stage(
        "12",
        {"heads": (PUSHED,)},
        "conflict.commits_pushed",
        {"repo": "std", "commits": ["2" * 40], "refs": ["refs/remotes/origin/main"]},
        5,
    ),
]


def test_nothing_refuses_what_is_fine() -> None:
    assert refused() is None
    assert refused(dry_run=True, plan=None) is None
    assert refused(state="failed") is None


@pytest.mark.contract(
    *(
        f"V-{n}"
        for n in (*range(200, 212), 361, 362, 365, 366, 368, 370, 372, 373, *range(420, 435), 437, 438, 446)
    )
)
@pytest.mark.parametrize("stage", STAGES, ids=lambda stage: f"{stage.item}-{stage.code}")
def test_each(stage: Stage) -> None:
    error = refused(**stage.changed)
    assert error is not None
    assert (error.code, error.data, error.exit_code) == (stage.code, stage.data, stage.exit_code)
    assert error.message.endswith(tuple("abcdefghijklmnopqrstuvwxyz")), "a sentence without a full stop"
    assert len(error.message) > 30, "says what to do next"


def both(first: Stage, second: Stage) -> dict[str, Any]:
    """The facts of both stages at once; where both need the same fact, one that has both conditions."""
    shared = first.changed.keys() & second.changed.keys()
    if not shared:
        return first.changed | second.changed
    if shared == {"verdict"}:
        return {"verdict": Verdict(False, Why.OVERLAP, True, "t1", ("t2",), True, True)}
    assert shared == {"heads"}
    return {"heads": (PUSHED, REBASED)}


# An agent has one state, so archived and handed_over can't meet.
PAIRS = [(one, two) for one, two in pairwise(STAGES) if one.changed.keys() & two.changed.keys() != {"state"}]


@pytest.mark.contract("V-213", "V-211", "X-02", "A-56")
@pytest.mark.parametrize(("first", "second"), PAIRS, ids=lambda stage: f"{stage.item}-{stage.code}")
def test_the_first_of_two_is_the_error(first: Stage, second: Stage) -> None:
    error = refused(**both(first, second))
    assert error is not None
    assert error.code == first.code


@pytest.mark.contract("V-213")
@pytest.mark.parametrize("place", range(len(STAGES)))
def test_each_goes_before_all_that_follow(place: int) -> None:
    changed: dict[str, Any] = {}
    for stage in reversed(STAGES[place:]):
        changed = changed | stage.changed
    error = refused(**changed)
    assert error is not None
    assert error.code == STAGES[place].code


def test_as_many_checks_as_places() -> None:
    places = list(dict.fromkeys(stage.item for stage in STAGES))
    assert len(CHECKS) == len(places)


@pytest.mark.contract("V-203", "V-360", "V-361", "V-423")
@pytest.mark.parametrize(
    "changed",
    [
        {"state": "queued"},
        {"state": "running"},
        {"state": "needs_you"},
        {"pending": "turn"},
        {"pending": "compaction"},
        {"pending": "fork"},
    ],
    ids=str,
)
def test_a_running_turn(changed: dict[str, Any]) -> None:
    error = refused(**changed)
    assert error is not None
    assert error.code == "conflict.turn_running"


@pytest.mark.contract("V-035")
def test_live() -> None:
    states = ["queued", "running", "needs_you", "handed_over", "settled", "failed", "archived"]
    assert [state in LIVE for state in states] == [True] * 4 + [False] * 3


def code(**changed: Any) -> str | None:
    error = refused(**changed)
    return None if error is None else error.code


@pytest.mark.contract("V-195", "V-452", "V-453", "X-02", "A-17")
def test_agents_as_callers() -> None:
    child = {"principal": AGENT, "descendants": frozenset({"a2"})}
    assert code(**child) is None, "its own descendant"
    assert code(**child, guarded=True) == "denied.agent_caller"
    assert code(**child, guarded=True, outside="keep") == "denied.agent_caller", "keeping is no way round it"
    assert code(**child, guarded=True, dry_run=True, plan=None) is None
    assert code(principal=AGENT, dry_run=True, plan=None) is None, (
        "a dry run of any tree that its grant covers"
    )
    itself = {"principal": Principal.agent("a2")}
    assert code(**itself, state="running") == "conflict.turn_running", "the better answer"
    assert code(**itself, state="archived") == "conflict.invalid_transition"
    assert code(**itself) == "denied.agent_caller", "settled, and still not its own descendant"
    assert code(**itself, guarded=True) == "denied.agent_caller"
    assert code(principal=Principal.person(), guarded=True) is None


@pytest.mark.contract("V-210")
def test_files_alone_ask_nothing_of_the_conversation() -> None:
    for verdict in (None, Verdict(False, Why.FORK, True, "t1", ("t2",), True, True)):
        assert code(restore="files", verdict=verdict) is None


def test_all_needs_a_verdict() -> None:
    """A fact that nobody looked up must not pass."""
    with pytest.raises(ValueError, match="verdict"):
        preflight(Facts(**BASE | {"verdict": None}))


@pytest.mark.contract("V-290")
@pytest.mark.parametrize("heads", [(REBASED,), (PUSHED,)])
def test_keep_head_and_paths_get_past_heads(heads: tuple[HeadFacts, ...]) -> None:
    assert code(heads=heads) is not None
    assert code(heads=heads, keep_head=True) is None
    assert code(heads=heads, scope=[b"src"], restore="files") is None, "with paths HEAD doesn't move"


@pytest.mark.contract("V-016", "V-220", "V-421")
@pytest.mark.parametrize(
    ("dry_run", "plan", "fine"),
    [
        (True, None, True),
        (False, PLAN, True),
        (True, PLAN, False),
        (False, None, False),
        (False, "p1-721", False),
        (False, "", False),
    ],
)
def test_dry_run_and_plan(dry_run: bool, plan: str | None, fine: bool) -> None:
    if fine:
        check_call(dry_run, plan)
        return
    with pytest.raises(TurnbackError) as caught:
        check_call(dry_run, plan)
    assert (caught.value.code, caught.value.data) == ("invalid_params.plan", {})


@pytest.mark.contract("V-310")
@pytest.mark.parametrize(
    ("restore", "outside", "scope", "reason"),
    [
        ("all", None, None, None),
        ("files", "refuse", None, None),
        ("files", "keep", [b"a"], None),
        ("all", "overwrite", None, None),
        ("all", "merge", None, None),
        ("ALL", None, None, "restore"),
        ("", None, None, "restore"),
        ("all", "", None, "outside"),
        ("all", "replace", None, "outside"),
        ("files", None, [], "paths"),
        ("all", None, [b"a"], "restore"),
    ],
)
def test_choices(restore: str, outside: str | None, scope: list[bytes] | None, reason: str | None) -> None:
    if reason is None:
        check_choices(restore, outside, scope)
        return
    with pytest.raises(TurnbackError) as caught:
        check_choices(restore, outside, scope)
    assert caught.value.code == f"invalid_params.{reason}"


@pytest.mark.contract("V-024", "V-212", "V-435")
def test_outside_edits() -> None:
    error = outside_edits({"b": [b"\xff"], "a": [b"README.md", b"notes/todo.md"], "c": []})
    assert error is not None
    assert error.code == "conflict.outside_edits"
    assert error.exit_code == 5
    assert error.data == {
        "repos": [
            {"repo": "a", "paths": ["README.md", "notes/todo.md"]},
            {"repo": "b", "paths": [{"path": "\ufffd", "path_b64": "/w=="}]},
        ]
    }
    golden = outside_edits({".": [b"README.md", b"notes/todo.md"]})
    assert golden is not None
    assert golden.to_json() == (
        b'{"error":{"code":"conflict.outside_edits","message":"2 paths changed outside the agent\'s turns; choose '
        b'--outside=keep or --outside=overwrite","data":{"repos":[{"repo":".","paths":["README.md","notes/todo.md"]}]}}}'
    )
    one = outside_edits({".": [b"a"]})
    assert one is not None
    assert one.message.startswith("1 path changed")
    assert outside_edits({".": []}) is None


@pytest.mark.contract("V-225", "V-371", "V-426", "V-436")
def test_the_other_conflicts() -> None:
    stale = rollback_stale("k2")
    assert (stale.code, stale.data, stale.exit_code) == ("conflict.rollback_stale", {"checkpoint": "k2"}, 5)
    running = rollback_running("a2")
    assert (running.code, running.data) == ("conflict.rollback_running", {"agent": "a2"})
