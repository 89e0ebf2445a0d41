"""Read the user's index into a view, without touching it: not its bytes, not its stat data, not its lock."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnback.errors import Failed
from turnback.native.index import IndexView
from turnback.native.lib import CoreError

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository


def read_view(repository: Repository) -> tuple[IndexView, int]:
    """The parsed index of a tree, and the index file's modification time in nanoseconds (for git's racy rule).

    A repository without an index yet gives an empty view (V-134). git replaces its index by rename, so one read sees one index.

    Raises:
        Failed: ``failed.checkpoint_git``: it is damaged or has a mandatory extension that isn't known.
    """
    try:
        with open(repository.index_path, "rb") as file:
            data = file.read()
            mtime_ns = os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return IndexView.empty(), 0
    except OSError as error:
        raise Failed(
            "checkpoint_git", f"{repository.index_path} can't be read: {error.strerror}", reason=str(error)
        ) from error
    try:
        shared = IndexView.shared_oid(data)
        if shared is None:
            return IndexView.parse(data), mtime_ns
        with open(os.path.join(repository.git_dir, f"sharedindex.{shared.hex()}"), "rb") as file:
            return IndexView.parse(data, file.read()), mtime_ns
    except (CoreError, OSError) as error:
        raise Failed(
            "checkpoint_git",
            f"the index of {repository.path} can't be read: {error}. Run git status there; if git refuses it too, "
            "remove .git/index and run git reset",
            reason=str(error),
        ) from error
