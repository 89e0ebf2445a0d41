"""Any byte in a name, paths as deep as the filesystem has them, and names that git itself refuses."""

import contextlib
import os
import shutil
import subprocess
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree
from support.children import Child
from support.git_repo import GitRepo

NAMES = [
    b"with blank",
    b" leading",
    b"trailing ",
    b"new\nline",
    b"tab\tin",
    b'quote"in',
    b"quote'in",
    b"-dash",
    b"--",
    b"-rf",
    b":(exclude)x",
    b":/x",
    b":!x",
    b"*",
    b"?.txt",
    b"[a]",
    b"#hash",
    b"!bang",
    b"~tilde",
    b"back\\slash",
    b"\xe9",
    b"\xff\xfe",
    b"caf\xc3\xa9",
    b"cafe\xcc\x81",
    b"\xe2\x80\x8b",
    b"\x01\x7f",
    b"\xed\xb3\xa9",
    b".gitx",
    b"..x",
    b"...",
    b".git.txt",
    b"git~2",
    b"CON",
    b"a:b",
    b"x" * 255,
]


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("plain.txt", "plain\n")
    repo.commit("first")
    repo.settle()
    return repo


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


@pytest.mark.contract("V-147")
@pytest.mark.parametrize("rule", ["", "* text=auto\n"], ids=["plain", "converted"])
def test_any_name(repo: GitRepo, captures: Captures, rule: str) -> None:
    """Blanks, newlines, quotes, dashes, pathspec magic and bytes that aren't UTF-8: tracked, new, edited, deleted, in folders."""
    repo.write(".gitattributes", rule)
    for name in NAMES:
        repo.write(b"tracked/" + name, b"x\n")
        repo.write(b"gone/" + name, b"x\n")
        repo.write(b"folders/" + name + b"/file", b"x\n")
    repo.commit("names")
    repo.settle()
    for name in NAMES:
        repo.write(name, b"new\r\n")
        repo.write(b"tracked/" + name, b"edited\r\n")
        repo.delete(b"gone/" + name)
        repo.link(b"links-" + name[:200], name)
        repo.write(b"folders/" + name + b"/other", b"x\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    found = repo.ls_tree(shot.commit)
    assert all(name in found and b"tracked/" + name in found for name in NAMES)
    assert not any(path.startswith(b"gone/") for path in found)


@pytest.mark.contract("V-137")
def test_big_file_with_a_pattern_for_a_name(repo: GitRepo, tmp_path: Path) -> None:
    """A file left out for its size leaves out nothing else, however much its name looks like a pattern."""
    captures = Captures(repo.path, tmp_path / "limited", max_file_bytes=100)
    big = [b"*.txt", b":(top)x", b":!y", b"[ab].txt"]
    for name in big:
        repo.write(name, b"x" * 101)
    for small in ("a.txt", "b.txt", "x", "y", "!y"):
        repo.write(small, "small\n")
    shot = captures.take()
    assert shot.skipped == dict.fromkeys(big, "too_big")
    assert_same_tree(repo, shot, skip=big)


@pytest.mark.parametrize("depth", [300, 1900])
def test_very_deep_paths(repo: GitRepo, captures: Captures, depth: int) -> None:
    """A path with as many folders as git can take is saved, again when it is tracked, changed and deleted; nothing recurses."""
    deep = "d/" * depth
    path = os.fsencode(repo.path)
    _write_deep(path, deep, "one\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    repo.git("add", "-A")
    repo.git("commit", "-q", "-m", "deep")
    _write_deep(path, deep, "two\n")
    again = captures.take()
    assert_same_tree(repo, again)
    assert again.tree != shot.tree
    diff = captures.agent.checkpoint_diff(shot.id, again.id)
    assert len(diff.files) == 1
    subprocess.run(["rm", "-r", "d"], cwd=path, check=True)
    assert_same_tree(repo, captures.take())


def _write_deep(root: bytes, folders: str, text: str) -> None:
    """Write a file deeper than any path that can be named from outside: step by step."""
    here = os.open(root, os.O_RDONLY)
    for name in folders.split("/")[:-1]:
        with contextlib.suppress(FileExistsError):
            os.mkdir(name, dir_fd=here)
        there = os.open(name, os.O_RDONLY, dir_fd=here)
        os.close(here)
        here = there
    descriptor = os.open("f", os.O_WRONLY | os.O_CREAT | os.O_TRUNC, dir_fd=here)
    os.write(descriptor, text.encode())
    os.close(descriptor)
    os.close(here)


# --- names that git refuses ----------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", [".GIT/x", "sub/.Git/x", "git~1", "sub/GIT~1/x", ".git ", ".git. .", "a\\.git"]
)
def test_name_that_some_filesystem_takes_for_git_is_left_out(
    repo: GitRepo, captures: Captures, name: str
) -> None:
    """git's add fails as a whole on such a name ("invalid path"); on purpose it is left out, by name, and the rest is saved."""
    repo.write(name, "x\n")
    repo.write("plain.txt", "edited\n")
    with pytest.raises(AssertionError, match="invalid path"):
        repo.tree_of_add_all()
    shot = captures.take()
    assert shot.skipped == {os.fsencode(name): "invalid_path"}
    assert_same_tree(repo, shot, skip=[name])


def test_gitmodules_that_is_a_link_is_left_out(repo: GitRepo, captures: Captures) -> None:
    """A symbolic link in place of ``.gitmodules`` is refused by git, and left out by us."""
    repo.link(".gitmodules", "plain.txt")
    with pytest.raises(AssertionError, match="invalid path"):
        repo.tree_of_add_all()
    shot = captures.take()
    assert shot.skipped == {b".gitmodules": "invalid_path"}
    assert_same_tree(repo, shot, skip=[".gitmodules"])


# --- what can't be looked at ---------------------------------------------------------------------------------------


@pytest.mark.skipif(os.getuid() != 0, reason="only root can become somebody who may not read")
def test_unreadable_files_and_folders_are_left_out(repo: GitRepo, tmp_path: Path) -> None:
    """One stray file of another user's must not cost every other file: it is left out by name, a closed folder as a whole.

    git's add fails on an unreadable file, and passes a closed folder over with no more than a warning.
    """
    place = Path(f"/tmp/turnback-unreadable-{os.getpid()}")
    shutil.copytree(repo.path, place / "repo", symlinks=True)
    try:
        mine = GitRepo(place / "repo")
        mine.write("closed/tracked.txt", "x\n")
        mine.write("listed/tracked.txt", "x\n")
        mine.write("secret.txt", "one\n")
        mine.commit("more")
        mine.write("closed/new.txt", "x\n")
        mine.write("listed/new.txt", "x\n")
        mine.write("untracked/closed/x.txt", "x\n")
        mine.write("secret.txt", "two\n")
        mine.write("new.txt", "new\n")
        mine.write("hidden.txt", "new\n")
        for name in ("home", "import"):
            (place / name).mkdir()
        subprocess.run(["chown", "-R", "nobody", str(place)], check=True)
        for name in ("secret.txt", "hidden.txt", "closed", "untracked/closed"):
            os.chown(mine.at(name), 0, 0)
            mine.at(name).chmod(0o600)
        mine.at("listed").chmod(0o444)
        program = AS_NOBODY + "hear()"
        with Child(program, str(place), str(repo.path), str(tmp_path / "state")) as child:
            assert child.hear() == "saved"
            tree, *skipped = child.hear().split()
            child.say("")
        assert skipped == [
            "closed/=unreadable",
            "hidden.txt=unreadable",
            "listed/=unreadable",
            "secret.txt=unreadable",
            "untracked/closed/=unreadable",
        ]
        names = ["closed", "listed", "untracked/closed", "secret.txt", "hidden.txt"]
        subprocess.run(["chown", "-R", "root", str(place)], check=True)
        assert tree == mine.tree_of_add_all(names)
    finally:
        shutil.rmtree(place)


AS_NOBODY = """
import pwd
os.environ["HOME"] = sys.argv[1] + "/import"  # where libgit2 looks for configuration from now on
from pathlib import Path
from support.captures import Captures
Captures(Path(sys.argv[2]), Path(sys.argv[3])).take()  # what is imported late is imported while it can be read
os.environ["HOME"] = sys.argv[1] + "/home"
os.setgroups([])
os.setgid(pwd.getpwnam("nobody").pw_gid)
os.setuid(pwd.getpwnam("nobody").pw_uid)
shot = Captures(Path(sys.argv[1]) / "repo", Path(sys.argv[1]) / "state").take()
say("saved")
say(" ".join([shot.tree, *(os.fsdecode(path) + "=" + reason for path, reason in shot.skipped.items())]))
"""
