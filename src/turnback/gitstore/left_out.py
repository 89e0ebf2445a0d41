"""Paths that a capture leaves out, each told once: what can't be looked at by its outermost folder, a sparse checkout by its folders."""

from __future__ import annotations

import os
from bisect import bisect_left
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK
from turnback.gitstore import objects
from turnback.limits import Skipped, SkipReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Repository
    from turnback.native.index import IndexView

# So many paths outside a sparse checkout are named one by one; of more, whole folders are (DESIGN part 4, compact form).
_NAMED = 100


class Unreadable:
    """The paths of one tree that can't be looked at or listed."""

    def __init__(self, tree: str) -> None:
        self.tree = os.fsencode(tree)
        self.found: set[bytes] = set()
        self._open: dict[bytes, bool] = {}

    def add(self, path: bytes) -> None:
        """Note a path: itself, or ending in ``/`` the outermost folder above it (or itself) that can't be listed or searched."""
        for above in [*paths.parents(path), path] if path.endswith(b"/") else paths.parents(path):
            if not self._may_be_looked_into(above.rstrip(b"/")):
                self.found.add(above.rstrip(b"/") + b"/")
                return
        self.found.add(path)

    def skipped(self) -> list[Skipped]:
        """The items of the record."""
        return [Skipped(path, 0, SkipReason.UNREADABLE) for path in sorted(self.found)]

    def _may_be_looked_into(self, folder: bytes) -> bool:
        known = self._open.get(folder)
        if known is None:
            full = os.path.join(self.tree, folder)
            known = self._open[folder] = not os.path.isdir(full) or os.access(full, os.R_OK | os.X_OK)
        return known


def outside_sparse(repository: Repository, view: IndexView, positions: Sequence[int]) -> list[Skipped]:
    """The items for index entries that are skip-worktree.

    Args:
        repository: where the blobs are.
        view: the index.
        positions: of the entries, rising.
    """
    if len(positions) <= _NAMED:
        return [_named(repository, view, position) for position in positions]
    found = []
    at = 0
    while at < len(positions):
        position = positions[at]
        folder = _whole_folder(view, positions, view.path(position))
        if folder is None:
            found.append(_named(repository, view, position))
            at += 1
        else:
            found.append(Skipped(folder + b"/", 0, SkipReason.SKIP_WORKTREE))
            at = bisect_left(positions, view.prefix(folder).stop)
    return found


def _whole_folder(view: IndexView, positions: Sequence[int], path: bytes) -> bytes | None:
    """The outermost folder above a path in which every entry is among the positions."""
    for above in paths.parents(path):
        span = view.prefix(above)
        if bisect_left(positions, span.stop) - bisect_left(positions, span.start) == len(span):
            return above
    return None


def _named(repository: Repository, view: IndexView, position: int) -> Skipped:
    entry = view.entry(position)
    blob = entry.mode != GITLINK and not entry.path.endswith(b"/")
    size = objects.blob_size(repository, entry.oid.hex()) if blob else 0
    return Skipped(entry.path, size, SkipReason.SKIP_WORKTREE)
