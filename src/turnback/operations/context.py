"""What every verb works with: the log, the configuration, the clock, the pool, and the locks of agents and trees.

Locks are taken in one order everywhere: an agent's, then its trees' sorted by key, then (inside the log) the log's. An agent's lock
belongs to the state folder; a tree's lives in one place per user, keyed by device and inode, so that two state folders whose
agents share a tree still meet (DESIGN 10.11).
"""

from __future__ import annotations

import os
import shutil
import tempfile
import threading
from contextlib import ExitStack, contextmanager
from typing import TYPE_CHECKING

from turnback.disk.lock import FileLock
from turnback.disk.private import make_folder
from turnback.errors import Failed, InvalidParams
from turnback.gitstore.repo import Repository, tree_key
from turnback.pool.blobs import Pool

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.clock import Clock
    from turnback.config import Config
    from turnback.policy.grants import Principal
    from turnback.records.events import TreeRow
    from turnback.records.log import EventLog
    from turnback.records.state import AgentState, State


class Context:
    """The surroundings of one workspace. Shared by threads; nothing in it is bound to one.

    Attributes:
        folder: the workspace's canonical path.
        state_dir: where the log, the pool and the scratch folders are.
        locks_dir: where tree locks are.
        principal: whoever the calls are made for.
    """

    def __init__(
        self,
        *,
        folder: str,
        state_dir: str,
        locks_dir: str,
        log: EventLog,
        config: Config,
        clock: Clock,
        principal: Principal,
    ) -> None:
        self.folder = folder
        self.state_dir = state_dir
        self.locks_dir = locks_dir
        self.log = log
        self.config = config
        self.clock = clock
        self.principal = principal
        self.pool = Pool(os.path.join(state_dir, "pool"))
        self._repositories: dict[str, Repository] = {}
        self._guard = threading.Lock()
        self._usual: int | None = None

    def acting_as(self, principal: Principal) -> Context:
        """The same surroundings for somebody else."""
        other = Context.__new__(Context)
        other.__dict__.update(self.__dict__)
        other.principal = principal
        return other

    def state(self) -> State:
        """The state as the log has it now, other processes' records included."""
        return self.log.refresh()

    def repository(self, tree: TreeRow) -> Repository:
        """The repository of a tree, opened once and kept while the folder is the same one.

        Raises:
            Failed: ``failed.checkpoint_git``: the tree is missing or no repository (any more).
        """
        path = tree["path"]
        key = tree_key(path)
        with self._guard:
            found = self._repositories.get(path)
            if found is None or found.key != key or not os.path.lexists(os.path.join(path, ".git")):
                found = self._repositories[path] = open_for_capture(path)
            return found

    def agent_lock(self, agent: str) -> FileLock:
        """The lock that one agent's captures and rollbacks take turns by."""
        return FileLock(os.path.join(self.state_dir, "locks", f"agent-{agent}.lock"))

    def tree_lock(self, key: str) -> FileLock:
        """The lock that captures and rollbacks of one tree take turns by, across agents, processes and state folders."""
        return FileLock(os.path.join(self.locks_dir, f"tree-{key}.lock"))

    @contextmanager
    def holding(self, agent: AgentState, trees: Sequence[TreeRow], timeout: float | None) -> Iterator[None]:
        """Hold an agent's lock and its trees'.

        Raises:
            TimedOut: ``timeout.lock``.
        """
        self.make_folders()
        until = None if timeout is None else self.clock.monotonic() + timeout
        with ExitStack() as held:
            wanted = [
                self.agent_lock(agent.id),
                *(self.tree_lock(key) for key in sorted({tree["key"] for tree in trees})),
            ]
            for lock in wanted:
                lock.acquire(None if until is None else max(0.0, until - self.clock.monotonic()))
                held.callback(lock.release)
            yield

    def make_folders(self) -> None:
        """Make the private folders that writing needs; reading a workspace makes none."""
        for folder in (
            self.state_dir,
            os.path.join(self.state_dir, "locks"),
            os.path.join(self.state_dir, "scratch"),
            self.locks_dir,
        ):
            make_folder(folder)

    @contextmanager
    def scratch(self) -> Iterator[str]:
        """A private empty folder that is gone afterwards."""
        self.make_folders()
        folder = tempfile.mkdtemp(dir=os.path.join(self.state_dir, "scratch"))
        try:
            yield folder
        finally:
            shutil.rmtree(folder, ignore_errors=True)

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

    def source(self) -> str:
        """The ``source`` of this workspace's events."""
        return self.log.source


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
