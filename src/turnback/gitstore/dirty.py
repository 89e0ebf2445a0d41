"""The dirty cache: what the last captures learned about files that the user's index doesn't vouch for (DESIGN 4.2).

A tree that stays dirty for a hundred turns is hashed once. A path is found again when its stat data are the same (device, inode, size,
mtime, ctime, mode), its index entry is (git looks for CR in it), everything that its conversion depends on is (one fingerprint for the whole
tree), and it was not too young when it was read: a file may change within one tick of its clock without a trace. The cache is a hint: losing it costs
time only, a damaged one is ignored, and whoever takes an id from it sees that the object exists.

One file a tree, replaced whole; two processes may use it at once, and the last one to write wins.
"""

from __future__ import annotations

import hashlib
import os
import struct
from typing import TYPE_CHECKING, Final, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.native.walk import Item

_MAGIC: Final = b"turnback dirty cache 1\n"
_STAT = struct.Struct("<QQQqqI")
_ROW = struct.Struct("<I48sI20s20s32sB")
# A file that was this young (nanoseconds) when it was read is read again: clocks tick every 1 to 10 ms, coarse ones every two seconds.
_YOUNG: Final = 50_000_000
_YOUNG_COARSE: Final = 2_000_000_000
_SECOND: Final = 1_000_000_000


class Stamp(NamedTuple):
    """The stat data of a file that must all be the same for it to be the same file."""

    device: int
    inode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    mode: int

    @classmethod
    def of(cls, status: os.stat_result) -> Stamp:
        """From what ``os.lstat`` or ``os.fstat`` gave."""
        return cls(
            status.st_dev,
            status.st_ino,
            status.st_size,
            status.st_mtime_ns,
            status.st_ctime_ns,
            status.st_mode,
        )

    @classmethod
    def of_item(cls, item: Item) -> Stamp:
        """From what a walk saw."""
        return cls(item.device, item.inode, item.size, item.mtime_ns, item.ctime_ns, item.mode)

    def young(self, now_ns: int) -> bool:
        """Whether the file may still change within one tick of its clock. A stamp in the future is never old."""
        last = max(self.mtime_ns, self.ctime_ns)
        coarse = self.mtime_ns % _SECOND == 0 and self.ctime_ns % _SECOND == 0
        return now_ns - last < (_YOUNG_COARSE if coarse else _YOUNG)


class Known(NamedTuple):
    """What the cache knows about a path.

    Attributes:
        oid: the blob that git stores for it, in hex.
        mode: git's mode.
        raw: sha256 of the exact bytes, where git's conversion doesn't bring them back.
    """

    oid: str
    mode: int
    raw: str | None


class DirtyCache:
    """The cache of one tree. Not for several threads at once: whoever holds the tree's lock uses it."""

    def __init__(self, path: str) -> None:
        self.path = path
        self.fingerprint = b""
        self._rows: dict[bytes, bytes] = {}
        self._used: dict[bytes, bytes] = {}
        self._read: tuple[int, int, int] | None = None
        self._changed = False

    def begin(self, fingerprint: str) -> None:
        """Start a capture: take in what another process wrote, and forget everything when the conversions depend on something else now."""
        wanted = hashlib.sha256(fingerprint.encode("utf-8", "surrogateescape")).digest()
        self._load()
        if wanted != self.fingerprint:
            self._rows = {}
            self.fingerprint = wanted
            self._changed = True
        self._used = {}

    def find(self, path: bytes, stamp: Stamp, index_oid: str | None) -> Known | None:
        """What is known about a path with these stat data and this index entry."""
        row = self._rows.get(path)
        if row is None:
            return None
        _, packed, mode, oid, index, raw, flags = _ROW.unpack(row)
        if packed != _packed(stamp) or index != _oid(index_oid):
            return None
        self._used[path] = row
        return Known(oid.hex(), mode, raw.hex() if flags else None)

    def learn(self, path: bytes, stamp: Stamp, index_oid: str | None, known: Known, read_ns: int) -> None:
        """Remember a file, unless it was too young when it was read (``read_ns``, by ``time.time_ns`` before the read).

        That it is old enough now says nothing: it may have been written once more in the same tick, after the read.
        """
        if stamp.young(read_ns):
            return
        raw = bytes.fromhex(known.raw) if known.raw else bytes(32)
        self._used[path] = _ROW.pack(
            len(path),
            _packed(stamp),
            known.mode,
            bytes.fromhex(known.oid),
            _oid(index_oid),
            raw,
            known.raw is not None,
        )
        self._changed = True

    def end(self) -> None:
        """Keep what this capture found or learned, and forget the rest; written only when something changed. A failure costs nothing."""
        if self._changed or len(self._used) != len(self._rows):
            self._rows = self._used
            self._write(self._rows.items())
            self._changed = False
        self._used = {}

    def forget(self) -> None:
        """Know nothing any more: every file is read again in the next capture."""
        self._rows, self.fingerprint, self._changed = {}, b"", True

    def _load(self) -> None:
        try:
            with open(self.path, "rb") as file:
                status = os.fstat(file.fileno())
                version = (status.st_ino, status.st_size, status.st_mtime_ns)
                if version == self._read:
                    return
                data = file.read()
        except OSError:
            if self._read is not None:
                self._rows, self.fingerprint, self._read = {}, b"", None
            return
        self._rows, self.fingerprint = _parsed(data)
        self._read = version

    def _write(self, rows: Iterable[tuple[bytes, bytes]]) -> None:
        body = b"".join(row + path for path, row in rows)
        data = _MAGIC + self.fingerprint + hashlib.sha256(self.fingerprint + body).digest() + body
        temporary = f"{self.path}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with os.fdopen(descriptor, "wb") as file:
                file.write(data)
                status = os.fstat(file.fileno())
            os.replace(temporary, self.path)
            status = os.stat(self.path)
            self._read = (status.st_ino, status.st_size, status.st_mtime_ns)
        except OSError:
            self._read = None  # it is read again next time, whatever is there then


def _parsed(data: bytes) -> tuple[dict[bytes, bytes], bytes]:
    """The rows and the fingerprint of a cache file; nothing where it is damaged."""
    start = len(_MAGIC) + 64
    if data[: len(_MAGIC)] != _MAGIC or len(data) < start:
        return {}, b""
    fingerprint, digest, body = (
        data[len(_MAGIC) : len(_MAGIC) + 32],
        data[len(_MAGIC) + 32 : start],
        data[start:],
    )
    if hashlib.sha256(fingerprint + body).digest() != digest:
        return {}, b""
    rows = {}
    at = 0
    while at + _ROW.size <= len(body):
        row = body[at : at + _ROW.size]
        length = int.from_bytes(row[:4], "little")
        rows[body[at + _ROW.size : at + _ROW.size + length]] = row
        at += _ROW.size + length
    return rows, fingerprint


def _packed(stamp: Stamp) -> bytes:
    packed = _STAT.pack(stamp.device, stamp.inode, stamp.size, stamp.mtime_ns, stamp.ctime_ns, stamp.mode)
    return packed.ljust(48, b"\0")


def _oid(oid: str | None) -> bytes:
    return bytes(20) if oid is None else bytes.fromhex(oid)
