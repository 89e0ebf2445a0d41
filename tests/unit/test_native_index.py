"""The index reader and its stat pass, on index files made by hand: no git is started here."""

from __future__ import annotations

import ast
import hashlib
import importlib.util
import os
import stat
import struct
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from turnback.native.index import CancelFlag, EntryState, IndexView
from turnback.native.lib import CoreError, ErrorCode, ffi, lib

OID = bytes(range(20))
LATER = 4_000_000_000 * 10**9  # an index written long after every file: nothing is racy


class Line(NamedTuple):
    path: bytes
    mode: int = 0o100644
    oid: bytes = OID
    stage: int = 0
    extended: int = 0
    seen: os.stat_result | None = None


def index_bytes(lines: list[Line], extensions: bytes = b"", version: int = 3) -> bytes:
    out = [b"DIRC" + struct.pack(">II", version, len(lines))]
    for line in lines:
        seen = line.seen
        numbers = (0,) * 10
        if seen is not None:
            numbers = (
                *divmod(seen.st_ctime_ns, 10**9),
                *divmod(seen.st_mtime_ns, 10**9),
                seen.st_dev & 0xFFFFFFFF,
                seen.st_ino & 0xFFFFFFFF,
                line.mode,
                seen.st_uid,
                seen.st_gid,
                seen.st_size & 0xFFFFFFFF,
            )
        numbers = (*numbers[:6], line.mode, *numbers[7:])
        flags = line.stage << 12 | min(len(line.path), 0xFFF) | (0x4000 if line.extended else 0)
        entry = struct.pack(">10I", *numbers) + line.oid + struct.pack(">H", flags)
        if line.extended:
            entry += struct.pack(">H", line.extended)
        entry += line.path + b"\0"
        out.append(entry + bytes(-len(entry) % 8))
    body = b"".join(out) + extensions
    return body + hashlib.sha1(body).digest()


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


def states(
    root: Path, data: bytes, index_mtime_ns: int = LATER, **options: object
) -> dict[bytes, EntryState]:
    view = IndexView.parse(data)
    fd = os.open(root, os.O_RDONLY)
    try:
        looked = view.stat(fd, index_mtime_ns, **options)  # type: ignore[arg-type]
    finally:
        os.close(fd)
    assert looked.positions() == [i for i in range(len(view)) if looked.state(i) is not EntryState.UNCHANGED]
    return {view.path(i): looked.state(i) for i in looked.positions()}


def test_an_entry_has_what_the_file_says() -> None:
    view = IndexView.parse(
        index_bytes(
            [
                Line(b"a\xff", 0o100755),
                Line(b"b", stage=1),
                Line(b"b", stage=3),
                Line(b"c", extended=0x2000),
                Line(b"d", extended=0x4000),
            ]
        )
    )
    assert (len(view), view.version, view.is_sparse, view.is_split) == (5, 3, False, False)
    assert view.has_conflicts
    assert not IndexView.empty().has_conflicts
    first = view.entry(0)
    assert (first.path, first.mode, first.oid, first.stage) == (b"a\xff", 0o100755, OID, 0)
    assert [e.stage for e in view] == [0, 1, 3, 0, 0]
    assert [(e.intent_to_add, e.skip_worktree) for e in view][3:] == [(True, False), (False, True)]
    assert view.find(b"b") == 1
    assert view.find(b"b", 3) == 2
    assert view.find(b"b", 0) is None
    assert view.find(b"bb") is None
    with pytest.raises(IndexError):
        view.entry(5)
    with pytest.raises(IndexError):
        view.entry(-1)


def test_a_prefix_is_a_folder_and_not_a_name_that_begins_alike() -> None:
    names = [b"a", b"a-b", b"a/b", b"a/c/d", b"a0", b"ab/c"]
    view = IndexView.parse(index_bytes([Line(name) for name in sorted(names)]))
    assert [view.path(i) for i in view.prefix(b"a")] == [b"a/b", b"a/c/d"]
    assert view.prefix(b"a/") == view.prefix(b"a")
    assert view.prefix(b"") == range(6)
    assert len(view.prefix(b"zz")) == 0


def test_an_empty_index() -> None:
    view = IndexView.empty()
    assert (len(view), len(view.tree_nodes), view.tree_nodes.get(b""), view.find(b"a")) == (0, 0, None, None)
    assert len(IndexView.empty(32)) == 0


def test_the_checksum_is_checked_on_request_and_may_be_absent() -> None:
    data = index_bytes([Line(b"a")])
    assert IndexView.parse(data).checksum_ok(data)
    bad = data[:-1] + bytes([data[-1] ^ 1])
    assert not IndexView.parse(bad).checksum_ok(bad)
    none = data[:-20] + bytes(20)
    assert IndexView.parse(none).checksum_ok(none)


def test_unknown_mandatory_extensions_are_refused_by_name_and_optional_ones_skipped() -> None:
    with pytest.raises(CoreError, match="mandatory extension 'frob'") as caught:
        IndexView.parse(index_bytes([Line(b"a")], b"frob\0\0\0\0"))
    assert caught.value.code is ErrorCode.UNSUPPORTED
    assert len(IndexView.parse(index_bytes([Line(b"a")], b"FROB\0\0\0\1x"))) == 1


def test_a_bad_name_is_told_with_its_bytes() -> None:
    with pytest.raises(CoreError) as caught:
        IndexView.parse(index_bytes([Line(b"a/../\xff")]))
    assert caught.value.path == b"a/../\xff"
    assert caught.value.code is ErrorCode.FORMAT
    assert "no file can have" in str(caught.value)


@given(st.binary(max_size=400))
def test_any_bytes_raise_only_core_errors(data: bytes) -> None:
    for attempt in (data, b"DIRC" + data, b"DIRC\0\0\0\4" + data):
        for oid_size in (20, 32):
            try:
                IndexView.parse(attempt, data, oid_size)
                IndexView.shared_oid(attempt, oid_size)
            except CoreError:
                pass


_names = st.lists(
    st.binary(min_size=1, max_size=12).map(
        lambda b: b.replace(b"\0", b"x").replace(b"/", b"y").replace(b".", b"z")
    ),
    unique=True,
    max_size=8,
)


@given(_names, st.data())
@settings(max_examples=200)
def test_a_damaged_index_is_read_or_refused(names: list[bytes], data: st.DataObject) -> None:
    whole = bytearray(index_bytes([Line(name) for name in sorted(names)], b"TREE\0\0\0\6\0-1 0\n"))
    assert [entry.path for entry in IndexView.parse(bytes(whole))] == sorted(names)
    for _ in range(data.draw(st.integers(1, 4))):
        whole[data.draw(st.integers(0, len(whole) - 1))] = data.draw(st.integers(0, 255))
    cut = data.draw(st.integers(0, len(whole)))
    try:
        view = IndexView.parse(bytes(whole[:cut]))
    except CoreError:
        return
    assert [view.path(i) for i in range(len(view))] == sorted(view.path(i) for i in range(len(view)))
    view.tree_nodes.folders()


def test_unchanged_files_are_unchanged_and_each_costs_one_stat(root: Path) -> None:
    assert states(root, tracked(root, *ALL)) == {}
    fd = os.open(root, os.O_RDONLY)
    looked = IndexView.parse(tracked(root, *ALL)).stat(fd, LATER)
    os.close(fd)
    assert (looked.stat_calls, looked.threads) == (5, 1)
    assert looked.open_calls == 2  # src and src/lib
    assert looked.tally(EntryState.UNCHANGED) == len(looked) == 5
    assert looked.status() == bytes(5)
    assert looked.mode(0) == os.lstat(root / "a").st_mode
    assert looked.value(0).mtime_ns == os.lstat(root / "a").st_mtime_ns
    assert looked.value(0).ctime_ns == os.lstat(root / "a").st_ctime_ns
    assert looked.value(0).ino == os.lstat(root / "a").st_ino
    with pytest.raises(IndexError):
        looked.state(5)


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


def test_a_parent_that_became_a_link_is_not_followed(root: Path) -> None:
    data = tracked(root, *ALL)
    (root / "src").rename(root / "moved")
    (root / "src").symlink_to("moved")
    assert states(root, data) == {b"src/lib/z.c": EntryState.DELETED, b"src/x.c": EntryState.DELETED}
    (root / "src").unlink()
    (root / "src").write_text("a file")
    assert states(root, data) == {b"src/lib/z.c": EntryState.DELETED, b"src/x.c": EntryState.DELETED}


def test_a_file_that_cannot_be_looked_at_is_not_called_deleted(root: Path) -> None:
    long = b"x" * 300  # longer than any file system takes
    fd = os.open(root, os.O_RDONLY)
    looked = IndexView.parse(index_bytes([Line(long), Line(long + b"/a")])).stat(fd, LATER)
    os.close(fd)
    assert [looked.state(0), looked.state(1)] == [EntryState.UNREADABLE] * 2
    assert looked.os_error(0) > 0


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
    assert states(root, data, 10**18 + second - 1) == {b"a": EntryState.CHANGED}
    assert states(root, data, 10**18) == {b"a": EntryState.CHANGED}
    assert states(root, data, 0) == {b"a": EntryState.CHANGED}


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

    def look(_: int) -> int:
        start.wait()
        return sum(len(view.stat(fd, LATER).positions()) + (view.find(b"a") or 0) for _ in range(50))

    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(look, range(4))) == [0, 0, 0, 0]
    os.close(fd)


def test_results_outlive_what_they_were_made_from(root: Path) -> None:
    view = IndexView.parse(tracked(root, *ALL))
    nodes = view.tree_nodes
    fd = os.open(root, os.O_RDONLY)
    looked = view.stat(fd, LATER)
    os.close(fd)
    del view
    assert (nodes.get(b""), looked.state(4), len(looked.status())) == (None, EntryState.UNCHANGED, 5)


def test_an_error_is_told_in_words() -> None:
    assert str(CoreError(ErrorCode.IO, "cannot open a folder", 24, b"a\xffb")).startswith(
        "cannot open a folder: "
    )
    assert {code.value for code in ErrorCode} == {
        getattr(lib, name) for name in dir(lib) if name.startswith("TB_E_")
    } - {lib.TB_E_NOMEM}


def test_the_typed_face_has_exactly_the_names_that_were_compiled() -> None:
    spec = importlib.util.find_spec("turnback")
    assert spec is not None
    assert spec.submodule_search_locations
    stub = Path(spec.submodule_search_locations[0], "_core.pyi")
    declared: set[str] = set()
    for node in ast.walk(ast.parse(stub.read_text(encoding="utf-8"))):
        if isinstance(node, ast.ClassDef) and node.name == "_Lib":
            for item in node.body:
                if isinstance(item, ast.FunctionDef):
                    declared.add(item.name)
                elif isinstance(item, ast.AnnAssign) and isinstance(item.target, ast.Name):
                    declared.add(item.target.id)
    assert declared == set(dir(lib))


def test_the_sanitized_build_is_the_one_under_test() -> None:
    """``scripts/asan`` must not test the normal build by mistake."""
    if "ASAN_OPTIONS" in os.environ:
        spec = importlib.util.find_spec("turnback._core")
        assert spec is not None
        assert "asan" in str(spec.origin)
    assert ffi.sizeof("tb_index_entry") == 84
