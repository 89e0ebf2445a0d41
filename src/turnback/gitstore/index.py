"""Read the user's index into a view, without touching it: not its bytes, not its stat data, not its lock."""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Failed
from turnback.native.index import IndexView
from turnback.native.lib import CoreError

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository

_ATTEMPTS = 3  # of reading a split index while somebody writes it


@dataclass(frozen=True, slots=True)
class Index:
    """The index at one moment.

    Attributes:
        view: what it says.
        mtime_ns: the file's modification time (for git's racy rule); 0 without a file.
    """

    view: IndexView
    mtime_ns: int


def read_view(repository: Repository) -> tuple[IndexView, int]:
    """The parsed index of a tree, and the index file's modification time in nanoseconds; see ``read``."""
    found = read(repository)
    return found.view, found.mtime_ns


def read(repository: Repository) -> Index:
    """The index of a tree as it is now.

    A repository without an index yet gives an empty view (V-134). git replaces its index by rename, so one read sees one index.

    Raises:
        Failed: ``failed.checkpoint_git``: it is damaged or has a mandatory extension that isn't known.
    """
    attempt = 1
    while True:
        try:
            return _read(repository)
        except FileNotFoundError as error:
            # The shared file of a split index was replaced together with the index, between the two reads.
            if attempt == _ATTEMPTS:
                raise _damaged(repository, error) from error
            attempt += 1
        except (CoreError, OSError) as error:
            raise _damaged(repository, error) from error


def _read(repository: Repository) -> Index:
    try:
        with open(repository.index_path, "rb") as file:
            data = file.read()
            mtime_ns = os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return Index(IndexView.empty(), 0)
    shared = IndexView.shared_oid(data)
    if shared is None:
        return Index(IndexView.parse(data), mtime_ns)
    with open(os.path.join(repository.git_dir, f"sharedindex.{shared.hex()}"), "rb") as file:
        return Index(IndexView.parse(data, file.read()), mtime_ns)


def _damaged(repository: Repository, error: Exception) -> Failed:
    return Failed(
        "checkpoint_git",
        f"the index of {repository.path} can't be read: {error}. Run git status there; if git refuses it too, "
        "remove .git/index and run git reset",
        reason=str(error),
    )
