"""What is at a path now, and whether the safety checkpoint will hold it: the facts that the decision table asks of the disk.

Nothing is followed and nothing is opened. A question that can't be answered counts as the answer that leaves a path alone.
"""

from __future__ import annotations

import errno
import os
import stat
import unicodedata
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, LINK, Entry
from turnback.gitstore import trees
from turnback.policy.cases import Found

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.changes import Change
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.native.files import Beneath


class Present:
    """What ``lstat`` finds at the paths of one tree."""

    def __init__(
        self, repository: Repository, settings: Settings, tree: Beneath, state: str, changed: Iterable[Change]
    ) -> None:
        """Look into a tree.

        Args:
            repository: the tree.
            settings: its configuration.
            tree: the tree, open.
            state: S's tree.
            changed: what differs between S (old) and T (new).
        """
        self.repository = repository
        self.settings = settings
        self.tree = tree
        self.state = state
        self._goes = Names(changed) if settings.ignore_case else None
        self._nested: dict[bytes, bool] = {b"": False}

    def at(self, path: bytes, state: Entry | None) -> Found:
        """Look at one path; ``state`` is S's entry."""
        try:
            return self._at(path, state)
        except OSError:
            return Found.OTHER

    def refusal(self, path: bytes) -> str | None:
        """Why this filesystem takes no such name, or None when nothing speaks against it."""
        try:
            self.tree.lstat(path)
        except OSError as error:
            if error.errno in (errno.ENAMETOOLONG, errno.EILSEQ):
                return f"this filesystem takes no such name: {error.strerror}"
        return None

    def _at(self, path: bytes, state: Entry | None) -> Found:
        for above in paths.parents(path):
            found = self.tree.lstat(above)
            if found is None:
                return Found.ABSENT
            if not stat.S_ISDIR(found.st_mode):
                # A parent that S holds as a file or link is taken away by the plan first; anything else is in the way.
                held = trees.lookup(self.repository, self.state, [above]).get(above)
                return (
                    Found.ABSENT if held is not None and not stat.S_ISDIR(held.mode) else Found.PARENT_BLOCKED
                )
            if self._is_nested(above):
                return Found.PARENT_BLOCKED
        found = self.tree.lstat(path)
        if found is None or (state is None and self._goes is not None and self._goes.taken_away(path)):
            return Found.ABSENT
        if stat.S_ISREG(found.st_mode):
            # Where there are no links, a file stands for one.
            stands = state is not None and state.mode == LINK and not self.settings.symlinks
            return Found.LINK if stands else Found.FILE
        if stat.S_ISLNK(found.st_mode):
            return Found.LINK
        if not stat.S_ISDIR(found.st_mode):
            return Found.OTHER
        return self._folder(path) if state is None or state.mode != GITLINK else Found.FOLDER_WITH_UNCAPTURED

    def collides(self, path: bytes) -> bool:
        """Whether the name is another path's too on this filesystem, and one of T's that stays."""
        return self._goes is not None and self._goes.collides(path)

    def _is_nested(self, folder: bytes) -> bool:
        """Whether a folder has a repository of its own (or is a linked worktree): nothing in it is written or deleted."""
        known = self._nested.get(folder)
        if known is None:
            known = self._nested[folder] = self.tree.lstat(folder + b"/.git") is not None
        return known

    def _folder(self, path: bytes) -> Found:
        root = os.fsencode(self.repository.path)
        files = []
        try:
            for folder, folders, names in os.walk(os.path.join(root, path), onerror=_raise):
                inside = os.path.relpath(folder, root)
                if b".git" in folders or b".git" in names:
                    return Found.FOLDER_WITH_UNCAPTURED
                links = [name for name in folders if os.path.islink(os.path.join(folder, name))]
                files += [inside + b"/" + name for name in (*names, *links)]
        except OSError:
            return Found.FOLDER_WITH_UNCAPTURED
        if not files:
            return Found.FOLDER_EMPTY
        held = trees.lookup(self.repository, self.state, files)
        return Found.FOLDER_OF_CAPTURED if len(held) == len(files) else Found.FOLDER_WITH_UNCAPTURED


def _raise(error: OSError) -> None:
    raise error


class Names:
    """The names of a rollback on a filesystem that doesn't tell ``README`` from ``Readme``.

    Only paths that differ between S and T are known here: one that both hold in the same way, under another spelling of a folder, isn't found.
    """

    def __init__(self, changed: Iterable[Change]) -> None:
        self._goes: dict[str, bytes] = {}
        self._comes: dict[str, set[bytes]] = {}
        for change in changed:
            if change.new is None:
                self._goes[folded(change.path)] = change.path
            else:
                self._comes.setdefault(folded(change.path), set()).add(change.path)

    def taken_away(self, path: bytes) -> bool:
        """Whether what stands at a path of T's is another spelling that the plan takes away first."""
        return self._goes.get(folded(path), path) != path

    def collides(self, path: bytes) -> bool:
        """Whether T has the name twice."""
        return len(self._comes.get(folded(path), ())) > 1


def folded(path: bytes) -> str:
    """A path as such a filesystem compares it: without letter case and in one Unicode form."""
    return unicodedata.normalize("NFC", path.decode("utf-8", "surrogateescape").casefold())
