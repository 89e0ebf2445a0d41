"""Private folders for a moment: empty when they are given, empty again afterwards, and used again instead of being made anew each time.

A folder in use is locked (``flock`` on the folder itself), so one that a killed process left is known by its lock being free: the first folder
that a process asks for clears those away. Nothing in a scratch folder is the only copy of anything.
"""

from __future__ import annotations

import contextlib
import fcntl
import os
import shutil
import tempfile
import threading
import weakref
from contextlib import contextmanager
from typing import TYPE_CHECKING

from turnback.disk.private import make_folder

if TYPE_CHECKING:
    from collections.abc import Iterator

_KEPT = 4  # folders that wait to be used again


class ScratchFolders:
    """Scratch folders in one private folder. Safe to use from several threads and processes at once."""

    def __init__(self, folder: str) -> None:
        self.folder = folder
        self._guard = threading.Lock()
        self._free: list[tuple[str, int]] = []
        self._swept = False
        weakref.finalize(self, _give_up, self._free)

    @contextmanager
    def take(self) -> Iterator[str]:
        """An empty folder, for the block.

        Raises:
            Failed: ``failed.state_folder``: it can't be made.
            OSError: likewise.
        """
        path, descriptor = self._found() or self._made()
        try:
            yield path
        finally:
            self._put_back(path, descriptor)

    def _found(self) -> tuple[str, int] | None:
        with self._guard:
            while self._free:
                path, descriptor = self._free.pop()
                # Somebody may have tidied the state folder meanwhile.
                with contextlib.suppress(OSError):
                    if os.path.samestat(os.stat(path), os.fstat(descriptor)):
                        return path, descriptor
                os.close(descriptor)
        return None

    def _made(self) -> tuple[str, int]:
        make_folder(self.folder)
        if not self._swept:
            self._swept = True
            sweep(self.folder)
        while True:
            path = tempfile.mkdtemp(dir=self.folder)
            try:
                descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
            except FileNotFoundError:
                continue  # another process's sweep came between the two calls
            fcntl.flock(descriptor, fcntl.LOCK_EX)
            # And it may have come between the last two.
            if os.path.exists(path):
                return path, descriptor
            os.close(descriptor)

    def _put_back(self, path: str, descriptor: int) -> None:
        with contextlib.suppress(OSError):
            for name in os.listdir(path):
                place = os.path.join(path, name)
                if os.path.isdir(place) and not os.path.islink(place):
                    shutil.rmtree(place, ignore_errors=True)
                else:
                    os.unlink(place)
        with self._guard:
            if len(self._free) < _KEPT:
                self._free.append((path, descriptor))
                return
        _give_up([(path, descriptor)])


def sweep(folder: str) -> list[str]:
    """Remove the scratch folders that killed processes left; gives their paths."""
    removed = []
    for name in sorted(os.listdir(folder)):
        path = os.path.join(folder, name)
        try:
            descriptor = os.open(path, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
        except OSError:
            continue
        try:
            fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
            shutil.rmtree(path, ignore_errors=True)
            removed.append(path)
        except OSError:
            pass  # in use
        finally:
            os.close(descriptor)
    return removed


def _give_up(free: list[tuple[str, int]]) -> None:
    while free:
        path, descriptor = free.pop()
        shutil.rmtree(path, ignore_errors=True)
        os.close(descriptor)
