"""What is kept between two captures of one tree: the parsed index, the walker with its ignore rules, the settings, the dirty cache.

Each is keyed so that a change of what it came from makes it stale; losing any of it costs nothing but time. Whoever holds the tree's lock
uses it, one thread at a time.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnback.gitstore.configuration import Configuration
from turnback.gitstore.dirty import DirtyCache, Stamp
from turnback.gitstore.index import parse_index
from turnback.native.index import IndexView
from turnback.native.walk import Walker

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository


class Kept:
    """Kept for one tree.

    Attributes:
        configuration: git's settings.
        walker: with the parsed ignore files.
        dirty: what is known about files that the index doesn't vouch for.
        parsed: how often the index was parsed, for tests.
    """

    def __init__(self, repository: Repository, cache_file: str) -> None:
        self._repository = repository
        self.configuration = Configuration(repository)
        self.walker = Walker()
        self.dirty = DirtyCache(cache_file)
        self.parsed = 0
        self._view: IndexView | None = None
        self._key: tuple[Stamp, bytes] | None = None
        self._mtime_ns = 0

    def index(self) -> tuple[IndexView, int]:
        """The user's index as it is now, and its modification time in nanoseconds; parsed again only when the file is another one.

        The file's last bytes are its checksum: they are compared too, so that stat data that were put back can't deceive.

        Raises:
            Failed: ``failed.checkpoint_git``: it can't be read.
        """
        key = _key_of(self._repository.index_path)
        if key is not None and key == self._key and self._view is not None:
            return self._view, self._mtime_ns
        view, mtime_ns = parse_index(self._repository)
        self.parsed += 1
        # Keyed by what was there before the read: if the file was replaced in between, the next look finds another key.
        self._view, self._mtime_ns, self._key = view, mtime_ns, None if view.is_split else key
        return view, mtime_ns


def _key_of(path: str) -> tuple[Stamp, bytes] | None:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        return Stamp.of(status), os.pread(descriptor, 32, max(0, status.st_size - 32))
    finally:
        os.close(descriptor)
