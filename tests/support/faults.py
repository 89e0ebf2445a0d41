"""Break things on purpose at a named place: the n-th call that changes the disk fails, or is the process's last.

Counted is what this process does by itself: making, writing, renaming, linking and removing files and folders, syncing, and starting a git
process. What libgit2 writes isn't seen. Nothing is really synced meanwhile: nobody pulls the plug here, and a busy disk takes its time.
"""

from __future__ import annotations

import errno
import os
import signal
import subprocess
from typing import TYPE_CHECKING, Any, Self

from turnback.native import moves

if TYPE_CHECKING:
    from collections.abc import Callable
    from types import TracebackType

_OS = (
    "open", "write", "mkdir", "rename", "replace", "unlink", "remove", "rmdir", "link", "symlink", "fchmod", "utime", "fsync"
)  # fmt: skip
_MOVES = ("rename_exchange", "rename_new", "sync_filesystem")
_ROOM = ("open", "write", "mkdir", "link", "symlink", "git")
_WRITING = os.O_WRONLY | os.O_RDWR | os.O_CREAT


class Faults:
    """Counts the calls that change the disk while its block runs, and breaks some.

    Attributes:
        calls: the name of every call so far, the broken ones included.
        fired: whether any was broken.
    """

    def __init__(self, breaks: Callable[[int, str], bool], how: Callable[[str], OSError]) -> None:
        """Break the calls for which ``breaks(number, name)`` says so; ``how`` gives the error, or never returns."""
        self._breaks = breaks
        self._how = how
        self._kept: list[tuple[Any, str, Any]] = []
        self.calls: list[str] = []
        self.fired = False

    @classmethod
    def at(cls, number: int, error: int = errno.ENOSPC) -> Self:
        """The n-th call fails with an error, once."""
        return cls(lambda now, _: now == number, lambda name: OSError(error, os.strerror(error), name))

    @classmethod
    def full_since(cls, number: int) -> Self:
        """From the n-th call on there is no room left: whatever needs some fails, renaming and removing go on."""
        return cls(
            lambda now, name: now >= number and name in _ROOM,
            lambda name: OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), name),
        )

    @classmethod
    def broken_since(cls, number: int) -> Self:
        """From the n-th call on nothing works any more."""
        return cls(
            lambda now, _: now >= number, lambda name: OSError(errno.EIO, os.strerror(errno.EIO), name)
        )

    @classmethod
    def kill_at(cls, number: int) -> Self:
        """The process ends at the n-th call, before that is made."""

        def gone(_: str) -> OSError:
            os.kill(os.getpid(), signal.SIGKILL)
            raise AssertionError("unreachable")

        return cls(lambda now, _: now == number, gone)

    @classmethod
    def none(cls) -> Self:
        """Only count."""
        return cls(lambda *_: False, lambda _: OSError())

    def __enter__(self) -> Self:
        for name in _OS:
            self._replace(os, name, self._failing(name, getattr(os, name)))
        for name in _MOVES:
            self._replace(moves, name, self._returning(name, getattr(moves, name)))
        self._replace(subprocess, "Popen", self._failing("git", subprocess.Popen))
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        for place, name, real in reversed(self._kept):
            setattr(place, name, real)

    def _replace(self, place: Any, name: str, value: Any) -> None:
        self._kept.append((place, name, getattr(place, name)))
        setattr(place, name, value)

    def _due(self, name: str) -> bool:
        self.calls.append(name)
        due = self._breaks(len(self.calls), name)
        self.fired = self.fired or due
        return due

    def _failing(self, name: str, real: Any) -> Any:
        def call(*arguments: Any, **options: Any) -> Any:
            if (name != "open" or arguments[1] & _WRITING) and self._due(name):
                raise self._how(name)
            return None if name == "fsync" else real(*arguments, **options)

        return call

    def _returning(self, name: str, real: Any) -> Any:
        def call(*arguments: Any) -> int:
            if self._due(name):
                return -(self._how(name).errno or errno.EIO)
            result: int = 0 if name == "sync_filesystem" else real(*arguments)
            return result

        return call
