"""``turnback agent add|show|list|archive``."""

from __future__ import annotations

import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command import Command
from support.git_repo import GitRepo

if TYPE_CHECKING:
    from cli.conftest import Story


def test_an_agent_is_added_shown_and_listed(command: Command, repo: GitRepo) -> None:
    """The result is the agent as the log has it, in the same form everywhere."""
    added = command.json("agent", "add", "a2", "--repo", ".")
    assert added["agent"] == "a2"
    assert added["state"] == "settled"
    assert added["isolation"] == "in_place"
    assert added["guarded"] is True
    assert added["trees"] == [{"repo": ".", "path": os.path.realpath(repo.path)}]
    assert command.json("agent", "show", "a2") == added
    assert command.json("agent", "show", "--agent=a2") == added
    assert command.json("agent", "list") == {"agents": [added]}
    assert "a2" in command("agent", "list").out
    assert "only a person rolls it back" in command("agent", "show", "a2").out


@pytest.mark.parametrize("isolation", ["worktree", "copy"])
def test_a_folder_of_its_own_is_made(command: Command, repo: GitRepo, isolation: str) -> None:
    """A worktree or copy lies elsewhere and holds the same files; the person's folder stays as it was."""
    before = repo.snapshot_everything(without=[b".git/worktrees/"])
    added = command.json("agent", "add", "a2", f"--isolation={isolation}")
    path = Path(added["trees"][0]["path"])
    assert (path / "README.md").read_bytes() == repo.read("README.md")
    assert not path.is_relative_to(repo.path)
    assert added["guarded"] is False
    assert before.changes(repo.snapshot_everything(without=[b".git/worktrees/"])) == []


def test_an_existing_folder_can_be_named(command: Command, repo: GitRepo, tmp_path: Path) -> None:
    """``--path`` takes a worktree that is there already."""
    repo.git("worktree", "add", "-q", str(tmp_path / "tree"))
    added = command.json("agent", "add", "a2", "--isolation=worktree", f"--path={tmp_path / 'tree'}")
    assert added["trees"][0]["path"] == os.path.realpath(tmp_path / "tree")


def test_an_agent_has_several_repositories(tmp_path: Path) -> None:
    """``--repo`` is given once for each; a checkpoint holds them all."""
    for name in ("one", "two"):
        GitRepo.init(tmp_path / name).commit()
    command = Command(tmp_path, {})
    added = command.json("agent", "add", "a2", "--repo=one", "--repo", "two")
    assert [tree["repo"] for tree in added["trees"]] == ["one", "two"]
    command("agent", "checkpoint", "--agent=a2")
    listed = command("log").out.splitlines()
    assert listed[0].split() == ["CHECKPOINT", "AGE", "REASON", "TURN", "FILES", "REPOS"]
    assert listed[1].endswith("one two")


def test_children_and_parents_are_shown(command: Command) -> None:
    """``--parent`` must be an agent."""
    command("agent", "add", "a2")
    command("agent", "add", "a3", "--parent=a2")
    assert command.json("agent", "show", "a2")["children"] == ["a3"]
    command.fails("not_found.agent", 3, "agent", "add", "a4", "--parent=nobody")


def test_archiving_is_final(command: Command, turns: Story) -> None:
    """No turn, no checkpoint and no rollback after that; the checkpoints stay listed."""
    assert command.json("agent", "archive", "a5")["state"] == "archived"
    command.fails("conflict.invalid_transition", 5, "turn", "begin", "--agent=a5")
    command.fails("conflict.invalid_transition", 5, "agent", "checkpoint", "--agent=a5")
    dry = ("agent", "rollback", "--agent=a5", "--checkpoint=k1", "--restore=files", "--dry-run")
    command.fails("conflict.invalid_transition", 5, *dry)
    assert len(command.json("agent", "checkpoints", "--agent=a5")["checkpoints"]) == 3


def test_what_cannot_be_an_agent_is_refused(
    command: Command, repo: GitRepo, tmp_path: Path, home: Path
) -> None:
    """A bad id, one that exists, folders that are no repository of their own, and places too broad to be meant."""
    (repo.path / "sub").mkdir()
    GitRepo.init(repo.path / "bare.git", "--bare")
    fails = command.fails
    fails("invalid_params.agent", 2, "agent", "add", "A2")
    fails("invalid_params.agent", 2, "agent", "add", "../a2")
    fails("invalid_params.agent", 2, "agent", "show")
    fails("invalid_params.isolation", 2, "agent", "add", "a2", "--isolation=prison")
    fails("invalid_params.repo", 2, "agent", "add", "a2", "--repo=missing")
    fails("invalid_params.repo", 2, "agent", "add", "a2", "--repo=../..")
    fails("invalid_params.path", 2, "agent", "add", "a2", "--path=elsewhere")
    for name in ("sub", "bare.git"):
        error = command("--json", "agent", "add", "a2", f"--repo={name}", code=2).error()
        assert error["code"] == "invalid_params.repo", error
    fails("invalid_params.repo", 2, "agent", "add", "a2", b"--repo=caf\xe9")
    command("agent", "add", "a2")
    fails("conflict.agent_exists", 5, "agent", "add", "a2")
    GitRepo.init(home)
    at_home = Command(home, {})
    at_home.fails("invalid_params.repo", 2, "agent", "add", "a2")
    at_home("agent", "add", "a2", "--force")
