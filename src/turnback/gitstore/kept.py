"""What is kept between two captures of one tree: the parsed index, the walker with its ignore rules, the settings, the dirty cache.

Each is keyed so that a change of what it came from makes it stale; losing any of it costs nothing but time. One thread at a time uses it,
which holds ``lock``.
"""

from __future__ import annotations

import contextlib
import os
import threading
import time
from typing import TYPE_CHECKING

from turnback.gitstore import index as indexes
from turnback.gitstore import objects
from turnback.gitstore.configuration import Configuration
from turnback.gitstore.dirty import DirtyCache, Stamp
from turnback.gitstore.vouched import Vouched
from turnback.native.walk import Walker

if TYPE_CHECKING:
    from turnback.gitstore.index import Index
    from turnback.gitstore.repo import Repository
    from turnback.native.index import IndexView


class Kept:
    """Kept for one tree.

    Attributes:
        configuration: git's settings.
        walker: with the parsed ignore files.
        lock: held by whoever uses any of it.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self.lock = threading.Lock()
        self.configuration = Configuration(repository)
        self.walker = Walker()
        self._caches: dict[str, DirtyCache] = {}
        self._proofs: dict[str, Vouched] = {}
        self._index: Index | None = None
        self._key: tuple[Stamp, bytes] | None = None
        self._sparse: tuple[IndexView, list[tuple[bytes, bytes]]] | None = None

    def dirty(self, cache_file: str) -> DirtyCache:
        """The dirty cache in a file; what is known is remembered here too."""
        found = self._caches.get(cache_file)
        if found is None:
            found = self._caches[cache_file] = DirtyCache(cache_file)
        return found

    def vouched(self, cache_file: str) -> Vouched:
        """The proofs that the files which the index vouches for come back, kept beside the dirty cache."""
        found = self._proofs.get(cache_file)
        if found is None:
            found = self._proofs[cache_file] = Vouched(f"{cache_file}.proofs")
        return found

    def index_key(self) -> str:
        """A string that is the same while the index is; never, where that can't be told (a split index)."""
        return repr(self._key) if self._key is not None else f"{time.time_ns()}"

    def index(self) -> Index:
        """The user's index as it is now; parsed again only when the file is another one.

        The file's last bytes are its checksum: they are compared too, so that stat data that were put back can't deceive.

        Raises:
            Failed: ``failed.checkpoint_git``: it can't be read.
        """
        key = _key_of(self._repository.index_path)
        if key is not None and key == self._key and self._index is not None:
            return self._index
        found = indexes.read(self._repository)
        # Keyed by what was there before the read: if the file was replaced in between, the next look finds another key. Of a split
        # index this file is only a part.
        self._index, self._key = found, None if found.view.is_split else key
        return found

    def sparse_rules(self) -> list[tuple[bytes, bytes]]:
        """Folder and text of each ``.gitignore`` that a sparse checkout leaves out: git reads those from the index.

        One whose blob isn't there (a partial clone) has no say, as with a git that may not fetch.
        """
        view = self.index().view
        if self._sparse is None or self._sparse[0] is not view:
            rules = []
            for position in view.skipped_named(b".gitignore"):
                entry = view.entry(position)
                with contextlib.suppress(objects.MissingObject):
                    text = objects.read_blob(self._repository, entry.oid.hex())
                    rules.append((entry.path.rpartition(b"/")[0], text))
            self._sparse = (view, rules)
        return self._sparse[1]


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
