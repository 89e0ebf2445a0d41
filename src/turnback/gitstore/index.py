"""Read the user's index into a view, without touching it: not its bytes, not its stat data, not its lock."""

from __future__ import annotations

import hashlib
import os
import struct
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Failed
from turnback.native.index import IndexView
from turnback.native.lib import CoreError

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository
    from turnback.native.index import IndexEntry

_ATTEMPTS = 3  # of reading a split index while somebody writes it
_NAME_MASK, _EXTENDED, _SKIP_WORKTREE, _INTENT_TO_ADD = 0xFFF, 0x4000, 0x4000, 0x2000


@dataclass(frozen=True, slots=True)
class Index:
    """The index at one moment.

    Attributes:
        view: what it says.
        mtime_ns: the file's modification time (for git's racy rule); 0 without a file.
        data: the file's bytes, empty without one.
        identity: tells whether the file is still the same one; None without one.
    """

    view: IndexView
    mtime_ns: int
    data: bytes
    identity: tuple[int, ...] | None


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
            found = os.fstat(file.fileno())
    except FileNotFoundError:
        return Index(IndexView.empty(), 0, b"", None)
    shared = IndexView.shared_oid(data)
    if shared is None:
        view = IndexView.parse(data)
    else:
        with open(os.path.join(repository.git_dir, f"sharedindex.{shared.hex()}"), "rb") as file:
            view = IndexView.parse(data, file.read())
    return Index(view, found.st_mtime_ns, data, _identity(found))


def _damaged(repository: Repository, error: Exception) -> Failed:
    return Failed(
        "checkpoint_git",
        f"the index of {repository.path} can't be read: {error}. Run git status there; if git refuses it too, "
        "remove .git/index and run git reset",
        reason=str(error),
    )


def has_moved(repository: Repository, index: Index) -> bool:
    """Whether the index file is another one than was read."""
    try:
        return _identity(os.stat(repository.index_path)) != index.identity
    except FileNotFoundError:
        return index.identity is not None


def _identity(found: os.stat_result) -> tuple[int, ...]:
    return (found.st_dev, found.st_ino, found.st_size, found.st_mtime_ns, found.st_ctime_ns)


def write_copy(index: Index, place: str) -> None:
    """Write an index file that lists what this one does, for a git command that only needs to know what is tracked.

    A split index becomes a whole one: reading a split one makes git set the time of the user's shared file.
    """
    if index.identity is None:
        return  # no file is an empty index to git too
    data = _whole(index.view) if index.view.is_split else index.data
    with open(place, "wb") as file:
        file.write(data)


def _whole(view: IndexView) -> bytes:
    rows = [b"DIRC" + struct.pack(">II", 3, len(view)), *map(_row, view)]
    data = b"".join(rows)
    return data + hashlib.sha1(data, usedforsecurity=False).digest()


def _row(entry: IndexEntry) -> bytes:
    """One entry of format 3, without stat data."""
    flags = min(len(entry.path), _NAME_MASK) | entry.stage << 12
    more = (_SKIP_WORKTREE if entry.skip_worktree else 0) | (_INTENT_TO_ADD if entry.intent_to_add else 0)
    row = bytes(24) + struct.pack(">I", entry.mode) + bytes(12) + entry.oid
    row += struct.pack(">HH", flags | _EXTENDED, more) if more else struct.pack(">H", flags)
    row += entry.path
    return row + bytes(8 - len(row) % 8)
