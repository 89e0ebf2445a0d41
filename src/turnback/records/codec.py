"""Records to lines and back, and JSON for everybody else: the only module that imports orjson.

A commit of several records is one *group* of lines. Each line is one JSON object with a fixed order of members::

    {"seq":7,"ts":1794225850120,"type":"turn.started","data":{...},"left":1,"of":2,"sum":"9c41f0aa"}

``left`` counts the records still to come in the group, ``of`` the group's records (left out when there is one), ``sum`` is the
CRC-32 of the line's bytes before the comma of ``sum``. So a reader knows a whole group when it sees one, and from any good
line where that line's group began, which is what tells a torn tail from damage in the middle.

A line is taken only when everything about it is right; there is no repair and no guess here. CRC-32 finds accidents, not
forgers: whoever can write the state folder is the user (DESIGN part 5).
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple
from zlib import crc32

import orjson

from turnback.records.events import StoredRecord

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.records.events import Record

__all__ = ["BadLine", "Line", "decode", "decode_line", "dumps", "encode_group", "loads"]

_SUM = b',"sum":"'
_TAIL = len(_SUM) + 8 + len(b'"}')


class BadLine(ValueError):
    """These bytes are not a line that this module wrote; the text says what is wrong with them."""


class Line(NamedTuple):
    """A good line: its record, how many follow it in its group, and how many the group has."""

    record: StoredRecord
    left: int
    of: int

    @property
    def group_start(self) -> int:
        """``seq`` of the first record of this line's group."""
        return self.record.seq - (self.of - 1 - self.left)


def dumps(value: Any) -> bytes:
    """Compact UTF-8 JSON. A lone surrogate in a string (a file name that was decoded from bad bytes) becomes U+FFFD.

    Raises:
        TypeError: the value holds something that JSON can't: bytes, a set, a key that is no string, an integer beyond 64 bits.
    """
    try:
        return orjson.dumps(value)
    except TypeError as error:
        try:
            return orjson.dumps(_without_surrogates(value))
        except TypeError:
            raise error from None


def loads(data: bytes | str) -> Any:
    """The value of a JSON text.

    Raises:
        ValueError: it is no JSON, or not UTF-8.
    """
    return orjson.loads(data)


def encode_group(records: Sequence[Record], first_seq: int, ts: int) -> bytes:
    """The lines of one commit.

    Args:
        records: at least one.
        first_seq: the number of the first one.
        ts: milliseconds since the epoch, one time for all of them.

    Raises:
        TypeError: as ``dumps``.
    """
    of = len(records)
    lines = []
    for index, record in enumerate(records):
        line: dict[str, Any] = {"seq": first_seq + index, "ts": ts, "type": record.type, "data": record.data}
        line["left"] = of - 1 - index
        if of > 1:
            line["of"] = of
        body = dumps(line)[:-1]
        lines.append(b'%b,"sum":"%08x"}\n' % (body, crc32(body)))
    return b"".join(lines)


def decode(line: bytes) -> Line:
    """Read one line, without its newline.

    Raises:
        BadLine: its checksum, its form or one of its members is not right.
    """
    body = line[:-_TAIL]
    if line[-_TAIL:] != b'%b%08x"}' % (_SUM, crc32(body)):
        raise BadLine("the checksum does not fit" if _SUM in line[-_TAIL:] else "the line is cut or foreign")
    try:
        found = orjson.loads(line)
        seq, ts, kind, data, left = found["seq"], found["ts"], found["type"], found["data"], found["left"]
        of = found.get("of", 1)
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise BadLine("the line is no record") from error
    # Exactly int: JSON's true is a number to Python.
    if (
        not (type(seq) is type(ts) is type(left) is type(of) is int)
        or not 0 <= left < of
        or seq <= of - 1 - left
    ):
        raise BadLine("the line's numbers can't be")
    if type(kind) is not str or type(data) is not dict:
        raise BadLine("the line's type or data has another form")
    return Line(StoredRecord(seq, ts, kind, data), left, of)


def decode_line(line: bytes) -> tuple[StoredRecord, int]:
    """The record of one line (without its newline) and how many records follow it in its group.

    Raises:
        BadLine: as ``decode``.
    """
    record, left, _ = decode(line)
    return record, left


def _without_surrogates(value: Any) -> Any:
    """The same value with every lone surrogate replaced; halves that belong together become their one character."""
    if isinstance(value, str):
        return value.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    if isinstance(value, dict):
        return {_without_surrogates(key): _without_surrogates(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_without_surrogates(item) for item in value]
    return value
