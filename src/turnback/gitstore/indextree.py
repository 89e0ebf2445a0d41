"""The tree that an index would give, with some paths set to something else: git's write-tree after its add.

Folders that the index's ``TREE`` extension knows keep that id, as long as the object exists (DESIGN 10.1: ``git gc`` may have removed it);
only folders with a change are listed and written. Entries of other stages than 0 and intent-to-add entries aren't in a tree unless an edit
puts them there. A folder that a sparse index keeps as one entry is read from its tree object where something beneath it is asked for.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.changes import FOLDER, GITLINK, Entry
from turnback.gitstore import objects, trees

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.writer import ObjectWriter
    from turnback.native.index import IndexView


def write(
    repository: Repository,
    view: IndexView,
    edits: Mapping[bytes, Entry | None],
    writer: ObjectWriter,
    absent: list[bytes],
) -> str:
    """Write the tree and give its id; the empty tree when nothing is left.

    Args:
        repository: what is there already.
        view: the index.
        edits: path to the entry that it gets, or None for a path that is gone.
        writer: where new trees go.
        absent: gets the paths, in the folders that are written, whose blob the index names and nobody has: the tree is no use then, and their files
            have to be read (DESIGN 10.1). Where git asks, in its write-tree, this does.
    """
    grouped = trees.by_folder(edits)
    if not edits:
        known = _known(repository, view, b"")
        if known is not None:
            return known
    folders: dict[bytes, dict[bytes, Entry]] = {}
    # Each folder with where it stands: in the index (None), or in a tree object of a sparse index.
    waiting: list[tuple[bytes, str | None]] = [(b"", None)]
    while waiting:
        folder, oid = waiting.pop()
        entries, inside = (
            _listed(repository, view, folder, edits, absent)
            if oid is None
            else (objects.read_tree(repository, oid), list[bytes]())
        )
        folders[folder] = entries
        prefix = folder + b"/" if folder else b""
        for name in inside:
            known = _known(repository, view, prefix + name) if prefix + name not in grouped else None
            if known is None:
                waiting.append((prefix + name, None))
            else:
                entries[name] = Entry(FOLDER, known)
        for name, entry in entries.items():
            if entry.mode == FOLDER and name not in inside and prefix + name in grouped:
                waiting.append((prefix + name, entry.oid))
    # Folders that only the edits know.
    for folder in grouped:
        folders.setdefault(folder, {})
    return trees.assembled(writer, folders, grouped)


def _known(repository: Repository, view: IndexView, folder: bytes) -> str | None:
    """The id that the ``TREE`` extension has for a folder. One without its object is no use: git writes such a tree again, and so do we."""
    node = view.tree_nodes.get(folder)
    if node is None or node.oid is None or not objects.exists(repository, node.oid.hex()):
        return None
    return node.oid.hex()


def _listed(
    repository: Repository,
    view: IndexView,
    folder: bytes,
    edits: Mapping[bytes, Entry | None],
    absent: list[bytes],
) -> tuple[dict[bytes, Entry], list[bytes]]:
    """What the index has directly in a folder: entries by name, and the names of the folders in it."""
    entries: dict[bytes, Entry] = {}
    folders: list[bytes] = []
    prefix = folder + b"/" if folder else b""
    span = view.prefix(prefix)
    position, end, length = span.start, span.stop, len(prefix)
    while position < end:
        entry = view.entry(position)
        name, slash, rest = entry.path[length:].partition(b"/")
        if slash and rest:
            folders.append(name)
            # One step over everything in that folder.
            position = view.prefix(prefix + name + b"/").stop
            continue
        if slash:
            # A sparse index keeps a whole folder as one entry.
            entries[name] = Entry(FOLDER, entry.oid.hex())
        elif entry.stage == 0 and not entry.intent_to_add:
            entries[name] = Entry(entry.mode, entry.oid.hex())
            # What isn't checked out can't be read, and may be missing on purpose (a partial clone).
            vouched = entry.mode != GITLINK and not entry.skip_worktree and entry.path not in edits
            if vouched and not objects.exists(repository, entry.oid.hex()):
                absent.append(entry.path)
        position += 1
    return entries, folders
