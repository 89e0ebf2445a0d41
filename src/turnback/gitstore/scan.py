"""One look at a working tree: what differs from the user's index, what is new, what is left out and why.

It is one call of the core: folders, index and ignore rules joined (``turnback.native.walk``). Nothing here opens a file's content, and nothing in the
tree is written. Every pipe, socket and device is left alone, never opened. A nested repository is a boundary: its commit is noted (a gitlink),
nothing inside is looked at but whether it is dirty.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import EXECUTABLE, FILE, GITLINK, LINK, Entry
from turnback.errors import Failed, TimedOut
from turnback.gitstore import left_out, nested, objects, process, trees
from turnback.gitstore.dirty import Stamp
from turnback.limits import Skipped, SkipReason
from turnback.native.lib import CoreError, ErrorCode
from turnback.native.walk import EntryState, Kind

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.gitstore.ignore import Rules
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.native.index import IndexEntry, IndexView
    from turnback.native.walk import Item, Walk


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or link whose content the index doesn't vouch for.

    Attributes:
        path: relative to the tree.
        mode: what git's mode will be.
        size: bytes, by the stat.
        permissions: the permission bits on disk.
        link: a symbolic link is there (where ``core.symlinks`` is false, git's mode of a plain file may say link).
        index: the content that the index has for the path (of ours, in a conflict), None when it has none.
        settled: kind and size are those of the index: only its content tells whether it changed at all.
        stamp: the stat data that it was found with.
    """

    path: bytes
    mode: int
    size: int
    permissions: int
    link: bool
    index: Entry | None
    settled: bool
    stamp: Stamp


@dataclass(frozen=True, slots=True)
class Nested:
    """A submodule or nested repository: the commit it is at (None without one), and whether its files differ from that."""

    path: bytes
    commit: str | None
    dirty: bool


@dataclass(slots=True)
class Scan:
    """What one look found.

    Attributes:
        view: the parsed index.
        candidates: to be read and stored, unless a limit says otherwise.
        deleted: tracked paths that are gone.
        nested: submodules and nested repositories; the ones with a commit become gitlinks.
        skipped: what is left out so far.
        narrow: permission bits of tracked, unchanged files that are narrower than usual.
        attributes: every ``.gitattributes`` file in the tree, with its stat data.
    """

    view: IndexView
    candidates: list[Candidate] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)
    nested: list[Nested] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    narrow: dict[bytes, int] = field(default_factory=dict)
    attributes: list[tuple[bytes, Stamp]] = field(default_factory=list)


def scan(
    repository: Repository,
    settings: Settings,
    rules: Rules,
    *,
    usual: int,
    deadline: float | None = None,
) -> Scan:
    """Look at the tree once.

    Args:
        repository: the tree.
        settings: git's configuration for it.
        rules: the ignore rules that no ``.gitignore`` holds.
        usual: the permission bits that a plain new file gets here (0o666 less the umask).
        deadline: a ``time.monotonic`` value.

    Raises:
        TimedOut: ``timeout.checkpoint``.
        Failed: ``failed.checkpoint_git``: the index or the folder can't be read.
    """
    look = _Look(repository, settings, rules, usual, deadline)
    look.all()
    return look.done()


def unvouched(repository: Repository, view: IndexView, wanted: Iterable[bytes]) -> list[Candidate]:
    """Tracked files as candidates, although the index vouches for them: their blobs are gone, so they have to be read."""
    found = []
    for path in wanted:
        position = view.find(path, 0)
        try:
            status = os.lstat(os.path.join(os.fsencode(repository.path), path))
        except OSError:
            continue
        if position is not None:
            entry = view.entry(position)
            index = Entry(entry.mode, entry.oid.hex())
            link = stat.S_ISLNK(status.st_mode)
            permissions = stat.S_IMODE(status.st_mode)
            found.append(
                Candidate(path, entry.mode, status.st_size, permissions, link, index, True, Stamp.of(status))
            )
    return found


class _Look:
    """One pass over the tree, against one index."""

    def __init__(
        self, repository: Repository, settings: Settings, rules: Rules, usual: int, deadline: float | None
    ) -> None:
        self.repository = repository
        self.root = os.fsencode(repository.path)
        self.settings = settings
        self.rules = rules
        self.index = repository.kept.index()
        self.view = self.index.view
        self.usual = usual
        self.deadline = deadline
        self.found = Scan(self.view)
        self.unreadable = left_out.Unreadable(repository.path)
        self.present: list[tuple[bytes, str]] = []
        self.more_rules: list[tuple[bytes, bytes]] = []

    def all(self) -> None:
        """Walk the tree, and then each folder that only looks like a repository of its own."""
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Failed(
                "checkpoint_git",
                f"the tree {self.repository.path} can't be opened: {error.strerror}",
                reason=str(error),
            ) from error
        try:
            walk = self._walk(root, b"")
            self._tracked(walk)
            plain = self._untracked(walk)
            while plain:
                plain += self._untracked(self._walk(root, plain.pop()))
            for folder, tree in self.present:
                self._stray(root, folder, tree)
        finally:
            os.close(root)

    def done(self) -> Scan:
        """What was found, with everything that couldn't be looked at."""
        self.found.skipped += self.unreadable.skipped()
        return self.found

    def _walk(self, root: int, start: bytes) -> Walk:
        try:
            return self.repository.kept.walker.walk(
                self.view,
                root,
                self.index.mtime_ns,
                excludes_file=self.rules.excludes_file,
                info_exclude=self.rules.info_exclude,
                hidden=paths.TEMPORARY_PREFIX,
                start=start,
                ignore_case=self.settings.ignore_case,
                old_starstar=process.old_starstar(),
                rules=[*self.repository.kept.sparse_rules(), *self.more_rules],
                file_mode=self.settings.file_mode,
                symlinks=self.settings.symlinks,
                trust_ctime=self.settings.trust_ctime,
                full=self.settings.full_stat,
                usual_permissions=self.usual,
                deadline=self.deadline,
            )
        except CoreError as error:
            if error.code is ErrorCode.TIMEOUT:
                raise TimedOut(
                    "checkpoint",
                    f"looking at {self.repository.path} took longer than the capture's time limit",
                ) from error
            raise Failed(
                "checkpoint_git", f"{self.repository.path} can't be looked at: {error}", reason=str(error)
            ) from error

    def _stray(self, root: int, folder: bytes, tree: str) -> None:
        """New files in a folder that a sparse index has as a whole: what its tree holds is left to the index, the rest is untracked."""
        entries = trees.walk(self.repository, tree)
        for path, entry in entries.items():
            if path.rpartition(b"/")[2] == b".gitignore":
                above = (folder + b"/" + path).rpartition(b"/")[0]
                self.more_rules.append((above, objects.read_blob(self.repository, entry.oid)))
        held = {folder + b"/" + path for path in entries}
        walk = self._walk(root, folder)
        walk.items = [item for item in walk.items if item.path not in held]
        self._untracked(walk)

    def _tracked(self, walk: Walk) -> None:
        outside: list[int] = []
        items = [item for item in walk.items if item.position is not None]
        for item in sorted(items, key=lambda item: item.position or 0):
            position = item.position or 0
            if item.kind is Kind.SKIP_FOLDER:
                outside.extend(range(position, position + item.size))
            else:
                self._entry(item, self._of_ours(position), outside)
        self.found.skipped += left_out.outside_sparse(self.repository, self.view, outside)

    def _of_ours(self, position: int) -> int:
        """The entry that counts for a path: of the stages of a conflict the second (ours) if it has one, as git has it."""
        after = position + 1
        if self.view.entry(position).stage == 1 and after < len(self.view):
            other = self.view.entry(after)
            if other.stage == 2 and other.path == self.view.path(position):
                return after
        return position

    def _entry(self, item: Item, position: int, outside: list[int]) -> None:
        entry = self.view.entry(position)
        if item.kind is EntryState.SKIP_WORKTREE:
            outside.append(position)
            if item.mode:
                self.present.append((entry.path.rstrip(b"/"), entry.oid.hex()))
        elif item.kind is EntryState.UNREADABLE:
            self.unreadable.add(entry.path)
        elif item.kind is EntryState.DELETED:
            self.found.deleted.append(entry.path)
        elif item.kind is EntryState.NARROW:
            self.found.narrow[entry.path] = item.mode & 0o777
        elif item.kind in (EntryState.GITLINK, EntryState.FOLDER):
            self._folder(entry)
        elif item.kind in (EntryState.CHANGED, EntryState.RACY):
            self._consider(entry.path, item, entry)

    def _folder(self, entry: IndexEntry) -> None:
        """A tracked path that is a folder now, or a gitlink: git looks whether a repository of its own is in it."""
        full = os.path.join(self.root, entry.path)
        known = entry.oid.hex() if entry.mode == GITLINK else None
        if nested.is_repository(full):
            commit = nested.commit(full)
            dirty = commit not in (known, None) if known is not None else False
            dirty = dirty or nested.is_dirty(full, self.deadline)
            self.found.nested.append(Nested(entry.path, commit or known, dirty))
            if commit is None and known is None:
                self.found.skipped.append(Skipped(entry.path, 0, SkipReason.NESTED_UNBORN))
        elif known is not None:
            # A submodule that isn't checked out stays as the index has it.
            self.found.nested.append(Nested(entry.path, known, dirty=False))
        else:
            self.found.deleted.append(entry.path)  # the files in it are untracked, and found as such

    def _untracked(self, walk: Walk) -> list[bytes]:
        """Note what is untracked; gives the folders whose ``.git`` is no repository: they are walked as plain ones."""
        plain = []
        known = {repo.path for repo in self.found.nested}
        for item in sorted(
            (item for item in walk.items if item.position is None), key=lambda item: item.path
        ):
            path = item.path
            if item.kind is Kind.ATTRIBUTES:
                self.found.attributes.append((path, Stamp.of_item(item)))
            elif item.kind is Kind.UNLISTED:
                self.unreadable.add(path + b"/")
            elif item.kind is EntryState.UNREADABLE:
                self.unreadable.add(path)
            elif paths.refusal(path, hfs=False) is not None:
                self.found.skipped.append(Skipped(path, 0, SkipReason.INVALID_PATH))
            elif item.kind is not Kind.NESTED:
                self._consider(path, item, None)
            elif path not in known:
                if nested.is_repository(os.path.join(self.root, path)):
                    self._untracked_repository(path)
                else:
                    plain.append(path)
        return plain

    def _untracked_repository(self, path: bytes) -> None:
        full = os.path.join(self.root, path)
        commit = nested.commit(full)
        if commit is None:
            self.found.skipped.append(Skipped(path, 0, SkipReason.NESTED_UNBORN))
        dirty = commit is None or nested.is_dirty(full, self.deadline)
        self.found.nested.append(Nested(path, commit, dirty))

    def _consider(self, path: bytes, item: Item, entry: IndexEntry | None) -> None:
        st_mode, size = item.mode, item.size
        link = stat.S_ISLNK(st_mode)
        if link and paths.refusal(path, link=True, hfs=False) is not None:
            self.found.skipped.append(Skipped(path, size, SkipReason.INVALID_PATH))
            return
        if not link and not stat.S_ISREG(st_mode):
            self.found.skipped.append(Skipped(path, 0, SkipReason.NOT_REGULAR))
            return
        known = None if entry is None else entry.mode
        if link or (not self.settings.symlinks and known == LINK):
            mode = LINK
        elif not self.settings.file_mode and known in (FILE, EXECUTABLE):
            mode = known
        else:
            mode = EXECUTABLE if self.settings.file_mode and st_mode & 0o100 else FILE
        index = None
        settled = False
        if entry is not None and entry.mode != GITLINK and not entry.intent_to_add and entry.stage in (0, 2):
            index = Entry(entry.mode, entry.oid.hex())
            # No size: the entry was made without a look at a file.
            settled = entry.stage == 0 and entry.mode == mode and entry.size in (0, size & 0xFFFFFFFF)
        self.found.candidates.append(
            Candidate(path, mode, size, stat.S_IMODE(st_mode), link, index, settled, Stamp.of_item(item))
        )
