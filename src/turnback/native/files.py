"""Files beneath one root, looked at and opened without ever following a link.

``Beneath`` opens each folder on the way with ``O_NOFOLLOW``, so a path can't leave the root through a link that somebody puts there in
between. Nothing here writes a file: how one is replaced is the business of ``turnback.native.moves``.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
# Non-blocking, because a path that was a file a moment ago may be a pipe now, and opening that would hang for ever.
_FILE = os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK
_CHUNK = 1 << 20


class Blocked(OSError):
    """A folder on the way to a path is a link, a file or missing."""


class NotRegular(OSError):
    """The path is a folder, a pipe, a socket or a device: it has no bytes to look at."""


@dataclass(frozen=True, slots=True)
class Look:
    """What a file or link is at one moment.

    Attributes:
        kind: ``"file"``, ``"link"``, or ``"other"`` for what has no bytes that could be looked at (``glance`` alone gives that).
        sha256: of the bytes, or of the link's target.
        blob: the id that git (sha1) gives those bytes as a blob; empty when the file changed its size while it was read.
        mode: the permission bits (0 for a link).
        size: bytes.
        inode: device and inode.
    """

    kind: str
    sha256: str
    blob: str
    mode: int
    size: int
    inode: tuple[int, int]

    def same_content(self, other: Look) -> bool:
        """Whether both are the same kind with the same bytes and the same exec bit; the inode may differ."""
        return (self.kind, self.sha256, self.mode & 0o100) == (other.kind, other.sha256, other.mode & 0o100)

    def same_thing(self, other: Look) -> bool:
        """Whether both are one inode with the same content: nobody touched it between the two looks."""
        return self.inode == other.inode and self.same_content(other)


class Beneath:
    """A folder, open; everything else is relative to it. Use as a context manager."""

    def __init__(self, root: str | bytes) -> None:
        self.root = os.fsencode(root)
        self.fd = os.open(root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the root; harmless when it is closed already."""
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    @contextmanager
    def parent(self, path: bytes, *, made: list[bytes] | None = None) -> Iterator[tuple[int, bytes]]:
        """The open folder that holds a path, and the path's last name.

        Args:
            path: relative to the root.
            made: make missing folders on the way, and add the paths of those that were made to this list; None makes none.

        Raises:
            Blocked: a component on the way is missing, no folder, or a link; or the path would lead out of the root.
        """
        *above, name = path.split(b"/")
        if not {b"", b".", b".."}.isdisjoint((*above, name)):
            raise Blocked(errno.EINVAL, "no path beneath a folder", os.fsdecode(path))
        here = self.fd
        try:
            for depth, component in enumerate(above, 1):
                there = _step(here, component, b"/".join(above[:depth]), made)
                if here != self.fd:
                    os.close(here)
                here = there
            yield here, name
        finally:
            if here != self.fd:
                os.close(here)

    def lstat(self, path: bytes) -> os.stat_result | None:
        """The path's own stat data, or None when it isn't there (or a folder on the way is not a plain folder)."""
        try:
            with self.parent(path) as (folder, name):
                return os.stat(name, dir_fd=folder, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError, Blocked):
            return None

    def look(self, path: bytes) -> Look | None:
        """What is at the path: its kind and a digest of its bytes, read in a stream; None when nothing is.

        Raises:
            NotRegular: neither a file nor a link is there.
            OSError: it can't be read.
        """
        try:
            with self.parent(path) as (folder, name):
                return look_at(folder, name)
        except (FileNotFoundError, Blocked):
            return None

    def read(self, path: bytes) -> tuple[bytes, os.stat_result]:
        """The whole file and its stat data, read until it holds still.

        Raises:
            NotRegular: it is no regular file (any more).
            OSError: it can't be read.
        """
        with self.parent(path) as (folder, name):
            descriptor = _open_regular(folder, name)
            try:
                return _read_still(descriptor)
            finally:
                os.close(descriptor)

    def readlink(self, path: bytes) -> bytes:
        """The target of a link."""
        with self.parent(path) as (folder, name):
            return os.readlink(name, dir_fd=folder)

    def remove_empty_parents(self, path: bytes) -> None:
        """Remove the folders above a path, deepest first, as long as they are empty; never the root."""
        above = path.rpartition(b"/")[0]
        while above:
            try:
                with self.parent(above) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            except OSError:
                return
            above = above.rpartition(b"/")[0]


def _step(folder: int, component: bytes, path: bytes, made: list[bytes] | None) -> int:
    try:
        return os.open(component, _FOLDER, dir_fd=folder)
    except FileNotFoundError as error:
        if made is None:
            raise Blocked(errno.ENOENT, "a folder on the way is missing", os.fsdecode(component)) from error
    except OSError as error:
        if error.errno in (errno.ENOTDIR, errno.ELOOP):
            raise Blocked(
                error.errno, "something that is no folder is in the way", os.fsdecode(component)
            ) from error
        raise
    with contextlib.suppress(FileExistsError):  # somebody made it in between: opening it says what it is
        os.mkdir(component, dir_fd=folder)
        made.append(path)
    return _step(folder, component, path, None)


def _open_regular(folder: int, name: bytes) -> int:
    try:
        descriptor = os.open(name, _FILE, dir_fd=folder)
    except OSError as error:
        if error.errno in (errno.ELOOP, errno.ENXIO, errno.EISDIR):
            raise NotRegular(error.errno, "no regular file", os.fsdecode(name)) from error
        raise
    if not stat.S_ISREG(os.fstat(descriptor).st_mode):
        os.close(descriptor)
        raise NotRegular(errno.EINVAL, "no regular file", os.fsdecode(name))
    return descriptor


def _read_still(descriptor: int) -> tuple[bytes, os.stat_result]:
    """Read until the stat data before and after agree: a file that is being written gives no mixture (DESIGN 10.9)."""
    for _ in range(3):
        before = os.fstat(descriptor)
        os.lseek(descriptor, 0, os.SEEK_SET)
        chunks = []
        while chunk := os.read(descriptor, _CHUNK):
            chunks.append(chunk)
        after = os.fstat(descriptor)
        if (before.st_size, before.st_mtime_ns, before.st_ctime_ns) == (
            after.st_size,
            after.st_mtime_ns,
            after.st_ctime_ns,
        ):
            break
    return b"".join(chunks), after


def look_at(folder: int, name: bytes) -> Look:
    """``Beneath.look`` for a name in an open folder.

    Raises:
        FileNotFoundError: nothing is there.
        NotRegular: neither a file nor a link is.
    """
    found = os.stat(name, dir_fd=folder, follow_symlinks=False)
    inode = (found.st_dev, found.st_ino)
    if stat.S_ISLNK(found.st_mode):
        target = os.readlink(name, dir_fd=folder)
        blob = hashlib.sha1(b"blob %d\0" % len(target) + target, usedforsecurity=False).hexdigest()
        return Look("link", hashlib.sha256(target).hexdigest(), blob, 0, len(target), inode)
    if not stat.S_ISREG(found.st_mode):
        raise NotRegular(errno.EINVAL, "no regular file", os.fsdecode(name))
    descriptor = _open_regular(folder, name)
    try:
        digest = hashlib.sha256()
        size = 0
        expected = os.fstat(descriptor).st_size
        sha1 = hashlib.sha1(b"blob %d\0" % expected, usedforsecurity=False)
        while chunk := os.read(descriptor, _CHUNK):
            digest.update(chunk)
            sha1.update(chunk)
            size += len(chunk)
        found = os.fstat(descriptor)
    finally:
        os.close(descriptor)
    oid = sha1.hexdigest() if size == expected else ""
    return Look(
        "file", digest.hexdigest(), oid, stat.S_IMODE(found.st_mode), size, (found.st_dev, found.st_ino)
    )


def glance(folder: int, name: bytes) -> Look | None:
    """``look_at`` that has an answer for everything: None when nothing is there, ``other`` for what has no bytes that can be read."""
    try:
        return look_at(folder, name)
    except FileNotFoundError:
        return None
    except OSError:
        try:
            found = os.stat(name, dir_fd=folder, follow_symlinks=False)
        except FileNotFoundError:
            return None
        return Look("other", "", "", stat.S_IMODE(found.st_mode), found.st_size, (found.st_dev, found.st_ino))


def only_folders(folder: int, name: bytes) -> bool:
    """Whether the name is a folder with nothing but folders in it, at any depth; False where that can't be seen."""
    try:
        inside = os.open(name, _FOLDER, dir_fd=folder)
    except OSError:
        return False
    try:
        return all(only_folders(inside, os.fsencode(found)) for found in os.listdir(inside))
    except (
        OSError,
        RecursionError,
    ):  # nested deeper than can be looked into: then it isn't known, and nothing is removed
        return False
    finally:
        os.close(inside)


def remove_folders(folder: int, name: bytes) -> None:
    """Remove a folder and the folders in it.

    Raises:
        OSError: something else is in one of them; what was empty may be gone, and nothing else is.
    """
    inside = os.open(name, _FOLDER, dir_fd=folder)
    try:
        for found in os.listdir(inside):
            remove_folders(inside, os.fsencode(found))
    finally:
        os.close(inside)
    os.rmdir(name, dir_fd=folder)
