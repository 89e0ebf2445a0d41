"""Carry out the steps of a plan on one tree, so that every byte that was there before still exists until the end.

No file is written in place and none is removed at once. A new file is prepared out of sight and exchanged with the old one; a deleted
file is renamed aside. What comes out is looked at: when it isn't what the safety checkpoint holds, somebody saved in between, and it is put
back under its name and reported as ``changed``. Displaced files wait until the end (``turnback.operations.holding``) and are looked at
once more, since a writer may have held one open across the exchange. Folders that become empty go at the very end, so that one which
gets a file again keeps its permissions.

``undo`` puts the very same files back, newest move first. It goes by what it finds and not by how far a move had come: so it is right
also when a move was cut short, by an error or by Ctrl-C.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback.changes import EXECUTABLE, LINK, Entry
from turnback.errors import TurnbackError
from turnback.native.files import Beneath, Blocked, Look, glance, only_folders
from turnback.native.moves import exchange, exists, give_name, take_away
from turnback.operations.holding import ASIDE, BESIDE, HALF

if TYPE_CHECKING:
    from turnback.operations.holding import Holding, Item, Kept

# How often a save that comes in the very moment of an exchange is followed; a person doesn't save twice in a microsecond.
_TURNS = 100


@dataclass(slots=True)
class Applier:
    """Steps on one tree.

    Attributes:
        tree: the tree, open.
        holding: where displaced files wait.
        usual: the permission bits of a plain new file.
        changed: paths that somebody else wrote meanwhile, left as they are.
        refused: paths whose name or link target this filesystem doesn't take.
    """

    tree: Beneath
    holding: Holding
    usual: int
    changed: list[bytes] = field(default_factory=list)
    refused: list[bytes] = field(default_factory=list)
    _order: list[Item | bytes] = field(
        default_factory=list
    )  # moves, and folders that were made, as they came
    _deleted: list[bytes] = field(default_factory=list)

    # forward

    def write(
        self, path: bytes, entry: Entry, data: bytes, permissions: int | None, before: Look | None
    ) -> None:
        """Give a path new content.

        Args:
            path: relative to the tree.
            entry: what it becomes.
            data: the file's bytes, or the link's target.
            permissions: the bits that the checkpoint recorded, None when it recorded none.
            before: what is there now according to the safety checkpoint; None when nothing is.
        """
        if entry.mode == LINK and (not data or b"\0" in data):
            self.refused.append(path)
            return
        bits = _permissions(entry, permissions, before, self.usual)
        made: list[bytes] = []
        try:
            with self.tree.parent(path, made=made if before is None else None) as (folder, name):
                self._order += made
                made.clear()
                self._write_in(folder, name, path, entry, data, bits, before)
        except Blocked:
            self.changed.append(path)
        except OSError as error:
            if error.errno not in (errno.ENAMETOOLONG, errno.EILSEQ):
                raise
            self.refused.append(path)
        finally:
            self._order += made

    def _write_in(
        self,
        folder: int,
        name: bytes,
        path: bytes,
        entry: Entry,
        data: bytes,
        bits: int,
        before: Look | None,
    ) -> None:
        digest = hashlib.sha256(data).hexdigest()
        for place in self.holding.places(folder):
            item = self._begin(path, place, before, digest)
            at = self.holding.fd(item, folder)
            try:
                item.after = _prepare(at, item.name, entry, data, digest, bits)
                if before is None:
                    self._create(at, item, folder, name)
                else:
                    self._replace(at, item, folder, name)
            except OSError as error:
                if error.errno != errno.EXDEV or place == BESIDE:
                    raise
                # A mount or quota border that the device number doesn't show: then beside the file itself.
                self.holding.discard(at, item)
            else:
                return

    def _begin(self, path: bytes, place: str, before: Look | None, new: str | None) -> Item:
        item = self.holding.begin(path, place, before, new)
        self._order.append(item)
        return item

    def _create(self, at: int, item: Item, folder: int, name: bytes) -> None:
        try:
            give_name(at, item.name, folder, name)
        except FileExistsError:
            # A folder may stand here that was empty or has been emptied; anything else came meanwhile.
            if only_folders(folder, name):
                item.folder = True
                self._replace(at, item, folder, name)
            else:
                self.changed.append(item.path)
                self.holding.discard(at, item)

    def _replace(self, at: int, item: Item, folder: int, name: bytes) -> None:
        try:
            swapped = exchange(at, item.name, folder, name)
        except FileNotFoundError:
            # An editor may have moved the file away for a moment: an exchange never becomes a create (DESIGN 10.3).
            self.changed.append(item.path)
            self.holding.discard(at, item)
            return
        if not swapped:
            self._replace_slowly(at, item, folder, name)
        elif not _fits(at, item.name, item):
            # Somebody saved between the safety checkpoint and the exchange.
            self.changed.append(item.path)
            self._give_back(at, item, folder, name, item.after)

    def _replace_slowly(self, at: int, item: Item, folder: int, name: bytes) -> None:
        """No atomic exchange on this filesystem: the old file goes aside first, and for that moment its name is free."""
        aside = item.name + ASIDE
        try:
            take_away(folder, name, at, aside)
        except FileNotFoundError:
            self.changed.append(item.path)
            self.holding.discard(at, item)
            return
        if _fits(at, aside, item):
            try:
                give_name(at, item.name, folder, name)
            except FileExistsError:
                pass  # somebody took the name while it was free: theirs stays, and the old file is in the safety checkpoint
            else:
                take_away(at, aside, at, item.name)
                return
            os.unlink(item.name, dir_fd=at)
            take_away(at, aside, at, item.name)
            self.holding.drop(at, item)
        else:
            os.unlink(item.name, dir_fd=at)
            take_away(at, aside, at, item.name)
            self._give_back(at, item, folder, name, None)
        self.changed.append(item.path)

    def delete(self, path: bytes, before: Look) -> None:
        """Take away a path that holds what the safety checkpoint says."""
        try:
            with self.tree.parent(path) as (folder, name):
                for place in self.holding.places(folder):
                    item = self._begin(path, place, before, None)
                    at = self.holding.fd(item, folder)
                    try:
                        take_away(folder, name, at, item.name)
                    except OSError as error:
                        if error.errno != errno.EXDEV or place == BESIDE:
                            raise
                        item.over = True
                        continue
                    if _fits(at, item.name, item):
                        self._deleted.append(path)
                    else:
                        self.changed.append(path)
                        self._give_back(at, item, folder, name, None)
                    return
        except (Blocked, FileNotFoundError):
            self.changed.append(path)

    def _give_back(self, at: int, item: Item, folder: int, name: bytes, inside: Look | None) -> None:
        """Give what came out its name again, in such a way that the newest save has the name in the end (DESIGN 10.3).

        Args:
            at: where it waits.
            item: the move.
            folder: the folder of its path.
            name: its name there.
            inside: what was put under the name instead; None when the name was left free.
        """
        copies: list[Kept] = []
        for _ in range(_TURNS):
            # A copy first: under its name it is anybody's to overwrite, and the one who does may know nothing of it.
            copies += self.holding.copied(at, item)
            ours = glance(at, item.name)
            if inside is None:
                try:
                    give_name(at, item.name, folder, name)
                except FileExistsError:
                    break  # somebody saved again meanwhile: theirs is newer
                item.over = True
                break
            try:
                exchange(at, item.name, folder, name)
            except FileNotFoundError:
                inside = None
                continue
            out = glance(at, item.name)
            if out is not None and out.same_thing(inside):
                break
            # While it was out, a second save took the name; this one is newer than what we have just put there.
            inside = ours
        if not item.over:
            self.holding.drop(at, item)
        there = glance(folder, name)
        self.holding.keep(one for one in copies if there is None or one.sha256 != there.sha256)

    # back

    def undo(self) -> list[bytes]:
        """Take every move back, newest first; gives the paths that aren't as they were, since somebody wrote them or it failed."""
        lost: list[bytes] = []
        for action in reversed(self._order):
            if isinstance(action, bytes):
                # A folder that was made: it goes where it is empty, before the file that it took the place of comes back.
                with contextlib.suppress(OSError), self.tree.parent(action) as (folder, name):
                    os.rmdir(name, dir_fd=folder)
            elif not action.over and not self._undone(action):
                lost.append(action.path)
        self._deleted.clear()
        return lost

    def _undone(self, item: Item) -> bool:
        made: list[bytes] | None = [] if item.before is not None or item.folder else None
        try:
            with self.tree.parent(item.path, made=made) as (folder, name):
                return self._take_back(self.holding.fd(item, folder), item, folder, name)
        except (OSError, TurnbackError):
            self.holding.leave(item)
            return False

    def _take_back(self, at: int, item: Item, folder: int, name: bytes) -> bool:
        if exists(at, item.name + ASIDE):
            with contextlib.suppress(FileNotFoundError):
                os.unlink(item.name, dir_fd=at)
            take_away(at, item.name + ASIDE, at, item.name)
        held = glance(at, item.name)
        if held is not None and item.writes and (item.after is None or held.same_thing(item.after)):
            self.holding.discard(at, item)  # it never got the name
            return True
        if held is None and item.before is None and not item.folder:
            return item.after is None or self._take_away_new(at, item, folder, name)
        if held is None:
            return True  # it never came to it
        if item.writes and exists(folder, name):
            return self._exchange_back(at, item, folder, name, held)
        try:
            give_name(at, item.name, folder, name)
        except FileExistsError:
            return False  # somebody's file has the name now; the old one is in the safety checkpoint
        item.over = True
        return True

    def _take_away_new(self, at: int, item: Item, folder: int, name: bytes) -> bool:
        """Take away a file that was created."""
        try:
            take_away(folder, name, at, item.name)
        except FileNotFoundError:
            return True
        found = glance(at, item.name)
        if found is not None and item.after is not None and found.same_thing(item.after):
            # It had the name for a while, so somebody may have it open: it is let go of like any displaced file.
            self.holding.drop(at, item)
            return True
        self._give_back(at, item, folder, name, None)
        return False

    def _exchange_back(self, at: int, item: Item, folder: int, name: bytes, held: Look) -> bool:
        """Put a replaced file back under its name, unless somebody has written what stands there now."""
        try:
            if not exchange(at, item.name, folder, name):
                return self._exchange_back_slowly(at, item, folder, name)
        except FileNotFoundError:
            give_name(at, item.name, folder, name)
            item.over = True
            return True
        out = glance(at, item.name)
        if out is not None and item.after is not None and out.same_thing(item.after):
            self.holding.drop(at, item)
            return True
        self._give_back(at, item, folder, name, held)
        return False

    def _exchange_back_slowly(self, at: int, item: Item, folder: int, name: bytes) -> bool:
        aside = item.name + ASIDE
        take_away(folder, name, at, aside)
        found = glance(at, aside)
        if found is None or item.after is None or not found.same_thing(item.after):
            give_name(at, aside, folder, name)
            return False
        give_name(at, item.name, folder, name)
        take_away(at, aside, at, item.name)
        self.holding.drop(at, item)
        return True

    # the end

    def finish(self) -> None:
        """Let go of every displaced file, then of the folders that became empty."""
        self.holding.close()
        for path in self._deleted:
            self.tree.remove_empty_parents(path)
        self._deleted.clear()


def _prepare(at: int, name: bytes, entry: Entry, data: bytes, digest: str, bits: int) -> Look:
    """Make the new file or link under its hidden name, whole, with its final permission bits.

    Until it is whole it has another name, so that a half one is never taken for something that came out from under a path.
    """
    if entry.mode == LINK:
        os.symlink(data, name, dir_fd=at)
        found = os.stat(name, dir_fd=at, follow_symlinks=False)
        return Look("link", digest, "", 0, len(data), (found.st_dev, found.st_ino))
    half = name + HALF
    # 0600 until the content is in: the final bits are set last, so a secret is never readable by others for a moment.
    descriptor = os.open(half, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=at)
    try:
        view = memoryview(data)
        while view:
            view = view[os.write(descriptor, view) :]
        os.fchmod(descriptor, bits)
        found = os.fstat(descriptor)
        os.rename(half, name, src_dir_fd=at, dst_dir_fd=at)
    except BaseException:
        with contextlib.suppress(OSError):
            os.unlink(half, dir_fd=at)
        raise
    finally:
        os.close(descriptor)
    mode = stat.S_IMODE(found.st_mode)
    return Look("file", digest, "", mode, len(data), (found.st_dev, found.st_ino))


def _permissions(entry: Entry, recorded: int | None, before: Look | None, usual: int) -> int:
    """The bits of a new file: never wider than the checkpoint's or than those of the file that it replaces, with git's exec bit.

    (DESIGN part 7, Keeping.) A filesystem on which every file is executable gives back what it likes.
    """
    old = before.mode & 0o777 if before is not None and before.kind == "file" else None
    if recorded is not None and old is not None:
        bits = recorded & old
    else:
        bits = next((found for found in (recorded, old) if found is not None), usual)
    if entry.mode == EXECUTABLE:
        return bits | (bits & 0o444) >> 2
    return bits & ~0o111


def _fits(at: int, name: bytes, item: Item) -> bool:
    """Whether what came out from under a path is what the safety checkpoint holds for it."""
    if item.folder:
        return only_folders(at, name)
    found = glance(at, name)
    return found is not None and item.before is not None and found.same_content(item.before)
