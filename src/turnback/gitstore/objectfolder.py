"""Where a repository keeps its objects, and with which permissions new ones are made there (``core.sharedRepository``).

Objects and packs are read-only files under the umask, folders are plain ones, as git makes them. In a repository that is shared, the bits of
the group or of everybody are added as git adds them, and folders pass their group on. Alternates are never written to: this is the
repository's own folder.
"""

from __future__ import annotations

import contextlib
import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnback.gitstore.repo import Repository

_GROUP, _EVERYBODY = 0o660, 0o664
_WORDS = {
    "umask": 0,
    "group": _GROUP,
    "all": _EVERYBODY,
    "world": _EVERYBODY,
    "everybody": _EVERYBODY,
    "0": 0,
    "1": _GROUP,
    "2": _EVERYBODY,
    "true": _GROUP,
    "yes": _GROUP,
    "on": _GROUP,
    "": _GROUP,
    "false": 0,
    "no": 0,
    "off": 0,
}


@dataclass(frozen=True, slots=True)
class Sharing:
    """What ``core.sharedRepository`` adds to the permission bits of a new file or folder.

    Attributes:
        bits: the read and write bits to have; 0 leaves everything to the umask.
        exact: they replace the umask's instead of adding to them.
    """

    bits: int = 0
    exact: bool = False

    @classmethod
    def parse(cls, value: str) -> Sharing:
        """The setting's value as git reads it; one that git would die of counts as unset."""
        word = value.strip().lower()
        if word in _WORDS:
            return cls(_WORDS[word])
        try:
            number = int(word, 8)
        except ValueError:
            return cls()
        return cls(number & 0o666, exact=True) if number & 0o600 == 0o600 else cls()

    def mode(self, mode: int) -> int:
        """The permission bits for something that the umask gave ``mode`` (with its type)."""
        if not self.bits:
            return stat.S_IMODE(mode)
        bits = self.bits if mode & stat.S_IWUSR else self.bits & ~0o222
        if mode & stat.S_IXUSR:
            bits |= (bits & 0o444) >> 2
        wanted = (stat.S_IMODE(mode) & ~0o777) | bits if self.exact else stat.S_IMODE(mode) | bits
        if stat.S_ISDIR(mode):
            wanted |= (wanted & 0o444) >> 2
            if wanted & 0o060:
                wanted |= stat.S_ISGID
        return wanted

    def adjust(self, place: int | str) -> None:
        """Give a new file or folder, by descriptor or path, the bits that it should have."""
        if self.bits:
            mode = os.stat(place).st_mode
            if self.mode(mode) != stat.S_IMODE(mode):
                os.chmod(place, self.mode(mode))


@dataclass(frozen=True, slots=True)
class ObjectFolder:
    """The places of one repository's own objects.

    Attributes:
        tree: the tree's path, for messages.
        objects: the folder of loose objects.
        packs: the folder of packs and their indexes.
        records: the folder that says which packs are ours: an empty file for each, named by the pack's checksum.
        sharing: the permissions of what is made in them.
    """

    tree: str
    objects: str
    packs: str
    records: str
    sharing: Sharing

    @classmethod
    def of(cls, repository: Repository) -> ObjectFolder:
        """The places of a repository; nothing is made."""
        objects = os.path.join(repository.common_dir, "objects")
        return cls(
            tree=repository.path,
            objects=objects,
            packs=os.path.join(objects, "pack"),
            records=os.path.join(repository.common_dir, "turnback", "packs"),
            sharing=_sharing(repository),
        )

    def make(self, folder: str) -> bool:
        """Make a folder, and those above it that are missing; False when it is there."""
        try:
            os.mkdir(folder)
        except FileExistsError:
            return False
        except FileNotFoundError:
            self.make(os.path.dirname(folder))
            return self.make(folder)
        self.sharing.adjust(folder)
        return True

    @contextlib.contextmanager
    def failing(self, doing: str) -> Iterator[None]:
        """Turn an ``OSError`` of the body into ``failed.checkpoint_git`` with what was being done.

        Raises:
            Failed: ``failed.checkpoint_git``.
        """
        try:
            yield
        except OSError as error:
            raise self.failed(doing, error) from error

    def failed(self, doing: str, error: OSError) -> Failed:
        """One of the system's errors as ours."""
        reason = error.strerror or str(error)
        return Failed("checkpoint_git", f"{doing} in {self.tree} failed: {reason}", reason=reason)


def _sharing(repository: Repository) -> Sharing:
    import pygit2

    try:
        return Sharing.parse(str(repository.libgit2.config["core.sharedRepository"] or ""))
    except (pygit2.GitError, OSError, KeyError, ValueError):
        return Sharing()
