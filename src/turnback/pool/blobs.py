"""Content-addressed files: ``objects/aa/<sha256>``, published whole, never rewritten, each content stored once (R-003, R-004, R-051).

The pool may hold secrets, so its folders are 0700 and its files 0600, made so before there is content. ``durable`` says whether a put
survives a power cut; every put survives a kill.
"""

from __future__ import annotations

import hashlib
import os

from turnback.disk.private import make_folder, sync_folder, write_atomically
from turnback.errors import Failed


class Pool:
    """A pool in one folder. Safe to use from several threads and processes at once: equal contents have equal names."""

    def __init__(self, folder: str) -> None:
        self.folder = os.path.join(folder, "objects")

    def put(self, data: bytes, *, durable: bool = False) -> str:
        """Store bytes and give their sha256; bytes that are there already are not written again."""
        sha256 = hashlib.sha256(data).hexdigest()
        path = self.path(sha256)
        if not os.path.exists(path):
            make_folder(os.path.dirname(path))
            write_atomically(path, data, durable=durable)
        elif durable:
            _sync(path)
        return sha256

    def get(self, sha256: str) -> bytes:
        """The bytes of a digest, checked against it.

        Raises:
            Failed: ``failed.pool``: they are missing or damaged.
        """
        path = self.path(sha256)
        try:
            with open(path, "rb") as file:
                data = file.read()
        except OSError as error:
            raise Failed(
                "pool", f"kept bytes are missing: {path} ({error.strerror})", sha256=sha256
            ) from error
        if hashlib.sha256(data).hexdigest() != sha256:
            raise Failed("pool", f"kept bytes are damaged: {path}", sha256=sha256)
        return data

    def has(self, sha256: str) -> bool:
        """Whether the pool holds these bytes."""
        return os.path.exists(self.path(sha256))

    def path(self, sha256: str) -> str:
        """The file of a digest, whether it exists or not."""
        return os.path.join(self.folder, sha256[:2], sha256)


def _sync(path: str) -> None:
    descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
    sync_folder(os.path.dirname(path))
