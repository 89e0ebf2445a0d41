"""``turnback turn begin|edited|end`` as a harness in any language calls them."""

from __future__ import annotations

import json
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Story
    from support.command import Command
    from support.git_repo import GitRepo

TINY = '--config={"checkpoints": {"max_total_bytes": 1}}'


@pytest.mark.contract("V-002", "V-003")
def test_a_turn_leaves_a_checkpoint_before_and_after(command: Command, repo: GitRepo) -> None:
    """begin, edit, end, and one on request: the results name the turn and its checkpoints; nobody else's file or ref is touched."""
    before = repo.snapshot_everything()
    command("agent", "add", "a2")
    began = command.json("turn", "begin", "--agent=a2", "--prompt=go")
    assert began == {"agent": "a2", "turn": "t1", "checkpoint": "k1", "reused": False}
    commit = repo.refs()["refs/venom/checkpoints/a2/1"]
    assert before.changes(repo.snapshot_everything()) == [
        f"ref refs/venom/checkpoints/a2/1: None -> {commit}"
    ]
    repo.write("src/main.py", "print('two')\n")
    assert command.json("turn", "edited", "--agent", "a2", "--", "src/main.py") == {
        "agent": "a2",
        "turn": "t1",
        "edited": 1,
    }
    ended = command.json("turn", "end", "--agent=a2", "--harness-turn=h1", "--harness-end=m9")
    assert ended == {"agent": "a2", "turn": "t1", "checkpoint": "k2", "reused": False}
    repo.write("src/main.py", "print('three')\n")
    assert command.json("agent", "checkpoint", "--agent=a2")["checkpoint"] == "k3"
    events = [json.loads(line) for line in command("events", "--json").out.splitlines()]
    assert [event["data"]["reason"] for event in events] == ["turn_start", "turn_end", "manual"]
    assert {f"refs/venom/checkpoints/a2/{number}" for number in (1, 2, 3)} <= repo.refs().keys()


@pytest.mark.contract("V-080", "V-081")
def test_a_turn_that_changes_nothing_makes_no_new_checkpoint(
    command: Command, repo: GitRepo, home: Path
) -> None:
    """The second capture finds what the first one left and says which checkpoint that is; the log has it, the events don't."""
    command("agent", "add", "a2")
    command("turn", "begin", "--agent=a2")
    assert command.json("turn", "end", "--agent=a2")["reused"] is True
    text = command("turn", "begin", "--agent=a2").out
    assert text == "t2 of a2 began; the files are as in k1\n"
    kept = [name for name in repo.refs() if name.startswith("refs/venom/")]
    assert kept == ["refs/venom/checkpoints/a2/1"]
    (log,) = home.rglob("log.ndjson")
    records = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [record["type"] for record in records].count("checkpoint.reused") == 2
    assert len(command("events").out.splitlines()) == 1


@pytest.mark.contract("V-076")
def test_a_failed_capture_never_stops_the_turn(command: Command, repo: GitRepo) -> None:
    """The exit code stays 0; the result and the error stream say that nothing was saved."""
    command("agent", "add", "a2")
    repo.write("new.txt", "more than one byte\n")
    began = command.json(TINY, "turn", "begin", "--agent=a2")
    assert began["turn"] == "t1"
    assert began["capture_failed"]["code"] == "failed.checkpoint_too_large"
    assert "checkpoint" not in began
    ended = command(TINY, "turn", "end", "--agent=a2")
    assert ended.out == "t1 of a2 ended; nothing was saved\n"
    assert "the work goes on" in ended.err
    assert "[failed.checkpoint_too_large]" in ended.err


@pytest.mark.contract("V-346")
def test_the_note_about_a_rollback_comes_with_the_next_prompt_once(command: Command, turns: Story) -> None:
    """``prompt`` stands in the result only when it isn't the one that was given."""
    plan = turns.agent.rollback("k2", restore="files", dry_run=True)
    turns.agent.rollback("k2", restore="files", plan=plan.plan)
    began = command.json("turn", "begin", "--agent=a5", "--prompt=go on")
    assert began["prompt"].startswith("Note: the files were rolled back to their state after turn t1.")
    assert began["prompt"].endswith("\n\ngo on")
    command("turn", "end", "--agent=a5")
    assert "prompt" not in command.json("turn", "begin", "--agent=a5", "--prompt=go on")


@pytest.mark.contract("V-072")
def test_a_turn_of_the_harness_has_no_checkpoint_at_its_start(command: Command) -> None:
    """Its files may have changed already when we hear of it."""
    command("agent", "add", "a2")
    assert command.json("turn", "begin", "--agent=a2", "--origin=harness") == {"agent": "a2", "turn": "t1"}


def test_any_bytes_may_be_a_path(command: Command, repo: GitRepo) -> None:
    """After ``--`` a path is a path: not UTF-8, with a dash first, named like an option, or ``--`` itself."""
    command("agent", "add", "a2")
    command("turn", "begin", "--agent=a2")
    names: list[bytes] = [b"caf\xe9", b"-x", b"--json", b"--", b"new\nline", str(repo.at("abs")).encode()]
    for name in names[:-1]:
        repo.write(name, "text\n")
    assert command.json("turn", "edited", "--agent=a2", "--", *names)["edited"] == len(names)
    command("turn", "end", "--agent=a2")
    plan = command.json("agent", "rollback", "--agent=a2", "--checkpoint=k1", "--restore=files", "--dry-run")
    files = {item["path"]: item for item in plan["repos"][0]["files"]}
    assert {item["class"] for item in files.values()} == {"agent"}
    assert files["caf\ufffd"]["path_b64"] == "Y2Fm6Q=="
    assert {"-x", "--json", "--", "new\nline"} < files.keys()


@pytest.mark.parametrize("path", ["../beside", "/etc/passwd", ".", ""])
def test_a_path_outside_the_tree_is_refused(command: Command, path: str) -> None:
    """And nothing is noted then."""
    command("agent", "add", "a2")
    command("turn", "begin", "--agent=a2")
    command.fails("invalid_params.path", 2, "turn", "edited", "--agent=a2", "--", "good", path)
    command.fails("invalid_params.path", 2, "turn", "edited", "--agent=a2")


def test_edits_and_ends_need_a_running_turn(command: Command) -> None:
    """Without one there is nothing to edit in or to end; with one there is no second one."""
    command("agent", "add", "a2")
    command.fails("not_found.turn", 3, "turn", "edited", "--agent=a2", "--", "x")
    command.fails("not_found.turn", 3, "turn", "end", "--agent=a2")
    command("turn", "begin", "--agent=a2")
    command.fails("conflict.turn_running", 5, "turn", "begin", "--agent=a2")
    command.fails("invalid_params.reason", 2, "turn", "end", "--agent=a2", "--reason=bored")
    command.fails("not_found.repo", 3, "turn", "edited", "--agent=a2", "--repo=other", "--", "x")
    command.fails("invalid_params.origin", 2, "turn", "begin", "--agent=a2", "--origin=nowhere")


def test_a_prompt_that_is_no_text_is_refused(command: Command) -> None:
    """The log is UTF-8."""
    command("agent", "add", "a2")
    command.fails("invalid_params.prompt", 2, "turn", "begin", "--agent=a2", b"--prompt=caf\xe9")
