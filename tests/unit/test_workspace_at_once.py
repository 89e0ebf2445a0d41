"""Several at once: rollbacks that keep turns out and the other way round, threads that share a turn, objects that share a log."""

from __future__ import annotations

import subprocess
import threading
from typing import TYPE_CHECKING

import pytest

from support.children import Child
from support.gate import Gate
from support.replay import Log
from turnback import Conflict, NotFound, TurnbackError, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator
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


# --- a rollback in the way -----------------------------------------------------------------------------------------------------


class Stalled:
    """A harness whose ``rewind`` waits in the middle of a rollback."""

    name = "stalled"
    can_rewind = True
    needs: str | None = None

    def __init__(self) -> None:
        self.asked, self.answer = threading.Event(), threading.Event()

    def rewind(self, **_: object) -> str:
        self.asked.set()
        assert self.answer.wait(60)
        return "copy"


@pytest.mark.contract("V-204", "V-371", "V-372", "V-426")
def test_nothing_begins_while_a_rollback_runs(workspace: Workspace, repo: GitRepo) -> None:
    """While one agent is rolled back, neither it nor one that shares its tree begins a turn, changes state or is rolled back."""
    harness = Stalled()
    agent, other = workspace.add_agent("a1", harness=harness), workspace.add_agent("a2")
    other.checkpoint()
    for text in ("one", "two"):
        with agent.turn():
            repo.write("file", text)
    plan = agent.rollback("k2", dry_run=True, outside="overwrite")
    rolling = threading.Thread(target=lambda: agent.rollback("k2", plan=plan.plan, outside="overwrite"))
    rolling.start()
    assert harness.asked.wait(60)
    calls: list[Callable[[], object]] = [
        agent.begin_turn,
        other.begin_turn,
        lambda: agent.set_state("queued"),
        agent.archive,
        lambda: agent.rollback("k2", restore="files", dry_run=True),
        lambda: other.rollback("k1", restore="files", dry_run=True),
    ]
    for call in calls:
        with pytest.raises(Conflict) as caught:
            call()
        assert (caught.value.code, caught.value.data) == ("conflict.rollback_running", {"agent": "a1"})
    harness.answer.set()
    rolling.join()
    assert Log(workspace.state_dir).of("rollback.ended")[0]["ok"]
    with other.turn(), agent.turn():
        pass


@pytest.mark.contract("V-203", "V-208")
@pytest.mark.parametrize("who", ["a1", "a2"])
def test_a_turn_that_begins_while_a_rollback_looks(
    who: str, workspace: Workspace, repo: GitRepo, agent: Agent, gate: Gate
) -> None:
    """A turn that begins after the preflight and before the first write wins: the rollback changes nothing and says why."""
    workspace.add_agent("a2")
    with agent.turn():
        repo.write("src/main.py", "print('two')\n")
    gate.close()
    plan = gate.pass_once(lambda: agent.rollback("k1", restore="files", outside="overwrite", dry_run=True))
    codes: list[str] = []

    def roll_back() -> None:
        try:
            agent.rollback("k1", restore="files", outside="overwrite", plan=plan.plan)
        except TurnbackError as error:
            codes.append(error.code)

    rolling = threading.Thread(target=roll_back)
    rolling.start()
    gate.wait()
    beginning = threading.Thread(target=lambda: workspace.agent(who).begin_turn())
    beginning.start()
    while workspace.agent(who).show().state != "running":
        assert beginning.is_alive()
    gate.open()
    rolling.join()
    beginning.join()
    assert codes == ["conflict.turn_running" if who == "a1" else "conflict.tree_shared"]
    assert repo.read("src/main.py") == b"print('two')\n"


@pytest.mark.contract("V-302", "V-443")
def test_a_rollback_that_died_holds_nobody_up(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A long-lived program sees another process die in the middle of a rollback: its next turn records that and begins."""
    for text in ("one", "two"):
        with agent.turn():
            repo.write("file", text)
    program = """
from turnback import Workspace
class Dying:
    name, can_rewind, needs = "dying", True, None
    def rewind(self, **_):
        os.kill(os.getpid(), 9)
agent = Workspace.open(sys.argv[1], state_dir=sys.argv[2]).agent("a1", harness=Dying())
plan = agent.rollback("k2", dry_run=True)
say("rolling")
agent.rollback("k2", plan=plan.plan)
"""
    with Child(program, workspace.folder, workspace.state_dir) as child:
        assert child.hear() == "rolling"
        child.process.wait()
    assert agent.show().state == "settled"
    with agent.turn() as turn:
        assert turn.id == "t3"
        assert turn.capture_failed is None
    (ended,) = Log(workspace.state_dir).of("rollback.ended")
    assert (ended["ok"], ended["code"]) == (False, "failed.rollback_interrupted")
    assert repo.read("file") == b"two"


# --- threads --------------------------------------------------------------------------------------------------------------------


def test_one_turn_in_many_threads(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """Threads share a turn: every edit is noted, and of those that end it exactly one does."""
    turn = agent.begin_turn()
    begin = threading.Barrier(8)
    ends: list[str] = []

    def work(number: int) -> None:
        begin.wait()
        for step in range(5):
            turn.edited(f"file-{number}-{step}")
        begin.wait()
        try:
            turn.end()
            ends.append("ended")
        except NotFound as error:
            ends.append(error.code)

    threads = [threading.Thread(target=work, args=[number]) for number in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert sorted(ends) == ["ended"] + ["not_found.turn"] * 7
    noted = {path for row in Log(workspace.state_dir).of("turn.edited") for path in row["paths"]}
    assert len(noted) == 40
    assert Log(workspace.state_dir).is_gapless()


def test_reading_while_others_write(workspace: Workspace, repo: GitRepo) -> None:
    """Threads list, show and follow while others add agents and turns: nobody meets a list that changes under its hands."""
    stop = threading.Event()
    failures: list[BaseException] = []

    def read() -> None:
        try:
            while not stop.is_set():
                for agent in workspace.agents():
                    agent.show()
                    agent.checkpoints()
                    agent.running_turn()
                list(workspace.events())
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    readers = [threading.Thread(target=read) for _ in range(3)]
    for reader in readers:
        reader.start()
    for number in range(12):
        with workspace.add_agent(f"a{number}").turn("work"):
            pass
    stop.set()
    for reader in readers:
        reader.join()
    assert failures == []


def test_two_workspace_objects_in_one_process(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A program may open the same workspace twice: both see one log, and their captures still take turns."""
    twin = Workspace.open(repo.path, state_dir=workspace.state_dir).agent("a1")
    with agent.turn():
        repo.write("file", "one")
        assert twin.show().state == "running"
        assert twin.checkpoint().checkpoint == "k2"
    begin = threading.Barrier(2)
    taken: list[str] = []

    def take(one: Agent, name: str) -> None:
        begin.wait()
        for number in range(5):
            repo.write(name, f"{number}")
            taken.append(one.checkpoint().checkpoint)

    threads = [threading.Thread(target=take, args=pair) for pair in ((agent, "x"), (twin, "y"))]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(taken) == 10
    assert Log(workspace.state_dir).lost_refs(repo) == []
    subprocess.run(["git", "fsck", "--no-dangling"], cwd=repo.path, check=True, capture_output=True)
