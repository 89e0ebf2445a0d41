"""Submodules and repositories inside the tree: the commit that they are at is recorded, nothing inside is, and dirt is told."""

import os
import subprocess
from pathlib import Path

import pytest

from support.captures import Captures, Shot, assert_same_tree
from support.git_repo import GitRepo

FILE_PROTOCOL = ("-c", "protocol.file.allow=always")


@pytest.fixture
def library(tmp_path: Path) -> GitRepo:
    """What becomes a submodule."""
    library = GitRepo.init(tmp_path / "library")
    library.write("lib.py", "LIB = 1\n")
    library.commit("library")
    return library


@pytest.fixture
def repo(tmp_path: Path, library: GitRepo) -> GitRepo:
    """A repository with a submodule ``sub`` and a file."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("main.py", "MAIN = 1\n")
    repo.git(*FILE_PROTOCOL, "submodule", "-q", "add", str(library.path), "sub")
    repo.commit("first")
    repo.settle()
    return repo


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def sub(repo: GitRepo) -> GitRepo:
    return GitRepo(repo.path / "sub")


def clone(repo: GitRepo, library: GitRepo, name: str) -> GitRepo:
    """A clone inside the tree that nobody registered."""
    repo.git("clone", "-q", str(library.path), name)
    return GitRepo(repo.path / name)


def mode_of(repo: GitRepo, shot: Shot, path: bytes) -> str | None:
    return repo.ls_tree(shot.commit).get(path, (None, ""))[0]


# --- submodules ----------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-112")
def test_clean_submodule(repo: GitRepo, library: GitRepo, captures: Captures) -> None:
    """A clean submodule is a gitlink at its commit, and nothing inside it is in the tree."""
    shot = captures.take()
    assert_same_tree(repo, shot)
    commit = library.text("rev-parse", "HEAD")
    assert shot.submodules == {b"sub": (commit, False)}
    assert repo.ls_tree(shot.commit)[b"sub"] == ("160000", commit)
    assert b"sub/lib.py" not in repo.ls_tree(shot.commit)


@pytest.mark.contract("V-124", "V-157", "A-23")
@pytest.mark.parametrize("how", ["edited", "staged", "untracked", "deleted"])
def test_dirty_submodule(repo: GitRepo, captures: Captures, how: str) -> None:
    """Work inside a submodule isn't saved, so it is told: edited, staged, new or deleted files make it dirty."""
    before = captures.take()
    inside = sub(repo)
    if how == "untracked":
        inside.write("new.py", "x\n")
        repo.git("config", "status.showUntrackedFiles", "no")
        inside.git("config", "status.showUntrackedFiles", "no")
    elif how == "deleted":
        inside.delete("lib.py")
    else:
        inside.write("lib.py", "LIB = 2\n")
        if how == "staged":
            inside.git("add", "-A")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.tree == before.tree
    captures.workspace.add_agent("a2").checkpoint()
    record = captures.workspace._context.state().agent("a2").checkpoints["k1"]
    assert [item["dirty"] for item in record["repos"][0]["submodules"]] == [True]


def test_submodule_that_is_dirty_deeper_down(repo: GitRepo, library: GitRepo, captures: Captures) -> None:
    """A submodule of a submodule counts, whatever the configuration says about ignoring it."""
    inside = sub(repo)
    inside.git(*FILE_PROTOCOL, "submodule", "-q", "add", str(library.path), "deep")
    inside.commit("deep")
    repo.commit("deeper")
    inside.git("config", "submodule.deep.ignore", "all")
    inside.write("deep/lib.py", "LIB = 3\n")
    assert captures.take().submodules[b"sub"][1]


@pytest.mark.contract("V-112", "V-124")
@pytest.mark.parametrize("ignore", [None, "all"])
def test_submodule_that_moved(repo: GitRepo, captures: Captures, ignore: str | None) -> None:
    """A submodule at another commit is recorded there, and told as dirty since it isn't where the index has it; ``ignore`` is for status."""
    if ignore:
        repo.git("config", "submodule.sub.ignore", ignore)
        repo.git("config", "diff.ignoreSubmodules", ignore)
    inside = sub(repo)
    inside.write("lib.py", "LIB = 2\n")
    commit = inside.commit("moved")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.submodules == {b"sub": (commit, True)}
    assert repo.ls_tree(shot.commit)[b"sub"] == ("160000", commit)


def test_submodule_moved_and_staged(repo: GitRepo, captures: Captures) -> None:
    """Once the new commit is staged there is nothing dirty about it."""
    inside = sub(repo)
    inside.write("lib.py", "LIB = 2\n")
    commit = inside.commit("moved")
    repo.git("add", "sub")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.submodules == {b"sub": (commit, False)}


@pytest.mark.parametrize("how", ["deinit", "never", "emptied", "no_git_file"])
def test_submodule_without_a_checkout(repo: GitRepo, captures: Captures, tmp_path: Path, how: str) -> None:
    """A submodule that isn't checked out stays as the index has it."""
    if how == "deinit":
        repo.git("submodule", "-q", "deinit", "-f", "sub")
    elif how == "never":
        repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
        repo = GitRepo(tmp_path / "clone")
        captures = Captures(repo.path, tmp_path / "state2")
    elif how == "emptied":
        repo.delete("sub")
        repo.at("sub").mkdir()
    else:
        repo.delete("sub/.git")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert mode_of(repo, shot, b"sub") == "160000"
    assert b"sub/lib.py" not in repo.ls_tree(shot.commit)


@pytest.mark.parametrize("how", ["folder_gone", "git_rm", "file", "link", "plain_files_after_rm_cached"])
def test_submodule_that_was_replaced(repo: GitRepo, captures: Captures, how: str) -> None:
    """A submodule that is gone, or something else now, is what it is now."""
    if how == "git_rm":
        repo.git("rm", "-q", "-f", "sub")
    elif how == "plain_files_after_rm_cached":
        repo.git("rm", "-q", "--cached", "sub")
        repo.delete("sub/.git")
    else:
        repo.delete("sub")
        if how == "file":
            repo.write("sub", "a file now\n")
        elif how == "link":
            repo.link("sub", "main.py")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert mode_of(repo, shot, b"sub") == {"file": "100644", "link": "120000"}.get(how)


def test_submodule_with_packed_refs_and_an_old_git_folder(
    repo: GitRepo, library: GitRepo, captures: Captures
) -> None:
    """The commit is found through packed refs, and in a ``.git`` folder as well as through a ``.git`` file."""
    library.git("checkout", "-q", "-b", "other")
    inside = clone(repo, library, "old")
    inside.git("pack-refs", "--all")
    assert not (inside.git_dir / "refs/heads/other").exists()
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.submodules[b"old"] == (library.text("rev-parse", "HEAD"), False)


# --- repositories that nobody registered ---------------------------------------------------------------------------


@pytest.mark.contract("V-113", "V-157")
def test_nested_repository(repo: GitRepo, library: GitRepo, captures: Captures) -> None:
    """A clone inside the tree is a gitlink like a submodule, clean or dirty; an ignored one is nothing."""
    clone(repo, library, "vendor/clean")
    clone(repo, library, "vendor/dirty").write("new.py", "x\n")
    clone(repo, library, "ignored")
    repo.write(".gitignore", "/ignored\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    commit = library.text("rev-parse", "HEAD")
    assert shot.submodules == {
        b"sub": (commit, False),
        b"vendor/clean": (commit, False),
        b"vendor/dirty": (commit, True),
    }
    assert b"vendor/clean/lib.py" not in repo.ls_tree(shot.commit)


def test_linked_worktree_inside_the_tree(repo: GitRepo, captures: Captures) -> None:
    """A worktree of the same repository inside its own tree is a boundary too."""
    repo.git("worktree", "add", "-q", "--detach", "trees/side")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.submodules[b"trees/side"] == (repo.text("rev-parse", "HEAD"), False)


def test_tracked_folder_that_became_a_repository(repo: GitRepo, captures: Captures) -> None:
    """A folder with tracked files stays a folder when somebody makes a repository in it."""
    repo.write("pkg/a.py", "x\n")
    repo.commit("pkg")
    GitRepo.init(repo.path / "pkg").commit("inside", add=False)
    repo.write("pkg/new.py", "x\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert b"pkg/new.py" in repo.ls_tree(shot.commit)


def test_file_that_became_a_repository(repo: GitRepo, library: GitRepo, captures: Captures) -> None:
    """A tracked file whose place a repository took is a gitlink."""
    repo.delete("main.py")
    clone(repo, library, "main.py")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert mode_of(repo, shot, b"main.py") == "160000"


@pytest.mark.parametrize("how", ["empty_folder", "junk_file", "dangling_file", "bare_inside", "pipe"])
def test_what_only_looks_like_a_repository(repo: GitRepo, captures: Captures, how: str) -> None:
    """An empty ``.git``, a junk one and a bare repository beside files are plain folders to git."""
    repo.write("odd/file.txt", "x\n")
    if how == "empty_folder":
        repo.at("odd/.git").mkdir()
    elif how == "junk_file":
        repo.write("odd/.git", "junk\n")
    elif how == "dangling_file":
        repo.write("odd/.git", "gitdir: ../nowhere\n")
    elif how == "bare_inside":
        GitRepo.init(repo.path / "odd/bare.git", "--bare")
    else:
        os.mkfifo(repo.at("odd/.git"))
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert b"odd/file.txt" in repo.ls_tree(shot.commit)


def test_repository_of_somebody_else(repo: GitRepo, library: GitRepo, captures: Captures) -> None:
    """Whose repository it is doesn't matter for the commit that it is at; git just can't say whether it is clean."""
    if os.getuid() != 0:
        pytest.skip("only root can give a folder away")
    inside = clone(repo, library, "theirs")
    subprocess.run(["chown", "-R", "nobody", str(inside.path)], check=True)
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert shot.submodules[b"theirs"] == (library.text("rev-parse", "HEAD"), True)


# --- where git refuses ---------------------------------------------------------------------------------------------


@pytest.mark.contract("X-10")
def test_repository_without_a_commit_is_left_out(repo: GitRepo, captures: Captures) -> None:
    """git's add fails on it as a whole ("does not have a commit checked out"); on purpose we leave it out, by name, and save the rest."""
    GitRepo.init(repo.path / "fresh").write("x.txt", "x\n")
    repo.write("main.py", "MAIN = 2\n")
    shot = captures.take()
    assert shot.skipped == {b"fresh": "nested_unborn"}
    assert shot.submodules[b"fresh"] == (None, True)
    assert_same_tree(repo, shot, skip=["fresh"])


@pytest.mark.parametrize("how", ["head_gone", "unborn"])
def test_submodule_that_cant_say_where_it_is(repo: GitRepo, captures: Captures, how: str) -> None:
    """git's add fails as a whole on a submodule whose HEAD leads nowhere; on purpose it just stays as the index has it."""
    if how == "head_gone":
        (repo.git_dir / "modules/sub/HEAD").unlink()
    else:
        sub(repo).git("checkout", "-q", "--orphan", "nowhere")
    repo.write("main.py", "MAIN = 2\n")
    shot = captures.take()
    assert_same_tree(repo, shot, skip=["sub"])
    assert mode_of(repo, shot, b"sub") == "160000"
    assert repo.git("show", f"{shot.commit}:main.py") == b"MAIN = 2\n"


def test_file_that_became_a_repository_without_a_commit(repo: GitRepo, captures: Captures) -> None:
    """In the place of a tracked file it is left out too, and the tree keeps what the index had."""
    repo.delete("main.py")
    GitRepo.init(repo.path / "main.py").write("x.txt", "x\n")
    shot = captures.take()
    assert shot.skipped == {b"main.py": "nested_unborn"}
    assert repo.git("show", f"{shot.commit}:main.py") == b"MAIN = 1\n"
    assert_same_tree(repo, shot, skip=["main.py"])
