"""The state folder and its files: readable by their owner alone, written whole or not at all.

The folder holds prompts, raw bytes and pre-images of files, so it is made 0700 and each file in it 0600 *before* anything is
in it (DESIGN 10.14). What this module refuses: a folder or a file that another user owns or that others may write, and a
file that is a link or no regular file, since its content could then be somebody else's. An existing folder that others may only
read is left as its owner made it: the files in it are private all the same.

Not promised: anything against the superuser, or against a program that runs as the same user.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
import stat
import time
from typing import TYPE_CHECKING

from turnback.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = [
    "check_folder",
    "failing",
    "make_folder",
    "open_file",
    "remove_leftovers",
    "sync_file",
    "sync_folder",
    "write_all",
    "write_atomically",
]

# macOS: fsync alone leaves the data in the drive's cache.
_FULL_SYNC: int | None = getattr(fcntl, "F_FULLFSYNC", None)
_OTHERS_MAY_WRITE = stat.S_IWGRP | stat.S_IWOTH
_TEMPORARY = ".turnback-tmp-"
# A temporary file lives for one write; one that is older than this was left by a process that was killed.
_LEFTOVER_SECONDS = 3600
_counter = itertools.count()


@contextlib.contextmanager
def failing(path: str, doing: str) -> Iterator[None]:
    """Turn an ``OSError`` of the body into ``failed.state_folder``: ``doing`` says what was attempted, ``path`` where.

    Raises:
        Failed: ``failed.state_folder`` with ``path``.
    """
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        hint = "; free some space and try again" if error.errno in (errno.ENOSPC, errno.EDQUOT) else ""
        raise Failed("state_folder", f"{doing} {path} failed: {reason}{hint}", path=_shown(path)) from error


def make_folder(path: str) -> list[str]:
    """Make a private folder (0700) and the folders above it that are missing; one that is there is checked.

    Returns:
        The folders in which a new name must be synced (``sync_folder``) before the new folder survives a power cut.

    Raises:
        Failed: ``failed.state_folder``: it can't be made, or ``check_folder`` refuses it.
    """
    with failing(path, "making the state folder"):
        missing = []
        at = os.path.abspath(path)
        while not os.path.isdir(at):
            missing.append(at)
            above = os.path.dirname(at)
            if above == at:
                break
            at = above
        for folder in reversed(missing):
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
    check_folder(path)
    return [os.path.dirname(folder) for folder in missing]


def check_folder(path: str) -> None:
    """Refuse a state folder that is not safely its owner's own.

    Raises:
        Failed: ``failed.state_folder``: it is no folder, belongs to another user, or others may write in it.
        FileNotFoundError: there is none.
    """
    try:
        found = os.stat(path)
    except FileNotFoundError:
        raise
    except OSError as error:
        raise Failed(
            "state_folder", f"{path} can't be looked at: {error.strerror}", path=_shown(path)
        ) from error
    if not stat.S_ISDIR(found.st_mode):
        raise Failed(
            "state_folder", f"{path} is no folder; choose another with --state-dir", path=_shown(path)
        )
    _check_owner(path, found, "choose another with --state-dir")


def open_file(path: str, flags: int) -> int:
    """Open a private file, making it 0600 when ``flags`` have ``O_CREAT``; returns the descriptor, not inherited by children.

    Raises:
        Failed: ``failed.state_folder``: it is a link, no regular file, another user's, or others may write to it; or opening
            it fails for another reason than that it isn't there.
        FileNotFoundError: it isn't there.
    """
    try:
        # O_NONBLOCK: a fifo in the file's place must not hold us; it means nothing for a regular file.
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK, 0o600)
    except FileNotFoundError:
        raise
    except OSError as error:
        link = error.errno in (errno.ELOOP, errno.EMLINK) and os.path.islink(path)
        reason = "it is a symbolic link" if link else error.strerror
        raise Failed("state_folder", f"{path} can't be opened: {reason}", path=_shown(path)) from error
    try:
        found = os.fstat(descriptor)
        _check_file(path, found)
    except BaseException:
        os.close(descriptor)
        raise
    return descriptor


def write_all(descriptor: int, data: bytes) -> None:
    """Write every byte, however many writes the system makes of it.

    Raises:
        OSError: as ``os.write``; a part may be written then.
    """
    view = memoryview(data)
    while view:
        view = view[os.write(descriptor, view) :]


def write_atomically(path: str, data: bytes, durable: bool = False) -> None:
    """Replace a file: a reader sees the old bytes or the new ones, whole, also after a kill.

    With ``durable`` the new bytes and their name are on the disk before this returns. Without it a power cut may leave the old
    file or an empty one, so that only what can be made again may be written so.

    Raises:
        Failed: ``failed.state_folder``; the old file is then as it was.
    """
    folder, name = os.path.split(path)
    temporary = os.path.join(folder, f"{_TEMPORARY}{name}-{os.getpid()}-{next(_counter)}")
    with failing(path, "writing"):
        descriptor = os.open(
            temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC | os.O_NOFOLLOW, 0o600
        )
        try:
            try:
                write_all(descriptor, data)
                if durable:
                    sync_file(descriptor)
            finally:
                os.close(descriptor)
            os.rename(temporary, path)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(temporary)
            raise
        if durable:
            sync_folder(folder or ".")


def remove_leftovers(path: str) -> None:
    """Remove what killed processes left of ``write_atomically(path)``: temporary files that are over an hour old."""
    folder, name = os.path.split(path)
    prefix = f"{_TEMPORARY}{name}-"
    oldest = time.time() - _LEFTOVER_SECONDS
    with contextlib.suppress(OSError), os.scandir(folder or ".") as entries:
        for entry in entries:
            if entry.name.startswith(prefix) and entry.stat(follow_symlinks=False).st_mtime < oldest:
                os.unlink(entry.path)


def sync_file(descriptor: int) -> None:
    """Return when the file's bytes are on the disk.

    Raises:
        OSError: as ``os.fsync``.
    """
    if _FULL_SYNC is not None:
        with contextlib.suppress(OSError):  # a filesystem that doesn't know it: fsync below
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_folder(path: str) -> None:
    """Return when the folder's names are on the disk.

    Raises:
        Failed: ``failed.state_folder``.
    """
    with failing(path, "syncing"):
        descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            sync_file(descriptor)
        except OSError as error:
            if error.errno != errno.EINVAL:  # a filesystem whose folders can't be synced has nothing to sync
                raise
        finally:
            os.close(descriptor)


def _check_file(path: str, found: os.stat_result) -> None:
    if not stat.S_ISREG(found.st_mode):
        raise Failed("state_folder", f"{path} is no regular file; move it away", path=_shown(path))
    _check_owner(path, found, "move it away")


def _check_owner(path: str, found: os.stat_result, advice: str) -> None:
    if found.st_uid != os.geteuid():
        raise Failed("state_folder", f"{path} belongs to another user; {advice}", path=_shown(path))
    if found.st_mode & _OTHERS_MAY_WRITE:
        raise Failed(
            "state_folder",
            f"{path} may be written by others; run chmod go-w on it or {advice}",
            path=_shown(path),
        )


def _shown(path: str) -> str:
    """The path as JSON can hold it: a name that isn't UTF-8 has U+FFFD for its bad bytes."""
    return os.fsencode(path).decode("utf-8", "replace")
