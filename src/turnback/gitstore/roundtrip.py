"""Whether files come back: what git would write of their blobs, compared with what is there; the bytes of those that differ are kept.

Most files are decided without git: what is stored as it is and written as it is comes back, and so does a text with CR LF all through where
CR LF is written. The rest is written out in a scratch folder, in batches. A file of git-lfs is never fetched for this, and hardly ever
read: its blob says the size and the hash of what it stands for.
"""

from __future__ import annotations

import hashlib
import os
import re
import tempfile
import time
from typing import TYPE_CHECKING

from turnback.changes import Entry
from turnback.gitstore import conversions, convert, objects

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turnback.gitstore.conversions import Conversion
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.gitstore.storing import Kept
    from turnback.limits import CaptureLimits
    from turnback.native.files import Beneath
    from turnback.native.index import IndexEntry

_BATCH = 64 << 20  # bytes of files that wait for git
_SHARE = 3  # of the time that is left, one part in so many

_POINTER = 1024  # no pointer of git-lfs is longer
_LFS = re.compile(
    rb"version https://git-lfs\.github\.com/spec/v1\n(?:.*\n)*oid sha256:[0-9a-f]{64}\nsize (\d+)\n"
)

# What makes git take a file for binary, whatever its attributes say: then it doesn't touch the line endings.
_UNPRINTABLE = re.compile(rb"[\x00-\x07\x0b\x0e-\x1a\x1c-\x1f\x7f]")


class Comparison:
    """One comparison of some tracked files with what git would write of their blobs.

    Attributes:
        done: the paths that were compared.
        exact: the entries whose files come back as they are.
        inexact: the others, with the digest and size of the bytes that were kept.
        files_read: how many files were opened.
    """

    def __init__(
        self,
        repository: Repository,
        settings: Settings,
        attributes: Mapping[bytes, Entry],
        tree: Beneath,
        scratch: str,
        pool: Kept,
        limits: CaptureLimits,
    ) -> None:
        now = time.monotonic()
        self.deadline = None if limits.deadline is None else now + (limits.deadline - now) / _SHARE
        self.largest = limits.max_file_bytes
        self.repository = repository
        self.settings = settings
        self.attributes = attributes
        self.tree = tree
        self.scratch = scratch
        self.pool = pool
        self.done: set[bytes] = set()
        self.exact: list[IndexEntry] = []
        self.inexact: list[tuple[IndexEntry, str, int]] = []
        self.files_read = 0
        self._waiting: list[tuple[IndexEntry, bytes]] = []
        self._external: set[bytes] = set()
        self._size = 0

    def at(self, entries: Sequence[IndexEntry]) -> None:
        """Compare the files of some entries, as far as the time goes."""
        known = conversions.of_paths(
            self.repository,
            self.settings,
            [entry.path for entry in entries],
            self.attributes,
            self.scratch,
            self.deadline,
        )
        sizes = convert.sizes(self.repository, {entry.oid.hex() for entry in entries}, self.deadline)
        for entry in entries:
            if self.deadline is not None and time.monotonic() > self.deadline:
                return
            self._one(entry, known.of(entry.path), sizes.get(entry.oid.hex()))
            if self._size >= _BATCH:
                self._ask()
        self._ask()

    def _one(self, entry: IndexEntry, conversion: Conversion, stored_size: int | None) -> None:
        oid = entry.oid.hex()
        if (
            stored_size is None  # a partial clone: there is nothing to compare with
            or entry.size > self.largest
            # Nothing is done to it now, and by its size nothing was when it was stored.
            or (conversion == conversions.NONE and stored_size == entry.size)
            or (conversion.driver and self._is_lfs(oid, stored_size, entry.size))
        ):
            self._exact(entry)
            return
        self.files_read += 1
        try:
            data, _ = self.tree.read(entry.path)
        except OSError:
            return  # it can't be read, or has just gone: nothing is proven
        stored = _blob_id(data) == oid
        may_smudge = conversion.may_smudge(data)
        if stored and not may_smudge:
            self._exact(entry)
        elif stored and conversion.driver:
            self._inexact(
                entry, data
            )  # its own clean form, a pointer: to smudge it could mean to download it
        elif (
            _only_line_ends(conversion)
            and _is_crlf_text(data)
            and _blob_id(data.replace(b"\r\n", b"\n")) == oid
        ):
            self._exact(entry)  # a text file with CR LF all through, under rules that write CR LF
        elif not stored and not may_smudge and not conversion.smudge_eol:
            self._inexact(entry, data)  # what is stored is written as it is, and it is something else
        else:
            self._waiting.append((entry, data))
            if conversion.driver or conversion.encoding:
                self._external.add(entry.path)
            self._size += len(data)

    def _is_lfs(self, oid: str, stored_size: int, size: int) -> bool:
        """Whether a blob is the pointer of git-lfs to a file of this size: then there is only one content that it can stand for."""
        if stored_size > _POINTER:
            return False
        pointer = _LFS.fullmatch(objects.read_blob(self.repository, oid))
        return pointer is not None and int(pointer[1]) & 0xFFFFFFFF == size

    def _exact(self, entry: IndexEntry) -> None:
        self.done.add(entry.path)
        self.exact.append(entry)

    def _inexact(self, entry: IndexEntry, data: bytes) -> None:
        self.done.add(entry.path)
        self.inexact.append((entry, self.pool.put(data), len(data)))

    def _ask(self) -> None:
        """Let git write a batch, and compare."""
        batch = {entry.path: (entry, data) for entry, data in self._waiting}
        self._waiting, self._size = [], 0

        def compare(paths: Sequence[bytes]) -> None:
            with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                out = convert.smudge(
                    self.repository,
                    {path: Entry(batch[path][0].mode, batch[path][0].oid.hex()) for path in paths},
                    self.attributes,
                    folder,
                    work_tree=self.repository.path,
                    deadline=self.deadline,
                )
                for path in paths:
                    entry, data = batch[path]
                    if _content(os.path.join(os.fsencode(out), path)) == data:
                        self._exact(entry)
                    else:
                        self._inexact(entry, data)

        for path in convert.in_halves(list(batch), compare, self._external):
            self._inexact(*batch[path])


def _only_line_ends(conversion: Conversion) -> bool:
    return conversion.smudge_eol and not (conversion.ident or conversion.driver or conversion.encoding)


def _is_crlf_text(data: bytes) -> bool:
    without = data.replace(b"\r\n", b"")
    return b"\r" not in without and b"\n" not in without and _UNPRINTABLE.search(without) is None


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _content(path: bytes) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None
