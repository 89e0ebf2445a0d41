"""The published events: envelope, members, selectors, order; and following them from threads and other processes."""

from __future__ import annotations

import re
import threading
from typing import TYPE_CHECKING, Any

import pytest

from support.children import Child
from support.replay import Log
from turnback import InvalidParams, TurnbackError, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from support.git_repo import GitRepo
    from turnback import Agent


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return workspace.add_agent("a1")


def go_back(agent: Agent, checkpoint: str) -> None:
    plan = agent.rollback(checkpoint, restore="files", outside="overwrite", dry_run=True)
    agent.rollback(checkpoint, restore="files", outside="overwrite", plan=plan.plan)


@pytest.fixture
def history(workspace: Workspace, repo: GitRepo, agent: Agent) -> list[dict[str, Any]]:
    """Everything that is published, once: two agents, two turns, a label, a failed capture, a rollback that works and one that doesn't."""
    with agent.turn("one"):
        repo.write("file", "one")
    repo.write("file", "by hand")
    agent.checkpoint("kept")
    with agent.turn("two"):
        pass
    head = repo.read(".git/HEAD")
    repo.write(".git/HEAD", "garbage\n")
    with pytest.raises(TurnbackError):
        agent.checkpoint()
    repo.write(".git/HEAD", head)
    go_back(agent, "k1")
    workspace.add_agent("a2").checkpoint()
    return list(workspace.events())


@pytest.mark.contract("V-012", "V-021", "V-150")
def test_the_envelope(workspace: Workspace, history: list[dict[str, Any]]) -> None:
    """Every event has the five members; the source is one of this log, the time UTC with milliseconds, the number the record's."""
    numbers = {row["seq"]: row for row in Log(workspace.state_dir).records}
    for event in history:
        assert list(event) == ["seq", "ts", "source", "type", "data"]
        assert re.fullmatch(r"venom/[0-9a-f]{8}(-[0-9a-f]{4}){3}-[0-9a-f]{12}", event["source"])
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", event["ts"])
        assert event["seq"] in numbers
    assert len({event["source"] for event in history}) == 1
    assert [event["seq"] for event in history] == sorted({event["seq"] for event in history})


@pytest.mark.contract("V-410", "V-411", "V-412", "V-413", "V-009")
def test_the_members_of_each_type(history: list[dict[str, Any]]) -> None:
    """Each type has exactly the contract's members, those it has only sometimes included, and nothing of the log's own."""
    always = {
        "agent.checkpoint": {"agent", "checkpoint", "reason", "through_turn", "repos"},
        "agent.checkpoint_failed": {"agent", "reason", "code"},
        "agent.rollback_started": {"agent", "checkpoint", "safety", "restore"},
        "agent.rollback_ended": {"agent", "checkpoint", "safety", "restore", "ok"},
    }
    sometimes = {
        "agent.checkpoint": {"turn", "label"},
        "agent.checkpoint_failed": {"turn", "repo"},
        "agent.rollback_started": set(),
        "agent.rollback_ended": {"code", "after", "drops"},
    }
    assert {event["type"] for event in history} == set(always)
    for event in history:
        members = set(event["data"])
        assert always[event["type"]] <= members <= always[event["type"]] | sometimes[event["type"]]
        if event["type"] == "agent.checkpoint":
            assert [set(row) for row in event["data"]["repos"]] == [{"repo", "commit"}]
    labels = [event["data"]["label"] for event in history if "label" in event["data"]]
    assert labels == ["kept"]
    failed = next(event["data"] for event in history if event["type"] == "agent.checkpoint_failed")
    assert failed == {"agent": "a1", "reason": "manual", "code": "failed.checkpoint_git", "repo": "."}


@pytest.mark.contract("V-020", "V-022", "V-060")
def test_a_rollback_in_order(workspace: Workspace, history: list[dict[str, Any]]) -> None:
    """The safety checkpoint, the start, the last capture and the end follow each other, and say which turn the files go with."""
    kinds = [(event["type"], event["data"].get("reason")) for event in history]
    at = kinds.index(("agent.checkpoint", "pre_rollback"))
    assert kinds[at : at + 4] == [
        ("agent.checkpoint", "pre_rollback"),
        ("agent.rollback_started", None),
        ("agent.checkpoint", "rollback"),
        ("agent.rollback_ended", None),
    ]
    safety, started, after, ended = (event["data"] for event in history[at : at + 4])
    assert started == {"agent": "a1", "checkpoint": "k1", "safety": safety["checkpoint"], "restore": "files"}
    assert ended == {**started, "ok": True, "after": after["checkpoint"], "drops": []}
    assert (safety["through_turn"], after["through_turn"]) == ("t2", "t2")
    numbers = [event["seq"] for event in history[at : at + 4]]
    assert numbers == list(range(numbers[0], numbers[0] + 4))


@pytest.mark.contract("V-081", "V-416")
def test_what_is_not_published(workspace: Workspace, history: list[dict[str, Any]]) -> None:
    """Reused checkpoints, turns, edits, notes and bindings stand in the log and are nobody's event."""
    internal = {row["type"] for row in Log(workspace.state_dir).records}
    assert {"checkpoint.reused", "turn.started", "turn.ended", "agent.added", "note.pending"} <= internal
    assert {event["type"].partition(".")[0] for event in history} == {"agent"}


@pytest.mark.contract("V-417")
def test_a_dry_run_logs_nothing(workspace: Workspace, repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """A dry run leaves the log byte for byte as it was, also one that is refused; so do lists and differences."""
    with agent.turn():
        repo.write("file", "one")
    repo.write("file", "by hand")
    log = tmp_path / "state" / "log.ndjson"
    before = (log.read_bytes(), log.stat().st_mtime_ns)
    agent.rollback("k1", restore="files", outside="keep", dry_run=True)
    with pytest.raises(TurnbackError):
        agent.rollback("k1", restore="files", dry_run=True)
    agent.checkpoint_diff("k1")
    agent.checkpoint_diff("k1", "k2", path="file")
    agent.checkpoints()
    assert (log.read_bytes(), log.stat().st_mtime_ns) == before
    assert len(repo.refs()) == 3


# --- selecting ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-023", "V-415")
@pytest.mark.parametrize(
    ("types", "expected"),
    [
        (None, 4),
        ([], 0),
        (["agent.*"], 4),
        (["agent.checkpoint"], 1),
        (["agent.checkpoint", "agent.rollback_ended"], 2),
        (["agent.checkpoint.*"], 0),
        (["agent"], 0),
        (["other.*"], 0),
    ],
)
def test_types(
    types: list[str] | None, expected: int, workspace: Workspace, history: list[dict[str, Any]]
) -> None:
    """A selector is an exact name or a prefix with ``.*``; ``agent.checkpoint.*`` is not ``agent.checkpoint``."""
    assert len({event["type"] for event in workspace.events(types=types)}) == expected


@pytest.mark.contract("V-023")
@pytest.mark.parametrize(
    "selector", ["agent.rollback_*", "*", "agent.*.x", "", "agent.", ".*", "Agent.x", "agent.x\n"]
)
def test_selectors_that_are_none(selector: str, workspace: Workspace) -> None:
    """Anything else is refused when it is asked for, not when the first event comes."""
    with pytest.raises(InvalidParams) as caught:
        workspace.events(types=[selector])
    assert (caught.value.code, caught.value.exit_code) == ("invalid_params.types", 2)


@pytest.mark.contract("V-415")
def test_resources(workspace: Workspace, history: list[dict[str, Any]]) -> None:
    """Events are chosen by ``agent:<id>``; an agent without any has none; a malformed resource is refused."""
    mine = list(workspace.events(resources=["agent:a2"]))
    assert [event["data"]["agent"] for event in mine] == ["a2"]
    assert len(list(workspace.events(resources=["agent:a1", "agent:a2"]))) == len(history)
    assert list(workspace.events(resources=["agent:a9"])) == []
    assert list(workspace.events(resources=[])) == []
    text: Any = "agent:a1"
    for resource in (["a1"], ["agent:"], ["agent:A"], ["agent:a1\n"], ["repo:."], text):
        with pytest.raises(InvalidParams) as caught:
            workspace.events(resources=resource)
        assert caught.value.code == "invalid_params.resources"


def test_after(workspace: Workspace, history: list[dict[str, Any]]) -> None:
    """A client that has seen some asks for the ones after the last number it has, and gets exactly the rest."""
    for at, event in enumerate(history):
        assert list(workspace.events(after=event["seq"])) == history[at + 1 :]
    assert list(workspace.events(after=10**9)) == []


def test_a_broken_log_is_told_at_once(workspace: Workspace, agent: Agent, tmp_path: Path) -> None:
    """The caller of ``events`` hears of a damaged log, not whoever asks for the first event later."""
    log = tmp_path / "state" / "log.ndjson"
    log.write_bytes(b"garbage\n" + log.read_bytes())
    with pytest.raises(TurnbackError) as caught:
        workspace.events()
    assert caught.value.code == "failed.log_corrupt"


# --- following ------------------------------------------------------------------------------------------------------------


def test_following_a_thread(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A follower gets what is there, and then each event as it comes, in order, until it is told to stop."""
    agent.checkpoint()
    stop, seen = threading.Event(), []
    arrived = threading.Semaphore(0)

    def follow() -> None:
        for event in workspace.events(types=["agent.checkpoint"], follow=True, stop=stop.is_set):
            seen.append(event["data"]["checkpoint"])
            arrived.release()

    follower = threading.Thread(target=follow)
    follower.start()
    assert arrived.acquire(timeout=60)
    for number in range(3):
        repo.write("file", f"{number}")
        agent.checkpoint()
        assert arrived.acquire(timeout=60)
    stop.set()
    follower.join(60)
    assert seen == ["k1", "k2", "k3", "k4"]


def test_following_another_process(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A follower in another process sees each event of ours, and only those that it chose."""
    program = """
from turnback import Workspace
workspace = Workspace.open(sys.argv[1], state_dir=sys.argv[2])
say("ready")
for event in workspace.events(["agent.*"], ["agent:a1"], follow=True):
    say(event["type"] + " " + event["data"]["agent"] + " " + event["data"].get("checkpoint", ""))
"""
    other = workspace.add_agent("a2")
    with Child(program, workspace.folder, workspace.state_dir) as child:
        assert child.hear() == "ready"
        for number in range(3):
            repo.write("file", f"{number}")
            other.checkpoint()
            agent.checkpoint()
            assert child.hear() == f"agent.checkpoint a1 k{number + 1}"


def test_following_before_there_is_a_log(workspace: Workspace, repo: GitRepo) -> None:
    """Following may begin before anything was ever written; nothing is made by that."""
    stop, seen = threading.Event(), threading.Event()

    def follow() -> None:
        for _ in workspace.events(follow=True, stop=stop.is_set):
            seen.set()

    follower = threading.Thread(target=follow)
    follower.start()
    Workspace.open(repo.path, state_dir=workspace.state_dir).add_agent("a1").checkpoint()
    assert seen.wait(60)
    stop.set()
    follower.join(60)
    assert not follower.is_alive()
