"""Loose objects: each in a file of its own, for the handful that a small turn makes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnback.gitstore import deflate
from turnback.gitstore.newfile import NewFile, sync_path
from turnback.gitstore.ourpacks import LOOSE_PREFIX
from turnback.gitstore.packlist import loose_path

if TYPE_CHECKING:
    from turnback.gitstore.objectfolder import ObjectFolder

_PATIENCE = 8  # a prune may remove a folder just when it is empty, again and again


def store(folder: ObjectFolder, oid: str, header: bytes, data: bytes, durable: bool = False) -> int:
    """Write one object, unless another writer has just done so.

    Args:
        folder: where objects go.
        oid: its id in hex.
        header: ``<type> <size>\\0``, which its id covers too.
        data: its content.
        durable: sync it, and the folder that names it.

    Returns:
        The bytes written.

    Raises:
        OSError: it can't be written; there is no trace of it.
    """
    path = loose_path(folder.objects, oid)
    body = deflate.compress(header + data)
    with NewFile(folder.objects, LOOSE_PREFIX, folder.sharing) as file:
        file.write(body)
        for left in range(_PATIENCE, -1, -1):
            try:
                published = file.publish(path, durable)
            except FileNotFoundError:
                if not left:
                    raise
                folder.make(os.path.dirname(path))
            else:
                break
    if durable:
        sync_path(os.path.dirname(path))
        sync_path(folder.objects)
    return len(body) if published else 0
