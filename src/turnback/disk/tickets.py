"""Tickets: a waiting line across processes and threads, in a folder, in which the dead hold nobody up.

A ticket is a fifo that its owner holds open for writing. ``poll`` on it wakes whoever is next at the moment its owner leaves or
dies, so nobody sleeps too long and nobody asks whether a process is alive. Names begin with the machine's monotonic time: they sort
by arrival, and none is used twice.

Not promised: order among those who arrive in the same instant; and any order on a filesystem without fifos, or between machines
that share a folder (a fifo of another machine looks dead). The lock that uses the line excludes all the same.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import select
import time
import weakref
from typing import TYPE_CHECKING, Final

from turnback.disk import private
from turnback.errors import Failed

if TYPE_CHECKING:
    from typing import Self

__all__ = ["Ticket", "first_ticket", "wait_for"]

# A ticket wakes whoever polls it; should a platform ever fail to, the line is looked at again after this many seconds.
_WAKE_ANYWAY: Final = 0.25
# A fifo has its hidden name for a moment; one that is older than this was left by a process that was killed in that moment.
_HIDDEN_SECONDS: Final = 3600
_counter = itertools.count()
# What a child made by fork must let go of.
_drawn: weakref.WeakSet[Ticket] = weakref.WeakSet()


class Ticket:
    """A place in the line, from ``draw`` until ``give_up``."""

    def __init__(self, folder: str, name: str, descriptor: int) -> None:
        self.folder = folder
        self.name = name
        self.descriptor = descriptor
        _drawn.add(self)

    @classmethod
    def draw(cls, folder: str) -> Self | None:
        """A new ticket, or None where the filesystem has no fifos: then there is no order, and the lock alone decides."""
        name = f"{time.monotonic_ns():020d}-{os.getpid()}-{next(_counter)}"
        hidden = os.path.join(folder, f".{name}")
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(folder, 0o700)
            # Opened before it is seen: a fifo in the line that nobody holds open is a dead one.
            os.mkfifo(hidden, 0o600)
            try:
                descriptor = os.open(hidden, os.O_RDWR | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
                os.rename(hidden, os.path.join(folder, name))
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(hidden)
                raise
        except OSError:
            return None
        return cls(folder, name, descriptor)

    def ahead(self) -> str | None:
        """Path of the ticket just before this one, or None at the head of the line."""
        before = max((name for name in _names(self.folder) if name < self.name), default=None)
        return None if before is None else os.path.join(self.folder, before)

    def give_up(self) -> None:
        """Leave the line and wake the next one (by a byte too: a child between fork and exec may hold the fifo open)."""
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(self.folder, self.name))
        with contextlib.suppress(OSError):
            os.write(self.descriptor, b"x")
        self.close()

    def close(self) -> None:
        """Let the fifo go."""
        descriptor, self.descriptor = self.descriptor, -1
        if descriptor >= 0:
            os.close(descriptor)


def _names(folder: str) -> list[str]:
    """The names in the line, unordered; none when there is no line."""
    try:
        names = os.listdir(folder)
    except FileNotFoundError:
        return []
    except OSError as error:
        raise Failed("state_folder", f"{folder} can't be read: {error.strerror}") from error
    for name in names:
        if name.startswith("."):
            _remove_if_old(folder, name)
    return [name for name in names if not name.startswith(".")]


def _remove_if_old(folder: str, hidden: str) -> None:
    drawn = hidden[1:].partition("-")[0]
    age = time.monotonic() - int(drawn) / 1e9 if drawn.isdecimal() else 0
    if not 0 <= age < _HIDDEN_SECONDS:  # below 0: drawn before the machine was started
        with contextlib.suppress(OSError):
            os.unlink(os.path.join(folder, hidden))


def first_ticket(folder: str) -> str | None:
    """Name of the first living ticket in the line, or None for an empty line. Dead ones on the way are removed.

    Raises:
        Failed: ``failed.state_folder``: the folder can't be read.
    """
    for name in sorted(_names(folder)):
        descriptor = _open_living(os.path.join(folder, name))
        if descriptor is not None:
            os.close(descriptor)
            return name
    return None


def _open_living(path: str) -> int | None:
    """A descriptor to poll a ticket with, or None when its owner is through or dead; a dead one is removed."""
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC | os.O_NOFOLLOW)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise Failed("state_folder", f"the ticket {path} can't be read: {error.strerror}") from error
    try:
        # No bytes: nobody has it open for writing. It was opened by its owner before it got this name, so its owner is dead.
        os.read(descriptor, 1)
    except BlockingIOError:
        return descriptor
    except OSError:
        pass
    os.close(descriptor)
    with private.failing(path, "removing the ticket"), contextlib.suppress(FileNotFoundError):
        os.unlink(path)
    return None


def wait_for(path: str, seconds: float | None) -> None:
    """Return when the owner of the ticket at ``path`` has left or died, and after ``seconds`` at the latest (or sooner: look again).

    Raises:
        Failed: ``failed.state_folder``: the ticket can't be read.
    """
    descriptor = _open_living(path)
    if descriptor is None:
        return
    try:
        poll = select.poll()
        poll.register(descriptor, select.POLLIN)
        poll.poll((_WAKE_ANYWAY if seconds is None else min(seconds, _WAKE_ANYWAY)) * 1000)
    finally:
        os.close(descriptor)


def _after_fork() -> None:
    """In a child made by fork: a ticket that it holds open too would outlive its owner."""
    for ticket in list(_drawn):
        ticket.close()


os.register_at_fork(after_in_child=_after_fork)
