"""Read the files that a capture takes, let git convert those that it would, and store them; keep raw bytes where git can't give them back.

Where git's own conversion would not bring a file's bytes back, those bytes go to the pool as well (DESIGN part 4, Byte-exact). Files that
a conversion may apply to go to git in batches, so that their bytes are in memory a batch at a time.

A path may be another thing by the time it is opened than it was when it was listed: it is then taken as what it is.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
import tempfile
import time
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Protocol

from turnback.changes import FILE, LINK, Entry
from turnback.errors import TimedOut
from turnback.gitstore import conversions, convert
from turnback.gitstore.dirty import DirtyCache, Known, Stamp
from turnback.limits import Skipped, SkipReason
from turnback.native.files import Beneath, Blocked, NotRegular

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turnback.gitstore.conversions import Conversion
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.scan import Candidate
    from turnback.gitstore.settings import Settings
    from turnback.gitstore.writer import ObjectWriter
    from turnback.limits import CaptureLimits

_BATCH = 64 << 20  # bytes of files that wait for git
_ATTEMPTS = 3  # of opening a path that changes its kind all the time


@dataclass(frozen=True, slots=True)
class Raw:
    """A file whose exact bytes are kept beside the tree."""

    path: bytes
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class _Waiting:
    """A file that git may convert, and the bytes that it had when it was read."""

    candidate: Candidate
    data: bytes
    conversion: Conversion


class Kept(Protocol):
    """Where exact bytes are kept beside the trees, by sha256."""

    def put(self, data: bytes) -> str:
        """Keep bytes; their sha256."""
        ...

    def has(self, sha256: str) -> bool:
        """Whether these bytes are kept."""
        ...


class Storing:
    """One run over the candidates of a tree.

    Attributes:
        edits: path to what the tree gets for it; None for one that is gone.
        skipped: what turned out not to be storable.
        raw: files whose bytes were kept.
        modes: path to permission bits, where they are narrower than usual.
        files_read: how many files were opened.
    """

    def __init__(
        self,
        repository: Repository,
        settings: Settings,
        limits: CaptureLimits,
        attributes: Mapping[bytes, Entry],
        usual: int,
        scratch: str,
        pool: Kept,
        cache: DirtyCache | None,
        writer: ObjectWriter,
    ) -> None:
        self.repository = repository
        self.settings = settings
        self.limits = limits
        self.attributes = attributes
        self.usual = usual
        self.scratch = scratch
        self.pool = pool
        self.cache = cache
        self.writer = writer
        self.edits: dict[bytes, Entry | None] = {}
        self.skipped: list[Skipped] = []
        self.raw: list[Raw] = []
        self.modes: dict[bytes, int] = {}
        self.files_read = 0
        self._read_now: dict[bytes, tuple[Candidate, Stamp, int]] = {}

    def store(self, candidates: Sequence[Candidate]) -> None:
        """Store every candidate, or note why not.

        Raises:
            TimedOut: ``timeout.checkpoint``.
            Failed: ``failed.checkpoint_git``: an object can't be written.
        """
        candidates = [candidate for candidate in candidates if not self._known(candidate)]
        known = conversions.of_paths(
            self.repository,
            self.settings,
            [candidate.path for candidate in candidates if not candidate.link],
            self.attributes,
            self.scratch,
            self.limits.deadline,
        )
        waiting: list[_Waiting] = []
        size = 0
        with Beneath(self.repository.path) as tree:
            for listed in candidates:
                self._check_time()
                found = self._read(tree, listed)
                if found is None:
                    continue
                candidate, data = found
                conversion = conversions.NONE if candidate.link else known.of(candidate.path)
                if conversion.may_clean(data) or conversion.may_smudge(data):
                    waiting.append(_Waiting(candidate, data, conversion))
                    size += len(data)
                    if size >= _BATCH:
                        self._convert(tree, waiting)
                        waiting, size = [], 0
                else:
                    self._stored(candidate, self.writer.blob(data))
            if waiting:
                self._convert(tree, waiting)
            self._learn(tree)

    def _known(self, candidate: Candidate) -> bool:
        """Take a candidate from the cache, if it is in there and everything that it needs still exists."""
        if self.cache is None:
            return False
        known = self.cache.find(candidate.path, candidate.stamp, _oid_of(candidate))
        if known is None or known.mode != candidate.mode or not self.writer.reuse(known.oid):
            return False
        if known.raw is not None:
            if not self.pool.has(known.raw):
                return False
            self.raw.append(Raw(candidate.path, known.raw, candidate.size))
        self._stored(candidate, known.oid)
        return True

    def _learn(self, tree: Beneath) -> None:
        """Remember what was read in this run, where the file is still the one that was read."""
        if self.cache is None:
            return
        raw = {one.path: one.sha256 for one in self.raw}
        for path, (candidate, stamp, read_ns) in self._read_now.items():
            entry = self.edits.get(path)
            now = tree.lstat(path)
            if entry is not None and now is not None and Stamp.of(now) == stamp:
                known = Known(entry.oid, entry.mode, raw.get(path))
                self.cache.learn(path, stamp, _oid_of(candidate), known, read_ns)

    def _check_time(self) -> None:
        if self.limits.deadline is not None and time.monotonic() > self.limits.deadline:
            raise TimedOut(
                "checkpoint", f"the capture of {self.repository.path} took longer than checkpoints.timeout"
            )

    def _stored(self, candidate: Candidate, oid: str) -> None:
        self.edits[candidate.path] = Entry(candidate.mode, oid)
        if not candidate.link:
            usual = self.usual
            expected = usual | (0o111 & usual >> 2) if candidate.permissions & 0o100 else usual
            if expected & ~candidate.permissions:
                self.modes[candidate.path] = candidate.permissions & 0o777

    def _skip(self, candidate: Candidate, reason: SkipReason, size: int | None = None) -> None:
        self.skipped.append(Skipped(candidate.path, candidate.size if size is None else size, reason))

    def _read(self, tree: Beneath, candidate: Candidate) -> tuple[Candidate, bytes] | None:
        """A candidate as it is now, with its bytes; None when there are none to store (which is noted)."""
        for _ in range(_ATTEMPTS):
            self.files_read += 1
            read_ns = time.time_ns()
            try:
                if candidate.link:
                    data, stamp = tree.readlink(candidate.path), candidate.stamp
                else:
                    data, status = tree.read(candidate.path)
                    stamp = Stamp.of(status)
            except (FileNotFoundError, Blocked):
                self.edits[candidate.path] = None  # it went since it was listed: as if it had been gone then
                return None
            except OSError as error:
                now = tree.lstat(candidate.path)
                if now is None or stat.S_ISDIR(now.st_mode):
                    self.edits[candidate.path] = None
                    return None
                if stat.S_ISLNK(now.st_mode) == candidate.link:
                    reason = (
                        SkipReason.NOT_REGULAR if isinstance(error, NotRegular) else SkipReason.UNREADABLE
                    )
                    self._skip(candidate, reason)
                    return None
                candidate = self._other_kind(candidate)
                continue
            if not candidate.link and len(data) > self.limits.max_file_bytes:
                self._skip(candidate, SkipReason.TOO_BIG, len(data))  # it has grown since
                return None
            self._read_now[candidate.path] = (candidate, stamp, read_ns)
            return candidate, data
        self._skip(candidate, SkipReason.NOT_REGULAR)
        return None

    def _other_kind(self, candidate: Candidate) -> Candidate:
        """A file that has become a link, or the other way round."""
        if candidate.link:
            return replace(candidate, mode=FILE, link=False, settled=False)
        return replace(candidate, mode=LINK, link=True, settled=False)

    def _convert(self, tree: Beneath, batch: Sequence[_Waiting]) -> None:
        """Let git store a batch, and keep the bytes of each file that git would write out again otherwise."""
        stored = {
            one.candidate.path: self.writer.blob(one.data)
            for one in batch
            if not one.conversion.may_clean(one.data)
        }
        to_clean = {one.candidate.path: one for one in batch if one.candidate.path not in stored}
        if to_clean:
            index = {
                path: one.candidate.index for path, one in to_clean.items() if one.candidate.index is not None
            }
            stored |= convert.clean(
                self.repository,
                list(to_clean),
                {**self.attributes, **index},
                self.scratch,
                _external(to_clean),
                self.limits.deadline,
            )
        doubtful: dict[bytes, _Waiting] = {}
        for one in batch:
            path, oid = one.candidate.path, stored.get(one.candidate.path)
            if oid is not None:
                self._stored(one.candidate, oid)
                if one.conversion.driver and oid == _blob_id(one.data):
                    # Its own clean form: a pointer whose content was never fetched. To smudge it could mean to download it.
                    self._keep(one)
                else:
                    doubtful[path] = one
            elif tree.lstat(path) is None:
                self.edits[path] = None
            else:
                # A required filter that can't run: the index's content stays in the tree, and the bytes are kept.
                self._skip(one.candidate, SkipReason.FILTER)
                self._keep(one)
        self._keep_inexact(doubtful)

    def _keep(self, one: _Waiting) -> None:
        self.raw.append(Raw(one.candidate.path, self.pool.put(one.data), len(one.data)))

    def _keep_inexact(self, doubtful: Mapping[bytes, _Waiting]) -> None:
        """Let git write files out again, and keep the bytes of each that doesn't come back as it was."""
        if not doubtful:
            return
        self.writer.flush()  # for git, which is to write them out

        def compare(batch: Sequence[bytes]) -> None:
            with tempfile.TemporaryDirectory(dir=self.scratch) as folder:
                out = convert.smudge(
                    self.repository,
                    {path: entry for path in batch if (entry := self.edits[path]) is not None},
                    self.attributes,
                    folder,
                    work_tree=self.repository.path,
                    deadline=self.limits.deadline,
                )
                for path in batch:
                    if not _holds(os.path.join(os.fsencode(out), path), doubtful[path].data):
                        self._keep(doubtful[path])

        for path in convert.in_halves(list(doubtful), compare, _external(doubtful)):
            self._keep(doubtful[path])


def _external(waiting: Mapping[bytes, _Waiting]) -> set[bytes]:
    """Those paths that a filter or an encoding applies to."""
    return {path for path, one in waiting.items() if one.conversion.driver or one.conversion.encoding}


def _oid_of(candidate: Candidate) -> str | None:
    return None if candidate.index is None else candidate.index.oid


def _blob_id(data: bytes) -> str:
    return hashlib.sha1(b"blob %d\0" % len(data) + data, usedforsecurity=False).hexdigest()


def _holds(path: bytes, data: bytes) -> bool:
    with contextlib.suppress(OSError), open(path, "rb") as file:
        return file.read() == data
    return False
