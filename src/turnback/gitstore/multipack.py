"""Which packs a multi-pack-index names: git counts on those, and looks for an object in them by that index alone."""

from __future__ import annotations

import os
import re

_NAME = re.compile(rb"pack-([0-9a-f]{40})\.(?:idx|pack)\0")
_PACK_NAMES = b"PNAM"
_HEADER, _ROW = 12, 12
_MOST_CHUNKS = 64
_MOST_BYTES = 1 << 26


def named(packs: str) -> frozenset[str] | None:
    """The checksums of the packs that the multi-pack-index of a pack folder names, or those of a chain of them.

    None when there is one that can't be read: then any pack may be named.
    """
    chain = os.path.join(packs, "multi-pack-index.d")
    found: set[str] = set()
    try:
        files = [
            os.path.join(packs, "multi-pack-index"),
            *(os.path.join(chain, name) for name in _names(chain)),
        ]
        for path in files:
            if path.endswith("-chain"):  # the list of the others
                continue
            found |= _names_in(path)
    except (OSError, ValueError):
        return None
    return frozenset(found)


def _names_in(path: str) -> set[str]:
    if not os.path.exists(path):
        return set()
    with open(path, "rb") as file:
        header = file.read(_HEADER)
        if header[:4] != b"MIDX" or len(header) < _HEADER or header[6] > _MOST_CHUNKS:
            raise ValueError("this is no multi-pack-index")
        table = file.read(_ROW * (header[6] + 1))
        for at in range(0, _ROW * header[6], _ROW):
            if table[at : at + 4] == _PACK_NAMES:
                start = int.from_bytes(table[at + 4 : at + 12])
                end = int.from_bytes(table[at + 16 : at + 24])
                if not 0 <= end - start <= _MOST_BYTES:
                    break
                file.seek(start)
                return {name.decode() for name in _NAME.findall(file.read(end - start))}
    raise ValueError("a multi-pack-index names no packs")


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
