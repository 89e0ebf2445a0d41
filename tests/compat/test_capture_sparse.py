"""Sparse checkouts, with a whole index and with a sparse one: what isn't there keeps the index's content, and nothing is unpacked."""

from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree
from support.git_repo import GitRepo

FOLDERS = ("app", "docs", "lib")


@pytest.fixture(params=["whole", "sparse"])
def repo(tmp_path: Path, request: pytest.FixtureRequest) -> GitRepo:
    """A repository of which only ``app`` is checked out, with 120 files elsewhere."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("README.md", "# a project\n")
    for folder in FOLDERS:
        for number in range(60):
            repo.write(f"{folder}/part{number % 3}/{number}.txt", f"{folder} {number}\n")
    repo.commit("first")
    index = "--sparse-index" if request.param == "sparse" else "--no-sparse-index"
    repo.git("sparse-checkout", "set", "--cone", index, "app")
    assert not repo.exists("docs")
    repo.settle()
    return repo


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


@pytest.mark.contract("V-119")
def test_what_is_not_checked_out_keeps_the_indexs_content(repo: GitRepo, captures: Captures) -> None:
    """The tree has every file, the record has a line for each folder, and the folders are still not there."""
    repo.write("app/part0/0.txt", "edited\n")
    repo.delete("app/part1/1.txt")
    repo.write("app/new.txt", "x\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert len(repo.ls_tree(shot.commit)) == 181
    assert shot.row["skipped"] == [
        {"path": "docs/", "bytes": 0, "reason": "skip_worktree"},
        {"path": "lib/", "bytes": 0, "reason": "skip_worktree"},
    ]
    assert not repo.exists("docs")
    assert not repo.exists("lib")
    assert captures.take().reused


def test_new_file_outside_the_patterns_is_saved(repo: GitRepo, captures: Captures) -> None:
    """git refuses to add a new file outside the sparse patterns; it is somebody's work, so it is saved like any other."""
    repo.write("docs/part0/new.txt", "x\n")
    repo.write("elsewhere/new.txt", "x\n")
    shot = captures.take()
    found = repo.ls_tree(shot.commit)
    assert {b"docs/part0/new.txt", b"elsewhere/new.txt", b"docs/part0/0.txt"} <= found.keys()
    assert len(found) == 183
    assert_same_tree(repo, shot, sparse=True)


def test_tracked_file_outside_the_patterns_keeps_the_indexs_content(
    repo: GitRepo, captures: Captures
) -> None:
    """A tracked file that was written where nothing is checked out stays as git's own add leaves it: the index's content."""
    repo.write("docs/part0/0.txt", "written by hand\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.text("show", f"{shot.commit}:docs/part0/0.txt") == "docs 0"
    assert any(path in b"docs/part0/0.txt" for path in shot.skipped)


@pytest.mark.parametrize("cone", [True, False], ids=["cone", "patterns"])
def test_attributes_that_are_not_checked_out(tmp_path: Path, *, cone: bool) -> None:
    """A ``.gitattributes`` that isn't checked out rules a new file beside it from the index, but not outside a cone: as git has it."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("app/main.txt", "x\n")
    repo.write("docs/.gitattributes", "*.txt text\n")
    repo.write("docs/a.txt", "x\n")
    repo.commit("first")
    patterns = ["--cone", "--sparse-index", "app"] if cone else ["--no-cone", "--no-sparse-index", "/app/"]
    repo.git("sparse-checkout", "set", *patterns)
    repo.write("docs/new.txt", "one\r\ntwo\r\n")
    shot = Captures(repo.path, tmp_path / "state").take()
    stored = b"one\r\ntwo\r\n" if cone else b"one\ntwo\n"
    assert repo.git("show", f"{shot.commit}:docs/new.txt") == stored
    assert_same_tree(repo, shot, sparse=True)


def test_folder_that_is_left_to_git_in_part_is_named_by_its_files(repo: GitRepo, captures: Captures) -> None:
    """Where some file of a folder is checked out, the others are named one by one, so that the one isn't covered."""
    repo.git("sparse-checkout", "set", "--no-cone", "--no-sparse-index", "/app/", "/docs/part0/0.txt")
    repo.write("docs/part0/0.txt", "edited\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.text("show", f"{shot.commit}:docs/part0/0.txt") == "edited"
    assert {b"lib/", b"docs/part1/", b"docs/part0/3.txt"} <= shot.skipped.keys()
    assert not {b"docs/", b"docs/part0/"} & shot.skipped.keys()
