"""Indexes of every form and flag: the checkpoint's tree is still the recipe's, and the index stays what it is."""

from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree, populated
from support.git_repo import GitRepo

Form = Callable[[GitRepo], None]


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def edit_all_over(repo: GitRepo) -> None:
    """A change, a deletion and a new file, in the root and beneath it."""
    repo.write("src/main.py", "print('two')\n")
    repo.delete("src/lib/util.py")
    repo.write("src/lib/new.py", "NEW = 1\n")
    repo.write("top.txt", "x\n")


# --- the file's formats --------------------------------------------------------------------------------------------

FORMS: list[Form] = []


def form(make: Form) -> Form:
    """Put a form into the catalogue."""
    FORMS.append(make)
    return make


@form
def version_2(repo: GitRepo) -> None:
    repo.git("update-index", "--index-version", "2")


@form
def version_4(repo: GitRepo) -> None:
    repo.git("update-index", "--index-version", "4")


@form
def without_cached_trees(repo: GitRepo) -> None:
    listed = repo.git("ls-files", "-s", "-z")
    (repo.git_dir / "index").unlink()
    repo.git("update-index", "-z", "--index-info", data=listed)
    assert b"TREE" not in (repo.git_dir / "index").read_bytes()


@form
def with_cached_trees_partly_stale(repo: GitRepo) -> None:
    repo.write("src/lib/staged.py", "STAGED = 1\n")
    repo.git("add", "src/lib/staged.py")


@form
def split(repo: GitRepo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("run.sh", "#!/bin/sh\nexit 1\n")
    repo.git("-c", "splitIndex.maxPercentChange=100", "add", "run.sh")
    repo.git("-c", "splitIndex.maxPercentChange=100", "rm", "-q", "--cached", "empty")
    assert list(repo.git_dir.glob("sharedindex.*"))


@form
def untracked_cache(repo: GitRepo) -> None:
    repo.git("update-index", "--force-untracked-cache")
    repo.git("-c", "core.untrackedCache=true", "status")
    assert b"UNTR" in (repo.git_dir / "index").read_bytes()


@form
def without_checksum(repo: GitRepo) -> None:
    repo.git("-c", "index.skipHash=true", "update-index", "--index-version", "4")


@form
def with_offset_tables(repo: GitRepo) -> None:
    for number in range(300):
        repo.write(f"many/{number}.txt", f"{number}\n")
    repo.git("-c", "index.threads=2", "-c", "index.recordOffsetTable=true", "add", "many")


@form
def after_a_resolved_merge(repo: GitRepo) -> None:
    diverge(repo)
    repo.git("merge", "-q", "side", check=False)
    repo.write("README.md", "resolved\n")
    repo.git("add", "README.md")


@pytest.mark.contract("V-003")
@pytest.mark.parametrize("make", FORMS, ids=lambda make: make.__name__)
def test_every_form_of_index(make: Form, repo: GitRepo, captures: Captures) -> None:
    """However the index is written, the tree is the recipe's, and not one byte of the index has changed."""
    make(repo)
    edit_all_over(repo)
    before = (repo.git_dir / "index").read_bytes()
    assert_same_tree(repo, captures.take())
    assert (repo.git_dir / "index").read_bytes() == before
    assert captures.take().reused


def test_cached_tree_whose_object_is_gone_is_written_again(repo: GitRepo, captures: Captures) -> None:
    """The index may know the id of a tree that a ``git gc`` has removed: it is made anew."""
    repo.write("src/lib/staged.py", "STAGED = 1\n")
    repo.git("add", "-A")
    repo.settle()
    tree = repo.text("write-tree")
    (repo.git_dir / "objects" / tree[:2] / tree[2:]).unlink()
    shot = captures.take()
    assert shot.tree == tree
    assert repo.git("cat-file", "-t", tree) == b"tree\n"


# --- flags ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-118", "V-135")
def test_assume_unchanged_is_not_believed(repo: GitRepo, captures: Captures) -> None:
    """A file that git was asked not to look at is saved as it is, and the flag stays in the index."""
    repo.git("update-index", "--assume-unchanged", "src/main.py", "README.md", "run.sh")
    repo.write("src/main.py", "print('two')\n")
    repo.delete("README.md")
    repo.at("run.sh").chmod(0o644)
    flagged = repo.git("ls-files", "-v")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.text("show", f"{shot.commit}:src/main.py") == "print('two')"
    assert b"README.md" not in repo.ls_tree(shot.commit)
    assert repo.git("ls-files", "-v") == flagged


@pytest.mark.contract("V-119", "V-157", "A-24")
def test_skip_worktree_keeps_the_indexs_content(repo: GitRepo, captures: Captures) -> None:
    """What git was told to leave alone keeps the index's content, edited or deleted, and is named with the blob's size."""
    repo.git("update-index", "--skip-worktree", "src/main.py", "README.md")
    repo.write("src/main.py", "print('local settings')\n")
    repo.delete("README.md")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.text("show", f"{shot.commit}:src/main.py") == "print('one')"
    assert shot.row["skipped"] == [
        {"path": "README.md", "bytes": 12, "reason": "skip_worktree"},
        {"path": "src/main.py", "bytes": 13, "reason": "skip_worktree"},
    ]


@pytest.mark.contract("X-44")
@pytest.mark.parametrize("there", [True, False], ids=["there", "deleted"])
def test_intent_to_add(repo: GitRepo, captures: Captures, *, there: bool) -> None:
    """A path that was only announced is saved with its content; without a file there is nothing of it."""
    repo.write("announced/file.txt", "x\n", mode=0o755)
    repo.write("announced/empty.txt", "")
    repo.git("add", "-N", "announced")
    if not there:
        repo.delete("announced")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert (b"announced/file.txt" in repo.ls_tree(shot.commit)) == there


# --- conflicts -----------------------------------------------------------------------------------------------------


def diverge(repo: GitRepo) -> None:
    """Two branches that can't be merged by themselves: both edit, each deletes what the other edits, both add."""
    repo.write("both-deleted-here.txt", "base\n")
    repo.write("both-deleted-there.txt", "base\n")
    repo.write("mode.sh", "base\n")
    repo.commit("base")
    repo.git("checkout", "-q", "-b", "side")
    repo.write("README.md", "theirs\n")
    repo.delete("both-deleted-there.txt")
    repo.write("both-deleted-here.txt", "theirs\n")
    repo.write("added.txt", "theirs\n")
    repo.write("mode.sh", "theirs\n", mode=0o755)
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "ours\n")
    repo.delete("both-deleted-here.txt")
    repo.write("both-deleted-there.txt", "ours\n")
    repo.write("added.txt", "ours\n")
    repo.write("mode.sh", "ours\n")
    repo.commit("ours")
    repo.settle()


@pytest.mark.contract("V-121")
def test_in_the_middle_of_a_merge(repo: GitRepo, captures: Captures) -> None:
    """Conflicts are saved as the files stand, with their markers; the merge goes on as if nothing had been."""
    diverge(repo)
    repo.git("merge", "-q", "side", check=False)
    assert repo.git("ls-files", "-u")
    status = repo.git("status", "--porcelain=v2", "-z")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert b"<<<<<<<" in repo.git("show", f"{shot.commit}:README.md")
    assert repo.git("status", "--porcelain=v2", "-z") == status
    assert (repo.git_dir / "MERGE_HEAD").exists()
    repo.git("checkout", "-q", "--theirs", "README.md", "added.txt")
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "merged")


def test_conflict_resolved_by_deleting(repo: GitRepo, captures: Captures) -> None:
    """A conflict whose file was taken away is a deletion."""
    diverge(repo)
    repo.git("merge", "-q", "side", check=False)
    for name in ("README.md", "added.txt", "both-deleted-here.txt"):
        repo.delete(name)
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert b"README.md" not in repo.ls_tree(shot.commit)


def test_conflict_takes_its_mode_from_our_side(repo: GitRepo, captures: Captures) -> None:
    """Where the filesystem keeps no exec bit, a conflicted file has the mode of our side, as git has it."""
    diverge(repo)
    repo.git("config", "core.fileMode", "false")
    repo.git("merge", "-q", "side", check=False)
    assert_same_tree(repo, captures.take())


def test_conflict_of_a_file_with_a_folder(repo: GitRepo, captures: Captures) -> None:
    """One side made a folder of a file that the other edited."""
    repo.git("checkout", "-q", "-b", "side")
    repo.delete("README.md")
    repo.write("README.md/part", "theirs\n")
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    repo.git("merge", "-q", "side", check=False)
    assert_same_tree(repo, captures.take())


def test_conflict_of_a_stash(repo: GitRepo, captures: Captures) -> None:
    """A stash that didn't go back cleanly is saved as it stands; the stash itself stays."""
    repo.write("README.md", "stashed\n")
    repo.git("stash", "-q")
    repo.write("README.md", "meanwhile\n")
    repo.commit("meanwhile")
    repo.git("stash", "pop", check=False)
    assert repo.git("ls-files", "-u")
    stash = repo.text("rev-parse", "stash")
    assert_same_tree(repo, captures.take())
    assert repo.text("rev-parse", "stash") == stash
