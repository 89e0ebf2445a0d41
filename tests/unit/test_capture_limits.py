"""The limits of a capture: what is left out for its size, what fails the whole, and that both are about what really changed."""

import os
import shutil
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree, populated
from support.git_repo import GitRepo
from turnback.errors import Failed, TimedOut


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


def objects(repo: GitRepo) -> set[str]:
    """Every object of a repository."""
    rows = repo.text("cat-file", "--batch-all-objects", "--batch-check").splitlines()
    return {row.split(" ")[0] for row in rows}


# --- one file ------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-115", "V-117", "V-125", "V-157")
def test_big_file_is_left_out_and_the_rest_is_saved(repo: GitRepo, tmp_path: Path) -> None:
    """One stray dump doesn't cost the user every other file; the tree keeps what the index had for it, or nothing."""
    repo.write("tracked.bin", b"x" * 500)
    repo.commit("tracked")
    captures = Captures(repo.path, tmp_path / "state", max_file_bytes=1024)
    repo.write("tracked.bin", b"y" * 1025)
    repo.write("core.dump", b"z" * 5000)
    repo.write("exactly.bin", b"z" * 1024)
    repo.write("README.md", "edited\n")
    shot = captures.take()
    assert shot.row["skipped"] == [
        {"path": "core.dump", "bytes": 5000, "reason": "too_big"},
        {"path": "tracked.bin", "bytes": 1025, "reason": "too_big"},
    ]
    assert_same_tree(repo, shot, skip=["core.dump", "tracked.bin"])
    assert repo.git("show", f"{shot.commit}:tracked.bin") == b"x" * 500
    assert repo.git("show", f"{shot.commit}:README.md") == b"edited\n"
    assert captures.take().reused


def test_big_file_in_a_conflict_is_left_out(repo: GitRepo, tmp_path: Path) -> None:
    """git couldn't write a tree with the conflict in it; left out, it is in no tree, and named."""
    ids = [
        repo.git("hash-object", "-w", "--stdin", data=text).decode().strip() for text in (b"a", b"b", b"c")
    ]
    rows = "".join(f"100644 {oid} {stage}\tbig.txt\n" for stage, oid in enumerate(ids, 1))
    repo.git("update-index", "--index-info", data=rows.encode())
    repo.write("big.txt", b"x" * 2000)
    shot = Captures(repo.path, tmp_path / "state", max_file_bytes=1024).take()
    assert shot.skipped == {b"big.txt": "too_big"}
    assert b"big.txt" not in repo.ls_tree(shot.commit)


@pytest.mark.parametrize("how", ["touched", "copied", "racy"])
@pytest.mark.parametrize("rule", ["", "* text=auto\n"], ids=["plain", "converted"])
def test_big_file_that_only_looks_changed_is_none(repo: GitRepo, tmp_path: Path, how: str, rule: str) -> None:
    """The limits are about what is new or changed: a touched or copied file, or one of a fresh clone, is neither."""
    repo.write(".gitattributes", rule)
    repo.write("big.txt", "line\r\n" * 1000)
    repo.write("changed.txt", "line\r\n" * 1000)
    repo.commit("big")
    if how == "racy":
        at = repo.at("big.txt").stat().st_mtime_ns
        os.utime(repo.git_dir / "index", ns=(at, at))
    else:
        repo.settle()
    if how == "touched":
        os.utime(repo.at("big.txt"), ns=(5, 5))
    elif how == "copied":
        shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
        repo = GitRepo(tmp_path / "copy")
    repo.write("changed.txt", "LINE\r\n" * 1000)
    captures = Captures(repo.path, tmp_path / "state", max_file_bytes=1024, max_total_bytes=1024)
    before = objects(repo)
    shot = captures.take()
    assert shot.skipped == {b"changed.txt": "too_big"}
    assert shot.tree == repo.text("rev-parse", "HEAD^{tree}")
    assert objects(repo) - before == {shot.commit}


def test_big_file_whose_mode_changed_is_changed(repo: GitRepo, tmp_path: Path) -> None:
    """git lists a file whose exec bit flipped as changed, so the limit holds for it."""
    repo.write("big.txt", "x" * 2000)
    repo.commit("big")
    repo.at("big.txt").chmod(0o755)
    shot = Captures(repo.path, tmp_path / "state", max_file_bytes=1024).take()
    assert shot.skipped == {b"big.txt": "too_big"}


def test_link_and_ignored_file_have_no_limit(repo: GitRepo, tmp_path: Path) -> None:
    """What isn't stored can't be too big; a link is as long as its target."""
    repo.write(".gitignore", "build\n")
    repo.write("build/big", b"x" * 5000)
    repo.link("long", "x" * 1000)
    shot = Captures(repo.path, tmp_path / "state", max_file_bytes=1024).take()
    assert not shot.skipped
    assert_same_tree(repo, shot)


# --- all of them ---------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-126", "V-127", "V-077")
def test_too_much_in_all_fails_with_the_five_largest(repo: GitRepo, tmp_path: Path) -> None:
    """A build folder that nobody ignored: the capture fails, names the five largest by size, and has stored nothing."""
    captures = Captures(repo.path, tmp_path / "state", max_total_bytes=5000, max_file_bytes=2000)
    sizes = {
        "a": 900,
        "b": 1000,
        "c": 800,
        "d": 700,
        "e": 1000,
        "f": 600,
        "g": 500,
        "h": 400,
        "skipped": 2001,
    }
    for name, size in sizes.items():
        repo.write(f"build/{name}", os.urandom(size))
    before = objects(repo), repo.snapshot_everything(folders=True)
    with pytest.raises(Failed) as caught:
        captures.take()
    assert caught.value.code == "failed.checkpoint_too_large"
    assert caught.value.data == {
        "repo": ".",
        "bytes": 5900,
        "largest": [
            {"path": "build/b", "bytes": 1000},
            {"path": "build/e", "bytes": 1000},
            {"path": "build/a", "bytes": 900},
            {"path": "build/c", "bytes": 800},
            {"path": "build/d", "bytes": 700},
        ],
    }
    assert objects(repo) == before[0]
    assert before[1].changes(repo.snapshot_everything(folders=True)) == []
    (event,) = captures.workspace.events(types=["agent.checkpoint_failed"])
    assert event["data"]["code"] == "failed.checkpoint_too_large"
    repo.write(".gitignore", "build/\n")
    assert captures.take().id == "k1"


@pytest.mark.contract("A-27")
def test_total_counts_links_by_their_length_and_skips_not_at_all(repo: GitRepo, tmp_path: Path) -> None:
    """What is left out for its size doesn't count towards the total; the total itself may be reached."""
    captures = Captures(repo.path, tmp_path / "state", max_total_bytes=300, max_file_bytes=200)
    repo.write("big", b"x" * 201)
    repo.write("a", b"x" * 200)
    repo.link("l", "x" * 100)
    assert captures.take().skipped == {b"big": "too_big"}
    repo.write("b", b"x")
    with pytest.raises(Failed):
        captures.take()


def test_fresh_copy_of_a_large_repository_is_nothing_new(repo: GitRepo, tmp_path: Path) -> None:
    """In a copy every file has another inode: all are looked at, none counts, and the checkpoint is made."""
    for number in range(50):
        repo.write(f"src/{number}.bin", os.urandom(200))
    repo.commit("large")
    repo.settle()
    shutil.copytree(repo.path, tmp_path / "copy", symlinks=True)
    copy = GitRepo(tmp_path / "copy")
    copy.write("new.txt", "x" * 50)
    shot = Captures(copy.path, tmp_path / "state", max_total_bytes=100).take()
    assert_same_tree(copy, shot)


# --- time ----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-067", "V-076")
def test_no_time_at_all(repo: GitRepo, tmp_path: Path) -> None:
    """With no time the capture ends at once, as ``timeout.checkpoint``; the turn goes on, and nothing has been made."""
    captures = Captures(repo.path, tmp_path / "state", timeout="0ms")
    before = objects(repo), repo.snapshot_everything(folders=True)
    with pytest.raises(TimedOut) as caught:
        captures.take()
    assert caught.value.code == "timeout.checkpoint"
    assert caught.value.data["repo"] == "."
    with captures.agent.turn() as turn:
        assert turn.capture_failed is not None
        assert turn.capture_failed.code == "timeout.checkpoint"
    assert objects(repo) == before[0]
    assert before[1].changes(repo.snapshot_everything(folders=True)) == []


# --- permissions ---------------------------------------------------------------------------------------------------


def test_narrow_permissions_are_recorded(repo: GitRepo, tmp_path: Path) -> None:
    """A secret's 0600 is no mode of git's, so it is in the record, for tracked and new files; what others may not write isn't."""
    repo.write("secret.env", "KEY=1\n", mode=0o600)
    repo.commit("a secret")
    repo.settle()
    repo.write("new.key", "KEY=2\n", mode=0o400)
    repo.write("tool.sh", "#!/bin/sh\n", mode=0o700)
    repo.write("wide.txt", "x\n", mode=0o666)
    repo.write("usual.txt", "x\n", mode=0o644)
    repo.write("team.sh", "x\n", mode=0o755)
    captures = Captures(repo.path, tmp_path / "state")
    found = captures.take().modes
    assert found == {b"secret.env": 0o600, b"new.key": 0o400, b"tool.sh": 0o700}
    repo.at("secret.env").chmod(0o640)
    assert captures.take().modes[b"secret.env"] == 0o640


def test_wide_umask_makes_no_file_narrow(repo: GitRepo, tmp_path: Path) -> None:
    """Under a umask of 002 every file of most repositories would be narrower than usual: that others can't write it is nothing to keep."""
    before = os.umask(0o002)
    try:
        assert Captures(repo.path, tmp_path / "state").take().modes == {}
    finally:
        os.umask(before)
