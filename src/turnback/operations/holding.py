"""Where the files that a rollback displaces wait until it has ended, and a note of them that outlives a kill.

A displaced file holds what the safety checkpoint holds, or what somebody saved a moment ago and nothing else has. So none is removed
before it has been looked at: bytes that a checkpoint has may go, any others go to the pool first, and a file that a process still has open
for writing, or that can't be read or kept, stays where it is and is named (``Kept``). A note (``turnback.operations.notes``) says before
each move what is about to wait where, so that ``turnback.operations.leftovers`` can tell the same after a kill.

The place is a folder in the tree's git dir. Where that is on another filesystem it is a hidden folder in the tree's root, and where a mount
lies in between, a hidden name beside the file; every capture leaves those names out.
"""

from __future__ import annotations

import contextlib
import errno
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from turnback import paths
from turnback.errors import TurnbackError
from turnback.native.files import Look, look_at, remove_folders
from turnback.native.moves import Writer, writers

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

    from turnback.native.files import Beneath
    from turnback.operations.notes import Note
    from turnback.pool.blobs import Pool

GIT, ROOT, BESIDE = "git", "root", "beside"

# Beside the name of what waits: a new file that isn't whole yet, and, where there is no exchange, the old one until the new one has its name.
HALF, ASIDE = b"+", b"~"

_FOLDER: Final = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


@dataclass(frozen=True, slots=True)
class Kept:
    """Bytes that are no longer under their name and that no checkpoint holds, or may not.

    Attributes:
        path: the name that they had.
        sha256: they are in the pool under this digest; None when they aren't.
        place: the file that they wait in; None when it is gone.
        open: nothing differs so far, but a process has the file open for writing.
    """

    path: bytes
    sha256: str | None = None
    place: str | None = None
    open: bool = False

    def to_dict(self) -> dict[str, Any]:
        """``{path, sha256?, place?}``."""
        found: dict[str, Any] = paths.members(self.path)
        if self.sha256 is not None:
            found["sha256"] = self.sha256
        if self.place is not None:
            found["place"] = paths.text(os.fsencode(self.place))
        return found


@dataclass(slots=True)
class Item:
    """One move of a file: what is under a name, what goes there, and the name of ours under which the one or the other waits.

    Attributes:
        path: the file's, relative to the tree.
        place: ``git``, ``root`` or ``beside``.
        name: in that place.
        before: what the safety checkpoint holds for the path; None when nothing.
        writes: something new gets the name; else it is a deletion.
        after: the new thing, once it is prepared.
        folder: an empty folder had the name.
        over: nothing of it waits any more.
        stuck: taking it back failed, so it isn't touched again.
    """

    path: bytes
    place: str
    name: bytes
    before: Look | None
    writes: bool
    after: Look | None = None
    folder: bool = False
    over: bool = False
    stuck: bool = False


@dataclass(slots=True)
class Holding:
    """One tree's waiting files.

    Attributes:
        tree: the tree, open.
        repo: what the note calls it.
        git_dir: its git dir.
        name: the rollback's own name, which nobody else uses.
        note: where each move is noted before it is made.
        pool: for bytes that no checkpoint holds.
        items: every move so far, oldest first.
        kept: what was kept, or has to wait.
    """

    tree: Beneath
    repo: str
    git_dir: str
    name: str
    note: Note
    pool: Pool
    items: list[Item] = field(default_factory=list)
    kept: list[Kept] = field(default_factory=list)
    _fd: int = -1
    _place: str = GIT

    def open(self) -> None:
        """Make the folder, on the tree's own filesystem.

        Raises:
            OSError: it can't be made.
        """
        try:
            self._fd = self._in_git_dir()
        except OSError:
            # On another filesystem, not ours to write in, or something else has the name: then in the tree itself.
            self._place = ROOT
            self._fd = _made(self.tree.fd, paths.TEMPORARY_PREFIX + self.name.encode())

    def _in_git_dir(self) -> int:
        git_dir = os.open(self.git_dir, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        try:
            if os.fstat(git_dir).st_dev != os.fstat(self.tree.fd).st_dev:
                raise OSError(errno.EXDEV, os.strerror(errno.EXDEV), self.git_dir)
            above = _made(git_dir, b"turnback")
            try:
                return _made(above, self.name.encode())
            finally:
                os.close(above)
        finally:
            os.close(git_dir)

    @property
    def folder(self) -> str:
        """The folder's path."""
        return folder_of(self._place, self.name, self.git_dir, self.tree.root)

    def places(self, folder: int) -> tuple[str, ...]:
        """Where a file of a folder may wait, best first: a place that turns out to be across a border (``EXDEV``) gives way to the next."""
        if os.fstat(folder).st_dev != os.fstat(self._fd).st_dev:
            return (BESIDE,)
        return (self._place, BESIDE)

    def begin(self, path: bytes, place: str, before: Look | None, new: str | None) -> Item:
        """Note a move that is about to be made; ``new`` is the digest of what gets the name, None for a deletion."""
        label = b"%d" % len(self.items)
        if place != GIT:
            label = b"%s%s-%s" % (paths.TEMPORARY_PREFIX, self.name.encode(), label)
        item = Item(path, place, label, before, writes=new is not None)
        known = [sha256 for sha256 in (before.sha256 if before is not None else None, new) if sha256]
        row = {
            "repo": self.repo,
            "path": paths.item(path),
            "in": place,
            "file": os.fsdecode(label),
            "known": known,
        }
        self.note.add(row)
        self.items.append(item)
        return item

    def fd(self, item: Item, folder: int) -> int:
        """The open folder in which an item waits; ``folder`` is the one that its path is in."""
        return folder if item.place == BESIDE else self._fd

    def discard(self, at: int, item: Item) -> None:
        """Remove what was prepared and never got its name, or came back from it untouched."""
        with contextlib.suppress(FileNotFoundError):
            os.unlink(item.name, dir_fd=at)
        item.over = True

    def leave(self, item: Item) -> None:
        """Touch it no more, and say where it waits: taking it back failed."""
        item.stuck = True
        where = self._waits_at(item)
        if os.path.lexists(where):
            self.kept.append(Kept(item.path, None, where))

    def drop(self, at: int, item: Item) -> None:
        """Let go of what waits: remove it, keep its bytes, or leave it where it is and say so."""
        known = {look.sha256 for look in (item.before, item.after) if look is not None}
        gone, kept = let_go(at, item.name, item.path, known, self.pool, place=self._waits_at(item))
        if kept is not None:
            self.keep([kept])
        item.over = True
        item.stuck = not gone

    def copied(self, at: int, item: Item) -> list[Kept]:
        """Put a copy of what waits into the pool, where no checkpoint holds it; as well as it goes, since the thing itself is still there."""
        known = {look.sha256 for look in (item.before, item.after) if look is not None}
        try:
            kept = _keep(at, item.name, item.path, known, self.pool)
        except (OSError, TurnbackError):
            return []
        return [] if kept is None else [kept]

    def keep(self, found: Iterable[Kept]) -> None:
        """Tell what was kept, each content once."""
        for one in found:
            if all((one.path, one.sha256) != (other.path, other.sha256) for other in self.kept):
                self.kept.append(one)

    def close(self) -> None:
        """Let go of everything that still waits, and of the folder and the note when nothing does."""
        for item in self.items:
            if item.over or item.stuck:
                continue
            try:
                if item.place == BESIDE:
                    with self.tree.parent(item.path) as (folder, _):
                        self.drop(folder, item)
                else:
                    self.drop(self._fd, item)
            except OSError:
                self.leave(item)
        self.shut()
        remove_place(self.folder)

    def shut(self) -> None:
        """Close the folder and leave everything in it. Harmless when done already."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1

    @property
    def waits(self) -> bool:
        """Whether anything of it may still be there."""
        return any(item.stuck or not item.over for item in self.items)

    def _waits_at(self, item: Item) -> str:
        where = self.folder
        if item.place == BESIDE:
            where = os.path.join(os.fsdecode(self.tree.root), os.path.dirname(os.fsdecode(item.path)))
        return os.path.join(where, os.fsdecode(item.name))


def folder_of(place: str, name: str, git_dir: str, root: bytes) -> str:
    """The folder of a place that isn't ``beside``."""
    if place == GIT:
        return os.path.join(git_dir, "turnback", name)
    return os.path.join(os.fsdecode(root), os.fsdecode(paths.TEMPORARY_PREFIX) + name)


def remove_place(folder: str) -> None:
    """Remove a holding folder, and the one above it in a git dir, where they are empty."""
    above = os.path.dirname(folder)
    for place in (folder, above) if os.path.basename(above) == "turnback" else (folder,):
        with contextlib.suppress(OSError):
            os.rmdir(place)


def _made(above: int, name: bytes) -> int:
    """A private folder, made where it isn't there, and opened; a link in its place is refused."""
    with contextlib.suppress(FileExistsError):
        os.mkdir(name, 0o700, dir_fd=above)
    return os.open(name, _FOLDER, dir_fd=above)


def let_go(
    at: int,
    name: bytes,
    path: bytes,
    known: Collection[str],
    pool: Pool,
    *,
    place: str,
    sure: bool = False,
) -> tuple[bool, Kept | None]:
    """Remove one waiting thing, if nothing is lost by that (DESIGN 10.4 and 10.5).

    Args:
        at: the open folder that it is in.
        name: its name there.
        path: the name that it had.
        known: digests of the contents that a checkpoint holds.
        pool: for any other content.
        place: its full path, to tell.
        sure: remove what is known also where nobody can say whether it is open somewhere.

    Returns:
        Whether it is gone, and what there is to tell.
    """
    try:
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        if stat.S_ISDIR(found.st_mode):
            remove_folders(at, name)
            return True, None
        if stat.S_ISLNK(found.st_mode):
            kept = _keep(at, name, path, known, pool)
            os.unlink(name, dir_fd=at)
            return True, kept
        if not stat.S_ISREG(found.st_mode):
            return False, Kept(path, None, place)
        with writers(at, name) as writer:
            if writer is Writer.SOME:
                return False, Kept(path, None, place, open=look_at(at, name).sha256 in known)
            kept = _keep(at, name, path, known, pool)
            if writer is Writer.UNKNOWN and not sure:
                # Nobody can say whether it is open somewhere: it waits, and is looked at again later.
                return False, None if kept is None else Kept(path, kept.sha256, place)
            os.unlink(name, dir_fd=at)
            return True, kept
    except FileNotFoundError:
        return True, None
    except (OSError, TurnbackError):
        return False, Kept(path, None, place)


def _keep(at: int, name: bytes, path: bytes, known: Collection[str], pool: Pool) -> Kept | None:
    """Put bytes that aren't known into the pool, durably; None when they are known."""
    look = look_at(at, name)
    if look.sha256 in known:
        return None
    if look.kind == "link":
        data = os.readlink(name, dir_fd=at)
    else:
        descriptor = os.open(name, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK, dir_fd=at)
        with os.fdopen(descriptor, "rb") as file:
            data = file.read()
    return Kept(path, pool.put(data, durable=True))
