"""One holder at a time, across processes and threads, in the order they came.

The lock itself is the kernel's (``flock`` on a file that is never removed), so it ends with its holder, however that ends: there
are no stale locks and nothing decides whether one is stale. The file holds a note of who has it, for messages alone.

Order comes from tickets (``turnback.disk.tickets``). Whoever finds the lock taken takes a ticket and waits for the one before it; a
newcomer never passes a ticket. A holder that came by a ticket keeps it until it is done, so the next in line wakes at that moment.

Not promised: order among those who arrive in the same instant, on a filesystem without fifos, or between machines that share a
folder (only the exclusion holds there); and anything at all when somebody deletes the lock file while it is held (deleted while
others wait, they notice).
"""

from __future__ import annotations

import contextlib
import fcntl
import json
import os
import threading
import time
import weakref
from typing import TYPE_CHECKING, Any, Final

from turnback.clock import stamp
from turnback.disk import private
from turnback.disk.tickets import Ticket, first_ticket, wait_for
from turnback.errors import Failed, TimedOut

if TYPE_CHECKING:
    from types import TracebackType
    from typing import Self

__all__ = ["FileLock"]

POLL: Final = 0.02
"""Seconds: the longest pause between two looks at a lock whose holder has no ticket that would wake us."""

_SHORTEST_PAUSE: Final = 0.0002
# A look by ``held_by_other`` may take a free lock for microseconds: ``try_acquire`` looks again before it believes that.
_TRIES: Final = 4
_NOTE_BYTES: Final = 256
# What a child made by fork must let go of.
_locks: weakref.WeakSet[FileLock] = weakref.WeakSet()


class FileLock:
    """A lock that is a file. The folder that it is in must exist.

    ``with FileLock(path, "rollback of a2", timeout=30): ...`` takes it and gives it back. An object holds the lock once; several
    threads may use one object, or one each. It is not reentrant: taking it again in the thread that has it is an error.

    Args:
        path: the lock file.
        purpose: what the holder does, for the message that another one's waiting ends with.
        timeout: seconds that ``with`` waits; None waits without limit.
    """

    def __init__(self, path: str, purpose: str = "", timeout: float | None = None) -> None:
        self.path = path
        self.purpose = purpose
        self.timeout = timeout
        self._descriptor: int | None = None
        self._ticket: Ticket | None = None
        self._owner: int | None = None
        _locks.add(self)

    def acquire(self, timeout: float | None = None, poll: float = POLL) -> None:
        """Take the lock, waiting behind those who came before.

        Args:
            timeout: seconds; None waits without limit.
            poll: seconds, the longest pause between two looks where nothing wakes us.

        Raises:
            TimedOut: ``timeout.lock``, with ``path`` and the ``holder``'s note.
            Failed: ``failed.state_folder``: the lock file can't be opened or locked.
        """
        self._refuse_again()
        if self._take_unqueued():
            return
        deadline = None if timeout is None else time.monotonic() + timeout
        ticket = Ticket.draw(self._queue)
        try:
            if ticket is not None:
                self._wait_for_turn(ticket, deadline)
            self._wait_for_lock(ticket, deadline, poll)
        except BaseException:
            if ticket is not None and self._ticket is not ticket:
                ticket.give_up()
            raise

    def try_acquire(self) -> bool:
        """Take the lock if it is free and nobody waits for it; never waits.

        Raises:
            Failed: ``failed.state_folder``, as ``acquire``.
        """
        self._refuse_again()
        for attempt in range(_TRIES):
            if attempt:
                time.sleep(_SHORTEST_PAUSE)
            if self._take_unqueued():
                return True
        return False

    def release(self) -> None:
        """Give the lock to the next in line. Giving back what isn't held is an error of the program."""
        descriptor, ticket = self._descriptor, self._ticket
        if descriptor is None:
            message = f"{self.path} is not held"
            raise RuntimeError(message)
        self._descriptor = self._ticket = self._owner = None
        try:
            with contextlib.suppress(OSError):
                os.pwrite(descriptor, b"\n", 0)
            # Explicitly, since a child between fork and exec may have a copy of the descriptor.
            fcntl.flock(descriptor, fcntl.LOCK_UN)
        finally:
            os.close(descriptor)
            if ticket is not None:
                ticket.give_up()

    @property
    def held(self) -> bool:
        """Whether this object holds the lock."""
        return self._descriptor is not None

    def held_by_other(self) -> dict[str, Any] | None:
        """The note of whoever holds the lock now, ``{pid, since, purpose}``; None when nobody does, or this object.

        ``since`` is UTC in the form of every record. The answer may be old when it arrives: to decide anything, take the lock.

        Raises:
            Failed: ``failed.state_folder``, as ``acquire``.
        """
        if self._descriptor is not None:
            return None
        try:
            descriptor = private.open_file(self.path, os.O_RDWR)
        except FileNotFoundError:
            return None
        try:
            note = _read_note(descriptor)
            if note is not None and _lock_now(descriptor, self.path):
                os.pwrite(descriptor, b"\n", 0)  # its holder was killed; the next look need not take the lock
                fcntl.flock(descriptor, fcntl.LOCK_UN)
                return None
            return note
        finally:
            os.close(descriptor)

    def __enter__(self) -> Self:
        self.acquire(self.timeout)
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.release()

    def __del__(self) -> None:
        # A holder that was interrupted before it could remember to release: the lock must not outlive the object.
        if self._descriptor is not None:
            self.release()

    @property
    def _queue(self) -> str:
        return f"{self.path}.queue"

    def _refuse_again(self) -> None:
        if self._descriptor is not None and self._owner == threading.get_ident():
            message = f"{self.path} is held by this very thread: waiting for it would never end"
            raise RuntimeError(message)

    def _take_unqueued(self) -> bool:
        return first_ticket(self._queue) is None and self._take(None)

    def _take(self, ticket: Ticket | None) -> bool:
        """One attempt at the kernel's lock. A file that was deleted or replaced meanwhile is not the lock any more."""
        while True:
            try:
                descriptor = private.open_file(self.path, os.O_RDWR | os.O_CREAT)
            except FileNotFoundError as error:
                folder = os.path.dirname(self.path) or "."
                raise Failed("state_folder", f"{folder} is gone, so {self.path} can't be locked") from error
            kept = False
            try:
                if not _lock_now(descriptor, self.path):
                    return False
                if _is_at(descriptor, self.path):
                    _write_note(descriptor, self.purpose)
                    self._descriptor, self._ticket = descriptor, ticket
                    self._owner = threading.get_ident()
                    kept = True
                    return True
            finally:
                if not kept:
                    os.close(descriptor)

    def _wait_for_turn(self, ticket: Ticket, deadline: float | None) -> None:
        while (ahead := ticket.ahead()) is not None:
            left = None if deadline is None else deadline - time.monotonic()
            if left is not None and left <= 0:
                raise self._timed_out()
            wait_for(ahead, left)

    def _wait_for_lock(self, ticket: Ticket | None, deadline: float | None, poll: float) -> None:
        """At the head of the line: only a holder that came without a ticket is before us, and nothing wakes us for it."""
        began = time.monotonic()
        while not self._take(ticket):
            now = time.monotonic()
            if deadline is not None and now >= deadline:
                raise self._timed_out()
            # A pause of an eighth of the time waited so far: the lock is never free for long before we see it.
            pause = min(max((now - began) / 8, _SHORTEST_PAUSE), poll)
            time.sleep(pause if deadline is None else min(pause, deadline - now))

    def _timed_out(self) -> TimedOut:
        holder = self.held_by_other()
        if holder is None:
            who = "others that wait in line"
        else:
            who = f"process {holder['pid']} since {holder['since']}"
            if holder["purpose"]:
                who += f" ({holder['purpose']})"
        return TimedOut(
            "lock",
            f"{self.path} is held by {who}; try again when that has ended",
            path=os.fsencode(self.path).decode("utf-8", "replace"),
            holder=holder,
        )

    def _forget(self) -> None:
        descriptor = self._descriptor
        self._descriptor = self._ticket = self._owner = None
        if descriptor is not None:
            os.close(descriptor)


def _lock_now(descriptor: int, path: str) -> bool:
    try:
        fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError as error:
        raise Failed("state_folder", f"{path} can't be locked: {error.strerror}") from error
    return True


def _is_at(descriptor: int, path: str) -> bool:
    try:
        there = os.stat(path, follow_symlinks=False)
    except FileNotFoundError:
        return False
    return os.path.samestat(there, os.fstat(descriptor))


def _write_note(descriptor: int, purpose: str) -> None:
    """Padded to one length, so that a shorter note never ends in a longer one's rest. Failing to is no reason to fail."""
    note = {"pid": os.getpid(), "since": stamp(time.time_ns() // 1_000_000), "purpose": purpose}
    data = json.dumps(note).encode()
    if len(data) > _NOTE_BYTES:
        data = json.dumps({**note, "purpose": ""}).encode()
    with contextlib.suppress(OSError):
        os.pwrite(descriptor, data.ljust(_NOTE_BYTES - 1) + b"\n", 0)


def _read_note(descriptor: int) -> dict[str, Any] | None:
    """The holder's note; None when the last holder has given the lock back, and a note without names when it can't be read."""
    data = os.pread(descriptor, _NOTE_BYTES, 0)
    if data[:1] in (b"", b"\n"):
        return None
    try:
        note = json.loads(data)
        return {"pid": int(note["pid"]), "since": str(note["since"]), "purpose": str(note["purpose"])}
    except (ValueError, KeyError, TypeError):
        return {"pid": 0, "since": "an unknown time", "purpose": ""}


def _after_fork() -> None:
    """In a child made by fork: the locks are the parent's. Closing a copy of a descriptor unlocks nothing."""
    for lock in list(_locks):
        lock._forget()


os.register_at_fork(after_in_child=_after_fork)
