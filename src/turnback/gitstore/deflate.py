"""Deflate for objects that nobody waits long for: fast before small, by the best library that is installed.

What takes longest in storing a file is compressing it. Three libraries write the same format; the first of these that can be imported
is taken, once, when this module is:

- ``isal`` (Intel's ISA-L): a third of zlib's time, and as small as zlib's level 1;
- ``zlib-ng``: level 2, since its level 1 is as fast as ISA-L but takes a quarter more room;
- ``zlib``, level 1: always there.

All of them let other threads run while they work. Inflating is left to zlib: it is fast enough.
"""

from __future__ import annotations

import importlib
from typing import Protocol, cast

Data = bytes | bytearray | memoryview


class Stream(Protocol):
    """A stream that is compressed piece by piece."""

    def compress(self, data: Data, /) -> bytes:
        """Take more of it; gives what is ready."""

    def flush(self) -> bytes:
        """The rest: the stream is whole."""


class _Library(Protocol):
    def compress(self, data: Data, level: int, /) -> bytes: ...

    def compressobj(self, level: int, /) -> Stream: ...


KNOWN = (("isal", "isal.isal_zlib", 1), ("zlib-ng", "zlib_ng.zlib_ng", 2), ("zlib", "zlib", 1))


def choose(known: tuple[tuple[str, str, int], ...]) -> tuple[str, _Library, int]:
    """The name, module and level of the first library that can be imported, of (name, module's name, level); the last one must be there."""
    for name, module, level in known[:-1]:
        try:
            return name, cast("_Library", importlib.import_module(module)), level
        except (ImportError, OSError):  # absent, or built for another machine
            continue
    name, module, level = known[-1]
    return name, cast("_Library", importlib.import_module(module)), level


LIBRARY, _library, _level = choose(KNOWN)


def compress(data: Data) -> bytes:
    """A whole zlib stream of some bytes."""
    return _library.compress(data, _level)


def stream() -> Stream:
    """A new zlib stream for bytes that come in pieces."""
    return _library.compressobj(_level)
