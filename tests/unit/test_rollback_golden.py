"""The examples of the contract's first section, member for member; ids, commits and times aside."""

from pathlib import Path
from typing import Any

import pytest

from support.rollbacks import Rewinds, Scene
from turnback.errors import Conflict, InvalidParams

FRAME = "src/proto/frame.zig"


def without(value: Any, *members: str) -> Any:
    """A JSON value without some members, at any depth."""
    if isinstance(value, dict):
        return {key: without(item, *members) for key, item in value.items() if key not in members}
    if isinstance(value, list):
        return [without(item, *members) for item in value]
    return value


@pytest.fixture
def worktree(tmp_path: Path) -> Scene:
    """Agent a2 in a worktree, with two turns that changed one file; its harness can rewind."""
    scene = Scene.worktree(tmp_path, {FRAME: "1\n"}, harness=Rewinds("db5b5038-2eca-45a0-bff2-ef5647c506fb"))
    for number in (2, 3):
        with scene.turn() as turn:
            scene.put({FRAME: f"{number}\n"})
            turn.edited(FRAME)
            turn.end(harness_end=f"end-{number}")
    return scene


@pytest.fixture
def in_place(tmp_path: Path) -> Scene:
    """Agent a5 in place: after its second turn a person edits README.md and notes/todo.md."""
    scene = Scene.in_place(
        tmp_path, {"README.md": "readme\n", "notes/todo.md": "todo\n", "src/main.zig": "1\n"}
    )
    scene.changes({"src/main.zig": "2\n"}, named=("src/main.zig",))
    scene.changes({"src/main.zig": "3\n", "gen/out.txt": "made\n"}, named=("src/main.zig",))
    scene.put({"README.md": "a person's\n", "notes/todo.md": "a person's\n"})
    return scene


@pytest.mark.contract("V-010", "V-011", "V-013")
def test_two_turns_leave_three_checkpoints_newest_first(worktree: Scene) -> None:
    """``agent.checkpoints`` has k3, k2 and k1, each with the members of the example."""
    found = worktree.agent.checkpoints().to_dict()
    assert found["agent"] == "a2"
    assert found["pending"] is False
    assert [
        (row["checkpoint"], row["reason"], row["turn"], row["through_turn"]) for row in found["checkpoints"]
    ] == [
        ("k3", "turn_end", "t2", "t2"),
        ("k2", "turn_end", "t1", "t1"),
        ("k1", "turn_start", "t1", None),
    ]
    for row in found["checkpoints"]:
        assert list(row) == [
            "checkpoint", "reason", "turn", "through_turn", "at", "mid_turn", "overlap", "conversation", "repos"
        ]  # fmt: skip
        assert (row["mid_turn"], row["overlap"], row["conversation"]) == (False, False, True)
        (repo,) = row["repos"]
        assert list(repo) == ["repo", "path", "commit", "head", "branch", "skipped", "submodules"]
        assert without(repo, "commit", "head") == {
            "repo": ".",
            "path": str(worktree.tree.path),
            "branch": "work",
            "skipped": [],
            "submodules": [],
        }


@pytest.mark.contract("V-015", "V-017")
def test_the_dry_run_of_the_worktree_agent(worktree: Scene) -> None:
    """The plan has exactly the example's members and values."""
    before = worktree.tree.snapshot_everything(), worktree.log()
    plan = worktree.plan("k2", restore="all").to_dict()
    head = worktree.tree.text("rev-parse", "HEAD")
    assert list(plan) == [
        "agent", "checkpoint", "dry_run", "plan", "restore", "guarded", "conversation", "shared_with", "children", "repos"
    ]  # fmt: skip
    assert without(plan, "plan") == {
        "agent": "a2",
        "checkpoint": "k2",
        "dry_run": True,
        "restore": "all",
        "guarded": False,
        "conversation": {"rewinds": True, "through_turn": "t1", "drops": ["t2"]},
        "shared_with": [],
        "children": [],
        "repos": [
            {
                "repo": ".",
                "path": str(worktree.tree.path),
                "head": {"moves": False, "from": head, "to": head, "commits": 0},
                "files": [{"path": FRAME, "change": "modify", "class": "agent"}],
                "left": [],
                "ignored_edits": [],
            }
        ],
    }
    assert plan["plan"].startswith("p1-")
    assert len(plan["plan"]) == len("p1-6d0f4a2be19c7735")
    assert worktree.tree.snapshot_everything() == before[0]
    assert worktree.log() == before[1], "a dry run logs nothing"


@pytest.mark.contract("V-016", "V-018", "V-019", "V-101")
def test_the_real_call_of_the_worktree_agent(worktree: Scene) -> None:
    """The result has exactly the example's members, with the new conversation; the safety checkpoint holds the tree before."""
    plan = worktree.plan("k2", restore="all").plan
    with pytest.raises(InvalidParams) as refused:
        worktree.agent.rollback("k2", restore="all")  # type: ignore[call-overload]
    assert refused.value.code == "invalid_params.plan"
    done = worktree.agent.rollback("k2", restore="all", plan=plan).to_dict()
    head = worktree.tree.text("rev-parse", "HEAD")
    assert list(done) == [
        "agent", "checkpoint", "dry_run", "restore", "safety", "after", "exact", "conversation", "shared_with", "children",
        "repos",
    ]  # fmt: skip
    assert done == {
        "agent": "a2",
        "checkpoint": "k2",
        "dry_run": False,
        "restore": "all",
        "safety": "k4",
        "after": "k5",
        "exact": True,
        "conversation": {
            "rewinds": True,
            "through_turn": "t1",
            "drops": ["t2"],
            "harness_session": "db5b5038-2eca-45a0-bff2-ef5647c506fb",
        },
        "shared_with": [],
        "children": [],
        "repos": [
            {
                "repo": ".",
                "path": str(worktree.tree.path),
                "head": {"moves": False, "from": head, "to": head, "commits": 0},
                "files": [{"path": FRAME, "change": "modify", "class": "agent"}],
                "left": [],
                "ignored_edits": [],
            }
        ],
    }
    assert worktree.tree.read(FRAME) == b"2\n"
    assert worktree.blob("k4", FRAME) == b"3\n"
    assert worktree.blob("k5", FRAME) == b"2\n"


@pytest.mark.contract("V-020", "V-021", "V-022", "V-253", "V-259")
def test_the_events_of_a_rollback_in_order(worktree: Scene) -> None:
    """Four events in the example's order and form; the safety checkpoint has the last ended turn, the one after the target's."""
    worktree.back("k2", restore="all")
    found = worktree.events()[-4:]
    assert [event["type"] for event in found] == [
        "agent.checkpoint",
        "agent.rollback_started",
        "agent.checkpoint",
        "agent.rollback_ended",
    ]
    assert [event["seq"] - found[0]["seq"] for event in found] == [0, 1, 2, 3]
    for event in found:
        assert list(event) == ["seq", "ts", "source", "type", "data"]
        assert event["source"].startswith("venom/")
    safety, started, after, ended = (event["data"] for event in found)
    assert without(safety, "commit") == {
        "agent": "a2",
        "checkpoint": "k4",
        "reason": "pre_rollback",
        "through_turn": "t2",
        "repos": [{"repo": "."}],
    }
    assert started == {"agent": "a2", "checkpoint": "k2", "safety": "k4", "restore": "all"}
    assert without(after, "commit") == {
        "agent": "a2",
        "checkpoint": "k5",
        "reason": "rollback",
        "through_turn": "t1",
        "repos": [{"repo": "."}],
    }
    assert ended == {
        "agent": "a2",
        "checkpoint": "k2",
        "safety": "k4",
        "restore": "all",
        "ok": True,
        "after": "k5",
        "drops": ["t2"],
    }


@pytest.mark.contract("V-024", "V-025", "V-212", "V-245")
def test_a_persons_edits_refuse_the_rollback_until_there_is_a_choice(in_place: Scene) -> None:
    """``conflict.outside_edits`` names the two paths in the example's words; nothing happens."""
    before = in_place.tree.snapshot_everything(), in_place.log()
    with pytest.raises(Conflict) as refused:
        in_place.plan("k2")
    assert refused.value.to_dict() == {
        "error": {
            "code": "conflict.outside_edits",
            "message": "2 paths changed outside the agent's turns; choose --outside=keep or --outside=overwrite",
            "data": {"repos": [{"repo": ".", "paths": ["README.md", "notes/todo.md"]}]},
        }
    }
    assert (in_place.tree.snapshot_everything(), in_place.log()) == before


@pytest.mark.contract("V-026", "V-027", "V-028", "V-191", "V-246")
def test_the_plan_that_keeps_a_persons_edits(in_place: Scene) -> None:
    """With ``keep`` the person's paths are in ``left`` and the agent's in ``files``, as in the example."""
    plan = in_place.plan("k2", outside="keep").to_dict()
    head = in_place.tree.text("rev-parse", "HEAD")
    assert without(plan, "plan") == {
        "agent": "a5",
        "checkpoint": "k2",
        "dry_run": True,
        "restore": "files",
        "guarded": True,
        "conversation": {"rewinds": False, "through_turn": "t1", "drops": []},
        "shared_with": [],
        "children": [],
        "repos": [
            {
                "repo": ".",
                "path": str(in_place.tree.path),
                "head": {"moves": False, "from": head, "to": head, "commits": 0},
                # The contract's example lists them in another order; a path's place in the list means nothing.
                "files": [
                    {"path": "gen/out.txt", "change": "delete", "class": "turn"},
                    {"path": "src/main.zig", "change": "modify", "class": "agent"},
                ],
                "left": [
                    {"path": "README.md", "reason": "outside"},
                    {"path": "notes/todo.md", "reason": "outside"},
                ],
                "ignored_edits": [],
            }
        ],
    }


@pytest.mark.contract("V-040", "V-246", "V-248")
def test_the_rollback_that_keeps_a_persons_edits(in_place: Scene) -> None:
    """The agent's files go back, the person's stay untouched, and everything that was there is in the safety checkpoint."""
    before = in_place.files()
    done = in_place.back("k2", outside="keep")
    after = in_place.files()
    assert done.exact
    assert after.keys() == before.keys() - {b"gen/out.txt"}
    assert after[b"src/main.zig"].content == b"2\n"
    for name in (b"README.md", b"notes/todo.md"):
        assert after[name] == before[name]
    assert not in_place.tree.exists("gen"), "a folder that became empty goes too"
    for name in before:
        assert in_place.blob(done.safety, name) == before[name].content


def test_a_rollback_of_the_rollback_gives_everything_back(in_place: Scene) -> None:
    """Going to the safety checkpoint restores exactly what was there before the first rollback, and so on to and fro."""
    before = in_place.contents()
    first = in_place.back("k2", outside="keep")
    between = in_place.contents()
    second = in_place.back(first.safety)
    assert second.exact
    assert in_place.contents() == before
    third = in_place.back(second.safety)
    assert third.exact
    assert in_place.contents() == between
    in_place.back(third.safety)
    assert in_place.contents() == before
