"""The tree that an index would give, with some paths set to something else: git's write-tree after its add.

Folders that the index's ``TREE`` extension knows keep that id, as long as the object exists (DESIGN 10.1: ``git gc`` may have removed it);
only folders with a change are listed and written. Entries of other stages than 0 and intent-to-add entries aren't in a tree unless an edit
puts them there.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.changes import FOLDER, Entry
from turnback.gitstore import objects
from turnback.gitstore.trees import Edits, merged

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnback.gitstore.repo import Repository
    from turnback.native.index import IndexView


def write(repository: Repository, view: IndexView, edits: Mapping[bytes, Entry | None]) -> str:
    """Write the tree and give its id; the empty tree when nothing is left.

    Args:
        repository: where objects go.
        view: the index.
        edits: path to the entry that it gets, or None for a path that is gone.
    """
    found = _Writer(repository, view).folder(b"", Edits.of(edits))
    return found or objects.write_tree(repository, {})


class _Writer:
    def __init__(self, repository: Repository, view: IndexView) -> None:
        self.repository = repository
        self.view = view
        self.known = view.tree_nodes

    def folder(self, prefix: bytes, edits: Edits) -> str | None:
        """The id of one folder (``b""``, or ending in ``/``), None when nothing is in it."""
        if not edits.names and not edits.folders:
            node = self.known.get(prefix[:-1])
            # An invalid node has no id. An id without its object is no use: git writes such a tree again, and so do we.
            if node is not None and node.oid is not None and objects.exists(self.repository, node.oid.hex()):
                return node.oid.hex()
        entries, folders = self._listed(prefix)
        below = dict(edits.folders)
        for name in folders:
            below.setdefault(name, Edits())
        here = Edits()
        here.names, here.folders = edits.names, below
        return merged(
            self.repository, entries, here, lambda name, inside: self.folder(prefix + name + b"/", inside)
        )

    def _listed(self, prefix: bytes) -> tuple[dict[bytes, Entry], list[bytes]]:
        """What the index has directly in a folder: entries by name, and the names of the folders in it."""
        entries: dict[bytes, Entry] = {}
        folders: list[bytes] = []
        span = self.view.prefix(prefix)
        position, end, length = span.start, span.stop, len(prefix)
        while position < end:
            entry = self.view.entry(position)
            name, slash, rest = entry.path[length:].partition(b"/")
            if slash and rest:
                folders.append(name)
                # One step over everything in that folder.
                position = self.view.prefix(prefix + name + b"/").stop
                continue
            if slash:
                entries[name] = Entry(
                    FOLDER, entry.oid.hex()
                )  # a sparse index keeps a whole folder as one entry
            elif entry.stage == 0 and not entry.intent_to_add:
                entries[name] = Entry(entry.mode, entry.oid.hex())
            position += 1
        return entries, folders
