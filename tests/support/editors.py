"""Somebody who saves while a rollback runs: how editors do it, at which moment, and what can still be had of it afterwards."""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from turnback.native import moves

if TYPE_CHECKING:
    from support.rollbacks import Scene
    from turnback.operations.results import RollbackDone

Save = Callable[[Path, str], None]


def by_rename(place: Path, content: str) -> None:
    """Write beside and rename over: vim with backupcopy=no, most IDEs."""
    beside = place.with_name("." + place.name + ".swp")
    beside.write_text(content)
    beside.rename(place)


def in_place(place: Path, content: str) -> None:
    """Truncate and write."""
    place.write_text(content)


def by_moving_away(place: Path, content: str) -> None:
    """Move the file away as a backup, then write a new one: emacs, vim with backup."""
    if place.exists():
        place.rename(place.with_name(place.name + "~"))
    place.write_text(content)


def folder_instead(place: Path, content: str) -> None:
    """Replace the file by a folder."""
    place.unlink()
    place.mkdir()
    (place / "inside").write_text(content)


def link_instead(place: Path, content: str) -> None:
    """Replace the file by a link."""
    place.unlink()
    place.symlink_to(content)


SAVES = [by_rename, in_place, by_moving_away, folder_instead, link_instead]


class At:
    """Calls of the mover, with something done just before or after the n-th one that is about a path."""

    def __init__(
        self, name: str, before: dict[int, Callable[[], object]], after: dict[int, Callable[[], object]]
    ) -> None:
        self.name = name.encode()
        self.before = before
        self.after = after
        self.calls = 0

    def wrap(self, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> Any:
            if self.name not in (from_name, to_name):
                return real(from_folder, from_name, to_folder, to_name)
            self.calls += 1
            self.before.get(self.calls, lambda: None)()
            result = real(from_folder, from_name, to_folder, to_name)
            self.after.get(self.calls, lambda: None)()
            return result

        return call


def roll(
    scene: Scene,
    name: str,
    before: dict[int, Callable[[], object]] | None = None,
    after: dict[int, Callable[[], object]] | None = None,
    *,
    exchanging: bool = True,
) -> RollbackDone:
    """Go back to k1 while something happens around the n-th move of one name; without ``exchanging`` the filesystem can't exchange."""
    at = At(name, before or {}, after or {})
    with pytest.MonkeyPatch.context() as patch:
        for function in ("exchange", "give_name", "take_away"):
            real = getattr(moves, function)
            if function == "exchange" and not exchanging:
                patch.setattr("turnback.operations.apply.exchange", lambda *_: False)
            else:
                patch.setattr(f"turnback.operations.apply.{function}", at.wrap(real))
        return scene.back("k1")


def everywhere(scene: Scene, done: RollbackDone) -> set[bytes]:
    """Every content that can be had: from the tree, from the two checkpoints, from what was kept and named."""
    found = {state.content for state in scene.files().values()}
    for checkpoint in (done.safety, done.after):
        ref = f"refs/venom/checkpoints/{scene.agent.id}/{checkpoint[1:]}"
        for _, oid in scene.tree.ls_tree(ref).values():
            found.add(scene.tree.git("cat-file", "blob", oid))
    for row in done.repos[0].kept or ():
        if "sha256" in row:
            content = scene.pool(row["sha256"])
            assert hashlib.sha256(content).hexdigest() == row["sha256"]
            found.add(content)
        if "place" in row and Path(row["place"]).is_file():
            found.add(Path(row["place"]).read_bytes())
        if "place" in row and Path(row["place"]).is_dir():
            found |= {inside.read_bytes() for inside in Path(row["place"]).iterdir()}
    return found


def nothing_left(scene: Scene) -> None:
    """Nothing of ours lies about."""
    assert not (scene.tree.git_dir / "turnback").exists()
    assert os.listdir(scene.state_dir / "holding") == []
