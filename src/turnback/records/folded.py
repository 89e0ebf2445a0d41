"""A log file and the state folded from it, kept in step: the half of the event log that knows no locks.

Everything here is called by ``turnback.records.log``, which holds the locks: ``catch_up`` and what reads under its mutex, ``write``
under the file lock too.

A commit is encoded, decoded again and folded *before* it is written: the state holds no object of a caller's and no value that
JSON changed, and a record that contradicts the log is refused while the log does not have it yet. Should the write then fail, the
state is read again from the file.
"""

from __future__ import annotations

import base64
import contextlib
import os
from bisect import bisect_right
from typing import TYPE_CHECKING, Any, Final

from turnback import paths
from turnback.disk.ndjson import LineFile
from turnback.errors import Failed, InvalidParams, TurnbackError, Unsupported
from turnback.records import snapshot
from turnback.records.codec import decode_line, encode_group, loads
from turnback.records.events import INTERNAL, PUBLISHED, Record, StoredRecord
from turnback.records.reader import Damaged, GroupReader, Position, Rewritten
from turnback.records.snapshot import Snapshot
from turnback.records.state import FoldError, State

if TYPE_CHECKING:
    from collections.abc import Sequence

__all__ = ["FoldedLog", "shown"]

FORMAT: Final = 1

SNAPSHOT_EVERY: Final = 2_000
"""Records between two snapshots; a tenth of the log when that is more: so a long log pays no more for each record than a short one."""

_MARK_EVERY: Final = 1_000


class FoldedLog:
    """The log file in ``folder``, the state up to where it has been read, and the way to add to both."""

    def __init__(self, folder: str, workspace: str, new_id: str) -> None:
        self.path = os.path.join(folder, "log.ndjson")
        self.file = LineFile(self.path)
        self.state = State()
        self._folder = folder
        self._workspace = os.fsencode(workspace)
        self._new_id = new_id
        self._snapshot_path = os.path.join(folder, "snapshot.ndjson")
        self._snapshot_seq = 0
        self._reader = GroupReader(self.file)
        # What the file was when the state was last in step with it; generation -1: it is not, begin again.
        self._generation = -1
        self._changed: int | None = None
        # (seq, offset) every thousand records or so: record seq + 1 begins at that byte.
        self._marks: list[tuple[int, int]] = []

    @property
    def source(self) -> str:
        """``venom/<uuid>`` of this log, or of the one that this object would make."""
        return f"venom/{self._new_id if self.state.created is None else self.state.created['id']}"

    def catch_up(self) -> None:
        """Fold what was written since; one ``stat`` when that is nothing.

        Raises:
            Damaged: as ``GroupReader.read``; believe it only under the file lock.
            TurnbackError: the log is refused, or can't be read.
        """
        look = self.file.look()
        at = self._reader.position.offset
        if look.generation != self._generation or look.size < at:
            self.start_over()
            return
        if look.size == at and look.changed == self._changed:
            return
        generation, self._generation = (
            self._generation,
            -1,
        )  # an interruption anywhere in between: begin again
        try:
            self._read_on()
        except Rewritten:
            self.start_over()
        else:
            self._generation, self._changed = generation, look.changed

    def start_over(self) -> None:
        """Read the log from its beginning, or from its snapshot; ``state`` is another object then.

        Raises:
            Damaged, TurnbackError: as ``catch_up``.
        """
        self._generation = -1  # until this has come to its end, the next one begins here too
        look = self.file.look()
        loaded = snapshot.load(self._snapshot_path, self.file) if look.size else None
        if loaded is None:
            loaded = Snapshot(State(), Position(), [])
        self.state, position, self._marks = loaded
        self._snapshot_seq = position.seq
        self._reader = GroupReader(self.file, position)
        self._admit()
        try:
            self._read_on()
        except Rewritten:  # only while somebody cuts the file by hand: the next look begins again
            return
        self._generation, self._changed = look.generation, look.changed

    def _read_on(self) -> None:
        reader, state = self._reader, self.state
        while True:
            at = reader.position
            batch = reader.read()
            if not batch:
                if not at.offset:
                    self._refuse_newer()
                return
            self._mark(at)
            for record in batch:
                try:
                    state.apply(record)
                except FoldError as error:
                    raise self.corrupt(Damaged(at.offset, record.seq, str(error))) from error
                if record.seq == 1:
                    self._admit()

    def _admit(self) -> None:
        """Refuse a log that is not this workspace's, or that this version can't read."""
        created = self.state.created
        if created is None:
            if self.state.seq:
                raise self.corrupt(Damaged(0, 1, "it does not begin with log.created"))
            return
        self._refuse_format(created.get("format"))
        theirs = _exact(created)
        if theirs != self._workspace:
            raise InvalidParams(
                "state_dir",
                f"this state folder belongs to the workspace {paths.text(theirs)}; choose another with --state-dir",
                path=shown(self._folder),
            )

    def _refuse_newer(self) -> None:
        """A log whose very first line can't be read may be of a newer format: that is not a torn tail."""
        first = next(iter(self.file.lines_from(0)), (0, b""))[1]
        with contextlib.suppress(ValueError, KeyError, TypeError):
            found = loads(first)["data"]["format"]
            if isinstance(found, int) and found != FORMAT:
                self._refuse_format(found)

    def _refuse_format(self, found: object) -> None:
        if found != FORMAT:
            raise Unsupported(
                "log_format",
                f"the log in {shown(self._folder)} has format {found}, and this version of turnback reads format {FORMAT}; "
                "install a newer turnback",
                path=shown(self.path),
            )

    def write(self, records: Sequence[Record], ts: int, durable: bool) -> list[StoredRecord]:
        """Commit records, at least one; the file lock is held and ``catch_up`` was called under it.

        Raises:
            Failed: ``failed.state_folder``: nothing was written; ``failed.internal``: a record is of no type or can't follow the others.
        """
        state, at = self.state, self._reader.position
        group = list(records)
        for record in group:
            if record.type not in PUBLISHED and record.type not in INTERNAL:
                raise Failed("internal", f"there is no record type {record.type!r}")
        if state.created is None:
            group.insert(0, Record("log.created", self._creation()))
        data = encode_group(group, at.seq + 1, ts)
        # What is folded is what a reader decodes: no object of the caller's, and no value that JSON has changed.
        stored = [decode_line(line)[0] for line in data.split(b"\n")[:-1]]
        self._generation = -1  # an interruption anywhere from here on: the next one begins again
        try:
            self.file.set_aside(at.offset)
            for kept in stored:
                state.apply(kept)
            self.file.append([data], durable, at.offset)
        except BaseException as error:
            with contextlib.suppress(TurnbackError, Damaged):
                self.start_over()
            if isinstance(error, FoldError):
                raise Failed("internal", f"this record can't follow the log: {error}") from error
            raise
        self._reader.advance(data, stored[-1].seq)
        look = self.file.look()
        self._generation, self._changed = look.generation, look.changed
        self._mark(at)
        return stored[-len(records) :]

    def _mark(self, at: Position) -> None:
        if not self._marks or at.seq - self._marks[-1][0] >= _MARK_EVERY:
            self._marks.append((at.seq, at.offset))

    def _creation(self) -> dict[str, Any]:
        exact = self._workspace
        data = {"format": FORMAT, "workspace": paths.text(exact), "id": self._new_id}
        if not paths.is_text(exact):
            data["workspace_b64"] = base64.b64encode(exact).decode("ascii")
        return data

    def snapshot_if_due(self) -> None:
        """Write a snapshot after enough commits. They are in the log: whatever goes wrong here costs time alone."""
        seq = self.state.seq
        due = max(SNAPSHOT_EVERY, seq // 10)
        if seq - self._snapshot_seq < due:
            return
        self._snapshot_seq = snapshot.stored_seq(self._snapshot_path)
        if not 0 <= seq - self._snapshot_seq < due:
            with contextlib.suppress(TurnbackError):
                snapshot.save(self._snapshot_path, Snapshot(self.state, self._reader.position, self._marks))
            self._snapshot_seq = seq

    def position_before(self, after: int) -> Position:
        """A place in the log at or before the end of record ``after``."""
        index = bisect_right(self._marks, (after, 1 << 62)) - 1
        seq, offset = self._marks[index] if index >= 0 else (0, 0)
        return Position(offset, seq)

    def corrupt(self, damage: Damaged) -> Failed:
        """The error for damage that is believed."""
        where = shown(self.path)
        return Failed(
            "log_corrupt",
            f"{where} is damaged at byte {damage.offset}, where record {damage.seq} begins: {damage.why}. Nothing was changed. "
            f"Put a good copy back, or keep a copy of the folder and cut the log there (truncate -s {damage.offset}) to go on with "
            "the records before it",
            path=where,
            offset=damage.offset,
            seq=damage.seq,
        )


def _exact(created: dict[str, Any]) -> bytes:
    """The workspace's path as bytes."""
    encoded = created.get("workspace_b64")
    return base64.b64decode(encoded) if encoded is not None else str(created.get("workspace")).encode()


def shown(path: str) -> str:
    """A path as JSON can hold it."""
    return paths.text(os.fsencode(path))
