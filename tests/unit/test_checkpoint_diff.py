"""``agent.checkpoint_diff``: the counts and the patch of every kind of change are git's own, to the byte."""

import os
from pathlib import Path

import pytest

from support.git_repo import GitRepo
from support.rollbacks import Scene
from turnback import paths
from turnback.errors import InvalidParams, NotFound

LINES = "".join(f"line {number}\n" for number in range(40))

# What a file was, and what it became; None stands for nothing, a pair for a mode or a link's target.
Thing = str | bytes | None | tuple[str, str | bytes]
CHANGES: dict[str | bytes, tuple[Thing, Thing]] = {
    "one line": (LINES, LINES.replace("line 7\n", "line seven\n")),
    "two hunks": (LINES, LINES.replace("line 3\n", "").replace("line 33\n", "line 33\nand more\n")),
    "everything": ("a\nb\nc\n", "x\ny\n"),
    "no newline at the end": ("a\nb", "a\nb\nc"),
    "newline added": ("a\nb", "a\nb\n"),
    "newline taken": ("a\nb\n", "a\nb"),
    "made": (None, "a\nb\n"),
    "made/without newline": (None, "a"),
    "made/empty": (None, ""),
    "gone": ("a\nb\n", None),
    "gone/empty": ("", None),
    "emptied": ("a\nb\n", ""),
    "filled": ("", "a\nb\n"),
    "binary": (b"a\0b", b"a\0c"),
    "binary made": (None, b"\0\1\2"),
    "binary gone": (b"\0\1\2", None),
    "text to binary": ("a\n", b"a\0"),
    "nul after 8000 bytes": ("x" * 9000 + "\n", b"x" * 8999 + b"\0\n"),
    "exec on": ("run\n", ("exec", "run\n")),
    "exec off": (("exec", "run\n"), "run\n"),
    "exec and content": ("run\n", ("exec", "run faster\n")),
    "made exec": (None, ("exec", "run\n")),
    "link": (("link", "here"), ("link", "there")),
    "link made": (None, ("link", "here")),
    "link gone": (("link", "here"), None),
    "link to file": (("link", "here"), "now a file\n"),
    "file to link": ("a file\n", ("link", "here")),
    "carriage returns": ("a\r\nb\r\n", "a\nb\n"),
    "only blanks": ("a\n\tb\n", "a\n    b\n"),
    "functions": (
        "def one():\n" + "    pass\n" * 8 + "    old\n",
        "def one():\n" + "    pass\n" * 8 + "    new\n",
    ),
    "indent": (
        "def a():\n    return 1\n\n\ndef c():\n    return 3\n",
        "def a():\n    return 1\n\n\ndef b():\n    return 2\n\n\ndef c():\n    return 3\n",
    ),
    "-- dashes": ("-- a\n++ b\n", "--- a\n+++ b\n@@ -1 +1 @@\n"),
    "blank in name": ("a\n", "b\n"),
    "tab\tin name": ("a\n", "b\n"),
    "newline\nin name": ("a\n", None),
    'quote"in name': (None, "a\n"),
    "back\\slash": ("a\n", "b\n"),
    "ünïcode": ("a\n", "b\n"),
    b"caf\xe9": ("a\n", "b\n"),
    b"caf\xe9 made \x01": (None, "a\n"),
    "latin 1 content": (b"gr\xf6\xdfe\n", b"gr\xf6\xdfer\n"),
    "long line": ("x" * 70_000 + "\n", "y" * 70_000 + "\n"),
}


def put(scene: Scene, name: str | bytes, thing: Thing) -> None:
    if scene.tree.exists(name):
        scene.tree.delete(name)
    if isinstance(thing, tuple):
        kind, content = thing
        if kind == "link":
            scene.tree.link(name, content)
        else:
            scene.tree.write(name, content, mode=0o755)
    elif thing is not None:
        scene.tree.write(name, thing)


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """k1 holds the first of every pair, k2 the second."""
    made = Scene.in_place(tmp_path)
    names = {os.fsencode(name).replace(b"/", b" in "): pair for name, pair in CHANGES.items()}
    for name, (before, _) in names.items():
        put(made, name, before)
    with made.turn():
        for name, (_, after) in names.items():
            put(made, name, after)
    return made


def refs(scene: Scene) -> list[str]:
    return [f"refs/venom/checkpoints/{scene.agent.id}/{number}" for number in (1, 2)]


def numstat(tree: GitRepo, *arguments: str) -> dict[bytes, tuple[int, int, bool]]:
    """What ``git diff --numstat`` says: path to (added, removed, binary)."""
    found = {}
    for row in tree.git("diff", "--numstat", "--no-renames", "-z", *arguments).split(b"\0")[:-1]:
        added, removed, path = row.split(b"\t", 2)
        binary = added == b"-"
        found[path] = (0 if binary else int(added), 0 if binary else int(removed), binary)
    return found


def counted(scene: Scene, *arguments: str) -> dict[bytes, tuple[int, int, bool]]:
    """What ``checkpoint_diff`` says, in the same form."""
    import base64

    return {
        base64.b64decode(row.path_b64) if row.path_b64 else row.path.encode(): (
            row.added,
            row.removed,
            row.binary,
        )
        for row in scene.agent.checkpoint_diff(*arguments).files
    }


@pytest.mark.contract("V-393", "V-394")
def test_the_counts_are_gits(scene: Scene) -> None:
    """Path by path the lines added and removed and whether it is binary, for every kind of change."""
    expected = numstat(scene.tree, *refs(scene))
    assert counted(scene, "k1", "k2") == expected
    assert len(expected) == len(CHANGES)


@pytest.mark.contract("V-394")
def test_each_file_says_what_happened_to_it(scene: Scene) -> None:
    """create, modify or delete, as git's own name-status has it; a changed type or mode is a modify."""
    rows = scene.tree.git("diff", "--name-status", "--no-renames", "-z", *refs(scene)).split(b"\0")[:-1]
    words = {b"A": "create", b"D": "delete", b"M": "modify", b"T": "modify"}
    expected = {path: words[status] for status, path in zip(rows[::2], rows[1::2], strict=True)}
    found = scene.agent.checkpoint_diff("k1", "k2").files
    assert {row.path: row.change for row in found} == {
        path.decode("utf-8", "replace"): word for path, word in expected.items()
    }
    assert [row.repo for row in found] == ["."] * len(CHANGES)


@pytest.mark.contract("V-395")
def test_every_patch_is_gits_to_the_byte(scene: Scene) -> None:
    """The text of each path's patch is what ``git diff`` prints for it."""
    scene.reopen(config={"harness": {"body_max": 1 << 22}})
    wrong = {}
    for name in numstat(scene.tree, *refs(scene)):
        # A name that isn't UTF-8 is quoted, as git does by default; the others are shown as they are.
        quoted = "false" if paths.is_text(name) else "true"
        expected = scene.tree.git(
            "-c", "core.abbrev=7", "-c", f"core.quotePath={quoted}", "diff", "--no-renames", *refs(scene), "--",
            b":(literal)" + name,
        )  # fmt: skip
        found = scene.agent.checkpoint_diff("k1", "k2", path=name).patch
        assert found is not None
        if (found.text, found.bytes) != (expected.decode("utf-8", "replace"), len(expected)):
            wrong[name] = (found.text[:400], expected.decode("utf-8", "replace")[:400])
        assert not found.truncated
    assert wrong == {}


@pytest.mark.contract("V-393")
def test_without_a_second_checkpoint_the_current_files_count(scene: Scene) -> None:
    """A missing ``to`` means the files as they are now, untracked ones included; comparing leaves no ref and no record."""
    scene.put({"one line": LINES, "since": "1\n2\n"})
    before = scene.tree.refs(), scene.log()
    found = counted(scene, "k2")
    assert found == {b"one line": (1, 1, False), b"since": (2, 0, False)}
    assert (scene.tree.refs(), scene.log()) == before


def test_the_other_way_round(scene: Scene) -> None:
    """From the later to the earlier: every count is turned about."""
    assert counted(scene, "k2", "k1") == numstat(scene.tree, *reversed(refs(scene)))


def test_nothing_differs(scene: Scene) -> None:
    """One checkpoint with itself: no files, and an empty patch of any path."""
    assert scene.agent.checkpoint_diff("k1", "k1").to_dict() == {"files": []}
    found = scene.agent.checkpoint_diff("k1", "k1", path="one line").to_dict()
    assert found == {"files": [], "patch": {"text": "", "truncated": False, "bytes": 0}}


@pytest.mark.contract("V-395")
def test_a_long_patch_is_cut_and_says_so(scene: Scene) -> None:
    """The text ends at ``harness.body_max`` bytes, at a whole character; ``bytes`` is the whole length."""
    whole = scene.agent.checkpoint_diff("k1", "k2", path="one line").patch
    assert whole is not None
    scene.reopen(config={"harness": {"body_max": 100}})
    cut = scene.agent.checkpoint_diff("k1", "k2", path="one line").patch
    assert cut is not None
    assert cut.truncated
    assert cut.bytes == whole.bytes
    assert cut.text == whole.text[:100]
    scene.put({"umlauts": "ö" * 200})
    cut = scene.agent.checkpoint_diff("k2", path="umlauts").patch
    assert cut is not None
    assert len(cut.text.encode()) <= 100
    assert "\ufffd" not in cut.text


@pytest.mark.parametrize("value", ["-diff", "diff", "diff=python", "binary"])
def test_the_diff_attribute_counts(tmp_path: Path, value: str) -> None:
    """A file that attributes call binary is, and one that they call text is shown as text."""
    scene = Scene.in_place(tmp_path, {".gitattributes": f"* {value}\n", "a": "1\n", "b": b"\0\n"})
    scene.changes({"a": "2\n", "b": b"\0\0\n"})
    expected = numstat(scene.tree, *refs(scene))
    assert counted(scene, "k1", "k2") == expected
    for name in ("a", "b"):
        patch = scene.agent.checkpoint_diff("k1", "k2", path=name).patch
        assert patch is not None
        git = scene.tree.git("-c", "core.abbrev=7", "diff", *refs(scene), "--", name)
        assert patch.text.encode() == git


def test_neither_external_diffs_nor_textconv_run(tmp_path: Path) -> None:
    """A repository's own programs have no say in what is shown."""
    scene = Scene.in_place(tmp_path, {".gitattributes": "* diff=mine\n", "a": "1\n"})
    marker = tmp_path / "ran"
    scene.tree.git("config", "diff.mine.textconv", f"touch {marker}; cat")
    scene.tree.git("config", "diff.mine.command", f"touch {marker}; true")
    scene.tree.git("config", "diff.external", f"touch {marker}; true")
    scene.changes({"a": "2\n"})
    patch = scene.agent.checkpoint_diff("k1", "k2", path="a").patch
    assert patch is not None
    assert "-1\n+2\n" in patch.text
    assert not marker.exists()


def test_a_submodule_shows_its_commits(tmp_path: Path) -> None:
    """A moved nested repository is one line, as in git."""
    scene = Scene.in_place(tmp_path)
    nested = GitRepo.init(scene.tree.path / "vendor")
    nested.write("x", "1\n")
    nested.commit("one")
    with scene.turn():
        nested.write("x", "2\n")
        nested.commit("two")
    assert counted(scene, "k1", "k2") == numstat(scene.tree, *refs(scene))
    patch = scene.agent.checkpoint_diff("k1", "k2", path="vendor").patch
    assert patch is not None
    assert patch.text.encode() == scene.tree.git(
        "-c", "core.abbrev=7", "diff", "--submodule=short", *refs(scene)
    )


def test_several_repositories(tmp_path: Path) -> None:
    """Each file names its repository; a path needs to say which one it is in."""
    for name in ("one", "two"):
        made = GitRepo.init(tmp_path / "app" / name)
        made.write("a", "1\n")
        made.commit("first")
    source = GitRepo(tmp_path / "app")
    scene = Scene(tmp_path, source, source, "a5", None)
    scene.agent = scene.ws.add_agent("a5", repos=["one", "two"])
    scene.changes({"one/a": "2\n", "two/a": "3\n"})
    found = scene.agent.checkpoint_diff("k1", "k2")
    assert [(row.repo, row.path) for row in found.files] == [("one", "a"), ("two", "a")]
    assert [row.repo for row in scene.agent.checkpoint_diff("k1", "k2", repo="two").files] == ["two"]
    with pytest.raises(InvalidParams) as error:
        scene.agent.checkpoint_diff("k1", "k2", path="a")
    assert error.value.code == "invalid_params.repo"
    patch = scene.agent.checkpoint_diff("k1", "k2", repo="two", path="a").patch
    assert patch is not None
    assert "+3\n" in patch.text


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("k9",), "not_found.checkpoint"),
        (("k1", "k9"), "not_found.checkpoint"),
        (("first",), "invalid_params.from"),
        (("k1", "last"), "invalid_params.to"),
    ],
)
def test_checkpoints_that_do_not_exist(scene: Scene, arguments: tuple[str, ...], code: str) -> None:
    """Never taken, or no id at all."""
    with pytest.raises((NotFound, InvalidParams)) as error:
        scene.agent.checkpoint_diff(*arguments)
    assert error.value.code == code


@pytest.mark.parametrize("path", ["/etc/passwd", "../outside", ".", ""])
def test_a_path_must_lie_in_the_tree(scene: Scene, path: str) -> None:
    """Anything else is the caller's mistake."""
    with pytest.raises(InvalidParams) as error:
        scene.agent.checkpoint_diff("k1", "k2", path=path)
    assert error.value.code == "invalid_params.path"
