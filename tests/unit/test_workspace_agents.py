"""Agents: who shares a tree, which states follow which, ids, parents and handles."""

from __future__ import annotations

import os
import shutil
import threading
from typing import TYPE_CHECKING, Any

import pytest

from support.git_repo import GitRepo
from support.replay import Log
from turnback import Conflict, InvalidParams, NotFound, Principal, TurnbackError, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def several(tmp_path: Path) -> tuple[Workspace, dict[str, GitRepo]]:
    """A workspace that is no repository itself and has three: ``app``, ``libs/core``, and ``libs/core/inner`` inside that."""
    repos = {}
    for name in ("app", "libs/core", "libs/core/inner"):
        repos[name] = GitRepo.init(tmp_path / "work" / name)
        repos[name].write("README.md", f"# {name}\n")
        repos[name].commit()
    return Workspace.open(tmp_path / "work", state_dir=tmp_path / "state"), repos


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(TurnbackError) as caught:
        call()
    return caught.value.code


# --- guarded, sharers, live -------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-033", "V-034", "V-196")
def test_who_shares_a_tree(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A tree is shared by the agents that aren't archived, however its path was spelled; a worktree is guarded while it is."""
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    one = workspace.add_agent("a1", isolation="worktree", path=str(tmp_path / "tree"))
    assert (one.show().guarded, one.show().shared_with) == (False, ())
    two = workspace.add_agent("a2", isolation="worktree", path=str(tmp_path / "link"))
    assert (one.show().guarded, one.show().shared_with) == (True, ("a2",))
    assert (two.show().guarded, two.show().shared_with) == (True, ("a1",))
    two.archive()
    assert (one.show().guarded, one.show().shared_with) == (False, ())


@pytest.mark.contract("V-034")
def test_a_tree_that_was_put_back(workspace: Workspace, repo: GitRepo) -> None:
    """A folder that is restored from a backup has another inode and is the same tree: it is rolled back and shared as before."""
    agent = workspace.add_agent("a1")
    with agent.turn():
        repo.write("src/main.py", "print('two')\n")
    backup = repo.path.with_name("backup")
    shutil.copytree(repo.path, backup, symlinks=True)
    shutil.rmtree(repo.path)
    backup.rename(repo.path)
    assert agent.checkpoint().reused
    plan = agent.rollback("k1", restore="files", dry_run=True)
    assert [(row.path, row.class_) for row in plan.repos[0].files] == [("src/main.py", "turn")]
    assert agent.rollback("k1", restore="files", plan=plan.plan).exact
    assert workspace.add_agent("a2").show().shared_with == ("a1",)


@pytest.mark.contract("V-035")
@pytest.mark.parametrize(
    ("state", "live"),
    [
        ("queued", True),
        ("needs_you", True),
        ("running", True),
        ("handed_over", True),
        ("settled", False),
        ("failed", False),
    ],
)
def test_which_states_are_live(state: str, live: bool, workspace: Workspace, repo: GitRepo) -> None:
    """A sharer in one of the four live states keeps a rollback out; in any other it doesn't."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    other = workspace.add_agent("a2")
    other.set_state(state)
    if live:
        with pytest.raises(Conflict) as caught:
            agent.rollback("k1", restore="files", dry_run=True)
        assert (caught.value.code, caught.value.data) == ("conflict.tree_shared", {"agents": ["a2"]})
    else:
        assert agent.rollback("k1", restore="files", dry_run=True).shared_with == ("a2",)


# --- states ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-425", "V-373")
def test_archived_is_final(workspace: Workspace, repo: GitRepo) -> None:
    """An archived agent does nothing more and changes no more; what it saved stays listed."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    agent.archive()
    calls: list[Callable[[], object]] = [
        agent.begin_turn,
        agent.checkpoint,
        agent.archive,
        lambda: agent.set_state("settled"),
        lambda: agent.rollback("k1", restore="files", dry_run=True),
    ]
    for call in calls:
        with pytest.raises(Conflict) as caught:
            call()
        assert (caught.value.code, caught.value.exit_code) == ("conflict.invalid_transition", 5)
    assert [row.checkpoint for row in agent.checkpoints().checkpoints] == ["k1"]
    assert agent.show().state == "archived"


def test_states_while_a_turn_runs(workspace: Workspace) -> None:
    """While a turn runs the agent waits for a person or runs, and nothing else: a rollback must not think that it has settled."""
    agent = workspace.add_agent("a1")
    with agent.turn():
        for state in ("settled", "failed", "queued", "handed_over", "archived"):
            with pytest.raises(Conflict, match="end the turn first") as caught:
                agent.set_state(state)
            assert caught.value.code == "conflict.turn_running"
        agent.set_state("needs_you")
        assert agent.show().state == "needs_you"
        agent.set_state("running")
    assert agent.show().state == "settled"


def test_states_that_do_not_exist(workspace: Workspace) -> None:
    """A word that is no state is refused, with the ones that are; telling the same state twice logs it once."""
    agent = workspace.add_agent("a1")
    with pytest.raises(InvalidParams, match="queued, running") as caught:
        agent.set_state("asleep")
    assert caught.value.code == "invalid_params.state"
    agent.set_state("queued")
    agent.set_state("queued")
    assert len(Log(workspace.state_dir).of("agent.state")) == 1


@pytest.mark.contract("V-428", "V-365")
def test_stale_requests(workspace: Workspace) -> None:
    """Stale requests keep a rollback out until the list is empty again; a text is no list."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    agent.set_stale_requests(["r1", "r2"])
    with pytest.raises(Conflict) as caught:
        agent.rollback("k1", restore="files", dry_run=True)
    assert (caught.value.code, caught.value.data) == ("conflict.stale_requests", {"requests": ["r1", "r2"]})
    given: Any = "r1"
    assert code_of(lambda: agent.set_stale_requests(given)) == "invalid_params.requests"
    agent.set_stale_requests([])
    assert agent.rollback("k1", restore="files", dry_run=True).plan


# --- ids, parents, handles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "A1", "a/b", "a.lock", "..", "-a", "a b", "é", "a" * 65, "a\n", None, 7]
)
def test_ids_that_can_not_be(name: Any, workspace: Workspace, repo: GitRepo) -> None:
    """What could be no part of a ref or a file name is no agent id, in any verb that takes one."""
    before = repo.refs()
    for call in (
        lambda: workspace.add_agent(name),
        lambda: workspace.agent(name),
        lambda: Principal.agent(name),
        lambda: workspace.add_agent("a1", parent=name or ""),
    ):
        assert code_of(call) == "invalid_params.agent"
    assert repo.refs() == before


@pytest.mark.parametrize("name", ["a", "0", "a" * 64, "a-b_c", "9-"])
def test_ids_that_can_be(name: str, workspace: Workspace, repo: GitRepo) -> None:
    """The whole range of ids makes refs that git takes."""
    workspace.add_agent(name).checkpoint()
    assert f"refs/venom/checkpoints/{name}/1" in repo.refs()


def test_an_id_that_is_taken(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A second agent of the same id is refused, also when its worktree would have been made already: that is taken away again."""
    agent = workspace.add_agent("a1")
    with pytest.raises(Conflict) as caught:
        workspace.add_agent("a1")
    assert (caught.value.code, caught.value.data) == ("conflict.agent_exists", {"agent": "a1"})
    # Two processes at the same moment: both find the id free, one of them gets it.
    before = repo.text("worktree", "list")
    begin = threading.Barrier(4)
    outcomes = []

    def add() -> None:
        mine = Workspace.open(repo.path, state_dir=workspace.state_dir)
        begin.wait()
        try:
            mine.add_agent("a2", isolation="worktree")
            outcomes.append("added")
        except TurnbackError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("added") == 1
    assert set(outcomes) <= {"added", "conflict.agent_exists", "failed.worktree"}
    assert len(repo.text("worktree", "list").splitlines()) == len(before.splitlines()) + 1
    assert len(list((tmp_path / "state" / "trees" / "a2").iterdir())) == 1
    assert agent.show().agent == "a1"


@pytest.mark.contract("V-399")
def test_parents_and_children(workspace: Workspace) -> None:
    """A parent must exist; its children are listed, and shown in what a rollback doesn't touch."""
    with pytest.raises(NotFound) as caught:
        workspace.add_agent("a2", parent="a1")
    assert (caught.value.code, caught.value.exit_code) == ("not_found.agent", 3)
    parent = workspace.add_agent("a1")
    workspace.add_agent("a2", parent="a1", isolation="worktree")
    assert parent.show().children == ("a2",)
    parent.checkpoint()
    assert parent.rollback("k1", restore="files", dry_run=True).children == ("a2",)


def test_an_unknown_agent(workspace: Workspace) -> None:
    """An agent that was never added is not found, by a sentence that says how to list them; nothing is made for asking."""
    with pytest.raises(NotFound, match="turnback agent list") as caught:
        workspace.agent("a9")
    assert (caught.value.code, caught.value.exit_code) == ("not_found.agent", 3)
    assert not os.path.lexists(workspace.state_dir)


def test_another_process_sees_the_same_agents(workspace: Workspace, repo: GitRepo) -> None:
    """Whoever opens the workspace finds the agents, in the order they were added, with everything about them."""
    for name in ("b", "a", "c"):
        workspace.add_agent(name)
    again = Workspace.open(repo.path, state_dir=workspace.state_dir)
    assert [agent.id for agent in again.agents()] == ["b", "a", "c"]
    assert again.agent("a").show() == workspace.agent("a").show()
    again.add_agent("d")
    assert [agent.id for agent in workspace.agents()] == ["b", "a", "c", "d"]


def test_what_a_caller_is_given_is_its_own(workspace: Workspace, repo: GitRepo) -> None:
    """Changing a result changes nothing but the result: the log's state is not in the caller's hands."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    row = agent.checkpoints().checkpoints[0].repos[0]
    row["commit"] = "0" * 40
    row["skipped"].append("x")
    again = agent.checkpoints().checkpoints[0].repos[0]
    assert again["commit"] == repo.refs()["refs/venom/checkpoints/a1/1"]
    assert again["skipped"] == []
