"""``turnback agent checkpoints|checkpoint|checkpoint-diff`` and the short ``log``, ``save`` and ``diff``."""

from __future__ import annotations

import re
from datetime import datetime
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from cli.conftest import Story
    from support.command import Command
    from support.git_repo import GitRepo


@pytest.mark.contract("V-010", "V-011", "V-012", "V-013", "V-391", "V-026")
def test_the_list_has_the_contracts_form(command: Command, turns: Story) -> None:
    """Newest first, each item with exactly the members of the contract."""
    listed = command.json("agent", "checkpoints", "--agent=a5")
    assert list(listed) == ["agent", "pending", "checkpoints"]
    assert listed["agent"] == "a5"
    assert listed["pending"] is False
    items = listed["checkpoints"]
    assert [item["checkpoint"] for item in items] == ["k3", "k2", "k1"]
    assert [item["reason"] for item in items] == ["turn_end", "turn_end", "turn_start"]
    assert [item["turn"] for item in items] == ["t2", "t1", "t1"]
    assert [item["through_turn"] for item in items] == ["t2", "t1", None]
    members = [
        "checkpoint",
        "reason",
        "turn",
        "through_turn",
        "at",
        "mid_turn",
        "overlap",
        "conversation",
        "repos",
    ]
    for item in items:
        assert list(item) == members
        assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", item["at"])
        assert datetime.fromisoformat(item["at"]).tzinfo is not None
        (repo,) = item["repos"]
        assert set(repo) == {"repo", "path", "commit", "head", "branch", "skipped", "submodules"}
        assert repo["repo"] == "."
        assert repo["head"] == turns.repo.text("rev-parse", "HEAD")
        assert repo["branch"] == "main"


@pytest.mark.contract("V-001", "V-003", "V-014")
def test_git_reads_checkpoints_that_no_branch_holds(command: Command, turns: Story) -> None:
    """They are commits under hidden refs, and any of git's own tools compares them."""
    repo = turns.repo
    stat = repo.text("diff", "--stat", "refs/venom/checkpoints/a5/1", "refs/venom/checkpoints/a5/2")
    assert "src/main.py" in stat
    assert "1 file changed" in stat
    for item in command.json("log")["checkpoints"]:
        commit = item["repos"][0]["commit"]
        assert repo.text("branch", "-a", "--contains", commit) == ""
    assert repo.text("log", "--format=%s", "main") == "first"


@pytest.mark.contract("V-390")
def test_a_list_can_be_narrowed(command: Command, turns: Story) -> None:
    """By turn, by an older limit, and by number."""

    def ids(*options: str) -> list[str]:
        items: list[dict[str, Any]] = command.json("agent", "checkpoints", "--agent=a5", *options)[
            "checkpoints"
        ]
        return [item["checkpoint"] for item in items]

    assert ids("--turn=t1") == ["k2", "k1"]
    assert ids("--before", "k3") == ["k2", "k1"]
    assert ids("--limit=1") == ["k3"]
    assert ids("--before=k3", "--limit=1") == ["k2"]
    fails = command.fails
    fails("invalid_params.limit", 2, "log", "--limit=0")
    fails("invalid_params.limit", 2, "log", "--limit=many")
    fails("invalid_params.before", 2, "log", "--before=3")
    fails("invalid_params.turn", 2, "log", "--turn=k1")
    fails("not_found.agent", 3, "agent", "checkpoints", "--agent=nobody")


@pytest.mark.contract("V-470")
def test_the_table_says_what_a_person_looks_for(command: Command, turns: Story) -> None:
    """Id, age, reason, turn and files changed since the one before; a label when there is one."""
    command("save", "before lunch")
    head, k3, k2, k1 = command("log").out.splitlines()
    assert head.split() == ["CHECKPOINT", "AGE", "REASON", "TURN", "FILES", "LABEL"]
    assert re.fullmatch(r"k3 +\d+[smhd] +turn_end +t2 +2 +before lunch", k3)
    assert re.fullmatch(r"k2 +\d+[smhd] +turn_end +t1 +1", k2)
    assert re.fullmatch(r"k1 +\d+[smhd] +turn_start +t1 +-", k1)
    assert re.search(r"k2 .* 1\n", command("log", "--limit=1", "--before=k3").out + "\n")


@pytest.mark.contract("V-392", "V-083", "V-471")
def test_a_checkpoint_on_request_is_new_or_reused(command: Command, turns: Story) -> None:
    """A label goes to whichever it is."""
    assert command.json("agent", "checkpoint", "--agent=a5", "--label=same") == {
        "agent": "a5",
        "checkpoint": "k3",
        "reused": True,
    }
    turns.repo.write("new.txt", "new\n")
    assert command.json("save", "fresh") == {"agent": "a5", "checkpoint": "k4", "reused": False}
    labels = {item["checkpoint"]: item.get("label") for item in command.json("log")["checkpoints"]}
    assert labels == {"k4": "fresh", "k3": "same", "k2": None, "k1": None}
    assert command("save").out == "k4 of a5 already holds these files\n"
    command.fails("invalid_params.label", 2, "save", b"caf\xe9")


@pytest.mark.contract("V-393", "V-394")
def test_a_difference_lists_files_and_lines(command: Command, edited: Story) -> None:
    """Between two checkpoints, or from one to the files as they are now; binary files are marked."""
    edited.repo.write("pixel.bin", b"\0\1\2")
    edited.repo.delete("gen/out.txt")
    found = command.json("agent", "checkpoint-diff", "--agent=a5", "--from=k2", "--to=k3")
    assert list(found) == ["files"]
    assert found["files"] == [
        {"repo": ".", "path": "gen/out.txt", "change": "create", "added": 1, "removed": 0, "binary": False},
        {"repo": ".", "path": "src/main.py", "change": "modify", "added": 1, "removed": 1, "binary": False},
    ]
    now = command.json("agent", "checkpoint-diff", "--agent=a5", "--from=k3")["files"]
    assert {item["path"]: (item["change"], item["binary"]) for item in now} == {
        "README.md": ("modify", False),
        "gen/out.txt": ("delete", False),
        "notes/todo.md": ("create", False),
        "pixel.bin": ("create", True),
    }
    text = command("agent", "checkpoint-diff", "--agent=a5", "--from=k2", "--to=k3").out
    assert "  new      gen/out.txt  +1 -0\n" in text
    assert text.endswith("2 files, 2 lines added, 1 line removed\n")


@pytest.mark.contract("V-395")
def test_one_path_comes_with_its_patch(command: Command, turns: Story) -> None:
    """Cut at ``harness.body_max``, with the whole length told."""
    one = ("agent", "checkpoint-diff", "--agent=a5", "--from=k1", "--to=k3", "--path=src/main.py")
    patch = command.json(*one)["patch"]
    assert patch["truncated"] is False
    assert patch["bytes"] == len(patch["text"].encode())
    assert "-print('one')\n+print('three')\n" in patch["text"]
    cut = command.json('--config={"harness": {"body_max": 20}}', *one)["patch"]
    assert cut == {"text": patch["text"][:20], "truncated": True, "bytes": patch["bytes"]}
    assert "(cut: the whole difference has" in command('--config={"harness": {"body_max": 20}}', *one).out


def test_a_path_of_any_bytes_can_be_compared(command: Command, repo: GitRepo) -> None:
    """The name is shown with escapes, and matched by its bytes."""
    command("agent", "add", "a2")
    command("agent", "checkpoint", "--agent=a2")
    repo.write(b"caf\xe9", "un\n")
    found = command.json("agent", "checkpoint-diff", "--agent=a2", "--from=k1", b"--path=caf\xe9")
    assert [item["path_b64"] for item in found["files"]] == ["Y2Fm6Q=="]
    assert "+un\n" in found["patch"]["text"]
    assert "caf\\xe9" in command("agent", "checkpoint-diff", "--agent=a2", "--from=k1").out


@pytest.mark.contract("V-420")
def test_what_cannot_be_compared_is_refused(command: Command, turns: Story) -> None:
    """Unknown ones, malformed ones, and paths outside the tree."""
    start = ("agent", "checkpoint-diff", "--agent=a5")
    error = command.fails("not_found.checkpoint", 3, *start, "--from=k9")
    assert error["data"] == {"checkpoint": "k9"}
    fails = command.fails
    fails("not_found.checkpoint", 3, *start, "--from=k1", "--to=k9")
    fails("invalid_params.from", 2, *start, "--from=HEAD")
    fails("invalid_params.to", 2, *start, "--from=k1", "--to=main")
    fails("invalid_params.from", 2, *start)
    fails("invalid_params.path", 2, *start, "--from=k1", "--path=../x")
    fails("not_found.repo", 3, *start, "--from=k1", "--repo=other")
    turns.repo.git("update-ref", "-d", "refs/venom/checkpoints/a5/2")
    gone = fails("not_found.checkpoint", 3, *start, "--from=k2")
    assert gone["data"] == {"checkpoint": "k2", "repo": "."}
    rows = command("log").out.splitlines()
    assert [row.split()[4] for row in rows[1:]] == ["-", "-", "-"], (
        "a list is shown even where rows can't be compared"
    )


@pytest.mark.contract("V-471")
def test_diff_without_a_checkpoint_shows_what_undo_would_take_back(command: Command, edited: Story) -> None:
    """The start is the state before the agent's last turn; the output is a unified diff that git can read."""
    shown = command("diff").out
    assert shown == command("diff", "k2").out
    assert "-print('two')\n+print('three')\n" in shown
    assert "+# my own words\n" in shown
    assert "\x1b" not in shown
    assert (
        shown
        == edited.repo.text("diff", "--no-color", "refs/venom/checkpoints/a5/2", _tree_now(edited.repo))
        + "\n"
    )
    assert command("diff", "k3", "k3").out == "No difference between k3 and k3.\n"


def _tree_now(repo: GitRepo) -> str:
    repo.git("add", "-A")
    return repo.text("write-tree")
