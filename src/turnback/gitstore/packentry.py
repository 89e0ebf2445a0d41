"""Objects as a pack has them: type and size in a few bytes, then the content deflated; and the header that an object's id covers.

All of it works on bytes at hand, so that threads can do it: nothing here is shared.
"""

from __future__ import annotations

import os
import zlib
from typing import TYPE_CHECKING, NamedTuple

from turnback.gitstore import deflate

if TYPE_CHECKING:
    from collections.abc import Iterator

COMMIT, TREE, BLOB, TAG = 1, 2, 3, 4
BLOCK = 1 << 18  # bytes that are hashed or deflated in one go

_NAMES = {COMMIT: b"commit", TREE: b"tree", BLOB: b"blob", TAG: b"tag"}
_LONGEST_HEADER = 16

Item = tuple[int, bytes, bytes]  # type, raw id, content


class Deflated(NamedTuple):
    """Some objects, ready for the file: each id with the length and CRC-32 of its bytes there, and all the bytes in pieces."""

    rows: list[tuple[bytes, int, int]]
    pieces: list[bytes]


def object_header(kind: int, size: int) -> bytes:
    """What an object's id covers before its content; a loose object begins with it."""
    return b"%s %d\0" % (_NAMES[kind], size)


def entry_header(kind: int, size: int) -> bytes:
    """An object's type and size in a pack: four bits of the size, then seven at a time, the lowest first."""
    first, size = kind << 4 | size & 15, size >> 4
    rest = bytearray()
    while size:
        rest.append(size & 0x7F)
        size >>= 7
    if not rest:
        return bytes((first,))
    return bytes((first | 0x80, *(byte | 0x80 for byte in rest[:-1]), rest[-1]))


def kind_of(first: int) -> int:
    """The type of an object by the first byte of its entry; above ``TAG`` it is a delta."""
    return first >> 4 & 7


def deflated(items: list[Item]) -> Deflated:
    """Make entries of some objects."""
    rows, pieces = [], []
    for kind, oid, data in items:
        length = crc = 0
        for piece in (entry_header(kind, len(data)), *_compressed(data)):
            length += len(piece)
            crc = zlib.crc32(piece, crc)
            pieces.append(piece)
        rows.append((oid, length, crc))
    return Deflated(rows, [b"".join(pieces)] if len(items) > 1 else pieces)


def _compressed(data: bytes) -> Iterator[bytes]:
    """In blocks when it is big: one call would have to make room for all of it, and every thread would wait for that."""
    if len(data) <= BLOCK:
        yield deflate.compress(data)
        return
    view, stream = memoryview(data), deflate.stream()
    for at in range(0, len(view), BLOCK):
        yield stream.compress(view[at : at + BLOCK])
    yield stream.flush()


def read_entry(descriptor: int, offset: int) -> tuple[int, bytes]:
    """The type and content of an object of a pack that is open; no delta."""
    head = os.pread(descriptor, _LONGEST_HEADER, offset)
    at = offset + 1 + next(index for index, byte in enumerate(head) if not byte & 0x80)
    stream, parts = zlib.decompressobj(), []
    while not stream.eof and (block := os.pread(descriptor, BLOCK, at)):
        parts.append(stream.decompress(block))
        at += len(block)
    return kind_of(head[0]), b"".join(parts)
