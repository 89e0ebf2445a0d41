"""What is remembered between captures: it spares the reading of files, and never changes an answer."""

from __future__ import annotations

import os
import shutil
import time
from typing import TYPE_CHECKING

import pytest

from turnback import Agent, Workspace
from turnback.gitstore.dirty import DirtyCache, Known, Stamp
from turnback.operations import capture

if TYPE_CHECKING:
    from pathlib import Path

    from support.git_repo import GitRepo

STAMP = Stamp(1, 2, 3, 10**18, 10**18, 0o100644)
KNOWN = Known("a" * 40, 0o100644, None)
LATER = 2 * 10**18  # when the file was read


@pytest.fixture
def agent(repo: GitRepo, tmp_path: Path) -> Agent:
    repo.settle()
    return Workspace.open(repo.path, state_dir=tmp_path / "state").add_agent("a1")


def read_now(agent: Agent) -> tuple[int, str]:
    """One look at the tree: how many files it opened, and the tree that it stored."""
    context = agent._context
    (found,) = capture.store(context, context.state().agent(agent.id), capture.limits(context))
    return found.snapshot.files_read, found.snapshot.tree


def until_settled(agent: Agent) -> str:
    """Look until no file is too young to be remembered; the last tree."""
    for _ in range(10_000):
        read, tree = read_now(agent)
        if read == 0:
            return tree
    raise AssertionError("files stay too young to be remembered")


def test_a_tree_that_stays_dirty_is_read_once(repo: GitRepo, agent: Agent) -> None:
    """Changed and new files are opened until they have an age, and then never again while they stay as they are."""
    repo.write("src/main.py", "changed\n")
    for number in range(20):
        repo.write(f"new/{number}.txt", f"{number}\n")
    tree = until_settled(agent)
    assert tree == repo.tree_of_add_all()
    repo.write("new/7.txt", "again\n")
    read, tree = read_now(agent)
    assert (read, tree) == (1, repo.tree_of_add_all())


def test_another_process_and_a_lost_cache_give_the_same_tree(
    repo: GitRepo, agent: Agent, tmp_path: Path
) -> None:
    """A fresh handle takes up what the file says; without the file everything is read, and the tree is the same."""
    repo.write("src/main.py", "changed\n")
    tree = until_settled(agent)
    again = Workspace.open(repo.path, state_dir=tmp_path / "state").agent("a1")
    assert read_now(again) == (0, tree)
    shutil.rmtree(tmp_path / "state" / "cache")
    cold = Workspace.open(repo.path, state_dir=tmp_path / "state").agent("a1")
    assert read_now(cold) == (1, tree)


def test_stat_data_that_were_put_back_are_noticed(repo: GitRepo, agent: Agent) -> None:
    """An edit of the same size with its modification time restored still changes the inode's own time."""
    place = repo.write("new.txt", "one\n")
    until_settled(agent)
    before = place.stat()
    place.write_text("two\n")
    os.utime(place, ns=(before.st_atime_ns, before.st_mtime_ns))
    read, tree = read_now(agent)
    assert (read, tree) == (1, repo.tree_of_add_all())


def test_changed_attributes_make_it_stale(repo: GitRepo, agent: Agent) -> None:
    """A file that was stored as it is gets converted once an attribute says so, though the file itself is the same."""
    repo.write("notes.txt", "one\r\ntwo\r\n")
    until_settled(agent)
    repo.write(".gitattributes", "*.txt text\n")
    assert read_now(agent)[1] == repo.tree_of_add_all()
    repo.git("config", "core.autocrlf", "true")
    repo.delete(".gitattributes")
    assert read_now(agent)[1] == repo.tree_of_add_all()


@pytest.mark.parametrize("after", ["take", "store"])
def test_a_pruned_object_is_written_again(repo: GitRepo, agent: Agent, after: str) -> None:
    """``git gc --prune=now`` may take what the cache remembers, at any moment before a ref holds it."""
    repo.write("src/main.py", "changed\n")
    until_settled(agent)
    context = agent._context
    if after == "store":
        found = capture.store(context, context.state().agent("a1"), capture.limits(context))
        repo.git("gc", "-q", "--prune=now")
        with pytest.raises(Exception, match="missing"):
            capture.publish(context, context.state().agent("a1"), found, capture.Moment("manual"))
        assert not [name for name in repo.refs() if "venom" in name], (
            "the ref that held nothing is gone again"
        )
    else:
        repo.git("gc", "-q", "--prune=now")
    taken = agent.checkpoint()
    assert repo.text("show", "refs/venom/checkpoints/a1/1:src/main.py") == "changed"
    assert taken.checkpoint == "k1"
    repo.git("fsck", "--strict")


def test_a_damaged_cache_is_ignored(tmp_path: Path) -> None:
    """Any change to the file, and any cut, makes it a cache that knows nothing."""
    place = tmp_path / "cache"
    cache = DirtyCache(str(place))
    cache.begin("as it is")
    cache.learn(b"a/b", STAMP, None, KNOWN, LATER)
    cache.end()
    whole = place.read_bytes()
    again = DirtyCache(str(place))
    again.begin("as it is")
    assert again.find(b"a/b", STAMP, None) == KNOWN
    for at in range(0, len(whole), 7):
        for data in (whole[:at], whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :]):
            place.write_bytes(data)
            damaged = DirtyCache(str(place))
            damaged.begin("as it is")
            assert damaged.find(b"a/b", STAMP, None) is None


def test_every_part_of_the_key_counts(tmp_path: Path) -> None:
    """A path is found again with the same stat data, index entry and conversions only."""
    cache = DirtyCache(str(tmp_path / "cache"))
    cache.begin("as it is")
    cache.learn(b"a", STAMP, "b" * 40, KNOWN, LATER)
    cache.end()
    cache.begin("as it is")
    for member in Stamp._fields:
        assert cache.find(b"a", STAMP._replace(**{member: 77}), "b" * 40) is None, member
    assert cache.find(b"a", STAMP, None) is None
    assert cache.find(b"a", STAMP, "b" * 40) == KNOWN
    cache.begin("something else")
    assert cache.find(b"a", STAMP, "b" * 40) is None


def test_a_young_file_is_not_remembered(tmp_path: Path) -> None:
    """What may still change within one tick of its clock is read again."""
    place = tmp_path / "young"
    place.write_text("x")
    cache = DirtyCache(str(tmp_path / "cache"))
    cache.begin("as it is")
    future = Stamp.of(place.stat())._replace(mtime_ns=1 << 62)
    cache.learn(b"young", future, None, KNOWN, time.time_ns())
    assert cache.find(b"young", future, None) is None


def test_what_counts_is_the_age_at_which_it_was_read(tmp_path: Path) -> None:
    """A file that was read in the tick of its last write may have been written once more in that tick, however old it is now."""
    cache = DirtyCache(str(tmp_path / "cache"))
    for since, remembered in ((0, False), (10_000_000, False), (10**9, False), (3 * 10**9, True)):
        cache.begin("as it is")
        cache.learn(b"a", STAMP, None, KNOWN, STAMP.mtime_ns + since)
        cache.end()
        cache.begin("as it is")
        assert (cache.find(b"a", STAMP, None) == KNOWN) == remembered, since
        cache.forget()
