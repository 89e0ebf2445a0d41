"""Find and open the repository of one tree, and read where it stands: git dir, HEAD, branch, an operation under way.

A tree must be a git root of its own: the search never walks up into an enclosing repository (V-143), a bare repository has no
files to save, and one whose files are elsewhere (``core.worktree``) isn't a root. Owner validation is never switched off (DESIGN 10.15). A libgit2 ``Repository`` must not be shared by threads (it aborts
the process), and one that met a ref error keeps a wrong cache: so ``Repository`` here opens a fresh one for each thread that asks,
which costs 0.07 ms, and ``reopen`` gives it up.
"""

from __future__ import annotations

import os
import threading
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.errors import Failed, InvalidParams, Unsupported

if TYPE_CHECKING:
    import pygit2

    from turnback.gitstore.kept import Kept

# The state files of an operation that is half done, and its name in conflict.git_operation. A rebase keeps REBASE_HEAD
# and sometimes CHERRY_PICK_HEAD beside its folder, so the folders are looked at first.
_OPERATIONS = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)


@dataclass(frozen=True, slots=True)
class Head:
    """Where HEAD is: the commit (None when there is none yet) and the branch's short name (None when detached)."""

    commit: str | None
    branch: str | None


class Repository:
    """One tree and its repository.

    Attributes:
        path: the tree's canonical absolute path.
        git_dir: the folder with HEAD and the index; a linked worktree's own.
        common_dir: the folder with the objects and the shared refs.
        key: the tree's name by device and inode when it was opened.
    """

    def __init__(self, path: str) -> None:
        self.path = os.path.realpath(path)
        self.key = tree_key(self.path)
        self._local = threading.local()
        self._making = threading.Lock()
        self._kept: Kept | None = None
        opened = self._open()
        self.git_dir = os.path.realpath(opened.path)
        self.common_dir = _common_dir(self.git_dir)
        self._local.repository = opened

    @property
    def libgit2(self) -> pygit2.Repository:
        """This thread's libgit2 repository."""
        found: pygit2.Repository | None = getattr(self._local, "repository", None)
        if found is None:
            found = self._local.repository = self._open()
        return found

    @property
    def kept(self) -> Kept:
        """What is kept between captures of this tree."""
        with self._making:
            if self._kept is None:
                from turnback.gitstore.kept import Kept

                self._kept = Kept(self)
            return self._kept

    def reopen(self) -> None:
        """Forget this thread's libgit2 repository, after a ref error or when another process changed what it caches."""
        self._local.repository = None

    @property
    def index_path(self) -> str:
        """The index file of this tree."""
        return os.path.join(self.git_dir, "index")

    def head(self) -> Head:
        """Read HEAD.

        Raises:
            Failed: ``failed.checkpoint_git`` when HEAD is damaged.
        """
        import pygit2

        try:
            repository = self.libgit2
            reference = repository.references.get("HEAD")
            if reference is None:
                raise Failed(
                    "checkpoint_git", f"{self.path} has no HEAD; run git fsck there", reason="no HEAD"
                )
            branch = None
            if isinstance(reference.target, str):
                branch = reference.target.removeprefix("refs/heads/")
                resolved = repository.references.get(reference.target)
                if resolved is None:
                    return Head(None, branch)
                reference = resolved.resolve()
            return Head(str(reference.target), branch)
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            raise Failed(
                "checkpoint_git", f"HEAD of {self.path} can't be read: {error}", reason=str(error)
            ) from error

    def operation(self) -> str | None:
        """The merge, rebase, cherry-pick, revert or bisect that is under way in this tree, or None."""
        for name, operation in _OPERATIONS:
            if os.path.lexists(os.path.join(self.git_dir, name)):
                return operation
        return None

    def _open(self) -> pygit2.Repository:
        import pygit2
        from pygit2.enums import RepositoryOpenFlag

        if not os.path.isdir(self.path):
            raise Failed("checkpoint_git", f"the tree {self.path} is missing", reason="the tree is missing")
        if not os.path.lexists(os.path.join(self.path, ".git")):
            if os.path.isfile(os.path.join(self.path, "HEAD")) and os.path.isdir(
                os.path.join(self.path, "objects")
            ):
                raise InvalidParams(
                    "repo", f"{self.path} is a bare repository; it has no files to save. Name a working tree"
                )
            raise InvalidParams(
                "repo",
                f"{self.path} is not the top folder of a git repository; name the folder that holds .git, or run git init there",
            )
        try:
            opened = pygit2.Repository(self.path, RepositoryOpenFlag.NO_SEARCH)
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            raise _refused(self.path, error) from error
        if opened.is_bare or opened.workdir is None:
            raise InvalidParams(
                "repo", f"{self.path} is a bare repository; it has no files to save. Name a working tree"
            )
        if os.path.realpath(opened.workdir) != self.path:
            # core.worktree: what git tracks here lies somewhere else, and the files beside this .git are not its files.
            raise InvalidParams(
                "repo",
                f"the repository in {self.path} keeps its files in {opened.workdir} (core.worktree); its working tree can't be saved",
            )
        return opened


def _refused(path: str, error: Exception) -> Failed | Unsupported:
    """libgit2's refusal as a sentence that names the feature or the command that helps."""
    said = str(error)
    if "not owned by current user" in said:
        return Failed(
            "checkpoint_git",
            f"{path} belongs to another user; if you trust it run: git config --global --add safe.directory {path}",
            reason="not owned by the current user",
        )
    for feature in ("sha256", "extension", "repository version"):
        if feature in said:
            return Unsupported("repository", f"{path} can't be opened: {said}", feature=said)
    return Failed("checkpoint_git", f"{path} can't be opened as a git repository: {said}", reason=said)


def _common_dir(git_dir: str) -> str:
    try:
        with open(os.path.join(git_dir, "commondir"), "rb") as file:
            named = os.fsdecode(file.read().rstrip(b"\r\n"))
    except FileNotFoundError:
        return git_dir
    return os.path.realpath(os.path.join(git_dir, named))


def tree_key(path: str) -> str:
    """The name of a tree that every spelling of its path shares: device and inode (V-034, DESIGN 10.11).

    Raises:
        Failed: ``failed.checkpoint_git`` when the folder is missing.
    """
    try:
        found = os.stat(path)
    except OSError as error:
        raise Failed(
            "checkpoint_git", f"the tree {path} is missing: {error.strerror}", reason="the tree is missing"
        ) from error
    return f"{found.st_dev:x}-{found.st_ino:x}"
