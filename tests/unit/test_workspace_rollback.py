"""Rollback as a caller sees it: two calls, the members of both results, who may, and the conversation."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from support.replay import Log
from turnback import (
    Conflict,
    Denied,
    NotFound,
    Principal,
    TimedOut,
    TurnbackError,
    Unsupported,
    Workspace,
)

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.git_repo import GitRepo
    from turnback import Agent

PLAN = "p1-721bd71abfebcbfe"


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def agent(workspace: Workspace, repo: GitRepo) -> Agent:
    """An agent with a turn that made a file, changed one by an edit call and one by a command, and deleted one."""
    repo.write("gone.txt", "x\n")
    agent = workspace.add_agent("a1")
    with agent.turn("go") as turn:
        turn.edited("src/main.py")
        repo.write("src/main.py", "print('two')\n")
        repo.write("README.md", "by a command\n")
        repo.write("gen/out.txt", "generated\n")
        repo.delete("gone.txt")
    return agent


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(TurnbackError) as caught:
        call()
    return caught.value.code


# --- the two calls -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-015", "V-017", "V-028", "V-396", "V-398", "V-399", "V-402")
def test_the_dry_run_in_json(repo: GitRepo, agent: Agent) -> None:
    """The dry run changes no file and gives exactly the contract's members, in its order."""
    before = repo.snapshot_everything()
    found = json.loads(agent.rollback("k1", restore="files", dry_run=True).to_json())
    assert before.changes(repo.snapshot_everything()) == []
    head = repo.text("rev-parse", "HEAD")
    assert re.fullmatch(r"p1-[0-9a-f]{16}", found["plan"])
    assert list(found.items()) == [
        ("agent", "a1"),
        ("checkpoint", "k1"),
        ("dry_run", True),
        ("plan", found["plan"]),
        ("restore", "files"),
        ("guarded", True),
        ("conversation", {"rewinds": False, "through_turn": None, "drops": []}),
        ("shared_with", []),
        ("children", []),
        ("repos", found["repos"]),
    ]
    assert found["repos"] == [
        {
            "repo": ".",
            "path": str(repo.path),
            "head": {"moves": False, "from": head, "to": head, "commits": 0},
            "files": [
                {"path": "README.md", "change": "modify", "class": "turn"},
                {"path": "gen/out.txt", "change": "delete", "class": "turn"},
                {"path": "gone.txt", "change": "create", "class": "turn"},
                {"path": "src/main.py", "change": "modify", "class": "agent"},
            ],
            "left": [],
            "ignored_edits": [],
        }
    ]


@pytest.mark.contract("V-016", "V-018", "V-019", "V-224", "V-398")
def test_the_real_call_in_json(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """The real call gives what it did: the plan's paths, its own checkpoints, and whether all came out; also after a restart."""
    plan = json.loads(agent.rollback("k1", restore="files", dry_run=True).to_json())
    again = Workspace.open(repo.path, state_dir=workspace.state_dir).agent("a1")
    found = json.loads(again.rollback("k1", restore="files", plan=plan["plan"]).to_json())
    assert list(found.items()) == [
        ("agent", "a1"),
        ("checkpoint", "k1"),
        ("dry_run", False),
        ("restore", "files"),
        ("safety", "k3"),
        ("after", "k4"),
        ("exact", True),
        ("conversation", plan["conversation"]),
        ("shared_with", []),
        ("children", []),
        ("repos", plan["repos"]),
    ]
    assert repo.read("src/main.py") == b"print('one')\n"
    assert not repo.exists("gen")
    undo = agent.rollback("k3", restore="files", dry_run=True)
    agent.rollback("k3", restore="files", plan=undo.plan)
    assert repo.read("gen/out.txt") == b"generated\n"


@pytest.mark.contract("V-396", "V-397", "V-220", "V-421", "V-310")
@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({}, "invalid_params.plan"),
        ({"dry_run": False}, "invalid_params.plan"),
        ({"dry_run": True, "plan": PLAN}, "invalid_params.plan"),
        ({"plan": "p1-"}, "invalid_params.plan"),
        ({"plan": "p2-721bd71abfebcbfe"}, "invalid_params.plan"),
        ({"plan": PLAN.upper()}, "invalid_params.plan"),
        ({"dry_run": True, "restore": "everything"}, "invalid_params.restore"),
        ({"dry_run": True, "restore": ""}, "invalid_params.restore"),
        ({"dry_run": True, "outside": "ask"}, "invalid_params.outside"),
        ({"dry_run": True, "outside": ""}, "invalid_params.outside"),
        ({"plan": PLAN, "restore": "files"}, "conflict.rollback_stale"),
    ],
)
def test_how_it_is_called(
    parameters: dict[str, Any], code: str, workspace: Workspace, repo: GitRepo, agent: Agent
) -> None:
    """A dry run or a plan, never both or neither; choices by their names; a plan of something else is stale. Nothing changes."""
    before, log = repo.snapshot_everything(), Log(workspace.state_dir).records
    call: Any = agent.rollback
    assert code_of(lambda: call("k1", **parameters)) == code
    assert before.changes(repo.snapshot_everything()) == []
    assert Log(workspace.state_dir).records == log


@pytest.mark.contract("V-225", "V-436", "V-252")
@pytest.mark.parametrize("changed", ["tree", "head", "checkpoint", "outside", "keep_head", "restore"])
def test_a_plan_that_is_stale(changed: str, repo: GitRepo, agent: Agent) -> None:
    """Whatever differs from what was shown, the plan is not done."""
    agent.checkpoint()
    plan = agent.rollback("k1", restore="files", outside="overwrite", dry_run=True).plan
    choices: dict[str, Any] = {"restore": "files", "outside": "overwrite", "keep_head": False}
    checkpoint = "k1"
    if changed == "tree":
        repo.write("README.md", "once more\n")
    elif changed == "head":
        repo.commit("empty", add=False)
    elif changed == "checkpoint":
        checkpoint = "k2"
    else:
        choices[changed] = {"outside": "keep", "keep_head": True, "restore": "all"}[changed]
    before = repo.snapshot_everything()
    with pytest.raises(Conflict) as caught:
        agent.rollback(checkpoint, plan=plan, **choices)
    assert (caught.value.code, caught.value.data) == ("conflict.rollback_stale", {"checkpoint": checkpoint})
    assert before.changes(repo.snapshot_everything()) == []


@pytest.mark.contract("V-024", "V-025", "V-245", "V-435")
def test_outside_edits_in_json(repo: GitRepo, agent: Agent) -> None:
    """A person's edits are named in the error, whose JSON is the contract's."""
    repo.write("notes/todo.md", "mine\n")
    repo.write("src/main.py", "print('mine')\n")
    with pytest.raises(Conflict) as caught:
        agent.rollback("k1", restore="files", dry_run=True)
    assert json.loads(caught.value.to_json()) == {
        "error": {
            "code": "conflict.outside_edits",
            "message": "2 paths changed outside the agent's turns; choose --outside=keep or --outside=overwrite",
            "data": {"repos": [{"repo": ".", "paths": ["notes/todo.md", "src/main.py"]}]},
        }
    }


@pytest.mark.contract("V-318", "V-351", "V-437")
def test_without_a_harness_only_files_go_back(repo: GitRepo, agent: Agent) -> None:
    """To bring the conversation back takes a harness that can: without one that is said, with the way that works."""
    with agent.turn():
        repo.write("more", "x")
    with pytest.raises(Unsupported) as caught:
        agent.rollback("k2", dry_run=True)
    assert (caught.value.code, caught.value.exit_code) == ("unsupported.harness_capability", 10)
    assert "--restore=files" in caught.value.data["fix"]
    assert agent.rollback("k2", restore="files", dry_run=True).plan


@pytest.mark.contract("V-431", "V-370", "V-209")
def test_in_the_middle_of_a_merge(repo: GitRepo, agent: Agent) -> None:
    """While git is in the middle of something there is no rollback; saving goes on."""
    repo.write(".git/MERGE_HEAD", repo.text("rev-parse", "HEAD") + "\n")
    with pytest.raises(Conflict) as caught:
        agent.rollback("k1", restore="files", dry_run=True)
    assert (caught.value.code, caught.value.data) == (
        "conflict.git_operation",
        {"repo": ".", "operation": "merge"},
    )
    assert agent.checkpoint().reused


@pytest.mark.contract("V-202", "V-361", "V-362", "V-366", "V-424", "V-429", "V-430", "V-207", "V-208")
def test_who_else_is_at_work(workspace: Workspace, agent: Agent) -> None:
    """An agent in a person's hands, a live grandchild, a live sharer: each refuses in its turn, and settled ones are only listed."""
    child = workspace.add_agent("child", parent="a1", isolation="worktree")
    grandchild = workspace.add_agent("grandchild", parent="child", isolation="worktree")
    sharer = workspace.add_agent("sharer")
    agent.set_state("handed_over")
    grandchild.set_state("running")
    sharer.set_state("queued")

    def refused() -> Conflict:
        with pytest.raises(Conflict) as caught:
            agent.rollback("k1", restore="files", dry_run=True)
        assert caught.value.exit_code == 5
        return caught.value

    assert (refused().code, refused().data) == ("conflict.handed_over", {})
    agent.set_state("queued")
    assert (refused().code, refused().data) == ("conflict.turn_running", {})
    agent.set_state("settled")
    assert (refused().code, refused().data) == ("conflict.live_children", {"children": ["grandchild"]})
    grandchild.set_state("failed")
    assert (refused().code, refused().data) == ("conflict.tree_shared", {"agents": ["sharer"]})
    sharer.set_state("settled")
    plan = agent.rollback("k1", restore="files", dry_run=True)
    assert (plan.shared_with, plan.children) == (("sharer",), ("child", "grandchild"))
    assert child.show().state == "settled"


@pytest.mark.contract("V-123", "V-400")
def test_edits_of_ignored_files_are_told(repo: GitRepo, agent: Agent) -> None:
    """A tool call that named an ignored file can't be undone: the plan lists it, if it came after the checkpoint."""
    repo.write(".git/info/exclude", "*.secret\n")
    with agent.turn() as first:
        first.edited("early.secret")
        repo.write("early.secret", "1")
    with agent.turn() as second:
        second.edited("late.secret", "src/main.py")
        repo.write("late.secret", "2")
        repo.write("src/main.py", "print('three')\n")
    assert second.ended is not None
    told = []
    for checkpoint in ("k1", second.ended.checkpoint or ""):
        plan = agent.rollback(checkpoint, restore="files", outside="overwrite", dry_run=True)
        told.append(plan.repos[0].ignored_edits)
    assert told == [("early.secret", "late.secret"), ()]


# --- the conversation -------------------------------------------------------------------------------------------------------


class Talking:
    """A harness that copies conversations, or refuses to."""

    name = "talking"
    can_rewind = True
    needs: str | None = "harness_end"

    def __init__(self, refusal: TurnbackError | None = None) -> None:
        self.refusal = refusal
        self.asked: list[dict[str, Any]] = []

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        self.asked.append({"through_turn": through_turn, "harness_end": harness_end})
        if self.refusal is not None:
            raise self.refusal
        return "the copy"


def two_turns(workspace: Workspace, repo: GitRepo, harness: Talking) -> Agent:
    agent = workspace.add_agent("a2", harness=harness)
    for number in (1, 2):
        turn = agent.begin_turn(f"turn {number}")
        repo.write("file", f"{number}\n")
        turn.end(harness_end=f"m{number}")
    return agent


@pytest.mark.contract("V-004", "V-018", "V-255", "V-259", "V-317", "V-320", "V-325", "V-340", "V-341")
def test_files_and_conversation_go_together(workspace: Workspace, repo: GitRepo) -> None:
    """Back to after the first turn: the harness is asked once, the second turn is dropped, and the next one is the third."""
    harness = Talking()
    agent = two_turns(workspace, repo, harness)
    plan = agent.rollback("k2", dry_run=True)
    assert (plan.conversation.rewinds, plan.conversation.through_turn, plan.conversation.drops) == (
        True,
        "t1",
        ("t2",),
    )
    assert harness.asked == []
    done = agent.rollback("k2", plan=plan.plan)
    assert harness.asked == [{"through_turn": "t1", "harness_end": "m1"}]
    assert done.conversation.harness_session == "the copy"
    assert repo.read("file") == b"1\n"
    shown = agent.show()
    assert shown.binding is not None
    assert shown.binding["harness_session"] == "the copy"
    assert [turn["dropped"] for turn in shown.turns] == [False, True]
    assert shown.note is None  # the conversation knows: nothing has to be told
    assert agent.begin_turn().id == "t3"


@pytest.mark.contract("V-043", "V-304", "V-321", "V-322", "V-445")
@pytest.mark.parametrize(
    ("error", "exit_code"),
    [
        (TimedOut("harness_request", "It took too long."), 7),
        (Conflict("harness_fork_refused", "It refused."), 5),
        (NotFound("harness_session", "It is gone."), 3),
    ],
    ids=lambda value: value.code if isinstance(value, TurnbackError) else "",
)
def test_a_harness_that_refuses(
    error: TurnbackError, exit_code: int, workspace: Workspace, repo: GitRepo
) -> None:
    """The harness's own error comes out as it is; no file was touched, and the agent keeps its conversation and its turns."""
    agent = two_turns(workspace, repo, Talking(error))
    plan = agent.rollback("k2", dry_run=True)
    before, shown = repo.snapshot_everything(), agent.show()
    with pytest.raises(TurnbackError) as caught:
        agent.rollback("k2", plan=plan.plan)
    assert caught.value is error
    assert caught.value.exit_code == exit_code
    changes = before.changes(repo.snapshot_everything())
    assert [change for change in changes if not change.startswith("ref refs/venom/checkpoints/a2/4:")] == []
    after = agent.show()
    assert (after.binding, after.turns, after.state) == (shown.binding, shown.turns, shown.state)
    ended = [event["data"] for event in workspace.events(["agent.rollback_ended"])]
    assert [(row["ok"], row["code"]) for row in ended] == [(False, error.code)]
    assert agent.rollback("k2", restore="files", dry_run=True).plan


# --- who may ----------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-195", "V-422", "V-451", "V-452")
def test_an_agent_never_rolls_back_a_shared_tree(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """Acting as an agent, a dry run shows the plan and the real call is denied, whatever it chooses; the person's handle may."""
    workspace.add_agent("boss")
    acting = workspace.acting_as(Principal.agent("boss"))
    assert str(acting.principal) == "agent:boss"
    assert workspace.principal.is_person
    plan = acting.agent("a1").rollback("k1", restore="files", outside="keep", dry_run=True)
    with pytest.raises(Denied, match="a person has to") as caught:
        acting.agent("a1").rollback("k1", restore="files", outside="keep", plan=plan.plan)
    assert (caught.value.code, caught.value.exit_code) == ("denied.agent_caller", 4)
    assert repo.read("src/main.py") == b"print('two')\n"
    assert workspace.agent("a1").rollback("k1", restore="files", outside="keep", plan=plan.plan).exact


@pytest.mark.contract("V-453")
def test_an_agent_rolls_back_its_own_descendants(workspace: Workspace, repo: GitRepo) -> None:
    """A parent may roll its child and grandchild back in their own worktrees; a sibling, a stranger and the child may not."""
    workspace.add_agent("parent")
    for name, parent in (("child", "parent"), ("grandchild", "child"), ("sibling", "parent")):
        workspace.add_agent(name, parent=parent, isolation="worktree").checkpoint()

    def try_as(caller: str, target: str) -> str:
        handle = workspace.acting_as(Principal.agent(caller)).agent(target)
        plan = handle.rollback("k1", restore="files", dry_run=True).plan
        try:
            handle.rollback("k1", restore="files", plan=plan)
        except TurnbackError as error:
            return error.code
        return "done"

    assert try_as("parent", "child") == "done"
    assert try_as("parent", "grandchild") == "done"
    assert try_as("sibling", "child") == "denied.agent_caller"
    assert try_as("grandchild", "child") == "denied.agent_caller"
    assert try_as("nobody", "child") == "denied.agent_caller"


@pytest.mark.contract("V-453", "V-423")
def test_an_agent_asks_for_itself(workspace: Workspace, agent: Agent) -> None:
    """An agent that asks for itself in its turn is told that the turn is running."""
    mine = workspace.acting_as(Principal.agent("a1")).agent("a1")
    with agent.turn(), pytest.raises(Conflict) as caught:
        mine.rollback("k1", restore="files", dry_run=True)
    assert (caught.value.code, caught.value.exit_code) == ("conflict.turn_running", 5)
    assert code_of(lambda: mine.rollback("k1", restore="files", plan=PLAN)) == "denied.agent_caller"


def test_a_handle_for_somebody_else_shares_everything_else(workspace: Workspace, agent: Agent) -> None:
    """``acting_as`` changes who acts and nothing else: the same log, the same agents, the same harnesses."""

    class Named:
        name = "named"
        can_rewind = False
        needs: str | None = None

        def rewind(self, **_: object) -> str:
            raise NotImplementedError

    harness = Named()
    workspace.agent("a1", harness=harness)
    acting = workspace.acting_as(Principal.agent("a1"))
    assert acting.agent("a1").harness is harness
    acting.agent("a1").checkpoint("by the agent itself")
    assert workspace.agent("a1").checkpoints().checkpoints[0].label == "by the agent itself"
    assert acting.acting_as(Principal.person()).principal.is_person
