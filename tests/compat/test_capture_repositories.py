"""Repositories of every shape: without commits, detached, linked worktrees, copies, several at once."""

import shutil
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree, populated
from support.git_repo import GitRepo


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


@pytest.mark.contract("V-134", "V-140", "V-146")
def test_repository_without_a_commit(tmp_path: Path) -> None:
    """Without a commit and without an index there is a checkpoint all the same: it has no parent, and HEAD stays unborn."""
    repo = GitRepo.init(tmp_path / "repo")
    assert not (repo.git_dir / "index").exists()
    repo.write("first.txt", "x\n")
    shot = Captures(repo.path, tmp_path / "state").take()
    assert_same_tree(repo, shot)
    assert repo.text("rev-list", "--parents", "--max-count=1", shot.commit) == shot.commit
    assert shot.row["head"] is None
    assert shot.row["branch"] == "main"
    assert repo.text("symbolic-ref", "HEAD") == "refs/heads/main"
    assert not (repo.git_dir / "index").exists()


def test_repository_with_nothing_in_it(tmp_path: Path) -> None:
    """Nothing at all is the empty tree."""
    repo = GitRepo.init(tmp_path / "repo")
    assert Captures(repo.path, tmp_path / "state").take().tree == "4b825dc642cb6eb9a060e54bf8d69288fbee4904"


def test_repository_without_a_commit_but_with_an_index(tmp_path: Path) -> None:
    """What was staged before the first commit counts like anything that is tracked."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("a", "one\n")
    repo.write("b", "one\n")
    repo.git("add", "-A")
    repo.write("a", "two\n")
    repo.delete("b")
    assert_same_tree(repo, Captures(repo.path, tmp_path / "state").take())


@pytest.mark.contract("V-156")
def test_detached_head(repo: GitRepo, tmp_path: Path) -> None:
    """With a detached HEAD the record has the commit and no branch."""
    repo.git("checkout", "-q", "--detach")
    repo.write("src/main.py", "print('two')\n")
    shot = Captures(repo.path, tmp_path / "state").take()
    assert_same_tree(repo, shot)
    assert shot.row["head"] == repo.text("rev-parse", "HEAD")
    assert "branch" not in shot.row


@pytest.mark.contract("V-144", "V-162")
def test_linked_worktree(repo: GitRepo, tmp_path: Path) -> None:
    """A linked worktree is a tree of its own: its index, its HEAD, nothing of its sibling; the ref is in the shared store."""
    repo.git("worktree", "add", "-q", "-b", "side", str(tmp_path / "side"))
    side = GitRepo(tmp_path / "side")
    repo.write("only-in-main.txt", "x\n")
    side.write("only-in-side.txt", "x\n")
    shot = Captures(side.path, tmp_path / "state").take()
    assert_same_tree(side, shot)
    assert shot.row["branch"] == "side"
    assert b"only-in-main.txt" not in side.ls_tree(shot.commit)
    assert repo.refs()["refs/venom/checkpoints/a1/1"] == shot.commit


def test_linked_worktree_of_a_bare_repository(repo: GitRepo, tmp_path: Path) -> None:
    """A worktree whose repository is bare has files to save like any other."""
    repo.git("clone", "-q", "--bare", str(repo.path), str(tmp_path / "bare.git"))
    GitRepo(tmp_path / "bare.git").git("worktree", "add", "-q", str(tmp_path / "side"))
    side = GitRepo(tmp_path / "side")
    side.write("new.txt", "x\n")
    assert_same_tree(side, Captures(side.path, tmp_path / "state").take())


def test_copied_repository(repo: GitRepo, tmp_path: Path) -> None:
    """A copy has other inodes and times than its index says, so every file is read; the tree is the same."""
    repo.write("src/main.py", "print('two')\n")
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    copy = GitRepo(tmp_path / "copy")
    shot = Captures(copy.path, tmp_path / "state").take()
    assert_same_tree(copy, shot)
    assert shot.tree == repo.tree_of_add_all()


@pytest.mark.contract("V-031", "V-122", "V-155")
def test_several_repositories(tmp_path: Path) -> None:
    """Every repository in scope is saved by itself, and what lies beside them is not."""
    workspace = tmp_path / "workspace"
    first, second = populated(workspace / "first"), populated(workspace / "second")
    first.write("one.txt", "x\n")
    second.delete("README.md")
    (workspace / "beside.txt").write_text("nobody's\n")
    captures = Captures(workspace, tmp_path / "state", repos=["second", "first"])
    shot = captures.take(repo="first")
    assert [row["repo"] for row in shot.record["repos"]] == ["first", "second"]
    assert_same_tree(first, shot)
    assert_same_tree(second, captures.shot(shot.id, repo="second"))
    assert shot.row["path"] == str(first.path)
