"""New objects of one capture: hashed here, looked for, and stored in the cheapest way that leaves a repository in good order.

A handful stays loose, as git would write them; more go into one pack, which is ten to forty times cheaper and one file instead of
thousands. What is there already is used: it is freshened, so that a prune spares it, and not written again. That counts for the
repository's own folder alone: what only an alternate has is written, since its owner may prune it, and so is what can't be freshened.

Until ``flush`` nothing can be seen by anybody else, and leaving a writer gives up what was not flushed. Nothing is held in
memory beyond a few megabytes, and the global interpreter lock is not held for more than a moment, however big a file is. Not for use by two threads at
once; several writers, also in other processes, may store the same objects at the same time.
"""

from __future__ import annotations

import hashlib
import os
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Self

from turnback.gitstore import loose, objects
from turnback.gitstore.objectfolder import ObjectFolder
from turnback.gitstore.pack import PackWriter, SourceChanged
from turnback.gitstore.packentry import BLOB, BLOCK, COMMIT, TREE, object_header
from turnback.gitstore.packlist import Found, Presence

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator

    from turnback.errors import Failed
    from turnback.gitstore.deflate import Data
    from turnback.gitstore.repo import Repository

# Up to so many objects stay loose. What a pack costs besides its objects, with its share of the folds to come, is about what two or
# three dozen loose objects cost where making files is cheap, and what ten cost where it isn't.
LOOSE = 24
# Synced, each loose object costs two or three waits for the disk, and a pack three for all.
LOOSE_DURABLE = 2

_HELD = 1 << 23  # bytes that wait in memory for the number of objects to be known
_WHOLE = 1 << 24  # a bigger blob goes through in blocks


class ObjectWriter:
    """Stores objects in one repository.

    Attributes:
        objects_written: how many objects were stored by ``flush``.
        objects_reused: how many were there already and were freshened; each counts once.
        bytes_written: what that took on the disk: packs, indexes and loose objects.
        made_pack: whether any of it went into a pack.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._folder = ObjectFolder.of(repository)
        with self._folder.failing("listing the objects"):
            self._presence = Presence(repository, self._folder)
        self._waiting: dict[str, tuple[int, bytes]] = {}
        self._waiting_bytes = 0
        self._pack: PackWriter | None = None
        self._must_pack = False
        self._done: set[str] = set()
        self._reused: set[str] = set()
        self.objects_written = 0
        self.objects_reused = 0
        self.bytes_written = 0
        self.made_pack = False

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def blob(self, data: bytes) -> str:
        """Store a file's bytes as they are; gives the id in hex.

        Raises:
            Failed: ``failed.checkpoint_git``: the disk is full, or the folder can't be written.
        """
        if len(data) <= _WHOLE:
            return self._add(BLOB, data)
        view = memoryview(data)
        blocks = [view[at : at + BLOCK] for at in range(0, len(view), BLOCK)]
        return self._add_blocks(len(data), lambda: blocks, "the content")

    def blob_from(self, source: str | bytes | int, size: int) -> str:
        """Store the bytes of a file without ever having all of them in memory: it is read twice, for its id and to be deflated.

        Args:
            source: the path of a regular file (a link isn't followed), or a descriptor, whose own position is neither used nor moved.
            size: how many bytes it has.

        Raises:
            SourceChanged: it has another size, or was written to meanwhile; nothing of it is kept.
            Failed: ``failed.checkpoint_git``: the disk is full, or the folder can't be written.
            OSError: it can't be read.
        """
        path = f"descriptor {source}" if isinstance(source, int) else os.fsdecode(source)
        with _opened(source) as descriptor:
            if size <= BLOCK:
                return self._add(BLOB, b"".join(_blocks(descriptor, size, path)))
            return self._add_blocks(size, lambda: _blocks(descriptor, size, path), path)

    def tree(self, raw: bytes) -> str:
        """Store a raw tree object, which is believed; gives the id in hex. Raises as ``blob``."""
        return self._add(TREE, raw)

    def commit(self, raw: bytes) -> str:
        """Store a raw commit object, which is believed; gives the id in hex. Raises as ``blob``."""
        return self._add(COMMIT, raw)

    def has(self, oid: str) -> bool:
        """Whether an object can be used: it waits here, or the repository or an alternate has it."""
        return self._is_mine(oid) or oid in self._reused or objects.exists(self._repository, oid)

    def knows(self, oid: str) -> bool:
        """Whether an object was added, or found and freshened, by this writer."""
        return self._is_mine(oid) or oid in self._reused

    def reuse(self, oid: str) -> bool:
        """Use an object that should be there already: found and freshened (then ``lost`` watches it too), or False."""
        try:
            return self._is_there(oid)
        except OSError as error:
            raise self._broken(error) from error

    def get(self, oid: str) -> tuple[int, bytes]:
        """The type (1 commit, 2 tree, 3 blob, 4 tag) and the content of an object, flushed or not.

        Raises:
            MissingObject: it isn't there.
        """
        if oid in self._waiting:
            return self._waiting[oid]
        if self._pack is not None and bytes.fromhex(oid) in self._pack:
            with self._failing():
                return self._pack.read(bytes.fromhex(oid))
        with objects.translated(self._repository, "reading an object"):
            try:
                kind, data = self._repository.libgit2.odb.read(oid)
            except KeyError as error:
                raise objects.MissingObject(oid, self._repository.path) from error
            return int(kind), bytes(data)

    def lost(self) -> list[str]:
        """Those of the objects that were flushed or reused that are gone meanwhile, sorted: somebody's prune was faster.

        Until a ref holds them a prune without a time of grace takes them. So this is asked when the ref is there (DESIGN 10.1); what
        is lost then has to be stored again.
        """
        with self._folder.failing("looking for an object"):
            presence = Presence(self._repository, self._folder)
            return sorted(oid for oid in self._done | self._reused if presence.reuse(oid) is Found.ABSENT)

    def flush(self, durable: bool = False) -> None:
        """Store what was added since the last time: afterwards everybody sees it, or there is an error and nobody sees a part.

        (Of loose objects a part may be seen: each is whole, and harmless without the others.)

        Args:
            durable: it is on the disk when this returns. What was reused isn't synced here.

        Raises:
            Failed: ``failed.checkpoint_git``: the disk is full, or the folder can't be written.
        """
        with self._failing():
            if len(self._waiting) > (LOOSE_DURABLE if durable else LOOSE) or self._must_pack:
                self._packing()
            if self._pack is not None:
                self._fill(self._pack)
                oids = self._pack.oids()
                if oids:
                    self.bytes_written += self._pack.finish(durable)
                    self.made_pack = True
                self._pack.close()
                self._pack = None
                self.objects_written += len(oids)
                self._done.update(oid.hex() for oid in oids)
            for oid, (kind, data) in self._waiting.items():
                header = object_header(kind, len(data))
                self.bytes_written += loose.store(self._folder, oid, header, data, durable)
                self.objects_written += 1
                self._done.add(oid)
            self._waiting.clear()
            self._waiting_bytes = 0
            self._must_pack = False

    def close(self) -> None:
        """Give up what was not flushed."""
        self._waiting.clear()
        self._waiting_bytes = 0
        if self._pack is not None:
            self._pack.close()
            self._pack = None

    def _add(self, kind: int, data: bytes) -> str:
        oid = _hashed(kind, len(data), (data,))
        try:  # not by _failing: for a small object a context manager costs as much as the rest
            if self._is_there(oid):
                return oid
            if self._pack is not None:
                self._pack.add(kind, bytes.fromhex(oid), data)
                return oid
            self._waiting[oid] = kind, data
            self._waiting_bytes += len(data)
            if len(self._waiting) > LOOSE or self._waiting_bytes > _HELD:
                self._packing()
        except OSError as error:
            raise self._broken(error) from error
        return oid

    def _add_blocks(self, size: int, blocks: Callable[[], Iterable[Data]], path: str) -> str:
        """Gone through twice: what is there already must not be deflated, let alone written."""
        oid = _hashed(BLOB, size, blocks())
        with self._failing():
            if not self._is_there(oid):
                self._packing().add_blocks(BLOB, bytes.fromhex(oid), size, blocks(), path)
        return oid

    def _packing(self) -> PackWriter:
        """The pack, begun now if it wasn't, with all that waited."""
        if self._pack is None:
            self._pack = PackWriter(self._folder)
        self._fill(self._pack)
        return self._pack

    def _fill(self, pack: PackWriter) -> None:
        for oid, (kind, data) in self._waiting.items():
            pack.add(kind, bytes.fromhex(oid), data)
        self._waiting.clear()
        self._waiting_bytes = 0

    def _is_mine(self, oid: str) -> bool:
        return (
            oid in self._waiting
            or oid in self._done
            or (self._pack is not None and bytes.fromhex(oid) in self._pack)
        )

    def _is_there(self, oid: str) -> bool:
        """Whether it needn't be written: added or used before, or found and freshened now."""
        if self._is_mine(oid) or oid in self._reused:
            return True
        found = self._presence.reuse(oid)
        if found is Found.FRESH:
            self._reused.add(oid)
            self.objects_reused += 1
            return True
        # A loose object can't be written beside one of the same name, but a pack can have it too.
        self._must_pack = self._must_pack or found is Found.STALE
        return False

    @contextmanager
    def _failing(self) -> Iterator[None]:
        try:
            yield
        except _Unreadable:
            raise
        except OSError as error:
            raise self._broken(error) from error

    def _broken(self, error: OSError) -> Failed:
        """After an error nothing that waits is worth anything: the caller starts again, with another writer."""
        self.close()
        return self._folder.failed("storing objects", error)


class _Unreadable(OSError):
    """It is the source that can't be read: the writer is as good as before."""


@contextmanager
def _opened(source: str | bytes | int) -> Iterator[int]:
    """A descriptor of a regular file; what isn't one is never waited for."""
    if isinstance(source, int):
        yield source
        return
    descriptor = os.open(source, os.O_RDONLY | os.O_CLOEXEC | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not stat.S_ISREG(os.fstat(descriptor).st_mode):
            raise SourceChanged(os.fsdecode(source))
        yield descriptor
    finally:
        os.close(descriptor)


def _blocks(descriptor: int, size: int, path: str) -> Iterator[bytes]:
    """The bytes of a file from its start; as many as were announced, and no more may follow."""
    at = 0
    while True:
        try:
            block = os.pread(descriptor, min(BLOCK, size + 1 - at), at)
        except OSError as error:
            raise _Unreadable(error.errno, error.strerror) from error
        at += len(block)
        if not block or at > size:
            break
        yield block
    if at != size:
        raise SourceChanged(path)


def _hashed(kind: int, size: int, blocks: Iterable[Data]) -> str:
    digest = hashlib.sha1(object_header(kind, size), usedforsecurity=False)
    for block in blocks:
        digest.update(block)
    return digest.hexdigest()
