"""Whether a repository's own folder has an object already, and keeping it from being pruned: the question asked for every new object.

libgit2 answers "no" by listing the pack folder again, 20 to 90 microseconds a time, and doesn't say which pack it means when it answers "yes".
Here the folder is listed once a writer, and only when its time stamp has changed; the ids of small packs go into one dict as soon as
enough questions are asked. An old "no" costs a second copy of an object and nothing else. An old "yes" is found out when the
pack is to be freshened: if that fails, the folder is listed again.

Alternates are not asked, on purpose: what only an alternate has, its own owner may prune, and freshening it there can't be relied on. It
is written again (DESIGN 10.1).
"""

from __future__ import annotations

import contextlib
import os
import threading
from enum import Enum
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

from turnback.gitstore.packindex import PackIndex

if TYPE_CHECKING:
    from turnback.gitstore.objectfolder import ObjectFolder
    from turnback.gitstore.repo import Repository

_SMALL = 1 << 14  # objects; a larger pack is asked by itself, 1.3 microseconds a question
_QUESTIONS_PER_ID = 8  # taking up an id costs about an eighth of a question


class Found(Enum):
    """What became of an object that somebody wants to use."""

    ABSENT = "absent"
    FRESH = "fresh"
    STALE = "stale"  # it is there and can't be freshened, so that the next prune may take it


class PackList:
    """The packs of one folder; shared by threads, and by writers one after the other."""

    def __init__(self, folder: str) -> None:
        self._folder = folder
        self._lock = threading.Lock()
        self._stamp = -1
        self._indexes: dict[str, PackIndex] = {}
        self._large: list[PackIndex] = []
        self._small: list[PackIndex] = []
        self._known: dict[bytes, PackIndex] | None = None
        self._ids = 0  # in the small ones
        self._asked = 0

    @classmethod
    def of(cls, repository: Repository, folder: str) -> PackList:
        """The list that is kept for a repository, brought up to date."""
        found = _lists.get(repository)
        if found is None:
            found = _lists[repository] = cls(folder)
        found.refresh()
        return found

    def refresh(self, force: bool = False) -> None:
        """List the folder again if it has changed (or anyway)."""
        with self._lock:
            try:
                stamp = os.stat(self._folder).st_mtime_ns
                if stamp == self._stamp and not force:
                    return
                names = set(os.listdir(self._folder))
            except FileNotFoundError:
                stamp, names = -1, set()
            indexes: dict[str, PackIndex] = {}
            for name in names:
                if name.endswith(".idx") and name[:-4] + ".pack" in names:
                    index = self._indexes.get(name) or _opened(os.path.join(self._folder, name))
                    if index is not None:
                        indexes[name] = index
            self._stamp, self._indexes, self._asked = stamp, indexes, 0
            self._small = [index for index in indexes.values() if index.count <= _SMALL]
            self._large = [index for index in indexes.values() if index.count > _SMALL]
            self._ids = sum(index.count for index in self._small)
            self._known = None

    def find(self, oid: bytes) -> str | None:
        """The path of a pack that has the object, or None."""
        known = self._known
        if known is not None:
            index = known.get(oid)
            if index is not None:
                return index.pack
            return next((index.pack for index in self._large if oid in index), None)
        self._asked += 1
        if self._asked * _QUESTIONS_PER_ID > self._ids:
            with self._lock:
                self._known = {oid: index for index in self._small for oid in index.oids()}
        return next((index.pack for index in (*self._small, *self._large) if oid in index), None)


class Presence:
    """Whether objects are in a repository's own folder, for one writer: it touches each pack once."""

    def __init__(self, repository: Repository, folder: ObjectFolder) -> None:
        self._folder = folder
        self._packs = PackList.of(repository, folder.packs)
        self._fresh: dict[str, bool] = {}
        self._fans = frozenset(_names(folder.objects))

    def reuse(self, oid: str) -> Found:
        """Look for an object and freshen it where it is."""
        packed = self._reuse_packed(bytes.fromhex(oid))
        if packed is Found.FRESH or oid[:2] not in self._fans:
            return packed
        try:
            os.utime(loose_path(self._folder.objects, oid))
        except FileNotFoundError:
            return packed
        except OSError:
            return Found.STALE
        return Found.FRESH

    def _reuse_packed(self, oid: bytes) -> Found:
        for _ in range(3):
            pack = self._packs.find(oid)
            if pack is None:
                return Found.ABSENT
            fresh = self._fresh.get(pack)
            if fresh is None:
                try:
                    os.utime(pack)
                    fresh = True
                except FileNotFoundError:  # folded, or repacked by somebody: it may be in another by now
                    self._packs.refresh(force=True)
                    continue
                except OSError:
                    fresh = False
                self._fresh[pack] = fresh
            return Found.FRESH if fresh else Found.STALE
        return Found.ABSENT


def loose_path(objects: str, oid: str) -> str:
    """Where the loose object of an id is, in a folder of objects."""
    return f"{objects}/{oid[:2]}/{oid[2:]}"


_lists: WeakKeyDictionary[Repository, PackList] = WeakKeyDictionary()


def _opened(path: str) -> PackIndex | None:
    with contextlib.suppress(OSError, ValueError):  # gone, or damaged: its objects count as absent
        return PackIndex(path)
    return None


def _names(folder: str) -> list[str]:
    try:
        return os.listdir(folder)
    except FileNotFoundError:
        return []
