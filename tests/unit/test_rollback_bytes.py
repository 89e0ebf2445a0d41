"""A rollback gives back the very bytes: through filters, line endings and encodings, under any name, and where git itself couldn't."""

import os
from pathlib import Path

import pytest

from support.rollbacks import Scene, paths, reasons, steps

CRLF = b"one\r\ntwo\r\n"
LF = b"one\ntwo\n"


# --- conversions -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-264")
def test_line_endings_come_back_as_git_writes_them(tmp_path: Path) -> None:
    """A file that git stores with LF and writes with CR LF is written with CR LF."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "*.txt text eol=crlf\n", "a.txt": CRLF})
    scene.changes({"a.txt": b"three\r\n"})
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("a.txt") == CRLF
    assert scene.blob("k1", "a.txt") == LF


def test_bytes_that_git_would_not_give_back_come_back_all_the_same(tmp_path: Path) -> None:
    """Mixed line endings, LF where the attributes say CR LF, and an attribute that changed since: each file is as it was."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "*.txt text eol=crlf\n", "a.txt": CRLF})
    mixed, plain = b"one\r\ntwo\nthree\r\n", b"one\ntwo\n"
    scene.put({"mixed.txt": mixed, "plain.txt": plain})
    scene.changes({"mixed.txt": b"x\r\n", "plain.txt": None, ".gitattributes": "*.txt text eol=lf\n"})
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("mixed.txt") == mixed
    assert scene.tree.read("plain.txt") == plain
    assert scene.tree.read("a.txt") == CRLF
    assert scene.back(done.safety).exact
    assert scene.tree.read("mixed.txt") == b"x\r\n"


def test_only_the_line_endings_of_a_file_went(tmp_path: Path) -> None:
    """A turn that rewrites a file with other line endings, which git doesn't see, is undone byte for byte."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "* text=auto\n", "README.md": "r\n"})
    scene.put({"a.txt": b"one\r\ntwo\nthree\r\n"})
    scene.changes({"a.txt": b"one\ntwo\nthree\n"})
    plan = scene.plan("k1")
    assert steps(plan.repos[0].files) == {"a.txt": ("modify", "turn")}
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("a.txt") == b"one\r\ntwo\nthree\r\n"


@pytest.mark.contract("V-120")
def test_a_smudge_filter_runs_on_the_way_out(tmp_path: Path) -> None:
    """The blob is what clean gave, and the file what smudge makes of it."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    scene.tree.git("config", "filter.up.clean", "tr a-z A-Z")
    scene.tree.git("config", "filter.up.smudge", "tr A-Z a-z")
    scene.put({".gitattributes": "*.up filter=up\n", "a.up": "some words\n"})
    scene.changes({"a.up": "other words\n"})
    done = scene.back("k1")
    assert done.exact
    assert scene.blob("k1", "a.up") == b"SOME WORDS\n"
    assert scene.tree.read("a.up") == b"some words\n"


def test_a_file_whose_required_filter_cannot_run_is_left(tmp_path: Path) -> None:
    """The filter's program is gone when the file is to be written: that path is left and says so, the others go back."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n", "b.txt": "1\n"})
    scene.tree.git("config", "filter.up.clean", "tr a-z A-Z")
    scene.tree.git("config", "filter.up.smudge", "tr A-Z a-z")
    scene.put({".gitattributes": "*.up filter=up\n", "a.up": "some words\n"})
    with scene.turn():
        scene.put({"a.up": None, "b.txt": "2\n"})
    scene.tree.git("config", "filter.up.required", "true")
    scene.tree.git("config", "filter.up.smudge", "no-such-program")
    done = scene.back("k1")
    assert not done.exact
    assert reasons(done.repos[0].left) == {"a.up": "filter"}
    assert paths(done.repos[0].files) == ["b.txt"]
    assert scene.tree.read("b.txt") == b"1\n"
    assert not scene.tree.exists("a.up")


def test_a_filtered_file_comes_back_from_the_bytes_that_both_sides_kept(tmp_path: Path) -> None:
    """A required filter that never runs: no tree holds the file, and it goes back all the same, from the kept bytes."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    scene.tree.git("config", "filter.no.clean", "no-such-program")
    scene.tree.git("config", "filter.no.required", "true")
    scene.put({".gitattributes": "*.no filter=no\n", "a.no": "then\n"})
    scene.changes({"a.no": "now\n"})
    done = scene.back("k1")
    assert steps(done.repos[0].files) == {"a.no": ("modify", "turn")}
    assert scene.tree.read("a.no") == b"then\n"
    assert done.exact
    scene.back(done.safety)
    assert scene.tree.read("a.no") == b"now\n"


def test_ident_is_expanded_as_git_does(tmp_path: Path) -> None:
    """An ``$Id$`` comes back expanded with the blob's id, as a checkout gives it."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "*.c ident\n", "a.c": "/* $Id$ */\n"})
    scene.tree.delete("a.c")
    scene.tree.git("checkout", "-q", "a.c")
    expanded = scene.tree.read("a.c")
    assert b"$Id: " in expanded
    scene.changes({"a.c": "/* nothing */\n"})
    assert scene.back("k1").exact
    assert scene.tree.read("a.c") == expanded


def test_an_encoding_comes_back(tmp_path: Path) -> None:
    """A file in UTF-16 is stored in UTF-8 and written in UTF-16 again."""
    scene = Scene.in_place(
        tmp_path, {".gitattributes": "*.u working-tree-encoding=UTF-16LE\n", "README.md": "r\n"}
    )
    text = "größer\n".encode("utf-16-le")
    scene.put({"a.u": text})
    scene.changes({"a.u": "kleiner\n".encode("utf-16-le")})
    assert scene.back("k1").exact
    assert scene.tree.read("a.u") == text


# --- names -----------------------------------------------------------------------------------------------------------

NAMES: list[str | bytes] = [
    b"caf\xe9.txt",
    b"\xff\xfe/\x80/raw",
    "with blank.txt",
    "with\nnewline",
    "with\ttab",
    'quote"d',
    "back\\slash",
    "-dash",
    ":(top)magic",
    ":!x",
    "*.glob",
    "[a]",
    "#hash",
    "!bang",
    "ünïcode/ø.txt",
    " leading",
    "trailing ",
    "x" * 255,
    "/".join(["deep"] * 60),
]


@pytest.mark.contract("V-147")
def test_any_name_goes_both_ways(tmp_path: Path) -> None:
    """Changed, deleted and made anew under every odd name that a filesystem takes, UTF-8 or not."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    changed = [b"changed/" + os.fsencode(name) for name in NAMES]
    deleted = [b"deleted/" + os.fsencode(name) for name in NAMES]
    made = [b"made/" + os.fsencode(name) for name in NAMES]
    scene.put(dict.fromkeys([*changed, *deleted], "then\n"))
    with scene.turn():
        then = scene.contents()
        scene.put(dict.fromkeys([*changed, *made], "now\n"))
        scene.put(dict.fromkeys(deleted))
    now = scene.contents()
    done = scene.back("k1")
    assert done.exact
    assert scene.contents() == then
    assert len(done.repos[0].files) == 3 * len(NAMES)
    assert scene.back(done.safety).exact
    assert scene.contents() == now


def test_a_name_that_is_not_utf_8_is_told_exactly(tmp_path: Path) -> None:
    """Its JSON has the replacement sign for people and the bytes in base 64 for programs."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    scene.changes({b"caf\xe9.txt": "now\n"})
    found = scene.plan("k1").to_dict()["repos"][0]["files"]
    assert found == [
        {"path": "caf\ufffd.txt", "change": "delete", "class": "turn", "path_b64": "Y2Fm6S50eHQ="}
    ]


def test_large_and_empty_files(tmp_path: Path) -> None:
    """Nothing about size: an empty file, one with NULs, and one of several megabytes come back."""
    scene = Scene.in_place(tmp_path, {"README.md": "readme\n"})
    large = os.urandom(5 << 20)
    scene.put({"empty": b"", "nul": b"a\0b\r\n\0", "large": large})
    scene.changes({"empty": b"x", "nul": b"", "large": None})
    assert scene.back("k1").exact
    assert scene.tree.read("empty") == b""
    assert scene.tree.read("nul") == b"a\0b\r\n\0"
    assert scene.tree.read("large") == large
