"""Turns: saved before and after, however they end; the edits that tools name; the note after a rollback."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest

from support.children import Child
from support.git_repo import GitRepo
from support.replay import Log
from turnback import Conflict, InvalidParams, NotFound, TurnbackError, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from turnback import Agent, Turn


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


# --- before, after, on request --------------------------------------------------------------------------------------


@pytest.mark.contract("V-002", "V-013", "V-050", "V-051", "V-066", "V-090", "V-091")
def test_a_turn_is_saved_before_and_after(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """The files are saved before the prompt can be delivered, and again after the turn; meanwhile the agent runs."""
    turn = agent.begin_turn("rename the flag")
    assert (turn.id, turn.prompt, turn.checkpoint, turn.reused) == ("t1", "rename the flag", "k1", False)
    assert agent.show().state == "running"
    repo.write("src/main.py", "print('two')\n")
    done = turn.end()
    assert (done.turn, done.checkpoint, done.reused) == ("t1", "k2", False)
    assert agent.show().state == "settled"
    second = agent.begin_turn()
    assert (second.id, second.checkpoint, second.reused) == ("t2", "k2", True)
    second.end()
    through = {row.checkpoint: (row.reason, row.through_turn) for row in agent.checkpoints().checkpoints}
    assert through == {"k1": ("turn_start", None), "k2": ("turn_end", "t1")}
    assert captures(workspace) == [
        ("turn_start", "k1", "t1"),
        ("turn_end", "k2", "t1"),
        ("turn_start", "k2", "t2"),
        ("turn_end", "k2", "t2"),
    ]


@pytest.mark.contract("V-051", "V-052", "V-053", "V-054", "V-305")
@pytest.mark.parametrize(
    ("reason", "state"),
    [("completed", "settled"), ("interrupted", "settled"), ("limit", "settled"), ("failed", "failed")],
)
def test_every_end_is_saved(
    reason: str, state: str, workspace: Workspace, repo: GitRepo, agent: Agent
) -> None:
    """However a turn ends, its files are saved, and the next turn can begin."""
    turn = agent.begin_turn()
    repo.write("made", "in the turn\n")
    assert turn.end(reason).checkpoint == "k2"
    assert agent.show().state == state
    assert agent.begin_turn().id == "t2"


@pytest.mark.contract("V-055")
def test_a_turn_whose_program_died(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A turn that another process began and never ended is found by the next one, and its end is saved like any other."""
    program = """
from turnback import Workspace
turn = Workspace.open(sys.argv[1], state_dir=sys.argv[2]).agent("a1").begin_turn("a long one")
open(sys.argv[1] + "/made", "w").write("before it died")
say(turn.id)
hear()
"""
    with Child(program, workspace.folder, workspace.state_dir) as child:
        assert child.hear() == "t1"
        child.kill()
    again = Workspace.open(repo.path, state_dir=workspace.state_dir).agent("a1")
    assert again.show().state == "running"
    found = again.running_turn()
    assert found is not None
    assert (found.id, found.prompt, found.agent) == ("t1", "a long one", "a1")
    with pytest.raises(Conflict, match="turnback turn end --agent=a1") as caught:
        again.begin_turn()
    assert caught.value.code == "conflict.turn_running"
    assert again.end_turn("interrupted").checkpoint == "k2"
    assert again.running_turn() is None
    assert [row.change for row in again.checkpoint_diff("k1", "k2").files] == ["create"]
    with pytest.raises(NotFound) as missing:
        again.end_turn()
    assert missing.value.code == "not_found.turn"


@pytest.mark.contract("V-056", "V-092", "V-363")
def test_a_checkpoint_in_the_middle_of_a_turn(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """Asked for while the turn runs, a checkpoint names the turn, says that it is in its middle, and goes with the turn before."""
    with agent.turn():
        pass
    with agent.turn():
        repo.write("half", "done\n")
        taken = agent.checkpoint("before something risky")
        repo.write("half", "and wholly done\n")
    row = next(row for row in agent.checkpoints().checkpoints if row.checkpoint == taken.checkpoint)
    assert (row.reason, row.turn, row.through_turn, row.mid_turn) == ("manual", "t2", "t1", True)
    assert (row.label, row.conversation) == ("before something risky", False)
    agent.set_state("handed_over")
    repo.write("half", "by a person\n")
    assert agent.checkpoint().reused is False


@pytest.mark.contract("V-072", "V-238")
def test_a_turn_that_the_harness_began(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """A turn that the harness began by itself has no capture at its start, and what it changed can't be called its own."""
    agent.checkpoint()
    turn = agent.begin_turn(origin="harness")
    assert (turn.id, turn.checkpoint, turn.capture_failed) == ("t1", None, None)
    turn.edited("src/main.py")
    repo.write("src/main.py", "print('two')\n")
    assert turn.end().checkpoint == "k2"
    assert captures(workspace) == [("manual", "k1", None), ("turn_end", "k2", "t1")]
    plan = agent.rollback("k1", restore="files", outside="overwrite", dry_run=True)
    assert [row.class_ for row in plan.repos[0].files] == ["outside"]
    with pytest.raises(InvalidParams) as caught:
        agent.begin_turn(origin="nobody")
    assert caught.value.code == "invalid_params.origin"


@pytest.mark.contract("V-071")
def test_steering_begins_no_turn(workspace: Workspace, agent: Agent) -> None:
    """A message into a running turn is the harness's own business: there is no verb for it, and a second turn is refused."""
    with agent.turn():
        before = Log(workspace.state_dir).records
        with pytest.raises(Conflict):
            agent.begin_turn("and also this")
        assert Log(workspace.state_dir).records == before


# --- the with statement -------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("raised", "reason", "state"),
    [
        (ValueError("x"), "failed", "failed"),
        (KeyboardInterrupt(), "interrupted", "settled"),
        (SystemExit(3), "interrupted", "settled"),
    ],
)
def test_how_the_block_ends_is_how_the_turn_ends(
    raised: BaseException, reason: str, state: str, workspace: Workspace, repo: GitRepo, agent: Agent
) -> None:
    """An exception fails the turn, a stop interrupts it; it comes out as it was, and the files are saved all the same."""

    def work(turn: Turn) -> None:
        repo.write("half", "done\n")
        raise raised

    with pytest.raises(type(raised)) as caught, agent.turn() as turn:
        work(turn)
    assert caught.value is raised
    assert turn.ended is not None
    assert turn.ended.checkpoint == "k2"
    assert agent.show().state == state
    assert agent.show().turns[0]["reason"] == reason


def test_a_turn_that_was_ended_in_its_block(workspace: Workspace, agent: Agent) -> None:
    """The block may end the turn itself, and so may somebody else meanwhile; what the block raises still comes out."""
    with agent.turn() as turn:
        turn.end("limit")
    assert agent.show().turns[-1]["reason"] == "limit"
    with agent.turn():
        agent.end_turn("interrupted")  # as another process would

    def end_and_fail() -> None:
        agent.end_turn("interrupted")
        raise ValueError("mine")

    with pytest.raises(ValueError, match="mine"), agent.turn():
        end_and_fail()
    assert [row["reason"] for row in agent.show().turns] == ["limit", "interrupted", "interrupted"]
    with pytest.raises(NotFound) as caught:
        turn.end()
    assert caught.value.code == "not_found.turn"


def test_the_end_that_can_not_be_recorded(workspace: Workspace, agent: Agent, tmp_path: Path) -> None:
    """The log breaks while the turn runs: the block's own exception is the one that comes out, with a note; without one, the log's."""
    turn = agent.begin_turn()
    log = tmp_path / "state" / "log.ndjson"
    whole = log.read_bytes()
    log.write_bytes(b"garbage\n" + whole)
    with pytest.raises(ValueError, match="mine") as caught, turn:
        raise ValueError("mine")
    assert "turn t1 of a1" in caught.value.__notes__[0]
    with pytest.raises(TurnbackError) as broken, turn:
        pass
    assert broken.value.code == "failed.log_corrupt"
    log.write_bytes(whole)
    assert turn.end().turn == "t1"


@pytest.mark.parametrize("reason", ["", "done", None])
def test_reasons_that_do_not_exist(reason: Any, workspace: Workspace, agent: Agent) -> None:
    """A turn ends for one of four reasons; another word is refused and the turn goes on."""
    turn = agent.begin_turn()
    with pytest.raises(InvalidParams, match="completed, interrupted") as caught:
        turn.end(reason)
    assert caught.value.code == "invalid_params.reason"
    assert agent.show().state == "running"


# --- edits -----------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-242")
def test_edits_in_every_spelling(workspace: Workspace, repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """A tool's path may be relative, absolute, through a link above the tree, or bytes; it is noted relative to the tree."""
    (tmp_path / "link").symlink_to(repo.path)
    repo.link("elsewhere", "/etc")
    with agent.turn() as turn:
        turn.edited("src/main.py", "./src/../src/main.py", b"caf\xe9")
        turn.edited(repo.at("src/main.py"), str(tmp_path / "link" / "src" / "main.py"))
        turn.edited("elsewhere", str(repo.at("elsewhere")))
        turn.edited()
    noted = [path for row in Log(workspace.state_dir).of("turn.edited") for path in row["paths"]]
    odd = {"path": "caf\ufffd", "path_b64": "Y2Fm6Q=="}
    assert noted == [
        "src/main.py",
        "src/main.py",
        odd,
        "src/main.py",
        "src/main.py",
        "elsewhere",
        "elsewhere",
    ]


@pytest.mark.parametrize(
    "path", ["", ".", "..", "../x", "/etc/passwd", "a\0b", "/a\0b", "\ud800", "src/../.."]
)
def test_edits_outside_the_tree(path: str, workspace: Workspace, agent: Agent) -> None:
    """A path that isn't in the tree is refused, and of the call's other paths none is noted."""
    with agent.turn() as turn:
        with pytest.raises(InvalidParams) as caught:
            turn.edited("src/main.py", path)
        assert caught.value.code == "invalid_params.path"
    assert Log(workspace.state_dir).of("turn.edited") == []


def test_edits_after_the_end(workspace: Workspace, agent: Agent) -> None:
    """An edit belongs to a running turn: afterwards there is none to note it for."""
    with agent.turn() as turn:
        pass
    with pytest.raises(NotFound) as caught:
        turn.edited("src/main.py")
    assert caught.value.code == "not_found.turn"


def test_which_repository_an_edit_is_in(tmp_path: Path) -> None:
    """With one repository nobody needs to say which; with several a relative path does, and an absolute one says it itself."""
    repos = {name: GitRepo.init(tmp_path / "work" / name) for name in ("app", "lib")}
    workspace = Workspace.open(tmp_path / "work", state_dir=tmp_path / "state")
    one, both = workspace.add_agent("a1", repos=["app"]), workspace.add_agent("a2", repos=["app", "lib"])
    with one.turn() as turn:
        turn.edited("x")
    with both.turn() as turn:
        turn.edited("y", repo="lib")
        turn.edited(str(repos["lib"].at("z")), str(repos["app"].at("w")))
        with pytest.raises(InvalidParams, match="app, lib") as caught:
            turn.edited("v")
        assert caught.value.code == "invalid_params.repo"
        with pytest.raises(InvalidParams):
            turn.edited("/etc/passwd")
    rows = [(row["repo"], row["paths"]) for row in Log(workspace.state_dir).of("turn.edited")]
    assert rows == [("app", ["x"]), ("lib", ["y"]), ("lib", ["z"]), ("app", ["w"])]


# --- the note after a rollback ----------------------------------------------------------------------------------------------


@pytest.fixture
def rolled_back(repo: GitRepo, agent: Agent) -> Agent:
    """An agent whose files went back to before its first turn."""
    with agent.turn():
        repo.write("src/main.py", "print('two')\n")
    plan = agent.rollback("k1", restore="files", dry_run=True)
    agent.rollback("k1", restore="files", plan=plan.plan)
    return agent


NOTE = (
    "Note: the files were rolled back to their state before your first turn. Changes made after that point are gone, and what you "
    "remember of them may no longer be true. Read the files before you rely on them."
)


@pytest.mark.contract("V-346", "V-348", "V-350", "V-463")
def test_the_note_goes_with_the_next_prompt_once(workspace: Workspace, rolled_back: Agent) -> None:
    """After files alone went back, the next prompt begins with the note, as the log records it too; the one after that doesn't."""
    assert rolled_back.show().note == NOTE
    with rolled_back.turn("go on") as turn:
        assert turn.prompt == f"{NOTE}\n\ngo on"
    with rolled_back.turn("and on") as turn:
        assert turn.prompt == "and on"
    prompts = [row.get("prompt") for row in Log(workspace.state_dir).of("turn.started")]
    assert prompts == [None, f"{NOTE}\n\ngo on", "and on"]


def test_the_note_is_not_lost_on_a_turn_without_a_prompt(rolled_back: Agent) -> None:
    """A host that doesn't tell us the prompt, or a turn of the harness's own, leaves the note for ``next_prompt``: once, then not again."""
    with rolled_back.turn() as turn:
        assert turn.prompt is None
    rolled_back.begin_turn("by itself", origin="harness").end()
    assert rolled_back.next_prompt("go on") == f"{NOTE}\n\ngo on"
    assert rolled_back.next_prompt("and on") == "and on"
    assert rolled_back.show().note is None


def test_an_empty_prompt_is_the_note_alone(rolled_back: Agent) -> None:
    """With an empty prompt only the note is delivered."""
    with rolled_back.turn("") as turn:
        assert turn.prompt == NOTE
