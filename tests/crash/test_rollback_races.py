"""Somebody saves at the worst moment of a rollback: each finished version is in the tree, in a checkpoint, or kept and named."""

import errno
import os
from pathlib import Path

import pytest

from support.editors import (
    SAVES,
    Save,
    by_moving_away,
    by_rename,
    everywhere,
    folder_instead,
    in_place,
    link_instead,
    nothing_left,
    roll,
)
from support.rollbacks import Scene, paths, reasons
from turnback.errors import Failed
from turnback.native import moves
from turnback.pool.blobs import Pool


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An agent in place that changed ``f`` and made ``new``; a rollback to k1 exchanges the one and deletes the other."""
    made = Scene.in_place(tmp_path, {"f": "then\n", "other": "then\n"})
    made.changes({"f": "now\n", "new": "now\n", "other": "now\n"})
    return made


# --- one save --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-272")
@pytest.mark.parametrize("exchanging", [True, False], ids=["exchange", "no exchange"])
@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_a_save_just_before_a_file_is_replaced(scene: Scene, save: Save, exchanging: bool) -> None:
    """It stays under its name as if nothing had happened; the path is left, ``exact`` is false, and the rest goes back."""
    place = scene.tree.at("f")
    done = roll(scene, "f", before={1: lambda: save(place, "saved\n")}, exchanging=exchanging)
    assert reasons(done.repos[0].left) == {"f": "changed"}
    assert not done.exact
    assert {"new", "other"} <= set(paths(done.repos[0].files))
    assert scene.tree.read("other") == b"then\n"
    assert {b"saved\n", b"now\n"} <= everywhere(scene, done)
    if save is folder_instead:
        assert (place / "inside").read_text() == "saved\n"
    elif save is link_instead:
        assert os.readlink(place) == "saved\n"
    else:
        assert place.read_text() == "saved\n"
    nothing_left(scene)


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
def test_a_save_just_after_a_file_was_replaced(scene: Scene, save: Save) -> None:
    """It is newer than what the rollback wrote: it stays, and the capture afterwards shows it."""
    place = scene.tree.at("f")
    done = roll(scene, "f", after={1: lambda: save(place, "saved\n")})
    assert not done.exact
    assert {b"saved\n", b"now\n"} <= everywhere(scene, done)
    if save not in (folder_instead, link_instead):
        assert place.read_text() == "saved\n"
    nothing_left(scene)


@pytest.mark.parametrize("save", SAVES, ids=lambda save: save.__name__)
@pytest.mark.parametrize("when", ["before", "after"])
def test_a_save_around_a_deletion(scene: Scene, save: Save, when: str) -> None:
    """A file that is about to be deleted is saved once more: the save stays under its name."""
    place = scene.tree.at("new")
    if when == "before":
        done = roll(scene, "new", before={1: lambda: save(place, "saved\n")})
        assert reasons(done.repos[0].left) == {"new": "changed"}
    else:
        # The name is free now, so what "replaces" a file makes one first.
        def made_and_saved() -> None:
            place.write_text("x")
            save(place, "saved\n")

        done = roll(scene, "new", after={1: made_and_saved})
    assert not done.exact
    assert {b"saved\n", b"now\n"} <= everywhere(scene, done)
    assert os.path.lexists(place)
    nothing_left(scene)


def test_a_file_that_goes_just_before_it_is_replaced_is_not_made_again(scene: Scene) -> None:
    """An editor has moved it away for a moment: an exchange never becomes a create."""
    place = scene.tree.at("f")
    done = roll(scene, "f", before={1: lambda: place.rename(place.with_name("f~"))})
    assert reasons(done.repos[0].left) == {"f": "changed"}
    assert not place.exists()
    assert place.with_name("f~").read_text() == "now\n"


def test_a_file_that_appears_where_one_is_made_stays(tmp_path: Path) -> None:
    """Somebody makes a file under the name that the rollback is about to create: theirs stays, ours is not written."""
    scene = Scene.in_place(tmp_path, {"f": "then\n", "g": "then\n"})
    scene.changes({"f": None, "g": "now\n"})
    place = scene.tree.at("f")
    done = roll(scene, "f", before={1: lambda: in_place(place, "saved\n")})
    assert reasons(done.repos[0].left) == {"f": "changed"}
    assert place.read_text() == "saved\n"
    assert scene.tree.read("g") == b"then\n"
    nothing_left(scene)


def test_only_the_exec_bit_was_changed_in_between(scene: Scene) -> None:
    """The bytes are the safety checkpoint's, the bit isn't: that is somebody's change too."""
    done = roll(scene, "f", before={1: lambda: scene.tree.at("f").chmod(0o755)})
    assert reasons(done.repos[0].left) == {"f": "changed"}
    assert scene.tree.read("f") == b"now\n"
    assert scene.tree.at("f").stat().st_mode & 0o111


# --- several saves ---------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("second", [by_rename, in_place, by_moving_away], ids=lambda save: save.__name__)
def test_the_newest_of_two_saves_has_the_name(scene: Scene, second: Save) -> None:
    """The first comes before the exchange, the second while the first is given back: the second has the name, the first is kept and named."""
    place = scene.tree.at("f")
    done = roll(
        scene,
        "f",
        before={1: lambda: by_rename(place, "first\n"), 2: lambda: second(place, "second\n")},
    )
    assert place.read_text() == "second\n"
    assert {b"first\n", b"second\n", b"now\n"} <= everywhere(scene, done)
    assert reasons(done.repos[0].left) == {"f": "changed"}
    assert [row["path"] for row in done.repos[0].kept or ()] == ["f"]
    nothing_left(scene)


def test_a_save_in_every_gap_there_is(scene: Scene) -> None:
    """An autosaver that hits every single moment: the last one has the name, every other one is kept and named."""
    place = scene.tree.at("f")
    saves = [f"save {number}\n" for number in range(6)]
    done = roll(
        scene,
        "f",
        before={number + 1: lambda text=text: by_rename(place, text) for number, text in enumerate(saves)},  # type: ignore[misc]
    )
    assert place.read_text() == saves[-1]
    assert {text.encode() for text in saves} <= everywhere(scene, done)
    nothing_left(scene)


def test_a_deletion_while_a_save_is_given_back(scene: Scene) -> None:
    """Saved, and then the name is taken away while ours is there: the save gets its name back."""
    place = scene.tree.at("f")
    done = roll(scene, "f", before={1: lambda: by_rename(place, "saved\n"), 2: place.unlink})
    assert place.read_text() == "saved\n"
    assert b"now\n" in everywhere(scene, done)
    nothing_left(scene)


# --- and then something fails ----------------------------------------------------------------------------------------


def test_what_cannot_be_kept_stays_where_it_is_and_is_named(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The pool is full when a save has to be kept: its file isn't removed, and the result says where it is."""
    place = scene.tree.at("f")
    real = Pool.put

    def full(self: Pool, data: bytes, *, durable: bool = False) -> str:
        if data == b"first\n":
            raise Failed("state_folder", "no space left")
        return real(self, data, durable=durable)

    with monkeypatch.context() as patch:
        patch.setattr(Pool, "put", full)
        done = roll(
            scene,
            "f",
            before={1: lambda: by_rename(place, "first\n"), 2: lambda: by_rename(place, "second\n")},
        )
    assert place.read_text() == "second\n"
    (row,) = done.repos[0].kept or ()
    assert "sha256" not in row
    assert Path(row["place"]).read_bytes() == b"first\n"
    assert not done.exact
    scene.reopen()
    assert not Path(row["place"]).exists()
    (told,) = scene.ws._context.state().agents["a5"].attention
    assert scene.pool(told["kept"][0]["sha256"]) == b"first\n"


@pytest.mark.parametrize("save", [by_rename, in_place], ids=lambda save: save.__name__)
def test_a_save_between_the_write_and_its_undo_stays(scene: Scene, save: Save) -> None:
    """The rollback fails after the file was written, and somebody has saved it since: their save keeps the name, and the end says mixed."""
    place = scene.tree.at("f")
    real = moves.exchange

    def failing(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> bool:
        if to_name == b"other":
            save(place, "saved\n")
            raise OSError(errno.EIO, "broken")
        return real(from_folder, from_name, to_folder, to_name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnback.operations.apply.exchange", failing)
        with pytest.raises(Failed) as error:
            scene.back("k1")
    assert error.value.code == "failed.rollback_partial"
    assert error.value.data["repos"] == [{"repo": ".", "state": "mixed", "paths": ["f"]}]
    assert place.read_text() == "saved\n"
    assert scene.tree.read("other") == b"now\n"
    assert scene.tree.read("new") == b"now\n"
    assert scene.blob(error.value.data["safety"], "f") == b"now\n"
    nothing_left(scene)


def test_ctrl_c_in_the_middle_takes_everything_back(scene: Scene) -> None:
    """KeyboardInterrupt between two files: all is as before, the log has the end, and the interrupt goes on."""
    before = scene.files()

    def stop() -> None:
        raise KeyboardInterrupt

    with pytest.raises(KeyboardInterrupt):
        roll(scene, "other", after={1: stop})
    assert scene.files() == before
    ended = scene.events("agent.rollback_ended")[-1]["data"]
    assert (ended["ok"], ended["code"]) == (False, "failed.rollback_undone")
    nothing_left(scene)
    assert scene.back("k1").exact
