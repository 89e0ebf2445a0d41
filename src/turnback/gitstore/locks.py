"""git's own locks on what a rollback moves: the index of a tree, and the branch that HEAD is on.

Both are taken before the first file is written and held until the end (DESIGN 10.10), so that no git command changes either in
between. A lock that somebody else has refuses the rollback; it is never waited for long and never broken.

What a killed process leaves: the branch's lock goes with the git process that holds it, which ends when its input does. The index's
lock is a file that would stay, so it says whose it is, and ``clear_stale`` removes it once nobody of that name is at work.
"""

from __future__ import annotations

import contextlib
import errno
import hashlib
import os
import shutil
import stat
import subprocess
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Conflict, Failed, Unsupported
from turnback.gitstore import process

if TYPE_CHECKING:
    from turnback.gitstore.repo import Head, Repository

_SIGNATURE = b"turnback rollback "
_PREPARED = ".turnback"
_OLD = ".turnback-old"


@dataclass(frozen=True, slots=True)
class IndexFile:
    """An index as a file: its bytes, its modification time (git's racy rule depends on it) and its permission bits."""

    data: bytes
    mtime_ns: int
    mode: int


def read_index(repository: Repository) -> IndexFile | None:
    """The user's index, exactly; None when there is none yet."""
    try:
        with open(repository.index_path, "rb") as file:
            found = os.fstat(file.fileno())
            return IndexFile(file.read(), found.st_mtime_ns, stat.S_IMODE(found.st_mode))
    except FileNotFoundError:
        return None


class IndexLock:
    """git's lock on one index: ``take``, then any number of ``replace`` and ``restore``, then ``release``, which is harmless twice.

    Attributes:
        path: the lock's file.
        before: the index as it was when the lock was taken.
    """

    def __init__(self, repository: Repository, owner: str) -> None:
        """Name the lock of a tree's index; ``owner`` is what ``clear_stale`` will know it by."""
        self.repository = repository
        self.owner = owner
        self.path = repository.index_path + ".lock"
        self.before: IndexFile | None = None
        self._inode: tuple[int, int] | None = None

    def take(self) -> None:
        """Take the lock, and read the index.

        Raises:
            Conflict: ``conflict.index_locked``: another git command has it.
            Failed: ``failed.checkpoint_git``: it can't be made.
        """
        # Written first and then linked to the lock's name: so the lock says whose it is from its first moment on.
        signed = _signed(self.path, self.owner)
        try:
            descriptor = os.open(signed, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o644)
            try:
                os.write(descriptor, _SIGNATURE + self.owner.encode() + b"\n")
                found = os.fstat(descriptor)
                self._inode = (found.st_dev, found.st_ino)
            finally:
                os.close(descriptor)
            self._link(signed)
            self.before = read_index(self.repository)
        except FileExistsError as error:
            raise Conflict(
                "index_locked",
                f"{self.path} exists: another git command is at work in this repository. Wait for it, or remove the file if "
                "no git command is running, then try again",
                repo=self.repository.path,
            ) from error
        except OSError as error:
            self.release()
            raise Failed(
                "checkpoint_git", f"{self.path} can't be made: {error.strerror}", reason=str(error)
            ) from error
        finally:
            with contextlib.suppress(OSError):
                os.unlink(signed)

    def _link(self, signed: str) -> None:
        try:
            os.link(signed, self.path)
        except OSError as error:
            if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
                raise
            # No hard links here: a kill in the next two lines leaves a lock without a name in it.
            descriptor = os.open(self.path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o644)
            found = os.fstat(descriptor)
            self._inode = (found.st_dev, found.st_ino)
            os.write(descriptor, _SIGNATURE + self.owner.encode() + b"\n")
            os.close(descriptor)

    def replace(self, index: IndexFile) -> None:
        """Put a new index in place, whole; the lock stays, and the old file is kept beside it until ``release``.

        Raises:
            OSError: it can't be written; the index is as it was.
        """
        place = self.repository.index_path
        self._prepare(index)
        try:
            with contextlib.suppress(FileNotFoundError):
                _link_or_copy(place, place + _OLD)
            os.rename(place + _PREPARED, place)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(place + _PREPARED)
            raise

    def _prepare(self, index: IndexFile) -> None:
        prepared = self.repository.index_path + _PREPARED
        descriptor = os.open(prepared, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
        try:
            view = memoryview(index.data)
            while view:
                view = view[os.write(descriptor, view) :]
            os.fchmod(descriptor, index.mode)
            os.utime(descriptor, ns=(index.mtime_ns, index.mtime_ns))
            os.fsync(descriptor)
        except BaseException:
            with contextlib.suppress(OSError):
                os.unlink(prepared)
            raise
        finally:
            os.close(descriptor)

    def restore(self) -> None:
        """Put back the very file that was there when the lock was taken; that needs no room on the disk.

        Raises:
            OSError: it can't be put back.
        """
        place = self.repository.index_path
        if self.before is None:
            with contextlib.suppress(FileNotFoundError):
                os.unlink(place)
        else:
            os.rename(place + _OLD, place)

    def release(self) -> None:
        """Give the lock up, and the old index with it; a lock that isn't this one stays."""
        inode, self._inode = self._inode, None
        with contextlib.suppress(OSError):
            found = os.lstat(self.path)
            if inode == (found.st_dev, found.st_ino):
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(self.repository.index_path + _OLD)
                os.unlink(self.path)


def clear_stale(repository: Repository, owner: str) -> bool:
    """Remove an index lock that a process of this owner left when it was killed; the caller knows that none is at work any more."""
    place = repository.index_path
    removed = False
    with contextlib.suppress(OSError):
        os.unlink(_signed(place + ".lock", owner))
    if _is_of(place + ".lock", owner):
        for left in (_PREPARED, _OLD, ".lock"):
            with contextlib.suppress(OSError):
                os.unlink(place + left)
                removed = left == ".lock"
    return removed


def _signed(path: str, owner: str) -> str:
    return f"{path}.{hashlib.sha256(owner.encode()).hexdigest()[:16]}"


def _is_of(path: str, owner: str) -> bool:
    try:
        descriptor = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_CLOEXEC | os.O_NONBLOCK)
    except OSError:
        return False
    try:
        return os.read(descriptor, 512) == _SIGNATURE + owner.encode() + b"\n"
    except OSError:
        return False
    finally:
        os.close(descriptor)


def _link_or_copy(place: str, other: str) -> None:
    """A second name for a file; a copy where there are no hard links."""
    with contextlib.suppress(FileNotFoundError):
        os.unlink(other)
    try:
        os.link(place, other)
    except OSError as error:
        if error.errno not in (errno.EPERM, errno.ENOTSUP, errno.ENOSYS, errno.EMLINK):
            raise
        shutil.copy2(place, other)


class BranchLock:
    """git's lock on the branch that HEAD is on, or on a detached HEAD, with the move that waits for it.

    ``take``, then ``move``, after which the branch is locked again at its new commit, then perhaps ``move_back``; ``release`` at the end. One
    ``git update-ref`` holds the lock, prepared and not committed, and gives it up by itself when this process ends. That the way
    back is prepared means that it needs no room on the disk.
    """

    def __init__(self, repository: Repository, head: Head, to: str, message: str) -> None:
        """Prepare nothing yet: ``head`` is where HEAD is supposed to be, ``to`` where it goes, ``message`` what the reflog says."""
        self.repository = repository
        self.head = head
        self.to = to
        self.message = message
        self.name = "HEAD" if head.branch is None else f"refs/heads/{head.branch}"
        self._child: subprocess.Popen[bytes] | None = None

    def take(self) -> None:
        """Lock the branch at the commit where it is supposed to be.

        Raises:
            Conflict: ``conflict.branch_locked``: it isn't there any more, or another git command has the lock.
            Unsupported: ``unsupported.git``: there is no git on the PATH.
        """
        command = ["git", "-C", self.repository.path, "update-ref", "-m", self.message]
        if self.head.branch is None:
            command.append("--no-deref")
        # No program of anybody else's runs here: a reference-transaction hook would.
        hooks = {
            "GIT_CONFIG_COUNT": "1",
            "GIT_CONFIG_KEY_0": "core.hooksPath",
            "GIT_CONFIG_VALUE_0": "/dev/null",
        }
        try:
            self._child = subprocess.Popen(
                [*command, "--stdin", "-z"],
                stdin=subprocess.PIPE,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
                env=process.environment(self.repository.path, hooks),
                start_new_session=True,  # Ctrl-C is for us to answer, not for git
            )
        except FileNotFoundError as error:
            raise Unsupported("git", "there is no git on the PATH; install git 2.31 or newer") from error
        if not self._prepared(self.to, self.head.commit or ""):
            said = self._end()
            raise Conflict(
                "branch_locked",
                f"{self.name} of {self.repository.path} can't be locked: {said or 'git gave no reason'}; wait for the git "
                "command that is at work there, then begin again with a dry run",
                repo=self.repository.path,
            )

    def move(self) -> None:
        """Let the branch go to its new commit, and lock it there.

        Raises:
            GitFailed: git could not; the branch is where it was, or, when only the new lock failed, where it was to go.
        """
        self._commit()
        if not self._prepared(self.head.commit or "", self.to):
            raise process.GitFailed(["update-ref"], 128, self._end().encode())

    def move_back(self) -> None:
        """Let the branch go back to where it was, if it isn't there.

        Raises:
            GitFailed: git could not, or the branch has been moved on by somebody else.
        """
        if self.repository.head() == self.head:
            return
        if self._child is None:
            arguments = ["update-ref", "-m", self.message]
            if self.head.branch is None:
                arguments.append("--no-deref")
            process.run(self.repository.path, [*arguments, self.name, self.head.commit or "", self.to])
            self.repository.reopen()
        else:
            self._commit()

    def release(self) -> None:
        """Give the lock up; the branch stays where it is. Harmless when done already."""
        if self._child is not None:
            self._end()

    def _commit(self) -> None:
        done = self._say("commit\0", b"commit: ok\n")
        self.repository.reopen()
        if not done:
            raise process.GitFailed(["update-ref"], 128, self._end().encode())

    def _prepared(self, new: str, old: str) -> bool:
        update = f"start\0update {self.name}\0{new}\0{old}\0prepare\0"
        return self._say(update, b"start: ok\n", b"prepare: ok\n")

    def _say(self, text: str, *answers: bytes) -> bool:
        child = self._child
        assert child is not None
        assert child.stdin is not None
        assert child.stdout is not None
        try:
            child.stdin.write(os.fsencode(text))
            child.stdin.flush()
        except BrokenPipeError:
            return False
        return all(child.stdout.readline() == answer for answer in answers)

    def _end(self) -> str:
        child, self._child = self._child, None
        assert child is not None
        _, said = child.communicate()
        return said.decode("utf-8", "replace").strip()
