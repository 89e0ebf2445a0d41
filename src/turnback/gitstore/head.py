"""Move HEAD back and let the index follow, as git itself would and as the contract has it (7.5).

The branch moves by compare-and-swap. The index is somebody's work too: its lock is taken before anything else is written, its exact
bytes are kept by the caller for an undo, and the new one is made by git in a scratch copy (``read-tree -m`` keeps the flags and stat data
of the entries that survive) and then put in place through the lock. Whether HEAD may move is decided above.
"""

from __future__ import annotations

import os
import shutil
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Conflict, Failed
from turnback.gitstore import objects, process

if TYPE_CHECKING:
    from turnback.gitstore.repo import Head, Repository


@dataclass(frozen=True, slots=True)
class Distance:
    """How a checkpoint's HEAD relates to today's.

    Attributes:
        ancestor: the checkpoint's is the same commit or one that today's descends from.
        dropped: the commits that going back drops, newest first.
        pushed: those of them that a remote-tracking ref holds.
        refs: the remote-tracking refs that do.
    """

    ancestor: bool
    dropped: tuple[str, ...] = ()
    pushed: tuple[str, ...] = ()
    refs: tuple[str, ...] = ()


def distance(repository: Repository, target: str, now: str) -> Distance:
    """Compare two commits; no network is used: a remote-tracking ref is evidence enough (7.5).

    Raises:
        MissingObject: a commit is gone.
    """
    if target == now:
        return Distance(ancestor=True)
    with objects.translated(repository, "comparing commits"):
        if not repository.libgit2.descendant_of(now, target):
            return Distance(ancestor=False)
    span = f"{target}..{now}"
    dropped = _lines(process.run(repository.path, ["rev-list", span]))
    unpushed = set(_lines(process.run(repository.path, ["rev-list", span, "--not", "--remotes"])))
    pushed = [commit for commit in dropped if commit not in unpushed]
    refs: list[str] = []
    if pushed:
        output = process.run(
            repository.path,
            ["for-each-ref", "--format=%(refname)", f"--contains={pushed[-1]}", "refs/remotes"],
        )
        refs = _lines(output)
    return Distance(ancestor=True, dropped=tuple(dropped), pushed=tuple(pushed), refs=tuple(refs))


def _lines(output: bytes) -> list[str]:
    return os.fsdecode(output).split("\n")[
        :-1
    ]  # a ref's name may hold other signs that splitlines takes for an end


def move(repository: Repository, head: Head, to: str, message: str) -> None:
    """Move the branch that HEAD is on, or a detached HEAD itself, from where it is to another commit.

    Args:
        repository: the tree.
        head: where HEAD is supposed to be now; the move fails when it isn't there any more.
        to: the commit to move to.
        message: for the reflog.

    Raises:
        GitFailed: the branch has moved meanwhile, or can't be written; nothing changed.
    """
    name = "HEAD" if head.branch is None else f"refs/heads/{head.branch}"
    arguments = ["update-ref", "-m", message]
    if head.branch is None:
        arguments.append("--no-deref")
    process.run(repository.path, [*arguments, name, to, head.commit or ""])
    repository.reopen()


class IndexLock:
    """git's own lock on the index, held while a rollback writes; no other git command can write the index meanwhile.

    Life: ``take`` (fails at once when somebody holds it), then either ``replace`` with the bytes of a new index, which also gives the
    lock up, or ``release``. Releasing twice is harmless.
    """

    def __init__(self, repository: Repository) -> None:
        self.repository = repository
        self.path = repository.index_path + ".lock"
        self._fd = -1

    def take(self) -> None:
        """Take the lock.

        Raises:
            Conflict: ``conflict.index_locked``: another git command holds it; its lock is not broken.
        """
        try:
            self._fd = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o666)
        except FileExistsError as error:
            raise Conflict(
                "index_locked",
                f"{self.path} exists: another git command is at work in this repository. Wait for it, or remove the file if "
                "no git command is running, then try again",
                repo=self.repository.path,
            ) from error
        except OSError as error:
            raise Failed(
                "checkpoint_git", f"{self.path} can't be made: {error.strerror}", reason=str(error)
            ) from error

    def replace(self, data: bytes, mtime_ns: int) -> None:
        """Put a new index in place, and give up the lock.

        The modification time is set to that of the file that git wrote: entries that are younger must still be seen as racy.
        """
        view = memoryview(data)
        while view:
            view = view[os.write(self._fd, view) :]
        os.utime(self._fd, ns=(mtime_ns, mtime_ns))
        os.fsync(self._fd)
        os.close(self._fd)
        self._fd = -1
        os.rename(self.path, self.repository.index_path)

    def release(self) -> None:
        """Give the lock up and leave the index as it is."""
        if self._fd >= 0:
            os.close(self._fd)
            self._fd = -1
            os.unlink(self.path)


def index_at(repository: Repository, commit: str, scratch: str) -> tuple[bytes, int]:
    """The user's index moved to a commit: the bytes of the new file and its modification time in nanoseconds.

    Entries that survive keep their flags and stat data; the rest is looked up in the tree afresh. The user's index file is only read.

    Raises:
        GitFailed: git refuses (an unmerged index).
    """
    copy = os.path.join(scratch, "moved.index")
    try:
        if os.path.exists(repository.index_path):
            # With its times: a copy with a new one would make every racy entry look settled.
            shutil.copy2(repository.index_path, copy)
        extra = {"GIT_INDEX_FILE": copy}
        process.run(repository.path, ["read-tree", "-m", commit], extra=extra)
        # Status 1 only says that some files differ from the index.
        process.run(repository.path, ["update-index", "-q", "--refresh"], extra=extra, accept=(0, 1))
        with open(copy, "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime_ns
    finally:
        for name in (copy, copy + ".lock"):
            if os.path.lexists(name):
                os.unlink(name)


def read_index(repository: Repository) -> tuple[bytes, int] | None:
    """The exact bytes of the user's index and its modification time in nanoseconds; None when there is none yet."""
    try:
        with open(repository.index_path, "rb") as file:
            return file.read(), os.fstat(file.fileno()).st_mtime_ns
    except FileNotFoundError:
        return None
