"""The folded state beside the log, so that a long log opens fast. It is a hint: without it only time is lost.

The file is one line with the CRC-32 of everything behind it, one header line, then the parts of ``State.dump``, one a line. The
header names the place in the log that the state belongs to: offset, record number, the CRC-32 of all bytes before it and the last
line's checksum. A snapshot of another log, of a log that was cut, or of one whose old part was damaged since does not fit and
is not used; so a log with a snapshot is refused in the same cases as one without.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Final, NamedTuple
from zlib import crc32

from turnback.disk import private
from turnback.disk.ndjson import CHUNK
from turnback.errors import Failed
from turnback.records.codec import dumps, loads
from turnback.records.reader import Position
from turnback.records.state import FoldError, State

if TYPE_CHECKING:
    from turnback.disk.ndjson import LineFile

__all__ = ["Snapshot", "load", "save", "stored_seq"]

_VERSION: Final = 1


class Snapshot(NamedTuple):
    """A state, its place in the log, and the marks of the log before it (``(seq, offset)``: record ``seq + 1`` begins at ``offset``)."""

    state: State
    position: Position
    marks: list[tuple[int, int]]


def save(path: str, snapshot: Snapshot) -> None:
    """Replace the snapshot at ``path``.

    Raises:
        Failed: ``failed.state_folder``; the old one is then as it was.
    """
    at = snapshot.position
    header = {
        "snapshot": _VERSION,
        "offset": at.offset,
        "seq": at.seq,
        "crc": at.crc,
        "anchor": at.anchor.decode("ascii"),
        "marks": snapshot.marks,
    }
    lines = [dumps(header)]
    lines += [dumps(part) for part in snapshot.state.parts()]
    body = b"\n".join(lines)
    private.remove_leftovers(path)
    private.write_atomically(path, b"%08x\n%b" % (crc32(body), body))


def load(path: str, log: LineFile) -> Snapshot | None:
    """The snapshot at ``path`` when it is whole and belongs to this log, else None. ``log`` must have been looked at."""
    try:
        body = _body(path)
        if body is None:
            return None
        lines = body.split(b"\n")
        header = loads(lines[0])
        if header["snapshot"] != _VERSION:
            return None
        at = Position(header["offset"], header["seq"], header["crc"], header["anchor"].encode())
        if not _fits(at, log):
            return None
        state = State.load(loads(line) for line in lines[1:])
        marks = [(seq, offset) for seq, offset in header["marks"]]
    except (Failed, FoldError, ValueError, KeyError, TypeError, AttributeError):
        return None
    return Snapshot(state, at, marks) if state.seq == at.seq else None


def stored_seq(path: str) -> int:
    """The record that the snapshot at ``path`` stands at by its own word, 0 for none: whether another process has just written one."""
    try:
        descriptor = private.open_file(path, os.O_RDONLY)
        try:
            start = os.pread(descriptor, 256, 0)
        finally:
            os.close(descriptor)
        before, _, rest = start.partition(b'"seq":')
        return int(rest.partition(b",")[0]) if b'"snapshot":1,' in before else 0
    except (OSError, Failed, ValueError):
        return 0


def _body(path: str) -> bytes | None:
    try:
        descriptor = private.open_file(path, os.O_RDONLY)
    except FileNotFoundError:
        return None
    with os.fdopen(descriptor, "rb") as file:
        data = file.read()
    expected, _, body = data.partition(b"\n")
    return body if expected == b"%08x" % crc32(body) else None


def _fits(at: Position, log: LineFile) -> bool:
    """Whether the log begins with the very bytes that this state was folded from."""
    if log.read(at.offset - len(at.anchor), len(at.anchor)) != at.anchor or not at.anchor:
        return False
    crc = offset = 0
    while offset < at.offset:
        data = log.read(offset, min(CHUNK, at.offset - offset))
        if not data:
            return False
        crc = crc32(data, crc)
        offset += len(data)
    return crc == at.crc
