"""Index files made by hand, without git."""

from __future__ import annotations

import hashlib
import struct
from typing import TYPE_CHECKING, NamedTuple

if TYPE_CHECKING:
    import os

OID = bytes(range(20))


class Line(NamedTuple):
    """One entry: its stat data are those of ``seen``, or zero."""

    path: bytes
    mode: int = 0o100644
    oid: bytes = OID
    stage: int = 0
    extended: int = 0
    seen: os.stat_result | None = None


def index_bytes(lines: list[Line], extensions: bytes = b"", version: int = 3) -> bytes:
    """The whole file."""
    out = [b"DIRC" + struct.pack(">II", version, len(lines))]
    for line in lines:
        seen = line.seen
        numbers = (0,) * 10
        if seen is not None:
            numbers = (
                *divmod(seen.st_ctime_ns, 10**9),
                *divmod(seen.st_mtime_ns, 10**9),
                seen.st_dev & 0xFFFFFFFF,
                seen.st_ino & 0xFFFFFFFF,
                line.mode,
                seen.st_uid,
                seen.st_gid,
                seen.st_size & 0xFFFFFFFF,
            )
        numbers = (*numbers[:6], line.mode, *numbers[7:])
        flags = line.stage << 12 | min(len(line.path), 0xFFF) | (0x4000 if line.extended else 0)
        entry = struct.pack(">10I", *numbers) + line.oid + struct.pack(">H", flags)
        if line.extended:
            entry += struct.pack(">H", line.extended)
        entry += line.path + b"\0"
        out.append(entry + bytes(-len(entry) % 8))
    body = b"".join(out) + extensions
    return body + hashlib.sha1(body).digest()
