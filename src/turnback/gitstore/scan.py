"""One look at a working tree: what differs from the user's index, what is new, what is left out and why.

Tracked paths come from the index reader and one stat each; what is untracked and not ignored comes from one ``git ls-files``, since only
git's own answer about ignore rules is git's answer. Nothing here opens a file's content, and nothing in the tree is written. What is tracked is looked
at first, so that a file which is renamed meanwhile is seen twice rather than not at all; and when somebody stages meanwhile, both looks
are taken again at one and the same index.

Every pipe, socket and device is left alone, never opened. A nested repository is a boundary: its commit is noted (a gitlink), nothing inside
is looked at but whether it is dirty.
"""

from __future__ import annotations

import os
import re
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import EXECUTABLE, FILE, GITLINK, LINK, Entry
from turnback.errors import Failed, TimedOut
from turnback.gitstore import index as indexes
from turnback.gitstore import left_out, nested, process
from turnback.limits import Skipped, SkipReason
from turnback.native.index import EntryState
from turnback.native.lib import CoreError, ErrorCode

if TYPE_CHECKING:
    from turnback.gitstore.index import Index
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.native.index import IndexEntry, IndexStat, IndexView

_CLOSED = re.compile(rb"^warning: could not open directory '(.*?)': [^:\n]*$", re.MULTILINE | re.DOTALL)


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
    """

    path: bytes
    mode: int
    size: int
    permissions: int
    link: bool
    index: Entry | None
    settled: bool


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
    """

    view: IndexView
    candidates: list[Candidate] = field(default_factory=list)
    deleted: list[bytes] = field(default_factory=list)
    nested: list[Nested] = field(default_factory=list)
    skipped: list[Skipped] = field(default_factory=list)
    narrow: dict[bytes, int] = field(default_factory=dict)


def scan(
    repository: Repository,
    settings: Settings,
    *,
    usual: int,
    scratch: str,
    deadline: float | None = None,
) -> Scan:
    """Look at the tree once.

    Args:
        repository: the tree.
        settings: git's configuration for it.
        usual: the permission bits that a plain new file gets here (0o666 less the umask).
        scratch: a private folder.
        deadline: a ``time.monotonic`` value.

    Raises:
        GitFailed: ``git ls-files`` failed.
        TimedOut: ``timeout.checkpoint``.
        Failed: ``failed.checkpoint_git``: the index or the folder can't be read.
    """
    index = indexes.read(repository)
    # Of a split index git gets a whole copy always: reading it, git would set the time of the user's shared file.
    look = _Look(repository, settings, index, usual, deadline)
    look.all(_copy(index, scratch) if index.view.is_split else None)
    if indexes.has_moved(repository, index):
        index = indexes.read(repository)
        look = _Look(repository, settings, index, usual, deadline)
        look.all(_copy(index, scratch))
    return look.done()


def _copy(index: Index, scratch: str) -> str:
    place = os.path.join(scratch, "listed.index")
    indexes.write_copy(index, place)
    return place


class _Look:
    """One pass over the tree, against one index."""

    def __init__(
        self,
        repository: Repository,
        settings: Settings,
        index: Index,
        usual: int,
        deadline: float | None,
    ) -> None:
        self.repository = repository
        self.root = os.fsencode(repository.path)
        self.settings = settings
        self.index = index
        self.view = index.view
        self.usual = usual
        self.deadline = deadline
        self.found = Scan(index.view)
        self.unreadable = left_out.Unreadable(repository.path)

    def all(self, index_file: str | None) -> None:
        """Look at what is tracked, then list what isn't; ``index_file`` stands for the user's index, for git."""
        try:
            root = os.open(self.root, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
        except OSError as error:
            raise Failed(
                "checkpoint_git",
                f"the tree {self.repository.path} can't be opened: {error.strerror}",
                reason=str(error),
            ) from error
        try:
            self._tracked(root)
            self._untracked(root, index_file)
        finally:
            os.close(root)

    def done(self) -> Scan:
        """What was found, with everything that couldn't be looked at."""
        self.found.skipped += self.unreadable.skipped()
        return self.found

    def _tracked(self, root: int) -> None:
        looked = self._stat(root)
        outside: list[int] = []
        seen: bytes | None = None
        for position in looked.positions():
            path = self.view.path(position)
            if path == seen:
                continue  # another stage of a conflict that has been looked at
            seen = path
            self._entry(looked, self._of_ours(position), outside)
        self.found.skipped += left_out.outside_sparse(self.repository, self.view, outside)

    def _stat(self, root: int) -> IndexStat:
        try:
            return self.view.stat(
                root,
                self.index.mtime_ns,
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

    def _of_ours(self, position: int) -> int:
        """The entry that counts for a path: of the stages of a conflict the second (ours) if it has one, as git has it."""
        after = position + 1
        if self.view.entry(position).stage == 1 and after < len(self.view):
            other = self.view.entry(after)
            if other.stage == 2 and other.path == self.view.path(position):
                return after
        return position

    def _entry(self, looked: IndexStat, position: int, outside: list[int]) -> None:
        entry = self.view.entry(position)
        state = looked.state(position)
        if state is EntryState.SKIP_WORKTREE:
            outside.append(position)
        elif state is EntryState.UNREADABLE:
            self.unreadable.add(entry.path)
        elif state is EntryState.DELETED:
            self.found.deleted.append(entry.path)
        elif state is EntryState.NARROW:
            self.found.narrow[entry.path] = looked.mode(position) & 0o777
        elif state in (EntryState.GITLINK, EntryState.FOLDER):
            self._folder(entry)
        elif state is EntryState.CHANGED:
            self._consider(entry.path, looked.mode(position), looked.size(position), entry)

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

    def _untracked(self, root: int, index_file: str | None) -> None:
        # No filter runs here, so the locale is nobody's, and the warnings are in plain English.
        extra = {"LC_ALL": "C"} if index_file is None else {"LC_ALL": "C", "GIT_INDEX_FILE": index_file}
        output = process.heard(
            self.root, ["ls-files", "-o", "-z", "--exclude-standard"], extra=extra, deadline=self.deadline
        )
        for folder in _CLOSED.findall(output.stderr):
            self.unreadable.add(folder.rstrip(b"/") + b"/")
        for path in process.split(output.stdout):
            name = path.rstrip(b"/")
            if name.rpartition(b"/")[2].startswith(paths.TEMPORARY_PREFIX):
                continue
            if paths.refusal(name, hfs=False) is not None:
                self.found.skipped.append(Skipped(path, 0, SkipReason.INVALID_PATH))
            elif path.endswith(b"/"):
                self._untracked_repository(name)
            else:
                self._untracked_file(root, path)

    def _untracked_repository(self, path: bytes) -> None:
        full = os.path.join(self.root, path)
        commit = nested.commit(full)
        if commit is None:
            self.found.skipped.append(Skipped(path, 0, SkipReason.NESTED_UNBORN))
        dirty = commit is None or nested.is_dirty(full, self.deadline)
        self.found.nested.append(Nested(path, commit, dirty))

    def _untracked_file(self, root: int, path: bytes) -> None:
        try:
            # Relative to the open root: a path as long as git can take it is one that we can.
            status = os.stat(path, dir_fd=root, follow_symlinks=False)
        except (FileNotFoundError, NotADirectoryError):
            return  # gone since it was listed
        except OSError:
            self.unreadable.add(path)
            return
        self._consider(path, status.st_mode, status.st_size, None)

    def _consider(self, path: bytes, st_mode: int, size: int, entry: IndexEntry | None) -> None:
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
        self.found.candidates.append(Candidate(path, mode, size, stat.S_IMODE(st_mode), link, index, settled))
