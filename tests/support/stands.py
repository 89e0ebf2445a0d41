"""Scenes that a test may break as often as it likes: a step of every kind, a way to put everything back, and what a person has, to the inode."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from support.rollbacks import Scene, Stage, files_of, folders_of
from turnback.errors import TurnbackError

if TYPE_CHECKING:
    from pathlib import Path

    from support.faults import Faults
    from support.git_repo import FileState
    from turnback.operations.results import RollbackDone


@dataclass(frozen=True)
class Before:
    """Everything that a person has, to the inode: files, folders, HEAD, branches and index."""

    files: dict[bytes, FileState]
    folders: dict[bytes, int]
    git: dict[str, bytes]

    @classmethod
    def of(cls, stand: Stand) -> Before:
        git = {name: (stand.git_dir / name).read_bytes() for name in ("HEAD", "index")}
        for place in sorted((stand.scene.source.path / ".git" / "refs" / "heads").iterdir()):
            git[place.name] = place.read_bytes()
        return cls(files_of(stand.scene.tree.path), folders_of(stand.scene.tree.path), git)

    def contents(self) -> dict[bytes, tuple[int, bytes]]:
        return {path: (found.mode, found.content) for path, found in self.files.items()}


class Stand:
    """A scene in which everything can be put back where it was, and the plan that goes back to k1."""

    def __init__(self, scene: Scene) -> None:
        self.scene = scene
        self.git_dir = scene.tree.git_dir
        self.plan = scene.plan("k1").plan
        self._stage = Stage(scene.root)
        self._stage.keep()

    def begin(self) -> Before:
        """Put everything back, and look at it."""
        self._stage.reset()
        self.scene.reopen()
        return Before.of(self)

    def roll(self, faults: Faults) -> RollbackDone | TurnbackError:
        """One real call with faults; what came of it."""
        with faults:
            try:
                return self.scene.agent.rollback("k1", restore="files", plan=self.plan)
            except TurnbackError as error:
                return error

    def ends(self) -> list[str | None]:
        """The code of every rollback's end, by the log; None for one that ended well."""
        return [event["data"].get("code") for event in self.scene.events("agent.rollback_ended")]


def in_place(root: Path) -> Scene:
    """A guarded tree with a step of every kind: T is k1."""
    scene = Scene.in_place(
        root,
        {
            ".gitattributes": "*.crlf text eol=crlf\n",
            "changed": "then\n",
            "tool": "then\n",
            "gone/deep/file": "then\n",
            "to-folder": "then\n",
            "to-file/a": "then\n",
            "to-file/b": "then\n",
            "mixed.crlf": "one\r\n",
        },
    )
    scene.tree.at("tool").chmod(0o755)
    scene.put({"mixed.crlf": b"one\r\ntwo\n"})
    scene.tree.link("link", "changed")
    with scene.turn():
        scene.put({"changed": "now\n", "mixed.crlf": "now\r\n", "gone": None, "new/deep/file": "now\n"})
        scene.tree.at("tool").chmod(0o644)
        scene.put({"to-folder": None, "to-file": None, "link": None})
        scene.put({"to-folder/x": "now\n", "to-file": "now\n", "link": "now a file\n"})
        scene.tree.at("new").chmod(0o700)
    return scene


def worktree(root: Path) -> Scene:
    """An unguarded tree whose HEAD moves back over two commits."""
    scene = Scene.worktree(root, {"a": "then\n", "b": "then\n", "c": "then\n"})
    with scene.turn():
        scene.put({"a": "now\n"})
        scene.tree.commit("second")
        scene.put({"b": "now\n", "new": "now\n"})
        scene.tree.commit("third")
        scene.put({"c": "now\n"})
        scene.tree.git("add", "c")
    return scene


def lost(stand: Stand, before: Before) -> set[bytes]:
    """Files whose bytes are nowhere any more: not in the tree, not in the newest safety checkpoint, not where displaced files wait or are kept."""
    there = {found.content for found in files_of(stand.scene.tree.path).values()}
    for folder in (stand.git_dir / "turnback", stand.scene.state_dir / "pool"):
        for place in folder.rglob("*"):
            if place.is_symlink():
                there.add(os.fsencode(os.readlink(place)))
            elif place.is_file():
                there.add(place.read_bytes())
    missing = {path for path, found in before.files.items() if found.content not in there}
    listed = stand.scene.agent.checkpoints().checkpoints
    safety = next((row.checkpoint for row in listed if row.reason == "pre_rollback"), None)
    return {
        path
        for path in missing
        if safety is None or _written(stand, safety, path) != before.files[path].content
    }


def _written(stand: Stand, checkpoint: str, path: bytes) -> bytes:
    """A file as git would write it from a checkpoint."""
    ref = f"refs/venom/checkpoints/{stand.scene.agent.id}/{checkpoint[1:]}:"
    return stand.scene.tree.git("cat-file", "--filters", os.fsencode(ref) + path)
