"""What a walk says of tracked paths, on index files made by hand: no git is started here."""

from __future__ import annotations

import hashlib
import os
import stat
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Any

import pytest

from support.index_bytes import Line, index_bytes
from turnback.native.index import IndexView
from turnback.native.lib import CoreError, ErrorCode
from turnback.native.walk import CancelFlag, EntryState, Kind, Walker

if TYPE_CHECKING:
    from pathlib import Path

    from turnback.native.walk import Walk

LATER = 4_000_000_000 * 10**9  # an index written long after every file: nothing is racy


def tracked(root: Path, *paths: str) -> bytes:
    """An index of files as they are now."""
    lines = []
    for path in sorted(paths, key=os.fsencode):
        seen = os.lstat(root / path)
        mode = 0o120000 if stat.S_ISLNK(seen.st_mode) else 0o100755 if seen.st_mode & 0o100 else 0o100644
        lines.append(Line(os.fsencode(path), mode, seen=seen))
    return index_bytes(lines)


@pytest.fixture
def root(tmp_path: Path) -> Path:
    (tmp_path / "src/lib").mkdir(parents=True)
    for path in ("a", "src/x.c", "src/lib/z.c"):
        (tmp_path / path).write_text(path)
    (tmp_path / "tool").write_text("tool")
    (tmp_path / "tool").chmod(0o755)
    (tmp_path / "link").symlink_to("a")
    return tmp_path


ALL = ("a", "link", "src/lib/z.c", "src/x.c", "tool")


def look(root: Path, data: bytes, index_mtime_ns: int = LATER, **options: Any) -> Walk:
    """One walk of a tree."""
    fd = os.open(root, os.O_RDONLY)
    try:
        return Walker().walk(IndexView.parse(data), fd, index_mtime_ns, **options)
    finally:
        os.close(fd)


def states(
    root: Path, data: bytes, index_mtime_ns: int = LATER, **options: Any
) -> dict[bytes, Kind | EntryState]:
    """The tracked paths that the index doesn't vouch for; each has one item."""
    view = IndexView.parse(data)
    items = [
        (view.path(item.position), item.kind)
        for item in look(root, data, index_mtime_ns, **options).items
        if item.position is not None
    ]
    assert len(dict(items)) == len(items)
    return dict(items)


def new(root: Path, data: bytes) -> dict[bytes, Kind | EntryState]:
    """The paths that the index doesn't have."""
    return {item.path: item.kind for item in look(root, data).items if item.position is None}


def test_unchanged_files_have_no_item_and_each_costs_one_stat(root: Path) -> None:
    walk = look(root, tracked(root, *ALL))
    assert walk.items == []
    assert (walk.stat_calls, walk.threads) == (5, 1)
    assert walk.folders_listed == walk.open_calls == 3  # the root, src and src/lib


def test_an_item_has_what_lstat_saw(root: Path) -> None:
    data = tracked(root, *ALL)
    view = IndexView.parse(data)
    items = {
        view.path(item.position): item for item in look(root, data, 0).items if item.position is not None
    }
    assert sorted(items) == [name.encode() for name in ALL]
    for name in ALL:
        seen, item = os.lstat(root / name), items[name.encode()]
        assert (item.mode, item.size, item.inode) == (seen.st_mode, seen.st_size, seen.st_ino)
        assert (item.mtime_ns, item.ctime_ns, item.device) == (
            seen.st_mtime_ns,
            seen.st_ctime_ns,
            seen.st_dev,
        )
        assert item.path == b""


def test_what_differs_is_told(root: Path) -> None:
    data = tracked(root, *ALL)
    (root / "a").write_text("longer than it was")
    (root / "link").unlink()
    (root / "link").write_text("a file now")
    (root / "src/x.c").unlink()
    (root / "src/x.c").mkdir()
    (root / "src/lib/z.c").unlink()
    (root / "tool").chmod(0o644)
    assert states(root, data) == {
        b"a": EntryState.CHANGED,
        b"link": EntryState.CHANGED,
        b"src/lib/z.c": EntryState.DELETED,
        b"src/x.c": EntryState.FOLDER,
        b"tool": EntryState.CHANGED,
    }
    assert new(root, data) == {}


def test_a_parent_that_became_a_link_is_not_followed(root: Path) -> None:
    data = tracked(root, *ALL)
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to("moved")
    assert states(root, data) == {b"src/lib/z.c": EntryState.DELETED, b"src/x.c": EntryState.DELETED}
    moved = {b"moved/lib/z.c": Kind.UNTRACKED, b"moved/x.c": Kind.UNTRACKED}
    assert new(root, data) == {b"src": Kind.UNTRACKED, **moved}
    (root / "src").unlink()
    (root / "src").write_text("a file")
    assert states(root, data) == {b"src/lib/z.c": EntryState.DELETED, b"src/x.c": EntryState.DELETED}
    assert new(root, data) == {b"src": Kind.UNTRACKED, **moved}


def test_a_file_that_cannot_be_looked_at_is_not_called_deleted(root: Path) -> None:
    long = b"x" * 300  # longer than any file system takes
    data = index_bytes([Line(long), Line(b"y" + long + b"/a")])
    # That its folder isn't there is known from the list of the one above it, without a look.
    assert states(root, data) == {long: EntryState.UNREADABLE, b"y" + long + b"/a": EntryState.DELETED}


def test_pipes_are_never_opened(root: Path) -> None:
    data = tracked(root, *ALL)
    (root / "a").unlink()
    os.mkfifo(root / "a")
    assert states(root, data) == {b"a": EntryState.CHANGED}


def test_skip_worktree_is_not_looked_at_and_intent_to_add_never_vouched_for(root: Path) -> None:
    seen = os.lstat(root / "a")
    data = index_bytes([Line(b"a", extended=0x2000, seen=seen), Line(b"gone", extended=0x4000)])
    assert states(root, data) == {b"a": EntryState.CHANGED, b"gone": EntryState.SKIP_WORKTREE}


def test_a_file_as_young_as_the_index_must_be_read(root: Path) -> None:
    os.utime(root / "a", ns=(10**18, 10**18 + 300_000_000))
    data = tracked(root, "a")
    second = 10**9
    assert states(root, data, 10**18 + second) == {}
    assert states(root, data, 10**18 + second - 1) == {b"a": EntryState.RACY}
    assert states(root, data, 10**18) == {b"a": EntryState.RACY}
    assert states(root, data, 0) == {b"a": EntryState.RACY}
    (root / "a").write_text("longer than it was")
    assert states(root, data, 0) == {b"a": EntryState.CHANGED}


def test_nanoseconds_count_where_they_are_asked_for(root: Path) -> None:
    os.utime(root / "a", ns=(10**18, 10**18 + 300_000_000))
    data = tracked(root, "a")
    os.utime(root / "a", ns=(10**18, 10**18 + 300_000_001))
    assert states(root, data, trust_ctime=False) == {b"a": EntryState.CHANGED}
    assert states(root, data, trust_ctime=False, nanoseconds=False) == {}


def test_permissions_narrower_than_usual(root: Path) -> None:
    (root / "a").chmod(0o600)
    (root / "tool").chmod(0o755)
    (root / "src/x.c").chmod(0o644)
    data = tracked(root, *ALL)
    assert states(root, data, usual_permissions=0o644) == {b"a": EntryState.NARROW}
    assert states(root, data) == {}


@pytest.mark.parametrize("threads", [0, 1, 2, 5, 16, 99])
def test_the_answer_does_not_depend_on_the_number_of_threads(tmp_path: Path, threads: int) -> None:
    names = []
    for folder in range(60):
        (tmp_path / f"d{folder:02}").mkdir()
        for file in range(50):
            names.append(f"d{folder:02}/f{file:02}")
            (tmp_path / names[-1]).touch()
    data = index_bytes(
        [
            Line(os.fsencode(name), oid=hashlib.sha1(b"blob 0\0").digest(), seen=os.lstat(tmp_path / name))
            for name in names
        ]
    )
    expected = {}
    for i, name in enumerate(names):
        if i % 7 == 0:
            (tmp_path / name).unlink()
            expected[name.encode()] = EntryState.DELETED
        elif i % 11 == 0:
            (tmp_path / name).write_text("x")
            expected[name.encode()] = EntryState.CHANGED
    assert states(tmp_path, data, threads=threads) == expected
    ran = look(tmp_path, data, threads=threads).threads
    assert ran in ((1, 2) if threads == 0 else (min(threads, 16),))


def test_no_descriptor_is_left_open(root: Path) -> None:
    data = tracked(root, *ALL)
    before = len(os.listdir("/proc/self/fd")) if os.path.isdir("/proc/self/fd") else 0
    for _ in range(20):
        states(root, data)
    assert before == (len(os.listdir("/proc/self/fd")) if before else 0)


def test_a_deadline_and_a_cancel_flag_end_the_call(root: Path) -> None:
    data = tracked(root, *ALL)
    with pytest.raises(CoreError) as caught:
        states(root, data, deadline=time.monotonic() - 1)
    assert caught.value.code is ErrorCode.TIMEOUT
    assert states(root, data, deadline=time.monotonic() + 60) == {}
    flag = CancelFlag()
    assert states(root, data, cancel=flag) == {}
    flag.set()
    with pytest.raises(CoreError) as caught:
        states(root, data, cancel=flag)
    assert caught.value.code is ErrorCode.CANCELLED


def test_many_threads_share_one_view(root: Path) -> None:
    view = IndexView.parse(tracked(root, *ALL))
    fd = os.open(root, os.O_RDONLY)
    start = threading.Barrier(4)

    def work(_: int) -> int:
        walker = Walker()
        start.wait()
        return sum(len(walker.walk(view, fd, LATER).items) + (view.find(b"a") or 0) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(work, range(4))) == [0, 0, 0, 0]
    os.close(fd)


def test_results_outlive_what_they_were_made_from(root: Path) -> None:
    data = tracked(root, *ALL)
    (root / "a").unlink()
    (root / "new").touch()
    # Descriptor, view and walker are gone when look() returns.
    found = sorted((item.path, item.kind.name, item.mode) for item in look(root, data).items)
    assert found == [(b"", "DELETED", 0), (b"new", "UNTRACKED", os.lstat(root / "new").st_mode)]
