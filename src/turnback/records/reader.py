"""Whole groups out of a log file: where a reader stands, what it may believe, and what is torn or damaged.

A group counts when its last line is there and every line of it is right: checksum, number, place in the group. What stands behind
the last whole group is a **torn tail** when nothing in it can be another commit: a writer was killed (or is writing at this very moment),
and readers wait or ignore it. It is **damage** when anything behind the bad line was committed by itself; then reading stops with
the byte offset, since going on would leave records out in silence.

Readers hold no lock. So they may see damage that is none, while a writer moves a torn tail away; whoever gets ``Damaged``
looks again under the writer's lock before believing it.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from turnback.disk.ndjson import CHUNK, LONGEST
from turnback.records.codec import BadLine, decode

if TYPE_CHECKING:
    from turnback.disk.ndjson import LineFile
    from turnback.records.events import StoredRecord

__all__ = ["ANCHOR", "Damaged", "GroupReader", "Position", "Rewritten"]

ANCHOR: Final = len(b',"sum":"00000000"}\n')
"""Bytes before a position that are compared when reading goes on there: the last line's checksum."""


class Damaged(Exception):
    """The group at byte ``offset`` is bad and something behind it was committed."""

    def __init__(self, offset: int, seq: int, why: str) -> None:
        super().__init__(why)
        self.offset = offset
        self.seq = seq
        self.why = why


class Rewritten(Exception):
    """The bytes before the position are not the ones that were read: the file was cut and written anew."""


class Position(NamedTuple):
    """A place between two groups.

    Attributes:
        offset: bytes before it.
        seq: number of the last record before it.
        crc: CRC-32 of all bytes before it.
        anchor: the last ``ANCHOR`` bytes before it; empty when they need not be looked at.
    """

    offset: int = 0
    seq: int = 0
    crc: int = 0
    anchor: bytes = b""


class GroupReader:
    """Reads a file's groups from a position on; ``position`` moves along."""

    def __init__(self, file: LineFile, position: Position = Position()) -> None:  # noqa: B008 - immutable
        self.file = file
        self.position = position

    def read(self) -> list[StoredRecord]:
        """The records of the next whole groups, about a quarter of a mebibyte of them; empty at the end and before a torn tail.

        Raises:
            Damaged: there is a bad group with committed records behind it.
            Rewritten: the file is not the one that this position is in.
            Failed: ``failed.state_folder``: reading fails.
        """
        offset, seq, _, anchor = self.position
        limit = CHUNK
        while True:
            data = self.file.read(offset - len(anchor), limit + len(anchor))
            if not data.startswith(anchor):
                raise Rewritten
            full = len(data) == limit + len(anchor)
            data = data[len(anchor) :]
            records, consumed, why = _whole_groups(data, seq)
            if consumed:
                self.advance(data[:consumed], records[-1].seq)
                return records
            if why is None and full and limit < LONGEST:
                limit *= 4
                continue
            if data:
                self._refuse_damage(offset, seq + 1, why or "it never ends")
            return []

    def advance(self, data: bytes, seq: int) -> None:
        """Move behind these bytes, which are whole groups up to record ``seq``."""
        at = self.position
        self.position = Position(at.offset + len(data), seq, crc32(data, at.crc), data[-ANCHOR:])

    def _refuse_damage(self, offset: int, expected: int, why: str) -> None:
        """Return when everything from here on can be one group that was never finished; ``expected`` is its first number."""
        progress: list[int] = []
        for _, text in self.file.lines_from(offset):
            try:
                line = decode(text)
            except BadLine:
                progress = []
                continue
            if line.group_start != expected:
                raise Damaged(offset, expected, why)
            # A whole group behind the bad line: nobody writes one there.
            progress = [*progress, line.left] if line.left < line.of - 1 else [line.left]
            if line.left == 0 and progress == list(range(line.of - 1, -1, -1)):
                raise Damaged(offset, expected, why)


def _whole_groups(data: bytes, seq: int) -> tuple[list[StoredRecord], int, str | None]:
    """The records of the whole groups that ``data`` begins with, their length in bytes, and what is wrong with the line behind them."""
    records: list[StoredRecord] = []
    consumed = at = kept = 0
    expected = seq + 1
    due = -1
    lines = data.split(b"\n")
    lines.pop()
    for text in lines:
        try:
            record, left, of = decode(text)
        except BadLine as error:
            del records[kept:]
            return records, consumed, str(error)
        if record.seq != expected or left != (of - 1 if due < 0 else due):
            del records[kept:]
            return records, consumed, f"record {record.seq} stands where record {expected} belongs"
        records.append(record)
        expected += 1
        due = left - 1
        at += len(text) + 1
        if not left:
            consumed, kept = at, len(records)
    del records[kept:]
    return records, consumed, None
