"""Names moved without a moment in which a file is gone, and the last question before a file is removed: is anybody still writing it?

A file is never written in place: a new one is prepared under a name of ours and then *exchanged* with the old one, so that the old
one still exists and can be looked at. ``turnback.operations.apply`` decides what happens to it.

What is not promised: on a filesystem without an atomic exchange (``exchange`` returns False) the caller falls back to renaming the old
file aside, and for that moment the name is free; without hard links either, a name that somebody takes in the same instant may be
replaced. Where there are no leases (``Writer.UNKNOWN``) nobody can say whether a file is still
open somewhere.
"""

from __future__ import annotations

import errno
import fcntl
import os
import signal
from contextlib import contextmanager
from enum import Enum
from typing import TYPE_CHECKING, Final

from turnback.native.lib import rename_exchange, rename_new, sync_filesystem

if TYPE_CHECKING:
    from collections.abc import Iterator

_SET_LEASE: int | None = getattr(fcntl, "F_SETLEASE", None)
_SET_SIGNAL: int | None = getattr(fcntl, "F_SETSIG", None)

LEASES: Final = _SET_LEASE is not None and _SET_SIGNAL is not None
"""Whether this system can say that nobody is writing a file; a filesystem may still have no answer."""


class Writer(Enum):
    """Whether any process has a file open for writing."""

    NONE = "none"
    SOME = "some"
    UNKNOWN = "unknown"


def exchange(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> bool:
    """Swap what two names stand for, atomically; False when this filesystem can't.

    Raises:
        OSError: with ``errno.EXDEV`` when the folders are on different filesystems, ``ENOENT`` when a name isn't there.
    """
    return _done(rename_exchange(from_folder, from_name, to_folder, to_name), to_name)


def give_name(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> None:
    """Rename something to a name only if that name is free.

    Raises:
        FileExistsError: it is taken; nothing changed.
    """
    if _done(rename_new(from_folder, from_name, to_folder, to_name), to_name):
        return
    # No such rename here: a hard link fails as it should when the name is taken; the old name then goes.
    try:
        os.link(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder, follow_symlinks=False)
        os.unlink(from_name, dir_fd=from_folder)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        # A folder, or a filesystem without hard links either: the look and the rename are two steps.
        if exists(to_folder, to_name):
            raise FileExistsError(errno.EEXIST, os.strerror(errno.EEXIST), os.fsdecode(to_name)) from error
        os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def take_away(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> None:
    """Rename something out of the way, to a name that nobody else uses.

    Raises:
        OSError: with ``errno.EXDEV`` when the folders are on different filesystems, ``ENOENT`` when nothing is there.
    """
    os.rename(from_name, to_name, src_dir_fd=from_folder, dst_dir_fd=to_folder)


def exists(folder: int, name: bytes) -> bool:
    """Whether anything has this name, a dangling link included."""
    try:
        os.stat(name, dir_fd=folder, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return True


def _done(status: int, name: bytes) -> bool:
    if status == 0:
        return True
    if -status in (errno.ENOSYS, errno.EINVAL, errno.EPERM):
        return False
    raise OSError(-status, os.strerror(-status), os.fsdecode(name))


@contextmanager
def writers(folder: int, name: bytes) -> Iterator[Writer]:
    """Whether any process can still write a regular file through a descriptor or a mapping that it has.

    A read lease is asked for: the kernel refuses it while the file is open for writing anywhere, and as long as the body runs nobody can
    open it so. The file must have no name any more but the one given, or that one can't be told from a new writer's.

    Raises:
        OSError: the file can't be opened.
    """
    descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=folder)
    try:
        yield _lease(descriptor)
    finally:
        os.close(descriptor)  # which gives the lease back


def _lease(descriptor: int) -> Writer:
    if _SET_LEASE is None or _SET_SIGNAL is None:
        return Writer.UNKNOWN
    try:
        # Should somebody ask for the file after all, the signal must be one that a process ignores unless it wants it: SIGIO would end it.
        fcntl.fcntl(descriptor, _SET_SIGNAL, signal.SIGURG)
        fcntl.fcntl(descriptor, _SET_LEASE, fcntl.F_RDLCK)
    except OSError as error:
        # EACCES: another user's file. EINVAL, ENOLCK, ...: a filesystem without leases.
        return Writer.SOME if error.errno == errno.EAGAIN else Writer.UNKNOWN
    return Writer.NONE


def sync(path: str | bytes) -> None:
    """Make everything written so far to the filesystem of a file or folder survive a power cut.

    Raises:
        OSError: something that was written earlier did not reach the disk.
    """
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        status = sync_filesystem(descriptor)
    finally:
        os.close(descriptor)
    if status != 0:
        raise OSError(-status, os.strerror(-status), os.fsdecode(path))
