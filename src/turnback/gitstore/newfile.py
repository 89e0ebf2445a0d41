"""A file that gets its name when it is whole: readers see all of it or nothing, and a kill leaves nothing under that name.

Where the system can (Linux, ``O_TMPFILE``) it has no name at all before that: a kill leaves nothing behind, and no clean-up of somebody
else's, like ``git gc --prune=now``, can take it away. Elsewhere it is made under a temporary name that starts as git's own do, so
that git removes an old one; its maker holds a lock on it (``flock``), so that one whose maker is gone can be told (``unheld``).

A name that is taken already stays as it is: what has the same id has the same content. Without ``durable`` nothing is synced:
after a power cut the file may be empty.
"""

from __future__ import annotations

import contextlib
import errno
import fcntl
import itertools
import os
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnback.gitstore.deflate import Data
    from turnback.gitstore.objectfolder import Sharing

NAMELESS: int = getattr(os, "O_TMPFILE", 0)  # 0: every new file needs a temporary name
DESCRIPTORS = "/proc/self/fd"
_READ_ONLY = 0o444
_BLOCK = 1 << 20
_FULL_SYNC: int | None = getattr(
    fcntl, "F_FULLFSYNC", None
)  # macOS: fsync leaves the data in the drive's cache
_NO_LINKS = (errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK)
_number = itertools.count()


class NewFile:
    """A new file, held and locked until it is closed; closed unpublished, it is gone.

    Attributes:
        fd: its descriptor, open for reading and writing.
    """

    def __init__(self, folder: str, prefix: str, sharing: Sharing) -> None:
        """Start a file in ``folder``; ``prefix`` begins its temporary name, if it needs one."""
        self._folder, self._prefix, self._sharing = folder, prefix, sharing
        self._temporary: str | None = None
        self.fd = _open_nameless(folder)
        if self.fd < 0:
            self._open_named()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def write(self, data: Data) -> None:
        """Write all of it at the end of what was written."""
        view = memoryview(data)
        while view:
            view = view[os.write(self.fd, view) :]

    def publish(self, path: str, durable: bool = False) -> bool:
        """Give it its name; it stays open and locked. False when the name is taken.

        Args:
            path: its name.
            durable: sync its bytes first, or those of the file that has the name. The name is synced by ``sync_path`` of the folder.

        Raises:
            FileNotFoundError: the folder of ``path`` isn't there.
        """
        for _ in range(3):
            self._sharing.adjust(self.fd)
            if durable:
                sync(self.fd)
            try:
                self._give(path)
            except FileExistsError:
                if durable:
                    sync_path(path)
                return False
            except FileNotFoundError:
                if not os.path.isdir(os.path.dirname(path)):
                    raise
                self._copy()  # somebody removed the temporary name, or this system shows no descriptors as files
            else:
                return True
        raise FileNotFoundError(errno.ENOENT, "a new file loses its temporary name again and again", path)

    def close(self) -> None:
        """Let it go; harmless when done twice."""
        self._forget()
        if self.fd >= 0:
            os.close(self.fd)
            self.fd = -1

    def _give(self, path: str) -> None:
        if self._temporary is None:
            # With a descriptor Python calls linkat, which alone follows the link in /proc. It means nothing else: the path is absolute.
            os.link(f"{DESCRIPTORS}/{self.fd}", path, src_dir_fd=self.fd, follow_symlinks=True)
            return
        try:
            os.link(self._temporary, path)
        except OSError as error:
            if error.errno not in _NO_LINKS:
                raise
            if os.path.lexists(path):
                raise FileExistsError(errno.EEXIST, "exists", path) from error
            os.rename(self._temporary, path)
            self._temporary = None
        self._forget()

    def _open_named(self) -> None:
        while True:
            path = os.path.join(self._folder, f"{self._prefix}{os.getpid()}_{next(_number)}")
            try:
                self.fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, _READ_ONLY)
            except FileExistsError:
                continue
            self._temporary = path
            lock(self.fd)
            if os.fstat(self.fd).st_nlink:
                return
            os.close(self.fd)  # it was taken for a leftover before it was locked

    def _copy(self) -> None:
        old, at = self.fd, 0
        self._forget()
        try:
            self._open_named()
            while block := os.pread(old, _BLOCK, at):
                self.write(block)
                at += len(block)
        finally:
            os.close(old)

    def _forget(self) -> None:
        if self._temporary is not None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(self._temporary)
            self._temporary = None


def _open_nameless(folder: str) -> int:
    if not NAMELESS:
        return -1
    try:
        descriptor = os.open(folder, os.O_RDWR | NAMELESS | os.O_CLOEXEC, _READ_ONLY)
    except OSError as error:
        if error.errno in (errno.EOPNOTSUPP, errno.EISDIR, errno.EINVAL):
            return -1
        raise
    lock(descriptor)
    return descriptor


def lock(descriptor: int, how: int = fcntl.LOCK_EX) -> bool:
    """Lock an open file until it is closed, by ``flock``; False when another holds it (and ``how`` has ``LOCK_NB``)."""
    try:
        fcntl.flock(descriptor, how)
    except BlockingIOError:
        return False
    except OSError:  # a filesystem without locks: then nothing there is ever taken for a leftover
        return not how & fcntl.LOCK_NB
    return True


@contextlib.contextmanager
def unheld(path: str, flags: int = os.O_RDONLY) -> Iterator[int | None]:
    """Hold a file that no process holds, for the body: its descriptor, or None when somebody has it or it isn't there.

    Raises:
        OSError: it can't be opened.
    """
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    except FileNotFoundError:
        yield None
        return
    try:
        locked = lock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        yield descriptor if locked and os.fstat(descriptor).st_nlink else None
    finally:
        os.close(descriptor)


def sync(descriptor: int) -> None:
    """Return when a file's bytes, or a folder's names, are on the disk."""
    if _FULL_SYNC is not None:
        with contextlib.suppress(OSError):  # a filesystem that doesn't know it
            fcntl.fcntl(descriptor, _FULL_SYNC)
            return
    os.fsync(descriptor)


def sync_path(path: str) -> None:
    """Return when the bytes of a file, or the names in a folder, are on the disk."""
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        sync(descriptor)
    except OSError as error:
        if error.errno != errno.EINVAL:  # a filesystem whose folders can't be synced has nothing to sync
            raise
    finally:
        os.close(descriptor)
