"""One look at a working tree: what differs from the user's index, what is new, what is left out and why.

Tracked paths come from the index reader and one stat each; what is untracked and not ignored comes from one ``git ls-files``, since only
git's own answer about ignore rules is git's answer. Nothing here opens a file's content, and nothing is written.

Every pipe, socket and device is left alone, never opened. A nested repository is a boundary: its commit is noted (a gitlink), nothing inside
is looked at but whether it is dirty.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import EXECUTABLE, FILE, GITLINK, LINK, Entry
from turnback.gitstore import objects, process
from turnback.gitstore.index import read_view
from turnback.limits import Skipped, SkipReason
from turnback.native.index import EntryState

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.native.index import IndexView


@dataclass(frozen=True, slots=True)
class Candidate:
    """A file or link whose content the index doesn't vouch for.

    Attributes:
        path: relative to the tree.
        mode: what git's mode will be.
        size: bytes, by the stat.
        permissions: the permission bits on disk.
        index: what the index has for the path, None when it is untracked.
    """

    path: bytes
    mode: int
    size: int
    permissions: int
    index: Entry | None


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


def scan(repository: Repository, settings: Settings, usual: int, deadline: float | None = None) -> Scan:
    """Look at the tree once.

    Args:
        repository: the tree.
        settings: git's configuration for it.
        usual: the permission bits that a plain new file gets here (0o666 less the umask).
        deadline: for the process.

    Raises:
        GitFailed, TimedOut: ``git ls-files`` failed or took too long.
        Failed: ``failed.checkpoint_git``: the index can't be read.
    """
    view, index_mtime_ns = read_view(repository)
    found = Scan(view)
    _tracked(repository, settings, found, index_mtime_ns, usual)
    _untracked(repository, settings, found, deadline)
    return found


def _tracked(
    repository: Repository, settings: Settings, found: Scan, index_mtime_ns: int, usual: int
) -> None:
    view = found.view
    root = os.open(repository.path, os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        looked = view.stat(
            root,
            index_mtime_ns,
            file_mode=settings.file_mode,
            symlinks=settings.symlinks,
            usual_permissions=usual,
        )
    finally:
        os.close(root)
    seen: bytes | None = None
    for position in looked.positions():
        state = looked.state(position)
        entry = view.entry(position)
        if entry.path == seen:
            continue  # the other stages of a conflict: the first one told where the path stands
        seen = entry.path
        index = Entry(entry.mode, entry.oid.hex())
        if state is EntryState.SKIP_WORKTREE:
            size = 0 if entry.mode == GITLINK else objects.blob_size(repository, index.oid)
            found.skipped.append(Skipped(entry.path, size, SkipReason.SKIP_WORKTREE))
        elif state is EntryState.DELETED:
            found.deleted.append(entry.path)
        elif state is EntryState.NARROW:
            found.narrow[entry.path] = looked.mode(position) & 0o777
        elif entry.mode == GITLINK or state in (EntryState.GITLINK, EntryState.FOLDER):
            _folder(repository, found, entry.path, index)
        elif state is EntryState.CHANGED:
            _consider(settings, found, entry.path, looked.mode(position), looked.size(position), index)


def _folder(repository: Repository, found: Scan, path: bytes, index: Entry) -> None:
    """A tracked path that is a folder now, or a gitlink: git looks whether a repository of its own is in it."""
    full = os.path.join(os.fsencode(repository.path), path)
    inside = nested(full)
    if inside is not None:
        commit, dirty = inside
        known = index.oid if index.mode == GITLINK else None
        found.nested.append(
            Nested(path, commit or known, dirty or (known is not None and commit not in (None, known)))
        )
    elif index.mode == GITLINK:
        found.nested.append(
            Nested(path, index.oid, dirty=False)
        )  # a submodule that isn't checked out stays as the index has it
    else:
        found.deleted.append(path)  # the files in it are untracked, and found as such


def _untracked(repository: Repository, settings: Settings, found: Scan, deadline: float | None) -> None:
    output = process.run(repository.path, ["ls-files", "-o", "-z", "--exclude-standard"], deadline=deadline)
    root = os.fsencode(repository.path)
    for path in process.split(output):
        name = path.rstrip(b"/")
        if name.rpartition(b"/")[2].startswith(paths.TEMPORARY_PREFIX):
            continue
        if paths.refusal(name, hfs=False) is not None:
            found.skipped.append(Skipped(path, 0, SkipReason.INVALID_PATH))
        elif path.endswith(b"/"):
            commit, dirty = nested(os.path.join(root, name)) or (None, True)
            if commit is None:
                found.skipped.append(Skipped(name, 0, SkipReason.NESTED_UNBORN))
            found.nested.append(Nested(name, commit, dirty))
        else:
            try:
                status = os.lstat(os.path.join(root, path))
            except OSError:
                continue  # gone since it was listed
            _consider(settings, found, path, status.st_mode, status.st_size, None)


def _consider(
    settings: Settings, found: Scan, path: bytes, st_mode: int, size: int, index: Entry | None
) -> None:
    if stat.S_ISLNK(st_mode):
        if paths.refusal(path, link=True, hfs=False) is not None:
            found.skipped.append(Skipped(path, size, SkipReason.INVALID_PATH))
            return
        mode = LINK
    elif not stat.S_ISREG(st_mode):
        found.skipped.append(Skipped(path, 0, SkipReason.NOT_REGULAR))
        return
    elif not settings.symlinks and index is not None and index.mode == LINK:
        mode = LINK
    elif not settings.file_mode and index is not None and index.mode in (FILE, EXECUTABLE):
        mode = index.mode
    else:
        mode = EXECUTABLE if settings.file_mode and st_mode & 0o100 else FILE
    found.candidates.append(Candidate(path, mode, size, stat.S_IMODE(st_mode), index))


def nested(path: bytes) -> tuple[str | None, bool] | None:
    """The commit that a nested repository is at and whether its files differ from it; None when there is no repository."""
    import pygit2
    from pygit2.enums import RepositoryOpenFlag

    if not os.path.lexists(os.path.join(path, b".git")):
        return None
    try:
        opened = pygit2.Repository(os.fsdecode(path), RepositoryOpenFlag.NO_SEARCH)
        if opened.is_bare:
            return None
        commit = None if opened.head_is_unborn else str(opened.head.target)
    except (pygit2.GitError, OSError, KeyError, ValueError):
        return None
    try:
        dirty = bool(process.run(path, ["status", "--porcelain", "-z", "--ignore-submodules=none"]))
    except process.GitFailed:
        dirty = True
    return commit, dirty
