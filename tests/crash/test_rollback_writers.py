"""A file that somebody holds open while it is replaced, and filesystems of other kinds: nothing that is written is lost."""

import errno
import mmap
import os
import shutil
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.editors import (
    Save,
    by_moving_away,
    by_rename,
    everywhere,
    nothing_left,
    roll,
)
from support.rollbacks import Scene, reasons
from turnback.native import moves


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An agent in place that changed ``f`` and made ``new``; a rollback to k1 exchanges the one and deletes the other."""
    made = Scene.in_place(tmp_path, {"f": "then\n", "other": "then\n"})
    made.changes({"f": "now\n", "new": "now\n", "other": "now\n"})
    return made


# --- a file that is held open ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["f", "new"], ids=["replaced", "deleted"])
def test_a_writer_that_holds_the_file_open_across_the_rollback(scene: Scene, name: str) -> None:
    """It writes when its file has been looked at, and closes: what it wrote has no name any more, so it is kept and named."""
    with open(scene.tree.at(name), "r+") as file:

        def write() -> None:
            file.write("written late\n")
            file.close()

        done = roll(scene, "other", after={1: write})
    assert not done.exact
    assert {b"written late\n", b"now\n"} <= everywhere(scene, done)
    assert [(row["path"], "sha256" in row) for row in done.repos[0].kept or ()] == [(name, True)]
    nothing_left(scene)


@pytest.mark.parametrize("name", ["f", "new"], ids=["replaced", "deleted"])
def test_a_writer_that_writes_before_its_file_is_looked_at(scene: Scene, name: str) -> None:
    """It holds the file open across the exchange and writes at once: the file is given back with what it wrote."""
    with open(scene.tree.at(name), "r+") as file:

        def write() -> None:
            file.write("written late\n")
            file.flush()

        done = roll(scene, name, after={1: write})
    assert not done.exact
    assert reasons(done.repos[0].left) == {name: "changed"}
    assert scene.tree.read(name) == b"written late\n"
    nothing_left(scene)


def test_a_writer_that_outlives_the_rollback(scene: Scene) -> None:
    """Still open when the rollback ends: the old file waits and is named; what is written then is found at the next open, kept and told."""
    with open(scene.tree.at("f"), "r+") as file:
        done = scene.back("k1")
        assert done.exact, "nothing differs so far"
        (row,) = done.repos[0].kept or ()
        assert row["path"] == "f"
        waiting = Path(row["place"])
        assert waiting.read_bytes() == b"now\n"
        scene.reopen()
        assert waiting.exists(), "as long as the writer has it"
        file.write("written much later\n")
    scene.reopen()
    assert not waiting.exists()
    (told,) = scene.ws._context.state().agents["a5"].attention
    assert told["kind"] == "review"
    assert scene.pool(told["kept"][0]["sha256"]) == b"written much later\n"
    assert scene.tree.read("f") == b"then\n"
    nothing_left(scene)
    scene.reopen()
    assert len(scene.ws._context.state().agents["a5"].attention) == 1, "told once"


def test_a_writer_that_outlives_the_rollback_and_writes_nothing(scene: Scene) -> None:
    """When it is gone the old file goes at the next open, and nobody is told anything."""
    with open(scene.tree.at("f"), "r+"):
        assert scene.back("k1").exact
    scene.reopen()
    assert scene.ws._context.state().agents["a5"].attention == []
    nothing_left(scene)


def test_a_mapping_is_a_writer_too(scene: Scene) -> None:
    """Mapped for writing and the descriptor closed: what is written through the mapping afterwards isn't lost."""
    with open(scene.tree.at("f"), "r+b") as file:
        mapped = mmap.mmap(file.fileno(), 0)
    done = scene.back("k1")
    (row,) = done.repos[0].kept or ()
    mapped[:3] = b"NOW"
    mapped.close()
    assert Path(row["place"]).read_bytes() == b"NOW\n"
    scene.reopen()
    (told,) = scene.ws._context.state().agents["a5"].attention
    assert scene.pool(told["kept"][0]["sha256"]) == b"NOW\n"


def test_a_reader_is_no_writer(scene: Scene) -> None:
    """Somebody who only reads the old file goes on reading it, and nothing waits."""
    with open(scene.tree.at("f")) as file:
        assert scene.back("k1").exact
        assert file.read() == "now\n"
    nothing_left(scene)


def test_where_nobody_can_say_who_writes_the_old_files_wait(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without leases displaced files stay as long as safety checkpoints do, and only then go, each looked at once more."""
    with monkeypatch.context() as patch:
        patch.setattr(moves, "LEASES", False)
        patch.setattr(moves, "_SET_LEASE", None)
        done = scene.back("k1")
        assert done.exact
        assert done.repos[0].kept is None
        waiting = [place for place in (scene.tree.git_dir / "turnback").rglob("*") if place.is_file()]
        assert sorted(place.read_bytes() for place in waiting) == [b"now\n"] * 3
        scene.reopen()
        assert all(place.exists() for place in waiting)
        waiting[0].write_bytes(b"written since\n")
        scene.reopen(config={"checkpoints": {"keep_safety": "0ms"}})
        assert not any(place.exists() for place in waiting)
    (told,) = scene.ws._context.state().agents["a5"].attention
    assert scene.pool(told["kept"][0]["sha256"]) == b"written since\n"


# --- other filesystems -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "save", [None, by_rename, by_moving_away], ids=["nobody", "by_rename", "by_moving_away"]
)
def test_a_git_folder_on_another_filesystem(tmp_path: Path, save: Save | None) -> None:
    """Displaced files then wait in the tree under a hidden name, also where a folder becomes a file; no capture ever sees it."""
    shm = Path("/dev/shm")
    if not shm.is_dir() or shm.stat().st_dev == tmp_path.stat().st_dev:
        pytest.skip("there is no second filesystem here")
    elsewhere = Path(tempfile.mkdtemp(dir=shm))
    try:
        scene = Scene.in_place(tmp_path, {"f": "then\n", "folder": "then a file\n"})
        shutil.move(scene.tree.path / ".git", elsewhere / "git")
        (scene.tree.path / ".git").write_text(f"gitdir: {elsewhere / 'git'}\n")
        with scene.turn():
            scene.put({"folder": None})
            scene.put({"f": "now\n", "folder/a": "now\n", "folder/b/c": "now\n", "new": "now\n"})
        place = scene.tree.at("f")
        seen: list[list[str]] = []

        def meddle() -> None:
            seen.append(hidden(scene))
            if save is not None:
                save(place, "saved\n")

        done = roll(scene, "f", before={1: meddle})
        assert len(seen[0]) == 1, "they wait in the tree's root"
        assert done.exact is (save is None)
        assert scene.tree.read("folder") == b"then a file\n"
        assert place.read_text() == ("then\n" if save is None else "saved\n")
        assert {b"now\n"} <= everywhere(scene, done)
        assert hidden(scene) == []
        assert not any(
            b"turnback" in path for path in scene.tree.ls_tree(f"refs/venom/checkpoints/a5/{done.after[1:]}")
        )
    finally:
        shutil.rmtree(elsewhere)


def hidden(scene: Scene) -> list[str]:
    """Hidden files of ours in the tree's root."""
    return [name for name in os.listdir(scene.tree.path) if name.startswith(".turnback")]


def test_a_border_that_the_device_number_does_not_show(scene: Scene) -> None:
    """A bind mount or a quota: renaming across it fails with EXDEV, and the file waits beside the path instead."""
    before = scene.contents()

    def bordered(real: Callable[..., Any]) -> Callable[..., Any]:
        def call(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> Any:
            hidden = from_name if to_name in (b"f", b"new", b"other") else to_name
            if not hidden.startswith(b".turnback-tmp-"):
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV))
            return real(from_folder, from_name, to_folder, to_name)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for function in ("exchange", "give_name", "take_away"):
            patch.setattr(f"turnback.operations.apply.{function}", bordered(getattr(moves, function)))
        done = scene.back("k1")
        assert done.exact
        assert scene.tree.read("f") == b"then\n"
        assert sorted(os.listdir(scene.tree.path)) == [".git", "f", "other"]
        assert scene.back(done.safety).exact
    assert scene.contents() == before
    nothing_left(scene)


@pytest.mark.parametrize("kind", ["file", "link"])
def test_something_else_has_the_holding_folders_name(scene: Scene, tmp_path: Path, kind: str) -> None:
    """A file or a link where the folder in the git dir should be: files wait in the tree, and nothing is written through the link."""
    place = scene.tree.git_dir / "turnback"
    if kind == "file":
        place.write_text("somebody's\n")
    else:
        (tmp_path / "elsewhere").mkdir()
        place.symlink_to(tmp_path / "elsewhere")
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.read("f") == b"then\n"
    assert hidden(scene) == []
    assert os.path.lexists(place)
    assert kind == "file" or os.listdir(tmp_path / "elsewhere") == []
