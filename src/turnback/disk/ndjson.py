"""An append-only file of lines: one write for a group of lines, bounded reads, and the rule for a torn tail.

A writer holds a lock of its own making (``turnback.disk.lock``) around everything here that changes the file. Readers take no
lock: what they read is right up to the last whole line, and whoever knows what a line means decides which lines belong
together. A tail that a killed writer left is moved to a file of its own beside this one (``<name>.torn-<n>``) and then cut
off, by a writer alone; no byte of it is thrown away, and nobody guesses what it was to become.

The file is read with ``pread`` in bounded pieces and never mapped: another program may truncate it, and a mapped page that is
gone kills the process.
"""

from __future__ import annotations

import contextlib
import os
import weakref
from typing import TYPE_CHECKING, Final, NamedTuple

from turnback.disk import private
from turnback.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["CHUNK", "LONGEST", "LineFile", "Look"]

CHUNK: Final = 1 << 18
"""Bytes that one read asks for."""

LONGEST: Final = 1 << 28
"""Bytes that one group of lines may have (256 MiB); a longer one is never written, so a reader need not look further."""


class Look(NamedTuple):
    """What is at the path now: its size in bytes and its time of change in nanoseconds.

    ``generation`` goes up whenever another file is found there than the time before, or none.
    """

    generation: int
    size: int
    changed: int


class LineFile:
    """One file of lines, through one descriptor.

    The descriptor stays open, so that the file's inode can't be given to another file unseen. ``close`` it, or let it go.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self._descriptor: int | None = None
        self._identity: tuple[int, int] | None = None
        self._generation = 0
        self._name_is_synced = False
        self._finalizer: weakref.finalize[[int], LineFile] | None = None

    def look(self) -> Look:
        """The present file's generation and size in bytes (0 when there is none). One ``stat`` when nothing is new.

        Raises:
            Failed: ``failed.state_folder``: ``private.open_file`` refuses the file.
        """
        try:
            found = os.stat(self.path, follow_symlinks=False)
        except FileNotFoundError:
            self._leave()
            return Look(self._generation, 0, 0)
        except OSError as error:
            raise Failed("state_folder", f"{self.path} can't be looked at: {error.strerror}") from error
        if (found.st_dev, found.st_ino) != self._identity:
            self._leave()
            try:
                found = self._enter(private.open_file(self.path, os.O_RDONLY))
            except FileNotFoundError:  # it went in between
                return Look(self._generation, 0, 0)
        return Look(self._generation, found.st_size, found.st_mtime_ns)

    def read_from(self, offset: int, limit: int = CHUNK) -> tuple[bytes, int]:
        """Whole lines from ``offset`` on, at most ``limit`` bytes of them, and the offset behind them.

        No bytes come back when no whole line is there: at the end, at a torn tail, or when the line is longer than ``limit``.

        Raises:
            Failed: ``failed.state_folder``: reading fails.
        """
        data = self.read(offset, limit)
        end = data.rfind(b"\n") + 1
        return data[:end], offset + end

    def read(self, offset: int, limit: int) -> bytes:
        """The bytes from ``offset`` on, at most ``limit``; fewer only at the end of the file.

        Raises:
            Failed: ``failed.state_folder``: reading fails.
        """
        if self._descriptor is None:
            return b""
        with private.failing(self.path, "reading"):
            data = os.pread(self._descriptor, limit, offset)
            if 0 < len(data) < limit:
                pieces = [data]
                got = len(data)
                while got < limit and (data := os.pread(self._descriptor, limit - got, offset + got)):
                    pieces.append(data)
                    got += len(data)
                data = b"".join(pieces)
        return data

    def lines_from(self, offset: int) -> Iterator[tuple[int, bytes]]:
        """Every whole line from ``offset`` on with its own offset, without its newline, in bounded memory.

        A line longer than ``LONGEST`` comes as an empty one: nobody wrote that.

        Raises:
            Failed: ``failed.state_folder``: reading fails.
        """
        carried: list[bytes] = []
        start = at = offset
        length = 0
        while data := self.read(at, CHUNK):
            at += len(data)
            first = 0
            while (end := data.find(b"\n", first)) >= 0:
                length += end - first
                yield start, b"".join([*carried, data[first:end]]) if length <= LONGEST else b""
                start += length + 1
                carried, length, first = [], 0, end + 1
            length += len(data) - first
            if length <= LONGEST:
                carried.append(data[first:])
            else:
                carried = []

    def append(self, lines: list[bytes], durable: bool = False, at: int | None = None) -> int:
        """Write a group of lines (each with its newline) at the end, in one write, and return the new size.

        Under the writer's lock only. A write that comes out short is taken back.

        Args:
            lines: the group.
            durable: the bytes, and the name of a new file, are on the disk before this returns.
            at: where the end must be; None for wherever it is.

        Raises:
            Failed: ``failed.state_folder``: the disk is full or broken, or the end is not where it must be. The file is then as it
                was, but for a moment readers may have seen the group whole (a sync that fails).
        """
        data = lines[0] if len(lines) == 1 else b"".join(lines)
        if len(data) > LONGEST:
            raise Failed("state_folder", f"{len(data)} bytes are too many for one write to {self.path}")
        descriptor = private.open_file(self.path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)
        try:
            start = os.fstat(descriptor).st_size
            if at is not None and start != at:
                raise Failed(
                    "state_folder", f"{self.path} is written by a program that does not hold its lock"
                )
            with private.failing(self.path, "writing to"):
                try:
                    written = os.write(descriptor, data)
                    if written < len(data):
                        # The reason (a full disk, a limit on file size) comes with the next write, or the rest is written.
                        private.write_all(descriptor, data[written:])
                    if durable:
                        self._sync(descriptor)
                except BaseException:
                    with contextlib.suppress(
                        OSError
                    ):  # then a torn tail stays, which the next writer sets aside
                        os.ftruncate(descriptor, start)
                    raise
        finally:
            os.close(descriptor)
        return start + len(data)

    def set_aside(self, at: int) -> str | None:
        """Move what stands behind ``at`` to ``<name>.torn-<n>``, then cut it off here; returns that file's path, or None for nothing.

        Under the writer's lock only. The copy is on the disk before the cut, so a kill or a power cut in between leaves the tail in both.

        Raises:
            Failed: ``failed.state_folder``: the copy can't be made; then nothing is cut.
        """
        look = self.look()
        if look.size <= at:
            return None
        aside = self._free_name()
        with private.failing(aside, "setting a torn tail aside in"):
            copy = private.open_file(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL)
            try:
                offset = at
                while data := self.read(offset, CHUNK):
                    private.write_all(copy, data)
                    offset += len(data)
                private.sync_file(copy)
            except BaseException:
                with contextlib.suppress(OSError):
                    os.unlink(aside)
                raise
            finally:
                os.close(copy)
        private.sync_folder(os.path.dirname(self.path) or ".")
        with private.failing(self.path, "cutting a torn tail off"):
            descriptor = private.open_file(self.path, os.O_WRONLY)
            try:
                os.ftruncate(descriptor, at)
            finally:
                os.close(descriptor)
        return aside

    def torn(self) -> list[str]:
        """Paths of the tails that were set aside, oldest first."""
        folder, name = os.path.split(self.path)
        prefix = f"{name}.torn-"
        numbers: list[int] = []
        with contextlib.suppress(FileNotFoundError), os.scandir(folder or ".") as entries:
            numbers += [
                int(entry.name[len(prefix) :])
                for entry in entries
                if entry.name.startswith(prefix) and entry.name[len(prefix) :].isdecimal()
            ]
        return [os.path.join(folder, f"{prefix}{number}") for number in sorted(numbers)]

    def sync(self) -> None:
        """Return when every byte written so far, and the file's name, are on the disk; nothing to do for no file.

        Raises:
            Failed: ``failed.state_folder``.
        """
        self.look()
        if self._descriptor is not None:
            with private.failing(self.path, "syncing"):
                self._sync(self._descriptor)

    def close(self) -> None:
        """Give the descriptor back; a later ``look`` opens the file again as a new generation."""
        self._leave()

    def _sync(self, descriptor: int) -> None:
        private.sync_file(descriptor)
        if not self._name_is_synced:
            private.sync_folder(os.path.dirname(self.path) or ".")
            self._name_is_synced = True

    def _free_name(self) -> str:
        taken = self.torn()
        number = int(taken[-1].rpartition("-")[2]) + 1 if taken else 1
        return f"{self.path}.torn-{number}"

    def _enter(self, descriptor: int) -> os.stat_result:
        found = os.fstat(descriptor)
        self._descriptor = descriptor
        self._identity = (found.st_dev, found.st_ino)
        self._generation += 1
        self._finalizer = weakref.finalize(self, os.close, descriptor)
        return found

    def _leave(self) -> None:
        if self._finalizer is not None:
            self._finalizer()
            self._finalizer = None
            self._descriptor = None
            self._identity = None
            self._name_is_synced = False
            self._generation += 1
