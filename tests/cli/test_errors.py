"""What goes wrong outside the verbs: arguments, folders, state folders, settings; and how it is told."""

from __future__ import annotations

import io
import json
import os
import subprocess
from typing import TYPE_CHECKING

import pytest

from support.command import PROGRAM, Command
from turnback import TurnbackError
from turnback.cli import main, session
from turnback.cli.env import Environment
from turnback.cli.terminal import Terminal

if TYPE_CHECKING:
    from pathlib import Path

    from cli.conftest import Story
    from support.git_repo import GitRepo


def test_usage_errors_name_the_option(command: Command) -> None:
    """In JSON too, with the exit code of their class; abbreviations are off."""
    fails = command.fails
    fails("invalid_params.verb", 2, "fly")
    fails("invalid_params.verb", 2)
    fails("invalid_params.action", 2, "agent")
    fails("invalid_params.agent", 2, "turn", "begin")
    fails("invalid_params.agent", 2, "turn", "begin", "--agent")
    fails("invalid_params.checkp", 2, "agent", "rollback", "--agent=a2", "--checkp=k1")
    fails("invalid_params.limit", 2, "log", "--limit")
    error = fails("invalid_params.agnt", 2, "turn", "begin", "--agnt=a2")
    assert "did you mean --agent?" in error["message"]
    error = fails("invalid_params.workspace", 2, "log", "--workspace=.")
    assert "turnback --workspace=... log" in error["message"]
    said = command("turn", "begin", code=2)
    assert said.out == ""
    assert (
        said.err == "turnback: --agent is missing; see: turnback turn begin --help [invalid_params.agent]\n"
    )


def test_json_is_taken_anywhere_before_a_double_dash(command: Command) -> None:
    """Before the verb, behind it, as a word with a value; never from the paths behind ``--``."""
    for words in (
        ["--json", "log"],
        ["log", "--json"],
        ["log", "--limit", "1", "--json"],
        ["log", "--json=true"],
    ):
        assert command(*words, code=3).error()["code"] == "not_found.agent"
    assert command("log", "--json=false", code=3).out == ""
    assert command("turn", "edited", "--agent=a2", "--", "--json", code=3).out == ""


def test_values_follow_an_option_or_its_sign(command: Command) -> None:
    """``--agent a2`` and ``--agent=a2``, ``--dry-run`` and ``--dry-run=true|false``."""
    command("agent", "add", "a2")
    command("agent", "checkpoint", "--agent", "a2")
    back = ("agent", "rollback", "--agent", "a2", "--checkpoint", "k1", "--restore", "files")
    plans = [
        command.json(*back, *words)["plan"]
        for words in (
            ["--dry-run"],
            ["--dry-run=true"],
            ["--dry-run", "true"],
            ["--dry-run", "--keep-head=false"],
        )
    ]
    assert len(set(plans)) == 1
    assert command.json(*back, "--keep-head", "--dry-run")["plan"] != plans[0]


@pytest.mark.contract("V-446")
def test_the_class_of_a_code_is_its_exit_code(command: Command, turns: Story, tmp_path: Path) -> None:
    """The table of the contract, and one command for each class that a person can meet at once."""
    assert {kind.kind: kind.exit_code for kind in TurnbackError.__subclasses__()} == {
        "failed": 1,
        "invalid_params": 2,
        "not_found": 3,
        "denied": 4,
        "conflict": 5,
        "timeout": 7,
        "unsupported": 10,
    }
    dry = ("agent", "rollback", "--agent=a5", "--dry-run")
    command.fails("invalid_params.limit", 2, "log", "--limit=x")
    command.fails("not_found.checkpoint", 3, *dry, "--checkpoint=k7")
    command.fails("unsupported.harness_capability", 10, *dry, "--checkpoint=k2")
    turns.repo.write("outside.txt", "mine\n")
    command.fails("conflict.outside_edits", 5, *dry, "--checkpoint=k2", "--restore=files")
    command.fails(
        "failed.checkpoint_too_large",
        1,
        '--config={"checkpoints": {"max_total_bytes": 1}}',
        *("agent", "checkpoint", "--agent=a5"),
    )
    plain = tmp_path / "no-repo"
    plain.mkdir()
    nowhere = Command(plain, {})
    nowhere("agent", "add", "a2")
    nowhere.fails("unsupported.checkpoint_no_repo", 10, "agent", "checkpoint", "--agent=a2")


def test_a_turn_works_where_there_is_nothing_to_save(tmp_path: Path) -> None:
    """A folder without a repository: automatic captures do nothing (5.1)."""
    command = Command(tmp_path, {})
    command("agent", "add", "a2")
    assert command.json("turn", "begin", "--agent=a2") == {"agent": "a2", "turn": "t1"}
    assert command("turn", "end", "--agent=a2").out == "t1 of a2 ended; nothing was saved\n"
    assert "no repository" in command("agent", "show", "a2").out


def test_folders_that_cannot_be_a_workspace(tmp_path: Path, repo: GitRepo) -> None:
    """No such folder, a file, and a folder below a repository, which is no root of its own."""
    command = Command(repo.path, {})
    command.fails("invalid_params.workspace", 2, "--workspace=missing", "log")
    command.fails("invalid_params.workspace", 2, "--workspace=README.md", "log")
    below = Command(repo.path / "src", {})
    below("agent", "add", "a2")
    below.fails("unsupported.checkpoint_no_repo", 10, "agent", "checkpoint", "--agent=a2")
    below.fails("invalid_params.repo", 2, "agent", "add", "a3", "--repo=.")
    elsewhere = Command(tmp_path, {})
    assert elsewhere.json("--workspace", str(repo.path), "agent", "list") == {"agents": []}


def test_a_state_folder_belongs_to_one_workspace(command: Command, turns: Story, tmp_path: Path) -> None:
    """Two workspaces never share a log, whichever way the folder is named."""
    other = Command(tmp_path, {})
    state = turns.workspace.state_dir
    other.fails("invalid_params.state_dir", 2, f"--state-dir={state}", "log")
    other.fails("invalid_params.state_dir", 2, "log", also={"TURNBACK_STATE": state})
    assert len(command.json("log", also={"TURNBACK_STATE": state})["checkpoints"]) == 3
    assert (
        len(command.json(f"--state-dir={state}", "log", also={"TURNBACK_STATE": "/nowhere"})["checkpoints"])
        == 3
    )


def test_a_broken_state_folder_is_said(command: Command, turns: Story, tmp_path: Path) -> None:
    """A file in its place, a log that was changed in the middle, a log of a newer version."""
    (tmp_path / "file").write_text("no folder\n")
    ran = command("--json", f"--state-dir={tmp_path / 'file'}", "agent", "add", "a2", code=1)
    assert ran.error()["code"] == "failed.state_folder"
    log = turns.workspace.state_dir + "/log.ndjson"
    with open(log, "rb") as file:
        whole = file.read()
    lines = whole.split(b"\n")
    changed = b"\n".join([*lines[:2], lines[2].replace(b"a5", b"a6"), *lines[3:]])
    assert changed != whole
    with open(log, "wb") as file:
        file.write(changed)
    snapshot = [name for name in os.listdir(turns.workspace.state_dir) if "snapshot" in name]
    assert snapshot == [], "a short log has no snapshot that would hide the change"
    command.fails("failed.log_corrupt", 1, "log")


def test_settings_come_from_a_file_json_or_the_environment(
    command: Command, turns: Story, tmp_path: Path, home: Path
) -> None:
    """The option wins over the environment, and that over the user's own file; a repository's file is never read."""
    take = ("agent", "checkpoint", "--agent=a5")
    turns.repo.write("new.txt", "more than one byte\n")
    tiny = json.dumps({"checkpoints": {"max_total_bytes": 1}})
    (tmp_path / "tiny.json").write_text(tiny)
    command.fails("failed.checkpoint_too_large", 1, f"--config={tmp_path / 'tiny.json'}", *take)
    command.fails("failed.checkpoint_too_large", 1, *take, also={"TURNBACK_CONFIG": tiny})
    own = home / ".config" / "turnback"
    own.mkdir(parents=True)
    (own / "config.json").write_text(tiny)
    command.fails("failed.checkpoint_too_large", 1, *take)
    turns.repo.write("turnback.json", tiny)
    turns.repo.write(".turnback/config.json", tiny)
    command("--config={}", *take, also={"TURNBACK_CONFIG": tiny})


@pytest.mark.parametrize(
    "given",
    [
        "missing.json",
        "{",
        "[]",
        '{"other": {}}',
        '{"checkpoints": {"keep": -1}}',
        '{"checkpoints": {"x": 1}}',
    ],
)
def test_bad_settings_are_refused(command: Command, given: str) -> None:
    """Nothing is guessed about them."""
    if given == "[]":
        (command.folder / "list.json").write_text(given)
        given = "list.json"
    command.fails("invalid_params.config", 2, f"--config={given}", "log")


def test_an_agent_has_to_be_named_when_there_are_several(command: Command, turns: Story) -> None:
    """Without a terminal nobody is asked, and nothing is guessed."""
    turns.workspace.add_agent("b6")
    error = command.fails("invalid_params.agent", 2, "log")
    assert "a5, b6" in error["message"]
    command("log", "--agent=b6")
    assert command.json("save", also={"TURNBACK_PRINCIPAL": "agent:b6"})["agent"] == "b6"
    command("agent", "archive", "b6")
    assert command.json("log")["agent"] == "a5"


def test_below_a_repository_its_top_is_named(command: Command, repo: GitRepo) -> None:
    """A hint only: nothing is opened there, and who names a folder means it."""
    repo.write("src/deep/a.py", "a\n")
    below = Command(repo.path / "src" / "deep", {})
    error = below.fails("not_found.agent", 3, "log")
    assert error["message"].endswith(f"run this there, or with: turnback --workspace={repo.path}")
    meant = command.fails("not_found.agent", 3, "--workspace=src", "log")
    assert meant["message"].endswith("add one with: turnback --workspace=src agent add main --repo=.")
    assert command.fails("not_found.agent", 3, "log")["message"].endswith("turnback agent add main --repo=.")


def test_without_an_agent_the_way_to_add_one_is_told(command: Command) -> None:
    """The sentence ends with a command that can be pasted."""
    error = command.fails("not_found.agent", 3, "save")
    assert error["message"].endswith("add one with: turnback agent add main --repo=.")
    command("agent", "add", "main", "--repo=.")
    assert command.json("save") == {"agent": "main", "checkpoint": "k1", "reused": False}
    command("agent", "archive", "main")
    assert "archived" in command.fails("not_found.agent", 3, "save")["message"]


def test_a_vanished_folder_is_said(tmp_path: Path) -> None:
    """The current folder was removed under a shell."""
    gone = tmp_path / "gone"
    gone.mkdir()
    script = 'rmdir "$PWD" && exec "$@"'
    done = subprocess.run(
        ["sh", "-c", script, "sh", *PROGRAM, "--json", "log"], cwd=gone, capture_output=True, check=False
    )
    assert done.returncode == 2
    assert json.loads(done.stdout)["error"]["code"] == "invalid_params.workspace"


@pytest.mark.skipif(not os.path.exists("/dev/full"), reason="only Linux has a device that is always full")
def test_output_that_cannot_be_written_is_said(command: Command, turns: Story) -> None:
    """On a full disk, with a sentence and without a traceback; without an output at all there is nothing to say."""
    for words in (["log"], ["log", "--json"]):
        with open("/dev/full", "wb") as full:
            done = subprocess.run(
                [*PROGRAM, *words], cwd=command.folder, stdout=full, stderr=subprocess.PIPE, check=False
            )
        assert done.returncode == 1
        assert (
            done.stderr
            == b"turnback: the output can't be written: No space left on device [failed.internal]\n"
        )
    closed = ["sh", "-c", 'exec "$@" >&-', "sh", *PROGRAM, "log"]
    done = subprocess.run(closed, cwd=command.folder, stderr=subprocess.PIPE, check=False)
    assert (done.returncode, done.stderr) == (0, b"")


def test_what_nobody_foresaw_is_an_error_and_no_traceback(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A sentence that says where to report; the traceback only with TURNBACK_DEBUG."""

    def broken(*_: object, **__: object) -> None:
        raise ZeroDivisionError("a mistake of ours")

    monkeypatch.setattr(session.Session, "choose", broken)
    for debug in (False, True):
        out, err = io.StringIO(), io.StringIO()
        code = main.execute(
            ["log"], Environment(folder=str(tmp_path), debug=debug), Terminal(out, err, io.StringIO())
        )
        assert code == 1
        assert "[failed.internal]" in err.getvalue()
        assert "report" in err.getvalue()
        assert ("Traceback" in err.getvalue()) is debug
    out = io.StringIO()
    main.execute(["log", "--json"], Environment(folder=str(tmp_path)), Terminal(out, out, io.StringIO()))
    assert json.loads(out.getvalue())["error"]["code"] == "failed.internal"


def test_a_full_disk_is_the_systems_sentence(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """An error of the system is no mistake of ours and is told as it is."""

    def full(*_: object, **__: object) -> None:
        raise OSError(28, "No space left on device", "/tmp/x")

    monkeypatch.setattr(session.Session, "choose", full)
    err = io.StringIO()
    main.execute(["log"], Environment(folder=str(tmp_path)), Terminal(io.StringIO(), err, io.StringIO()))
    assert err.getvalue() == "turnback: No space left on device: /tmp/x [failed.internal]\n"
