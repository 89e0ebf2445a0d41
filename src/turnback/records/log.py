"""The event log of one workspace: append under a lock, fold, read, follow. The log is the truth (DESIGN part 5).

One folder holds it: ``log.ndjson`` (the records), ``log.lock`` (who writes), ``snapshot.ndjson`` (the folded state, a hint) and
``log.ndjson.torn-<n>`` (tails that killed writers left, kept as they were). Nothing is made before the first append; reading a
folder that is not there gives an empty state.

An append of several records is one commit: one write, seen by every reader whole or not at all. It happens under the lock, on the
state as it is then: so ids are allocated there (``build``), and a condition that is checked there (``check``) still holds when the
record is in. Each commit is folded before it is written, so a record that contradicts the log never gets into it.

What this module refuses: a log of another workspace, a log of a newer format, and a log that is damaged anywhere but at its torn
end. It repairs nothing by guessing.

Not promised: without ``durable`` a commit survives the death of the process at once, but a power cut only when the system has
written it back.
"""

from __future__ import annotations

import contextlib
import os
import threading
from typing import TYPE_CHECKING, Final

from turnback.disk import private
from turnback.disk.lock import FileLock
from turnback.disk.ndjson import LineFile
from turnback.errors import Failed
from turnback.records.folded import FoldedLog, shown
from turnback.records.reader import Damaged, GroupReader, Position, Rewritten
from turnback.records.signals import signal_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence
    from types import TracebackType
    from typing import Self

    from turnback.clock import Clock
    from turnback.records.events import Record, StoredRecord
    from turnback.records.state import State

__all__ = ["EventLog"]

LOCK_TIMEOUT: Final = 30.0
"""Seconds that an append waits for other writers; each of them holds the lock for a write, perhaps a sync."""

POLL: Final = 0.05
"""Seconds: the longest pause of ``follow``."""

_FIRST_PAUSE: Final = 0.001


class EventLog:
    """One workspace's log. Safe to use from many threads; several objects and processes may use one folder.

    ``state`` is one object that grows: a thread that iterates over it while others append does so inside ``reading()``, or copies first.
    """

    def __init__(self, folder: str, workspace: str, clock: Clock) -> None:
        self.folder = folder
        self.workspace = workspace
        self._clock = clock
        self._folded = FoldedLog(folder, workspace, clock.new_uuid())
        self._lock = FileLock(os.path.join(folder, "log.lock"), "writing the log", LOCK_TIMEOUT)
        # Taken in this order: _writer (one thread at a time writes, or waits to), the file lock, _mutex (guards _folded).
        self._writer = threading.RLock()
        self._writing = False
        self._mutex = threading.RLock()
        self._signal = signal_of(folder)
        # Folders that were made here and whose names are perhaps not on the disk yet.
        self._unsynced: list[str] = []

    @classmethod
    def open(cls, folder: str, workspace: str, clock: Clock) -> Self:
        """Read the log in ``folder``, which need not be there yet. Writes nothing.

        Args:
            folder: the state folder; made at the first append.
            workspace: canonical absolute path of the workspace.
            clock: for times and the log's id.

        Raises:
            InvalidParams: ``invalid_params.state_dir``: the folder has the log of another workspace.
            Unsupported: ``unsupported.log_format``: a newer version wrote it.
            Failed: ``failed.log_corrupt``: it is damaged; ``failed.state_folder``: it can't be read, or others may write to it.
        """
        with contextlib.suppress(FileNotFoundError):
            private.check_folder(folder)
        log = cls(folder, workspace, clock)
        log.refresh()
        return log

    @property
    def state(self) -> State:
        """The state as it was last read or written; ``refresh`` brings it up to date."""
        return self._folded.state

    @property
    def source(self) -> str:
        """``venom/<uuid>``, the source of every event of this log (V-021)."""
        return self._folded.source

    @property
    def torn(self) -> list[str]:
        """Paths of the tails that killed writers left and a later writer set aside, oldest first."""
        return self._folded.file.torn()

    @contextlib.contextmanager
    def reading(self) -> Iterator[State]:
        """The state, and nobody folds anything into it meanwhile."""
        with self._mutex:
            yield self._folded.state

    def refresh(self) -> State:
        """Fold what others have written since, and return the state. One ``stat`` when there is nothing new.

        A log that was replaced or cut is read again from its beginning; the state is then another object.

        Raises:
            TurnbackError: as ``open``.
        """
        with contextlib.suppress(Damaged), self._mutex:
            self._folded.catch_up()
            return self._folded.state
        with self._quiet(), self._mutex:
            try:
                self._folded.start_over()
            except Damaged as damage:
                raise self._folded.corrupt(damage) from damage
            return self._folded.state

    def append(
        self,
        records: Sequence[Record],
        *,
        check: Callable[[State], None] | None = None,
        durable: bool = False,
    ) -> list[StoredRecord]:
        """Commit these records, in this order, whole or not at all.

        Args:
            records: none is allowed: then nothing is written.
            check: called under the lock with the state that the records will follow; what it raises comes out, and nothing is written.
            durable: the records are on the disk before this returns.

        Raises:
            TimedOut: ``timeout.lock``.
            Failed: ``failed.state_folder`` (disk full, folder refused); ``failed.internal`` (a record that can't follow the others).
            TurnbackError: as ``open``; whatever ``check`` raises.
        """

        def make(state: State) -> Sequence[Record]:
            if check is not None:
                check(state)
            return records

        return self.build(make, durable)

    def build(self, make: Callable[[State], Sequence[Record]], durable: bool = False) -> list[StoredRecord]:
        """Commit the records that ``make`` makes from the state, under the lock: ids are allocated there.

        ``make`` must be quick, must not append, and must not change the state.

        Raises:
            TurnbackError: as ``append``; whatever ``make`` raises.
        """
        with self._writer:
            if self._writing:
                message = "the log is written to while it is being written to"
                raise RuntimeError(message)
            self._writing = True
            try:
                stored = self._build(make, durable)
            finally:
                self._writing = False
        if stored:
            self._signal.wake()
        return stored

    def records(self, after: int = 0) -> Iterator[StoredRecord]:
        """Every record behind number ``after``, streamed from the disk, up to the last whole commit there is.

        Raises:
            TurnbackError: as ``open``.
        """
        self.refresh()
        file = LineFile(self._folded.path)
        try:
            file.look()
            reader = GroupReader(file, self._position_before(after))
            while batch := self._read(reader):
                yield from _behind(after, batch)
        finally:
            file.close()

    def follow(self, after: int, stop: Callable[[], bool], poll: float = POLL) -> Iterator[StoredRecord]:
        """Every record behind number ``after``, and then each new one as it is committed, by this process or another.

        Args:
            after: the last record that the caller has.
            stop: asked before every wait; true ends the iteration.
            poll: seconds, the longest pause between two looks for other processes' commits (one ``stat`` each). Commits of this process
                wake it at once, and so does ``wake``.

        Raises:
            Failed: ``failed.state_folder``: the log was replaced or cut meanwhile, so that ``after`` means nothing any more.
            TurnbackError: as ``open``.
        """
        file = LineFile(self._folded.path)
        reader: GroupReader | None = None
        generation = 0
        pause = _FIRST_PAUSE
        try:
            while True:
                count = self._signal.count
                look = file.look()
                if reader is None and look.size:
                    self.refresh()
                    generation = look.generation
                    reader = GroupReader(file, self._position_before(after))
                batch: list[StoredRecord] = []
                if reader is not None:
                    if look.generation != generation or look.size < reader.position.offset:
                        raise self._replaced()
                    if look.size > reader.position.offset:
                        batch = self._read(reader)
                if batch:
                    yield from _behind(after, batch)
                    pause = _FIRST_PAUSE
                    continue
                if stop():
                    return
                self._signal.wait(count, pause)
                pause = min(pause * 2, poll)
        finally:
            file.close()

    def wake(self) -> None:
        """Let every ``follow`` of this process ask its ``stop`` now."""
        self._signal.wake()

    def sync(self) -> None:
        """Return when everything that was appended is on the disk.

        Raises:
            Failed: ``failed.state_folder``.
        """
        with self._mutex:
            self._folded.file.sync()
        self._sync_new_folders()

    def close(self) -> None:
        """Give the file descriptor back. The log may be used again; it opens what it needs."""
        with self._mutex:
            self._folded.file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _build(self, make: Callable[[State], Sequence[Record]], durable: bool) -> list[StoredRecord]:
        self._unsynced += private.make_folder(self.folder)
        with self._lock:
            with self._mutex:
                try:
                    self._folded.catch_up()
                except Damaged as damage:
                    raise self._folded.corrupt(damage) from damage
            records = make(self._folded.state)
            if not records:
                return []
            with self._mutex:
                stored = self._folded.write(records, self._clock.now(), durable)
        if durable:
            self._sync_new_folders()
        with self._mutex:
            self._folded.snapshot_if_due()
        return stored

    def _position_before(self, after: int) -> Position:
        with self._mutex:
            return self._folded.position_before(after)

    def _read(self, reader: GroupReader) -> list[StoredRecord]:
        """The next records of a reader that holds no lock."""
        try:
            with contextlib.suppress(Damaged):
                return reader.read()
            with self._quiet():
                return reader.read()
        except Damaged as damage:
            raise self._folded.corrupt(damage) from damage
        except Rewritten as error:
            raise self._replaced() from error

    @contextlib.contextmanager
    def _quiet(self) -> Iterator[None]:
        """Hold the file lock, to look again at damage: without it a writer may be moving a torn tail away at this moment."""
        with self._writer, contextlib.ExitStack() as held:
            if not self._writing:
                with contextlib.suppress(Failed):  # a folder that can't be written to has no writers either
                    held.enter_context(self._lock)
            yield

    def _sync_new_folders(self) -> None:
        with self._writer:
            while self._unsynced:
                private.sync_folder(self._unsynced[-1])
                self._unsynced.pop()

    def _replaced(self) -> Failed:
        where = shown(self._folded.path)
        return Failed(
            "state_folder",
            f"{where} was replaced while it was followed; begin again at its start",
            path=where,
        )


def _behind(after: int, batch: list[StoredRecord]) -> Iterator[StoredRecord]:
    return (record for record in batch if record.seq > after)
