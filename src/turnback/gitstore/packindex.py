"""The index of a pack: written (version 2), read whole with its checks, and asked for one object.

An index of version 2 is: magic and version; 256 counts, of the ids up to each first byte; the ids in order; the CRC-32 of each object's bytes
in the pack; each object's place in 31 bits, or in 64 bits in a table of its own; the pack's checksum; the index's own.

Asking is for any pack of the user's, so it may be of any size and of version 1 too: the file is mapped (git and libgit2 do so as well: an
index is never changed, only replaced), and since ids are spread evenly an object's place is guessed and then looked for nearby. Nothing
here is trusted: an index that is shorter than its counts say, or whose counts fall, is refused.
"""

from __future__ import annotations

import hashlib
import mmap
import os
import struct
from bisect import bisect_left
from itertools import accumulate, pairwise
from math import isqrt
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

MAGIC = b"\377tOc\0\0\0\2"
_FANS = struct.Struct(">256I")
_OID = 20
_CHECKSUMS = 2 * _OID
_LARGEST_SHORT = 0x7FFF_FFFF
_READ_WHOLE = 1 << 22  # bytes of an index that are read rather than mapped: some 140,000 objects
_FEW = 64  # so many neighbours are looked through as fast as a guess is made


# Where a pack has an object: its offset in bytes, and the CRC-32 of its bytes there.
Place = tuple[int, int]


def _read(descriptor: int) -> bytes:
    with os.fdopen(os.dup(descriptor), "rb") as file:
        return file.read()


def encode(places: Mapping[bytes, Place], checksum: bytes, largest_short: int = _LARGEST_SHORT) -> bytes:
    """The index file of a pack, byte for byte as ``git index-pack`` writes it.

    Args:
        places: raw id to place, of every object in the pack.
        checksum: the pack's last 20 bytes.
        largest_short: offsets above it take 64 bits; lower for tests only.
    """
    # By first byte, which the counts need anyway: sorting a million ids in one go would hold up every other thread.
    buckets: list[list[bytes]] = [[] for _ in range(256)]
    for oid in places:
        buckets[oid[0]].append(oid)
    oids: list[bytes] = []
    for bucket in buckets:
        oids += sorted(bucket)
    short: list[int] = []
    long: list[int] = []
    crcs: list[int] = []
    for oid in oids:
        offset, crc = places[oid]
        crcs.append(crc)
        if offset > largest_short:
            short.append(0x8000_0000 | len(long))
            long.append(offset)
        else:
            short.append(offset)
    body = b"".join(
        (
            MAGIC,
            _FANS.pack(*accumulate(map(len, buckets))),
            *oids,
            struct.pack(f">{len(crcs)}I", *crcs),
            struct.pack(f">{len(short)}I", *short),
            struct.pack(f">{len(long)}Q", *long),
            checksum,
        )
    )
    return body + hashlib.sha1(body, usedforsecurity=False).digest()


def decode(data: bytes) -> tuple[dict[bytes, Place], bytes]:
    """Every object of an index of version 2, and the pack's checksum; the reverse of ``encode``.

    Raises:
        ValueError: it is damaged, or of another version.
    """
    if (
        data[: len(MAGIC)] != MAGIC
        or hashlib.sha1(data[:-_OID], usedforsecurity=False).digest() != data[-_OID:]
    ):
        raise ValueError("the index of a pack is damaged")
    count = int.from_bytes(data[len(MAGIC) + 1020 : len(MAGIC) + 1024])
    start = len(MAGIC) + _FANS.size
    if len(data) < start + 28 * count + _CHECKSUMS:
        raise ValueError("the index of a pack is too short")
    crcs = struct.unpack_from(f">{count}I", data, start + _OID * count)
    short = struct.unpack_from(f">{count}I", data, start + 24 * count)
    table = start + 28 * count
    long = struct.unpack_from(f">{(len(data) - table - _CHECKSUMS) // 8}Q", data, table)
    places = {}
    for row in range(count):
        at = start + _OID * row
        offset = short[row]
        if offset & 0x8000_0000:
            if offset & _LARGEST_SHORT >= len(long):
                raise ValueError("the index of a pack points beyond its table")
            offset = long[offset & _LARGEST_SHORT]
        places[data[at : at + _OID]] = offset, crcs[row]
    return places, data[-_CHECKSUMS:-_OID]


class PackIndex:
    """One index file, to be asked whether its pack has an object.

    Attributes:
        pack: the pack's path.
        count: how many objects it has.
    """

    def __init__(self, path: str) -> None:
        """Map an index.

        Raises:
            ValueError: it is damaged or of an unknown version.
            OSError: it can't be opened.
        """
        self.pack = path.removesuffix(".idx") + ".pack"
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
        try:
            # Python keeps a descriptor for each map, and there may be hundreds of packs: only really big ones are mapped.
            small = os.fstat(descriptor).st_size <= _READ_WHOLE
            self._map: bytes | mmap.mmap = (
                _read(descriptor) if small else mmap.mmap(descriptor, 0, access=mmap.ACCESS_READ)
            )
        finally:
            os.close(descriptor)
        start, self._row, self._skip, least = len(MAGIC), _OID, 0, _OID + 8
        if self._map[:4] != MAGIC[:4]:
            start, self._row, self._skip, least = 0, 24, 4, 24
        elif self._map[:8] != MAGIC:
            raise ValueError("the index of a pack is of an unknown version")
        self._start = start + _FANS.size
        if len(self._map) < self._start:
            raise ValueError("the index of a pack is too short")
        self._fans = (0, *_FANS.unpack(self._map[start : self._start]))
        self.count = self._fans[-1]
        if len(self._map) < self._start + least * self.count + _CHECKSUMS:
            raise ValueError("the index of a pack is shorter than it says")
        if any(one > two for one, two in pairwise(self._fans)):
            raise ValueError("the index of a pack is out of order")

    def __contains__(self, oid: bytes) -> bool:
        low, high = self._fans[oid[0]], self._fans[oid[0] + 1]
        count = high - low
        if count > _FEW:
            guess = low + (count * int.from_bytes(oid[1:5]) >> 32)
            around = isqrt(count) + 2  # two standard deviations: enough but for one time in twenty
            start, end = max(low, guess - around), min(high, guess + around)
            if (start == low or self._oid(start) <= oid) and (end == high or oid <= self._oid(end - 1)):
                low, high = start, end
        return self._has(oid, low, high)

    def oids(self) -> Iterator[bytes]:
        """Every id in it, in order."""
        return map(self._oid, range(self.count))

    def _oid(self, row: int) -> bytes:
        at = self._start + row * self._row + self._skip
        return self._map[at : at + _OID]

    def _has(self, oid: bytes, low: int, high: int) -> bool:
        if high - low > 4 * _FEW:
            low += bisect_left(range(low, high), oid, key=self._oid)
            return low < high and self._oid(low) == oid
        block = self._map[self._start + low * self._row : self._start + high * self._row]
        at = block.find(oid)
        while at >= 0 and at % self._row != self._skip:
            at = block.find(oid, at + 1)
        return at >= 0
