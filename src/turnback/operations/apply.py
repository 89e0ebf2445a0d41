"""Carry out the steps of a plan on one tree, so that every byte that was there before still exists until the end.

No file is written in place and none is removed at once. A new file is prepared out of sight and exchanged with the old one; a deleted
file is renamed aside. What comes out is looked at: when it isn't what the safety checkpoint holds, somebody saved in between, and it is put
back under its name and reported as ``changed``. Displaced files are kept until the end and looked at once more, since a writer may have held one
open across the exchange; bytes that nothing else holds go to the pool and are named in the result.

``undo`` puts the very same files back, in reverse: the old inodes are still there.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import EXECUTABLE, LINK, Entry
from turnback.native.files import Beneath, Blocked, Look, NotRegular, exchange, give_name, look_at

if TYPE_CHECKING:
    from turnback.pool.blobs import Pool


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that nothing else holds, kept in the pool: somebody saved them while the rollback ran."""

    path: bytes
    sha256: str


@dataclass(frozen=True, slots=True)
class _Done:
    """One step that was taken: what ``undo`` needs to take it back."""

    path: bytes
    held: bytes | None  # the displaced file's name in the holding place, None when nothing was displaced
    beside: bool  # the holding place is the file's own folder
    before: Look | None
    after: Look | None


@dataclass(slots=True)
class Applier:
    """Steps on one tree.

    Attributes:
        tree: the tree, open.
        git_dir: where the holding folder goes when it is on the tree's filesystem.
        name: a name for the holding folder that nobody else uses.
        pool: for bytes that nothing else holds.
        usual: the permission bits of a plain new file.
        changed: paths that somebody else wrote meanwhile, left as they are.
        kept: what went to the pool.
    """

    tree: Beneath
    git_dir: str
    name: str
    pool: Pool
    usual: int
    changed: list[bytes] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    _done: list[_Done] = field(default_factory=list)
    _hold: int = -1
    _count: int = 0

    @property
    def hold_path(self) -> str:
        """The holding folder in the git dir."""
        return os.path.join(self.git_dir, "turnback", self.name)

    def open(self) -> None:
        """Make the holding folder."""
        os.makedirs(self.hold_path, mode=0o700, exist_ok=True)
        self._hold = os.open(self.hold_path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)

    def write(
        self, path: bytes, entry: Entry, data: bytes, permissions: int | None, before: Look | None
    ) -> None:
        """Give a path new content.

        Args:
            path: relative to the tree.
            entry: what it becomes.
            data: the file's bytes, or the link's target.
            permissions: the exact bits to give, None to keep the old file's and git's default for a new one.
            before: what is there now according to the safety checkpoint; None when nothing is.
        """
        try:
            with self.tree.parent(path, create=before is None) as (folder, name):
                self._write_in(folder, name, path, entry, data, permissions, before)
        except Blocked:
            self.changed.append(path)

    def _write_in(
        self,
        folder: int,
        name: bytes,
        path: bytes,
        entry: Entry,
        data: bytes,
        permissions: int | None,
        before: Look | None,
    ) -> None:
        bits = _permissions(entry, permissions, before, self.usual)
        beside = os.fstat(folder).st_dev != os.fstat(self._hold).st_dev
        while True:
            place = folder if beside else self._hold
            held = self._temporary(beside=beside)
            after = _prepare(place, held, entry, data, bits)
            try:
                if before is None:
                    give_name(place, held, folder, name)
                    self._done.append(_Done(path, None, beside, None, after))
                else:
                    self._swap(place, held, folder, name, path, before, after, beside=beside)
            except OSError as error:
                os.unlink(held, dir_fd=place)
                if error.errno == errno.EXDEV and not beside:
                    beside = True  # a mount that the device number doesn't show
                    continue
                if error.errno not in (
                    errno.EEXIST,
                    errno.ENOENT,
                    errno.ENOTEMPTY,
                    errno.EISDIR,
                    errno.ENOTDIR,
                ):
                    raise
                # The name was taken, or the file went away: somebody was here. An exchange never becomes a create (DESIGN 10.3).
                self.changed.append(path)
            return

    def _swap(
        self,
        place: int,
        held: bytes,
        folder: int,
        name: bytes,
        path: bytes,
        before: Look,
        after: Look,
        *,
        beside: bool,
    ) -> None:
        if not exchange(place, held, folder, name):
            self._replace_without_exchange(place, held, folder, name, path, before, after, beside=beside)
            return
        if _is(place, held, before):
            self._done.append(_Done(path, held, beside, before, after))
            return
        # Somebody saved between the safety checkpoint and the exchange: their file is in our hands, and goes back to its name.
        self.changed.append(path)
        exchange(place, held, folder, name)
        if not _is_inode(place, held, after):
            # While it was out, a second save took the name. The newest save keeps the name; the one before it is kept in the pool.
            exchange(place, held, folder, name)
            self._keep(place, held, path)
        os.unlink(held, dir_fd=place)

    def _replace_without_exchange(
        self,
        place: int,
        held: bytes,
        folder: int,
        name: bytes,
        path: bytes,
        before: Look,
        after: Look,
        *,
        beside: bool,
    ) -> None:
        """No atomic exchange on this filesystem: the old file is renamed aside first, and for that moment its name is free."""
        aside = self._temporary(beside=beside)
        os.rename(name, aside, src_dir_fd=folder, dst_dir_fd=place)
        if not _is(place, aside, before):
            self.changed.append(path)
            os.unlink(held, dir_fd=place)
            self._give_back(place, aside, folder, name, path)
            return
        try:
            give_name(place, held, folder, name)
        except FileExistsError:
            self.changed.append(path)
            os.unlink(held, dir_fd=place)
            self._keep(place, aside, path)
            os.unlink(aside, dir_fd=place)
            return
        self._done.append(_Done(path, aside, beside, before, after))

    def delete(self, path: bytes, before: Look) -> None:
        """Remove a path that holds what the safety checkpoint says, and then the folders that become empty."""
        try:
            with self.tree.parent(path) as (folder, name):
                beside = os.fstat(folder).st_dev != os.fstat(self._hold).st_dev
                place = folder if beside else self._hold
                held = self._temporary(beside=beside)
                os.rename(name, held, src_dir_fd=folder, dst_dir_fd=place)
                if not _is(place, held, before):
                    self.changed.append(path)
                    self._give_back(place, held, folder, name, path)
                    return
                self._done.append(_Done(path, held, beside, before, None))
        except (Blocked, FileNotFoundError):
            self.changed.append(path)
            return
        self.tree.remove_empty_parents(path)

    def undo(self) -> list[bytes]:
        """Take every step back, newest first; gives the paths that somebody wrote meanwhile, which stay as they are."""
        lost: list[bytes] = []
        while self._done:
            step = self._done.pop()
            try:
                with self.tree.parent(step.path, create=step.after is None) as (folder, name):
                    place = folder if step.beside else self._hold
                    if not self._undo_in(place, folder, name, step):
                        lost.append(step.path)
            except OSError:
                lost.append(step.path)
                self._done.append(step)
                raise
            if step.before is None:
                self.tree.remove_empty_parents(step.path)
        return lost

    def _undo_in(self, place: int, folder: int, name: bytes, step: _Done) -> bool:
        if step.held is None:
            held = self._temporary(beside=step.beside)
            os.rename(name, held, src_dir_fd=folder, dst_dir_fd=place)
            if step.after is not None and not _is(place, held, step.after):
                self._give_back(place, held, folder, name, step.path)
                return False
            os.unlink(held, dir_fd=place)
            return True
        if step.after is None:
            try:
                give_name(place, step.held, folder, name)
            except FileExistsError:
                self._keep(place, step.held, step.path)
                os.unlink(step.held, dir_fd=place)
                return False
            return True
        if not exchange(place, step.held, folder, name):
            os.rename(name, held := self._temporary(beside=step.beside), src_dir_fd=folder, dst_dir_fd=place)
            os.rename(step.held, name, src_dir_fd=place, dst_dir_fd=folder)
            step = _Done(step.path, held, step.beside, step.before, step.after)
        if step.held is not None and step.after is not None and not _is(place, step.held, step.after):
            self._keep(place, step.held, step.path)
        os.unlink(step.held or b"", dir_fd=place)
        return True

    def close(self) -> None:
        """End: look at every displaced file once more, keep what changed, remove the rest and the holding folder."""
        for step in self._done:
            if step.held is None or step.before is None:
                continue
            try:
                if not step.beside:
                    self._drop(self._hold, step.held, step)
                else:
                    with self.tree.parent(step.path) as (folder, _):
                        self._drop(folder, step.held, step)
            except OSError:
                continue  # it stays in the holding folder, which doctor finds; nothing is lost
        self._done.clear()
        if self._hold >= 0:
            os.close(self._hold)
            self._hold = -1
        for path in (self.hold_path, os.path.dirname(self.hold_path)):
            with contextlib.suppress(OSError):
                os.rmdir(path)

    def _drop(self, place: int, held: bytes, step: _Done) -> None:
        # A process that had the file open before the exchange may have written it since: those bytes are nowhere else.
        if step.before is not None and not _is(place, held, step.before):
            self._keep(place, held, step.path)
        os.unlink(held, dir_fd=place)

    def _give_back(self, place: int, held: bytes, folder: int, name: bytes, path: bytes) -> None:
        try:
            give_name(place, held, folder, name)
        except FileExistsError:
            self._keep(place, held, path)
            os.unlink(held, dir_fd=place)

    def _keep(self, place: int, held: bytes, path: bytes) -> None:
        """Put a file's bytes into the pool, durably, before its last name goes."""
        found = os.stat(held, dir_fd=place, follow_symlinks=False)
        data = os.readlink(held, dir_fd=place) if stat.S_ISLNK(found.st_mode) else _bytes(place, held)
        self.kept.append(Kept(path, self.pool.put(data, durable=True)))

    def _temporary(self, *, beside: bool) -> bytes:
        self._count += 1
        label = b"%s-%d" % (self.name.encode(), self._count)
        return paths.TEMPORARY_PREFIX + label if beside else label


def _prepare(place: int, held: bytes, entry: Entry, data: bytes, bits: int) -> Look:
    """Make the new file or link under its temporary name, whole, with its final permission bits."""
    if entry.mode == LINK:
        os.symlink(data, held, dir_fd=place)
    else:
        # 0600 until the content is in: the final bits are set last, so a secret is never readable by others for a moment.
        descriptor = os.open(held, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=place)
        try:
            view = memoryview(data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fchmod(descriptor, bits)
        except BaseException:
            os.unlink(held, dir_fd=place)
            raise
        finally:
            os.close(descriptor)
    return look_at(place, held)


def _permissions(entry: Entry, permissions: int | None, before: Look | None, usual: int) -> int:
    """The bits of the new file: those given, or the old file's with the exec bits that git's mode asks for (DESIGN part 7, Keeping)."""
    if permissions is None:
        permissions = usual if before is None or before.kind != "file" else before.mode
    if entry.mode == EXECUTABLE:
        return permissions | (permissions & 0o444) >> 2
    return permissions & ~0o111


def _is(place: int, held: bytes, expected: Look) -> bool:
    try:
        return look_at(place, held).same_content(expected)
    except (NotRegular, OSError):
        return False


def _is_inode(place: int, held: bytes, expected: Look) -> bool:
    try:
        found = look_at(place, held)
    except (NotRegular, OSError):
        return False
    return found.inode == expected.inode and found.same_content(expected)


def _bytes(place: int, held: bytes) -> bytes:
    descriptor = os.open(held, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=place)
    with os.fdopen(descriptor, "rb") as file:
        return file.read()
