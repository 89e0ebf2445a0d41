"""The bytes that a rollback writes, and the proof that what it replaces is what the safety checkpoint holds.

What goes out is raw bytes where the checkpoint kept some, else the blob, through git's own smudge (filters, line endings) where any
conversion may apply under the checkpoint's attributes. What is there is compared by content, not by stat data, which can lie (DESIGN 10.4).
"""

from __future__ import annotations

import os
import tempfile
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import EXECUTABLE, FOLDER, LINK, Entry
from turnback.errors import Failed
from turnback.gitstore import convert, objects, process, trees
from turnback.native.files import Look, NotRegular

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.settings import Settings
    from turnback.native.files import Beneath
    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.plan import Step


# Where git may look for the attributes of a whole system; which one depends on how it was built.
_SYSTEM = ("/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes")
_UNSET = (b"unspecified", b"unset", b"set", b"")


class Contents:
    """The bytes of one tree's writes; ready once ``prepare`` has run.

    Attributes:
        unavailable: paths whose required filter can't write them; they are left alone.
    """

    def __init__(self, context: Context, part: TreePlan, scratch: str) -> None:
        self.context = context
        self.part = part
        self.scratch = scratch
        self.unavailable: set[bytes] = set()
        self._smudged: dict[bytes, str] = {}

    def prepare(self, steps: Sequence[Step]) -> None:
        """Let git write out every file that a conversion may apply to, into the scratch folder; the rest must be at hand.

        Raises:
            MissingObject: a blob is gone.
            Failed: ``failed.pool``: kept bytes are gone.
        """
        for step in steps:
            if step.raw is not None:
                if not self.context.pool.has(step.raw):
                    raise Failed(
                        "pool", f"kept bytes of {paths.text(step.path)} are missing", sha256=step.raw
                    )
            elif step.target is not None and not objects.exists(self.part.repository, step.target.oid):
                raise objects.MissingObject(step.target.oid, self.part.repository.path)
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
        self._smudge(
            files, {path: entry for path, entry in attributes.items() if entry.mode not in (LINK, FOLDER)}
        )

    def _converts(self) -> bool:
        """Whether anything but the checkpoint's own attributes may change a file's bytes on its way out."""
        settings = self.part.settings
        files = (
            settings.attributes_file,
            os.path.join(self.part.repository.common_dir, "info", "attributes"),
            *_SYSTEM,
        )
        return (
            settings.autocrlf != "false"
            or settings.eol == "crlf"
            or settings.attributes_tree
            or any(map(os.path.exists, files))
        )

    def _smudge(self, files: dict[bytes, Entry], attributes: dict[bytes, Entry]) -> None:
        repository = self.part.repository

        def write(batch: Sequence[bytes]) -> None:
            folder = tempfile.mkdtemp(dir=self.scratch)
            out = convert.smudge(repository, {path: files[path] for path in batch}, attributes, folder)
            self._smudged.update(dict.fromkeys(batch, out))

        plain = set(self._unfiltered(sorted(files), attributes))
        failed = convert.in_halves(sorted(files), write, files.keys() - plain)
        self.unavailable.update(failed)
        unfiltered = [path for path in failed if path in plain]
        if unfiltered:
            # No filter's fault: a full disk, say. To leave these alone would look as if nothing had gone wrong.
            name = paths.text(unfiltered[0])
            raise Failed(
                "checkpoint_git",
                f"git can't write {name} out",
                reason=f"git checkout-index failed for {name}",
            )

    def _unfiltered(self, failed: Sequence[bytes], attributes: dict[bytes, Entry]) -> list[bytes]:
        """Those of some paths to which neither an external filter nor an encoding applies."""
        if not failed:
            return []
        folder = tempfile.mkdtemp(dir=self.scratch)
        index_file = os.path.join(folder, "attributes.index")
        extra = {
            "GIT_DIR": self.part.repository.git_dir,
            "GIT_WORK_TREE": folder,
            "GIT_INDEX_FILE": index_file,
        }
        convert.fill(self.part.repository, attributes, extra, None)
        output = process.run(
            folder,
            ["check-attr", "-z", "--stdin", "filter", "working-tree-encoding"],
            stdin=[path + b"\0" for path in failed],
            extra=extra,
        )
        rows = process.split(output)
        converted = {rows[at] for at in range(0, len(rows), 3) if rows[at + 2] not in _UNSET}
        return [path for path in failed if path not in converted]

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


def verified(part: TreePlan, scratch: str, tree: Beneath) -> tuple[dict[bytes, Look], list[bytes]]:
    """Look at every path that will be replaced or deleted: what is there, and which ones aren't what S holds any more."""
    looks: dict[bytes, Look] = {}
    doubtful: dict[bytes, Look] = {}
    changed = []
    raw = {item.path: item.sha256 for item in part.captured.snapshot.raw}
    steps = part.plan.steps
    for step in steps:
        if step.state is None and step.path not in raw:
            continue
        look = _look(tree, step.path)
        if look is None or not _same_kind(step.state, look, part.settings):
            changed.append(step.path)
        elif raw.get(step.path) == look.sha256 or (step.state is not None and look.blob == step.state.oid):
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
            state, again = states[path], _look(tree, path)
            same = again is not None and again.same_content(look)
            if same and state is not None and cleaned.get(path) == state.oid:
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
        if entry.mode not in (LINK, FOLDER)
    }
    return convert.clean(part.repository, list(doubtful), index, scratch, ())
