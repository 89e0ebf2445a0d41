"""What every verb works with: the log, the configuration, the clock, the pool, and the locks of agents and trees.

Locks are taken in one order everywhere: an agent's, then its trees' sorted by key, then (inside the log) the log's. An agent's lock
belongs to the state folder; a tree's lives in one place per user, keyed by the folder's device and inode as they are now, so that two
state folders whose agents share a tree still meet (DESIGN 10.11).

A tree's *name* in the log is the key that it got when an agent was first added there. It stays what it is when the folder gets another
inode (put back from a backup) or its disk another number (a restart, a container): the path is the same, so the tree is.

Not promised: that processes of which one can't write to the user's own state folder (a sandbox) meet at a tree's lock; each then uses
the first place of ``locks_dirs`` that it may write to.
"""

from __future__ import annotations

import os
import stat
import threading
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from turnback.disk.lock import FileLock
from turnback.disk.private import make_folder, write_atomically
from turnback.disk.scratch import ScratchFolders
from turnback.errors import Failed, InvalidParams, TimedOut
from turnback.gitstore.repo import Repository, tree_key
from turnback.paths import text
from turnback.pool.blobs import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.clock import Clock
    from turnback.config import Config
    from turnback.policy.grants import Principal
    from turnback.records.events import TreeRow
    from turnback.records.log import EventLog
    from turnback.records.state import AgentState, State


# Written into our folders, so that no capture and no git command ever takes them for somebody's files, wherever they lie.
_IGNORED: Final = b"# turnback's own state, never a part of any repository\n*\n"


@dataclass(frozen=True, slots=True)
class _Opened:
    """A repository, and what its folder and its ``.git`` were when it was opened."""

    repository: Repository
    identity: tuple[object, ...]


class Context:
    """The surroundings of one workspace. Shared by threads; nothing in it is bound to one.

    Attributes:
        folder: the workspace's canonical path.
        state_dir: where the log, the pool and the scratch folders are.
        locks_dirs: where tree locks may be; the first that can be written to is used.
        principal: whoever the calls are made for.
    """

    def __init__(
        self,
        *,
        folder: str,
        state_dir: str,
        locks_dirs: Sequence[str],
        log: EventLog,
        config: Config,
        clock: Clock,
        principal: Principal,
    ) -> None:
        self.folder = folder
        self.state_dir = state_dir
        self.locks_dirs = tuple(locks_dirs)
        self.log = log
        self.config = config
        self.clock = clock
        self.principal = principal
        self.pool = Pool(os.path.join(state_dir, "pool"))
        self._repositories: dict[tuple[str, str], _Opened] = {}
        self._guard = threading.Lock()
        self._usual: int | None = None
        self._locks_dir: str | None = None
        self._made: tuple[tuple[int, int, int, int], ...] | None = None
        self._scratch = ScratchFolders(os.path.join(state_dir, "scratch"))
        self._mine = threading.local()

    def acting_as(self, principal: Principal) -> Context:
        """The same surroundings for somebody else."""
        other = Context.__new__(Context)
        other.__dict__.update(self.__dict__)
        other.principal = principal
        return other

    def state(self) -> State:
        """The state as the log has it now, other processes' records included.

        It is one object that other threads fold records into: look single things up in it; to go over it, use ``reading``.
        """
        return self.log.refresh()

    @contextmanager
    def reading(self) -> Iterator[State]:
        """The same state, and no thread folds anything into it meanwhile. For short readings: nothing may be appended inside."""
        self.log.refresh()
        with self.log.reading() as state:
            yield state

    def repository(self, tree: TreeRow) -> Repository:
        """The repository of a tree, opened once and kept while the folder and its ``.git`` are the same ones.

        Raises:
            Failed: ``failed.checkpoint_git``: the tree is missing or no repository (any more).
            Unsupported: ``unsupported.repository``.
        """
        path, name = tree["path"], tree["key"]
        identity = _identity(path)
        with self._guard:
            kept = self._repositories.get((path, name))
        if kept is not None and kept.identity == identity:
            return kept.repository
        # Opened without the guard: a folder that answers slowly holds nobody else up. Two threads may both open it; either will do.
        opened = open_for_capture(path)
        opened.key = name
        with self._guard:
            self._repositories[path, name] = _Opened(opened, identity)
        return opened

    def agent_lock(self, agent: str) -> FileLock:
        """The lock that one agent's captures and rollbacks take turns by."""
        path = os.path.join(self.state_dir, "locks", f"agent-{agent}.lock")
        return FileLock(path, f"a capture or rollback of {agent}")

    def tree_lock(self, key: str, agent: str) -> FileLock:
        """The lock that captures and rollbacks of one tree take turns by, across agents, processes and state folders."""
        folder = self._locks_dir or self._make_locks_folder()
        return FileLock(os.path.join(folder, f"tree-{key}.lock"), f"a capture or rollback of {agent}")

    @contextmanager
    def holding(self, agent: AgentState, trees: Sequence[TreeRow], timeout: float | None) -> Iterator[None]:
        """Hold an agent's lock and its trees'. Inside, the same thread may hold them again; that costs nothing.

        Args:
            agent: whose lock; taken first.
            trees: taken then, in the order of their keys.
            timeout: seconds for all of them; None waits without limit.

        Raises:
            TimedOut: ``timeout.checkpoint`` with ``repo``: somebody else had one of them all the time.
        """
        self.make_folders()
        until = None if timeout is None else self.clock.monotonic() + timeout
        first = trees[0]["repo"] if trees else None
        wanted = [(first, self.agent_lock(agent.id))]
        keys = {_key_now(tree): tree["repo"] for tree in reversed(trees)}
        wanted += [(keys[key], self.tree_lock(key, agent.id)) for key in sorted(keys)]
        mine = self._held_by_this_thread()
        with ExitStack() as held:
            for repo, lock in wanted:
                if lock.path in mine:
                    continue
                try:
                    lock.acquire(None if until is None else max(0.0, until - self.clock.monotonic()))
                except TimedOut as error:
                    raise TimedOut(
                        "checkpoint", f"waiting for another capture or rollback: {error.message}", repo=repo
                    ) from error
                held.callback(lock.release)
                mine.add(lock.path)
                held.callback(mine.discard, lock.path)
            yield

    def _held_by_this_thread(self) -> set[str]:
        found: set[str] | None = getattr(self._mine, "paths", None)
        if found is None:
            found = self._mine.paths = set()
        return found

    def dirty_file(self, key: str) -> str:
        """Where a tree's dirty cache is."""
        return os.path.join(self.state_dir, "cache", f"{key}.dirty")

    def make_folders(self) -> None:
        """Make the private folders that writing needs; reading a workspace makes none.

        Raises:
            Failed: ``failed.state_folder``.
        """
        if self._made is not None and self._made == self._folders():
            return
        _make_ignored(self.state_dir)
        for name in ("locks", "scratch"):
            make_folder(os.path.join(self.state_dir, name))
        self._make_locks_folder()
        self._made = self._folders()

    def _folders(self) -> tuple[tuple[int, int, int, int], ...] | None:
        """The folders as they are: which ones, whose, and with which rights; None when one is missing. Equal ones were found good before."""
        wanted = [self.state_dir, *(os.path.join(self.state_dir, name) for name in ("locks", "scratch"))]
        if self._locks_dir is not None:
            wanted.append(self._locks_dir)
        try:
            found = [os.lstat(path) for path in wanted]
        except OSError:
            return None
        return tuple((one.st_dev, one.st_ino, one.st_mode, one.st_uid) for one in found)

    def _make_locks_folder(self) -> str:
        refused: Failed | None = None
        for folder in self.locks_dirs if self._locks_dir is None else (self._locks_dir,):
            try:
                _make_ignored(folder)
            except Failed as error:
                refused = refused or error
            else:
                self._locks_dir = folder
                return folder
        raise refused or Failed("state_folder", "there is no folder for the locks of trees")

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A private empty folder that is gone afterwards."""
        self.make_folders()
        with self._scratch.take() as folder:
            yield folder

    def usual_permissions(self) -> int:
        """The permission bits that a plain new file gets: 0o666 less the umask.

        Found by making a file, since asking for the umask means setting it for every thread of the process.
        """
        if self._usual is None:
            with self.scratch() as folder:
                probe = os.path.join(folder, "probe")
                os.close(os.open(probe, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666))
                self._usual = os.stat(probe).st_mode & 0o777
        return self._usual


def _make_ignored(folder: str) -> None:
    """Make a private folder that git overlooks: should it lie in somebody's tree, it is never captured (DESIGN part 4)."""
    make_folder(folder)
    if not os.access(folder, os.W_OK | os.X_OK):
        raise Failed(
            "state_folder",
            f"{folder} can't be written to; make it writable, or choose another with --state-dir",
            path=text(os.fsencode(folder)),
        )
    rules = os.path.join(folder, ".gitignore")
    if not os.path.lexists(rules):
        write_atomically(rules, _IGNORED)


def _identity(path: str) -> tuple[object, ...]:
    """What says that a folder holds the repository that it held: the folder, its ``.git``, and what that says if it is a file.

    Raises:
        Failed: ``failed.checkpoint_git``: the folder is missing.
    """
    key = tree_key(path)
    try:
        found = os.lstat(os.path.join(path, ".git"))
    except OSError:
        return (key, None)
    # A folder's mtime changes with every file in it, and says nothing.
    written = None if stat.S_ISDIR(found.st_mode) else (found.st_mtime_ns, found.st_size)
    return (key, found.st_dev, found.st_ino, written)


def _key_now(tree: TreeRow) -> str:
    """The folder's device and inode; the key from the log when it is missing (the capture then says so)."""
    try:
        return tree_key(tree["path"])
    except Failed:
        return tree["key"]


def open_for_capture(path: str) -> Repository:
    """Open a tree's repository; what is a parameter's fault when an agent is added is a failed capture later.

    Raises:
        Failed: ``failed.checkpoint_git``.
        Unsupported: ``unsupported.repository``.
    """
    try:
        return Repository(path)
    except InvalidParams as error:
        raise Failed("checkpoint_git", error.message, reason=error.message) from error
