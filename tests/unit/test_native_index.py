"""The index reader, on index files made by hand: no git is started here."""

from __future__ import annotations

import ast
import importlib.util
import os
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.index_bytes import OID, Line, index_bytes
from turnback.native.index import IndexView
from turnback.native.lib import CoreError, ErrorCode, ffi, lib


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


def test_the_cache_tree_outlives_the_view_it_came_from() -> None:
    view = IndexView.parse(index_bytes([Line(b"a")], b"TREE\0\0\0\6\0-1 0\n"))
    nodes = view.tree_nodes
    del view
    assert nodes.get(b"") == (None, -1)


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
