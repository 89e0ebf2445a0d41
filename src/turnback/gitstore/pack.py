"""One new pack: objects go in as they come, deflated on two threads, and it appears whole with its index or not at all.

There are no deltas: finding them costs more than everything else, and git makes its own when it repacks. Little of it is kept in memory:
what has come together is deflated and goes to the file, and a big file goes through in blocks. The object count stands first in a pack
and the checksum covers it, so it is set at the end and the file is read once more for the checksum: half a millisecond a megabyte.

The pack gets its name before its index does, since git looks for indexes; its name is its own checksum, as git has it. The threads are
started only when there is work for them: below a few hundred objects they cost more than they bring.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import zlib
from typing import TYPE_CHECKING, Self

from turnback.errors import Failed
from turnback.gitstore import deflate, packindex
from turnback.gitstore.newfile import NewFile, sync_path
from turnback.gitstore.ourpacks import PACK_PREFIX, index_path, noting, pack_path
from turnback.gitstore.packentry import BLOCK, deflated, entry_header, object_header, read_entry

if TYPE_CHECKING:
    from collections.abc import Iterable
    from concurrent.futures import ThreadPoolExecutor

    from turnback.gitstore.objectfolder import ObjectFolder
    from turnback.gitstore.packentry import Deflated, Item
    from turnback.gitstore.packindex import Place

_BATCH = 64  # objects; handing work to a thread costs as much as deflating one or two
_INLINE = 3  # so many batches aren't worth a thread
_THREADS = 2
_WAITING = 1 << 23  # bytes that wait in line


class SourceChanged(Failed):
    """A file was written to while it was stored; nothing of it is kept."""

    def __init__(self, path: str) -> None:
        super().__init__(
            "checkpoint_git", f"{path} changed while it was read; try again", reason="the file changed"
        )


def pack_header(count: int) -> bytes:
    """The first bytes of a pack."""
    return b"PACK\0\0\0\2" + count.to_bytes(4)


class PackWriter:
    """A pack that is being made; closed before ``finish``, it leaves nothing."""

    def __init__(self, folder: ObjectFolder) -> None:
        self._folder = folder
        folder.make(folder.packs)
        self._file = NewFile(folder.packs, PACK_PREFIX, folder.sharing)
        self._file.write(pack_header(0))
        self._end = len(pack_header(0))
        self._places: dict[bytes, Place] = {}
        self._held: set[bytes] = set()
        self._batch: list[Item] = []
        self._batch_bytes = 0
        self._line: list[list[Item]] = []
        self._line_bytes = 0
        self._pool: ThreadPoolExecutor | None = None

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __len__(self) -> int:
        return len(self._held)

    def __contains__(self, oid: bytes) -> bool:
        return oid in self._held

    def oids(self) -> frozenset[bytes]:
        """The ids of what is in it."""
        return frozenset(self._held)

    def add(self, kind: int, oid: bytes, data: bytes) -> None:
        """Put an object in, unless it is in already; ``oid`` is believed."""
        if oid in self._held:
            return
        self._held.add(oid)
        self._batch.append((kind, oid, data))
        self._batch_bytes += len(data)
        if len(self._batch) >= _BATCH or self._batch_bytes >= BLOCK:
            self._send()

    def add_blocks(self, kind: int, oid: bytes, size: int, blocks: Iterable[deflate.Data], path: str) -> None:
        """Put an object in that comes in blocks; only one of them is in memory at a time.

        Raises:
            SourceChanged: the blocks aren't what ``oid`` is the id of; the pack is as it was before. ``path`` is for the message.
        """
        self._settle()
        start, stream = self._end, deflate.stream()
        header = entry_header(kind, size)
        digest = hashlib.sha1(object_header(kind, size), usedforsecurity=False)
        crc = self._append(header, 0)
        try:
            for block in blocks:
                digest.update(block)
                crc = self._append(stream.compress(block), crc)
            crc = self._append(stream.flush(), crc)
        except BaseException:
            self._back_to(start)
            raise
        if digest.digest() != oid:
            self._back_to(start)
            raise SourceChanged(path)
        self._places[oid] = (start, crc)
        self._held.add(oid)

    def read(self, oid: bytes) -> tuple[int, bytes]:
        """The type and content of an object that is in it.

        Raises:
            KeyError: it isn't.
        """
        self._settle()
        return read_entry(self._file.fd, self._places[oid][0])

    def finish(self, durable: bool = False) -> int:
        """Publish it with its index; gives the bytes of both.

        Args:
            durable: both and their names are on the disk when this returns.

        Raises:
            OSError: it can't be written; then there is neither.
        """
        self._settle()
        os.pwrite(self._file.fd, pack_header(len(self._places)), 0)
        checksum = self._checksum()
        self._file.write(checksum)
        index = packindex.encode(self._places, checksum)
        publish(self._folder, self._file, checksum, index, durable)
        self.close()
        return self._end + len(checksum) + len(index)

    def close(self) -> None:
        """Stop the threads and let the file go."""
        if self._pool is not None:
            self._pool.shutdown(cancel_futures=True)
            self._pool = None
        self._file.close()

    def _send(self) -> None:
        """Put what has come together into line; deflate the line when it is long."""
        self._line.append(self._batch)
        self._line_bytes += self._batch_bytes
        self._batch, self._batch_bytes = [], 0
        if self._line_bytes >= _WAITING:
            self._work_off()

    def _settle(self) -> None:
        """Everything that was added is in the file."""
        if self._batch:
            self._send()
        self._work_off()

    def _work_off(self) -> None:
        """Deflate the line, in order. The caller waits meanwhile: working beside them, it would keep the threads from their work."""
        line, self._line, self._line_bytes = self._line, [], 0
        if len(line) <= _INLINE:
            for batch in line:
                self._take(deflated(batch))
            return
        if self._pool is None:
            from concurrent.futures import ThreadPoolExecutor

            self._pool = ThreadPoolExecutor(_THREADS, "turnback-deflate")
        for done in self._pool.map(deflated, line):
            self._take(done)

    def _take(self, done: Deflated) -> None:
        for piece in done.pieces:
            self._file.write(piece)
        for oid, length, crc in done.rows:
            self._places[oid] = (self._end, crc)
            self._end += length

    def _append(self, data: bytes, crc: int) -> int:
        self._file.write(data)
        self._end += len(data)
        return zlib.crc32(data, crc)

    def _back_to(self, end: int) -> None:
        os.ftruncate(self._file.fd, end)
        os.lseek(self._file.fd, end, os.SEEK_SET)
        self._end = end

    def _checksum(self) -> bytes:
        digest, at = hashlib.sha1(usedforsecurity=False), 0
        while at < self._end:
            block = os.pread(self._file.fd, min(BLOCK, self._end - at), at)
            if not block:
                raise OSError(0, "a new pack is shorter than what was written to it")
            digest.update(block)
            at += len(block)
        return digest.digest()


def publish(folder: ObjectFolder, pack: NewFile, checksum: bytes, index: bytes, durable: bool) -> None:
    """Give a whole pack its name, then its index; noted as ours before either can be seen.

    A pack of that checksum that is there already is the same one: it is freshened, and gets an index if it has none.

    Raises:
        OSError: it can't be done; then there is neither.
    """
    name = checksum.hex()
    place = pack_path(folder, name)
    with NewFile(folder.packs, PACK_PREFIX, folder.sharing) as file, noting(folder, name):
        file.write(index)
        made = pack.publish(place, durable)
        try:
            if not made:
                with contextlib.suppress(PermissionError):  # another user's: then that one has to keep it
                    os.utime(place)
            file.publish(index_path(folder, name), durable)
        except BaseException:
            if made:
                os.unlink(place)
            raise
        if durable:
            sync_path(folder.packs)
