"""Captures around turns that are slow, that fail or that are switched off: the work goes on, and nothing is saved out of order."""

from __future__ import annotations

import threading
from typing import TYPE_CHECKING, Any

import pytest

from support.gate import Gate
from support.replay import Log
from turnback import Conflict, TurnbackError, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from support.git_repo import GitRepo
    from turnback import Agent


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return workspace.add_agent("a1")


def captures(workspace: Workspace) -> list[tuple[str, str, str | None]]:
    """(reason, checkpoint or code, turn) of every capture, in log order."""
    rows = Log(workspace.state_dir).of("checkpoint.taken", "checkpoint.reused", "checkpoint.failed")
    return [(row["reason"], row.get("checkpoint") or row["code"], row.get("turn")) for row in rows]


@pytest.fixture
def gate(repo: GitRepo, tmp_path: Path) -> Iterator[Gate]:
    with Gate(repo, tmp_path) as made:
        yield made


# --- slow ones ---


@pytest.mark.contract("V-062", "V-401", "V-068", "V-070", "V-427", "V-390")
def test_while_the_end_is_being_saved(workspace: Workspace, repo: GitRepo, agent: Agent, gate: Gate) -> None:
    """The agent has settled while its files are still being read; a rollback is told to wait, and other agents go on."""
    agent.checkpoint()
    elsewhere = workspace.add_agent("a2", isolation="worktree")
    turn = agent.begin_turn()
    gate.close()
    ending = threading.Thread(target=turn.end)
    ending.start()
    gate.wait()
    assert agent.show().state == "settled"
    assert agent.checkpoints().pending
    with pytest.raises(Conflict) as caught:
        agent.rollback("k1", restore="files", dry_run=True)
    assert (caught.value.code, caught.value.exit_code) == ("conflict.checkpoint_pending", 5)
    assert elsewhere.checkpoint().checkpoint == "k1"
    gate.open()
    ending.join()
    assert not agent.checkpoints().pending
    assert agent.rollback("k1", restore="files", outside="overwrite", dry_run=True).plan


@pytest.mark.contract("V-063", "V-065", "V-069")
def test_the_next_turn_waits_for_the_end_of_the_last(
    workspace: Workspace, repo: GitRepo, agent: Agent, gate: Gate
) -> None:
    """A turn that is begun while the last one's end is being saved comes after it, and is delivered after that."""
    turn = agent.begin_turn()
    gate.close()
    delivered: list[str] = []
    ending = threading.Thread(target=turn.end)
    ending.start()
    gate.wait()
    following = threading.Thread(target=lambda: delivered.append(agent.begin_turn("next").id))
    following.start()
    while agent.show().state != "running":  # it runs already, so that nobody waits at the input
        assert following.is_alive()
    assert delivered == []
    gate.open()
    ending.join()
    following.join()
    assert delivered == ["t2"]
    assert [row[0::2] for row in captures(workspace)] == [
        ("turn_start", "t1"),
        ("turn_end", "t1"),
        ("turn_start", "t2"),
    ]
    assert not agent.checkpoints().checkpoints[0].overlap


@pytest.mark.contract("V-073", "V-074")
def test_a_turn_of_the_harness_that_overlaps(
    workspace: Workspace, repo: GitRepo, agent: Agent, gate: Gate
) -> None:
    """When the harness begins the next turn before the last one's end was saved, that checkpoint says so and brings no conversation back."""
    turn = agent.begin_turn()
    gate.close()
    ending = threading.Thread(target=lambda: turn.end(harness_end="m1"))
    ending.start()
    gate.wait()
    agent.begin_turn(origin="harness")
    gate.open()
    ending.join()
    row = agent.checkpoints().checkpoints[0]
    assert (row.reason, row.overlap, row.conversation) == ("turn_end", True, False)


@pytest.mark.contract("V-064")
def test_two_agents_of_one_tree_take_turns(
    workspace: Workspace, repo: GitRepo, agent: Agent, gate: Gate
) -> None:
    """A capture of one agent waits while another one's of the same tree is running."""
    other = workspace.add_agent("a2")
    gate.close()
    first = threading.Thread(target=agent.checkpoint)
    first.start()
    gate.wait()
    second = threading.Thread(target=other.checkpoint)
    second.start()
    gate.open()
    first.join()
    second.join()
    rows = Log(workspace.state_dir).of("checkpoint.taken")
    assert [row["agent"] for row in rows] == ["a1", "a2"]


@pytest.mark.contract("V-067", "V-076", "V-077", "V-444", "V-464")
def test_a_capture_that_takes_too_long(repo: GitRepo, tmp_path: Path, gate: Gate) -> None:
    """After ``checkpoints.timeout`` the turn goes on without its checkpoint; that is logged, published and told."""
    workspace = Workspace.open(
        repo.path, state_dir=tmp_path / "state", config={"checkpoints": {"timeout": "300ms"}}
    )
    agent = workspace.add_agent("a1")
    gate.close()
    turn = agent.begin_turn("go on")
    assert turn.checkpoint is None
    assert turn.capture_failed is not None
    assert turn.capture_failed.code == "timeout.checkpoint"
    assert agent.show().state == "running"
    (event,) = workspace.events()
    assert event["type"] == "agent.checkpoint_failed"
    assert event["data"] == {
        "agent": "a1", "reason": "turn_start", "code": "timeout.checkpoint", "turn": "t1", "repo": "."
    }  # fmt: skip
    repo.git("config", "--unset", "filter.gate.clean")
    patient = Workspace.open(repo.path, state_dir=tmp_path / "state").agent("a1")
    assert patient.end_turn().checkpoint == "k1"


@pytest.mark.contract("V-067", "V-444")
def test_a_tree_that_stays_locked(workspace: Workspace, repo: GitRepo, tmp_path: Path, gate: Gate) -> None:
    """Waiting for another agent's capture of the same tree ends with the same timeout, for a turn and for whoever asks."""
    impatient = Workspace.open(
        repo.path, state_dir=tmp_path / "state", config={"checkpoints": {"timeout": "100ms"}}
    )
    agent, other = impatient.add_agent("a1"), workspace.add_agent("a2")
    gate.close()
    holding = threading.Thread(target=other.checkpoint)
    holding.start()
    gate.wait()
    with pytest.raises(TurnbackError) as caught:
        agent.checkpoint()
    assert (caught.value.code, caught.value.exit_code, caught.value.data) == (
        "timeout.checkpoint",
        7,
        {"repo": "."},
    )
    assert "a capture or rollback of a2" in caught.value.message
    with agent.turn() as turn:
        assert turn.capture_failed is not None
        assert turn.capture_failed.code == "timeout.checkpoint"
    gate.open()
    holding.join()


# --- failed captures -------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-076", "V-077", "V-078", "V-236", "V-411", "V-439", "V-447")
def test_a_failed_capture_never_stops_a_turn(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """With the repository out of order turns begin and end; each failure is logged and published, and counts as outside later."""
    with agent.turn():
        pass
    head = repo.read(".git/HEAD")
    repo.write(".git/HEAD", "garbage\n")
    with agent.turn() as turn:
        assert turn.capture_failed is not None
        assert turn.capture_failed.code == "failed.checkpoint_git"
        repo.write("src/main.py", "print('in the turn')\n")
        turn.edited("src/main.py")
        repo.write(".git/HEAD", head)
    assert turn.ended is not None
    assert turn.ended.checkpoint == "k2"
    events = [event for event in workspace.events() if event["type"] == "agent.checkpoint_failed"]
    assert [event["data"] for event in events] == [
        {"agent": "a1", "reason": "turn_start", "code": "failed.checkpoint_git", "turn": "t2", "repo": "."}
    ]
    plan = agent.rollback("k1", restore="files", outside="overwrite", dry_run=True)
    assert [row.class_ for row in plan.repos[0].files] == ["outside"]


@pytest.mark.contract("V-076", "V-439", "V-447")
def test_the_tree_is_gone(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """The folder disappears under the agent: the turn goes on, whoever asks is told, and it is saved again when it is back."""
    agent.checkpoint()
    away = repo.path.with_name("away")
    repo.path.rename(away)
    with agent.turn() as turn:
        assert turn.capture_failed is not None
        assert "missing" in turn.capture_failed.message
    for call in (
        agent.checkpoint,
        lambda: agent.checkpoint_diff("k1"),
        lambda: agent.rollback("k1", restore="files", dry_run=True),
    ):
        with pytest.raises(TurnbackError) as caught:
            call()
        assert (caught.value.code, caught.value.exit_code) == ("failed.checkpoint_git", 1)
    away.rename(repo.path)
    with agent.turn() as turn:
        assert (turn.checkpoint, turn.reused) == ("k1", True)


def test_a_capture_that_breaks_in_a_way_nobody_thought_of(
    workspace: Workspace, repo: GitRepo, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """An error that is none of ours is a failed capture like any other: the turn goes on and the log says what broke."""

    def breaks(*_: Any, **__: Any) -> None:
        raise ZeroDivisionError("of all things")

    monkeypatch.setattr("turnback.operations.capture.store", breaks)
    with agent.turn() as turn:
        assert turn.capture_failed is not None
        assert turn.capture_failed.code == "failed.internal"
    assert captures(workspace) == [
        ("turn_start", "failed.internal", "t1"),
        ("turn_end", "failed.internal", "t1"),
    ]


def test_ctrl_c_while_the_files_are_saved(
    workspace: Workspace, repo: GitRepo, agent: Agent, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Stopped by a person before anything was delivered, the turn is over: the caller has no handle to end it with."""

    def stopped(*_: Any, **__: Any) -> None:
        raise KeyboardInterrupt

    with agent.turn():
        repo.write("file", "one")
    plan = agent.rollback("k1", restore="files", dry_run=True)
    agent.rollback("k1", restore="files", plan=plan.plan)  # leaves a note for the next prompt
    with monkeypatch.context() as patch:
        patch.setattr("turnback.operations.capture.store", stopped)
        with pytest.raises(KeyboardInterrupt):
            agent.begin_turn("never told")
    assert agent.show().state == "settled"
    assert agent.show().turns[1]["reason"] == "interrupted"
    with agent.turn("go on") as turn:
        assert turn.id == "t3"
        assert turn.prompt is not None
        assert turn.prompt.startswith("Note: ")


@pytest.mark.contract("V-462")
def test_switched_off(repo: GitRepo, tmp_path: Path) -> None:
    """``enabled=false`` stops what nobody asked for: turns leave no capture; a checkpoint and a rollback with its two work."""
    workspace = Workspace.open(
        repo.path, state_dir=tmp_path / "state", config={"checkpoints": {"enabled": False}}
    )
    agent = workspace.add_agent("a1")
    with agent.turn() as turn:
        assert (turn.checkpoint, turn.reused, turn.capture_failed) == (None, None, None)
    assert captures(workspace) == []
    assert agent.checkpoint().checkpoint == "k1"
    repo.write("src/main.py", "print('two')\n")
    plan = agent.rollback("k1", restore="files", outside="overwrite", dry_run=True)
    done = agent.rollback("k1", restore="files", outside="overwrite", plan=plan.plan)
    assert (done.safety, done.after, done.exact) == ("k2", "k3", True)
    assert [row[0] for row in captures(workspace)] == ["manual", "pre_rollback", "rollback"]
