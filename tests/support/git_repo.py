"""A real repository with story verbs, the recipe's own tree as an oracle, and a snapshot of everything a user could notice."""

from __future__ import annotations

import os
import shutil
import stat
import subprocess
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Self

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

Name = str | bytes

_OLD = 1_700_000_000_123_456_789  # a modification time of long ago

# Fixed, so that the ids of commits are the same in every run.
IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_AUTHOR_DATE": "2026-01-01T00:00:00Z",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
    "GIT_COMMITTER_DATE": "2026-01-01T00:00:00Z",
}

# The configuration that the contract's recipe pins (4.1); no line-ending refusal, since a capture must not fail where `git add` would; and no
# split index for the copy, since git would freshen the shared file of the user's.
PINNED = (
    "-c", "core.hooksPath=/dev/null",
    "-c", "core.fsmonitor=false",
    "-c", "core.untrackedCache=false",
    "-c", "core.quotePath=false",
    "-c", "core.safecrlf=false",
    "-c", "core.splitIndex=false",
    "-c", "status.showUntrackedFiles=normal",
    "-c", "advice.addEmbeddedRepo=false",
)  # fmt: skip


@dataclass(frozen=True)
class FileState:
    """What ``lstat`` and a read say about one file or link."""

    mode: int
    mtime_ns: int
    inode: int
    content: bytes


@dataclass(frozen=True)
class Snapshot:
    """Everything of a tree that a user could notice: its files, those of ``.git`` (objects apart), and the refs by name."""

    files: dict[bytes, FileState]
    refs: dict[str, str]

    def changes(self, later: Snapshot) -> list[str]:
        """What is different in a later snapshot, in words: empty when nobody could tell that anything ran."""
        found = []
        for path in sorted(self.files.keys() | later.files.keys()):
            before, after = self.files.get(path), later.files.get(path)
            if before != after:
                found.append(f"{_what(before, after)} {os.fsdecode(path)}")
        refs = sorted(self.refs.keys() | later.refs.keys())
        moved = [name for name in refs if self.refs.get(name) != later.refs.get(name)]
        return found + [f"ref {name}: {self.refs.get(name)} -> {later.refs.get(name)}" for name in moved]


def _what(before: FileState | None, after: FileState | None) -> str:
    if before is None:
        return "made"
    if after is None:
        return "gone"
    members = ("mode", "mtime_ns", "inode", "content")
    return "+".join(name for name in members if getattr(before, name) != getattr(after, name))


class GitRepo:
    """A working tree with a repository, made by git itself.

    Attributes:
        path: the tree's folder.
    """

    def __init__(self, path: Path) -> None:
        self.path = path

    @classmethod
    def init(cls, path: Path, *options: str, branch: str = "main") -> Self:
        """A new, empty repository."""
        path.mkdir(parents=True, exist_ok=True)
        made = cls(path)
        made.git("init", "-q", "-b", branch, *options)
        return made

    # story verbs

    def write(self, name: Name, content: str | bytes, *, mode: int | None = None) -> Path:
        """Write a file as an editor would, its folders too."""
        place = self.at(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_bytes(content.encode() if isinstance(content, str) else content)
        if mode is not None:
            place.chmod(mode)
        return place

    def link(self, name: Name, target: Name) -> Path:
        """Make a symbolic link."""
        place = self.at(name)
        place.parent.mkdir(parents=True, exist_ok=True)
        place.symlink_to(os.fsdecode(target))
        return place

    def read(self, name: Name) -> bytes:
        """A file's bytes."""
        return self.at(name).read_bytes()

    def delete(self, name: Name) -> None:
        """Remove a file, a link, or a folder with everything in it."""
        place = self.at(name)
        if place.is_dir() and not place.is_symlink():
            shutil.rmtree(place)
        else:
            place.unlink()

    def at(self, name: Name) -> Path:
        """The place of a name in the tree."""
        return self.path / os.fsdecode(name)

    def exists(self, name: Name) -> bool:
        """Whether something is there, a dangling link included."""
        return os.path.lexists(self.at(name))

    def commit(self, message: str = "a commit", *, add: bool = True) -> str:
        """Stage everything (unless ``add`` is false), commit, and give the commit's id."""
        if add:
            self.git("add", "-A")
        self.git("commit", "-q", "--allow-empty", "-m", message)
        return self.text("rev-parse", "HEAD")

    def settle(self) -> None:
        """Let time pass: every tracked file is old, and the index vouches for those that it knows (none of them is racy)."""
        for path in self.git("ls-files", "-z").split(b"\0")[:-1]:
            if self.exists(path) and self.at(path).lstat().st_mtime_ns != _OLD:
                os.utime(self.at(path), ns=(_OLD, _OLD), follow_symlinks=False)
        self.git("update-index", "-q", "--refresh", check=False)

    # git

    def git(
        self,
        *arguments: Name,
        data: bytes | None = None,
        check: bool = True,
        extra: Mapping[str, str] | None = None,
    ) -> bytes:
        """Run git in the tree, as a person with a fixed name and clock; its output, or an error with what it said."""
        done = subprocess.run(
            ["git", *arguments],
            cwd=self.path,
            input=b"" if data is None else data,
            capture_output=True,
            env={**os.environ, **IDENTITY, **(extra or {})},
            check=False,
        )
        if check and done.returncode != 0:
            said = done.stderr.decode("utf-8", "replace")
            raise AssertionError(f"git {arguments} ended with {done.returncode}: {said}")
        return done.stdout

    def text(self, *arguments: Name, extra: Mapping[str, str] | None = None) -> str:
        """The output of git as text, without the last newline."""
        return self.git(*arguments, extra=extra).decode("utf-8", "surrogateescape").rstrip("\n")

    @property
    def git_dir(self) -> Path:
        """The absolute git folder of this tree."""
        return Path(self.text("rev-parse", "--path-format=absolute", "--git-dir"))

    def refs(self) -> dict[str, str]:
        """Every ref with what it points at."""
        rows = self.text("for-each-ref", "--format=%(objectname) %(refname)").splitlines()
        return {name: oid for oid, _, name in (row.partition(" ") for row in rows)}

    def ls_tree(self, treeish: str) -> dict[bytes, tuple[str, str]]:
        """Every entry beneath a tree: path to (mode, object id)."""
        found = {}
        for row in self.git("ls-tree", "-r", "-z", "--full-tree", treeish).split(b"\0")[:-1]:
            facts, _, path = row.partition(b"\t")
            mode, _, oid = facts.decode().split(" ")
            found[path] = (mode, oid)
        return found

    # the oracle

    def tree_of_add_all(self, skip: Iterable[Name] = (), *, sparse: bool = False) -> str:
        """The tree that the contract's recipe gives now (4.1): copied index, ``git add -A``, ``write-tree``.

        The copy keeps the index's mtime, else racy entries would be trusted; objects go to a folder that is removed, so that whatever
        is being tested has to write its own. ``git ls-tree`` can't read the tree afterwards: ``ls_tree_of_add_all`` can.

        Args:
            skip: paths that a capture leaves out (too big, unreadable, ...).
            sparse: take what lies outside a sparse checkout too; without it git refuses.
        """
        tree, _ = self._add_all(skip, sparse=sparse)
        return tree

    def ls_tree_of_add_all(
        self, skip: Iterable[Name] = (), *, sparse: bool = False
    ) -> dict[bytes, tuple[str, str]]:
        """The recipe's tree as entries, for a message that names the paths on which two trees differ."""
        _, entries = self._add_all(skip, sparse=sparse)
        return entries

    def _add_all(self, skip: Iterable[Name], *, sparse: bool) -> tuple[str, dict[bytes, tuple[str, str]]]:
        with tempfile.TemporaryDirectory(prefix="turnback-oracle-") as scratch:
            index = Path(self.text("rev-parse", "--path-format=absolute", "--git-path", "index"))
            objects = self.text("rev-parse", "--path-format=absolute", "--git-path", "objects")
            copy = Path(scratch, "index")
            if index.exists():
                shutil.copy2(index, copy)
            own = Path(scratch, "objects")
            own.mkdir()
            extra = {
                "GIT_INDEX_FILE": str(copy),
                "GIT_OBJECT_DIRECTORY": str(own),
                "GIT_ALTERNATE_OBJECT_DIRECTORIES": objects,
            }
            flagged = self.git(*PINNED, "ls-files", "-v", "-z", extra=extra).split(b"\0")[:-1]
            assumed = b"".join(row[2:] + b"\0" for row in flagged if row[:1].islower())
            if assumed:
                self.git(
                    *PINNED,
                    "update-index",
                    "-z",
                    "--no-assume-unchanged",
                    "--stdin",
                    data=assumed,
                    extra=extra,
                )
            names = b"".join(b":(exclude,literal)" + os.fsencode(name) + b"\0" for name in skip) + b".\0"
            add = ["add", "-A", *(["--sparse"] if sparse else [])]
            self.git(*PINNED, *add, "--pathspec-from-file=-", "--pathspec-file-nul", data=names, extra=extra)
            tree = self.text(*PINNED, "write-tree", extra=extra)
            entries = {}
            for row in self.git("ls-tree", "-r", "-z", "--full-tree", tree, extra=extra).split(b"\0")[:-1]:
                facts, _, path = row.partition(b"\t")
                mode, _, oid = facts.decode().split(" ")
                entries[path] = (mode, oid)
            return tree, entries

    # what a user could notice

    def snapshot_everything(self, without: Iterable[bytes] = (), *, folders: bool = False) -> Snapshot:
        """Bytes, mode, mtime and inode of every file of the tree and of the git folder (objects apart), and every ref.

        Loose and packed refs are told by name, not by file. A tree's ``.git`` that is a file (a linked worktree) is a file here, and
        the git folder that it names isn't walked.

        Args:
            without: prefixes of paths to leave out.
            folders: also the mode, mtime and inode of each folder: nothing was made in it and taken away again.
        """
        left_out = (b".git/objects/", b".git/refs/", b".git/packed-refs", *without)
        files: dict[bytes, FileState] = {}
        root = os.fsencode(self.path)
        for folder, names, others in os.walk(root):
            links = [name for name in names if os.path.islink(os.path.join(folder, name))]
            inside = [name for name in names if folders and name not in links]
            for name in [*others, *links, *inside]:
                full = os.path.join(folder, name)
                path = os.path.relpath(full, root)
                if not (path + (b"/" if name in inside else b"")).startswith(left_out):
                    files[path] = _state(full)
        return Snapshot(files, self.refs())


def _state(full: bytes) -> FileState:
    found = os.lstat(full)
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(full)
    elif stat.S_ISREG(found.st_mode) and os.access(full, os.R_OK):
        with open(full, "rb") as file:
            content = file.read()
    else:
        content = b""
    return FileState(found.st_mode, found.st_mtime_ns, found.st_ino, content)
