"""The bytes that a rollback writes, and the proof that what it replaces is what the safety checkpoint holds.

What goes out is raw bytes where the checkpoint kept some, else the blob, through git's own smudge (filters, line endings) where any
conversion may apply under the checkpoint's attributes. What is there is compared by content, not by stat data, which can lie (DESIGN 10.4).
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnback.changes import EXECUTABLE, LINK, Entry
from turnback.gitstore import convert, objects, trees
from turnback.gitstore.process import GitFailed
from turnback.native.files import Beneath, Look, NotRegular

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from turnback.gitstore.settings import Settings
    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.plan import Step


class Contents:
    """The bytes of one tree's writes; ready once ``prepare`` has run.

    Attributes:
        unavailable: paths whose required filter can't write them; they are left alone.
    """

    def __init__(self, context: Context, part: TreePlan, settings: Settings, scratch: str) -> None:
        self.context = context
        self.part = part
        self.settings = settings
        self.scratch = scratch
        self.unavailable: set[bytes] = set()
        self._smudged: dict[bytes, str] = {}

    def prepare(self, steps: Iterable[Step]) -> None:
        """Let git write out every file that a conversion may apply to, into the scratch folder."""
        files = {
            step.path: step.target
            for step in steps
            if step.target is not None and step.target.mode != LINK and step.raw is None
        }
        if not files:
            return
        attributes = trees.lookup(
            self.part.repository, self.part.target["tree"], convert.attribute_paths(files)
        )
        if not attributes and not self._converts():
            return
        self._smudge(files, {path: entry for path, entry in attributes.items() if entry.mode != LINK}, "0")

    def _converts(self) -> bool:
        settings = self.settings
        return (
            settings.autocrlf != "false"
            or settings.eol == "crlf"
            or os.path.exists(settings.attributes_file)
            or os.path.exists("/etc/gitattributes")
            or os.path.exists(os.path.join(self.part.repository.common_dir, "info", "attributes"))
        )

    def _smudge(self, files: dict[bytes, Entry], attributes: dict[bytes, Entry], name: str) -> None:
        folder = os.path.join(self.scratch, name)
        os.mkdir(folder, 0o700)
        try:
            out = convert.smudge(self.part.repository, files, attributes, folder)
        except GitFailed:
            if len(files) == 1:
                self.unavailable.update(files)
                return
            # One required filter took the batch with it: halve until it stands alone.
            paths = sorted(files)
            half = len(paths) // 2
            self._smudge({path: files[path] for path in paths[:half]}, attributes, name + "0")
            self._smudge({path: files[path] for path in paths[half:]}, attributes, name + "1")
            return
        self._smudged.update(dict.fromkeys(files, out))

    def data(self, step: Step) -> bytes:
        """The bytes to write for a step.

        Raises:
            MissingObject: the blob is gone.
            Failed: ``failed.pool``: the kept bytes are gone.
        """
        if step.raw is not None:
            return self.context.pool.get(step.raw)
        assert step.target is not None
        out = self._smudged.get(step.path)
        if out is None:
            return objects.read_blob(self.part.repository, step.target.oid)
        with open(os.path.join(os.fsencode(out), step.path), "rb") as file:
            return file.read()


def verified(
    part: TreePlan, settings: Settings, steps: Sequence[Step], scratch: str
) -> tuple[dict[bytes, Look], list[bytes]]:
    """Look at every path that will be replaced or deleted: what is there, and which ones aren't what S holds any more."""
    looks: dict[bytes, Look] = {}
    doubtful: dict[bytes, Look] = {}
    changed = []
    raw = {item.path: item.sha256 for item in part.captured.snapshot.raw}
    with Beneath(part.repository.path) as tree:
        for step in steps:
            if step.state is None and step.path not in raw:
                continue
            look = _look(tree, step.path)
            if look is None or not _same_kind(step.state, look, settings):
                changed.append(step.path)
            elif raw.get(step.path) == look.sha256 or (
                step.state is not None and look.blob == step.state.oid
            ):
                looks[step.path] = look
            elif step.path in raw or look.kind == "link":
                changed.append(step.path)
            else:
                doubtful[step.path] = look
        if doubtful:
            # Not the stored bytes: they may still be what git's clean makes the stored ones of.
            cleaned = _cleaned(part, doubtful, scratch)
            states = {step.path: step.state for step in steps}
            for path, look in doubtful.items():
                state = states[path]
                again = _look(tree, path)
                if (
                    state is not None
                    and cleaned.get(path) == state.oid
                    and again is not None
                    and again.same_content(look)
                ):
                    looks[path] = look
                else:
                    changed.append(path)
    return looks, changed


def _look(tree: Beneath, path: bytes) -> Look | None:
    try:
        return tree.look(path)
    except (NotRegular, OSError):
        return None


def _same_kind(state: Entry | None, look: Look, settings: Settings) -> bool:
    if state is None:
        return look.kind == "file"
    if state.mode == LINK and settings.symlinks:
        return look.kind == "link"
    if look.kind != "file":
        return False
    return (
        not settings.file_mode or state.mode == LINK or (state.mode == EXECUTABLE) == bool(look.mode & 0o100)
    )


def _cleaned(part: TreePlan, doubtful: dict[bytes, Look], scratch: str) -> dict[bytes, str]:
    wanted = [*doubtful, *convert.attribute_paths(doubtful)]
    index = {
        path: entry
        for path, entry in trees.lookup(part.repository, part.captured.snapshot.tree, wanted).items()
        if entry.mode not in (LINK, 0o040000)
    }
    return convert.clean(part.repository, list(doubtful), index, scratch)
