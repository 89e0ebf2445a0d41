"""Where HEAD is and may go, and the index that belongs there, as git itself has it (7.5).

The index is made by git in a scratch copy: ``read-tree -m`` keeps the flags and stat data of the entries that survive. What stood in the
index alone, staged and then changed again in the files, is found here too, so that the caller can keep it: no checkpoint holds
that. Whether HEAD may move is decided above; the locks are ``turnback.gitstore.locks``.
"""

from __future__ import annotations

import os
import shutil
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.changes import GITLINK, Entry
from turnback.errors import Failed
from turnback.gitstore import objects, process, trees
from turnback.gitstore.locks import IndexFile

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository


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


def commit_time(repository: Repository, commit: str) -> int:
    """When a commit was made, in seconds; far in the future for one that can't be read, which is the careful answer to "since then?"."""
    try:
        with objects.translated(repository, "reading a commit"):
            return int(getattr(repository.libgit2[commit], "commit_time"))  # noqa: B009 - pygit2 types the lookup as a bare Object
    except (Failed, AttributeError):
        return 1 << 62


def _lines(output: bytes) -> list[str]:
    # A ref's name may hold other signs that splitlines takes for an end.
    return os.fsdecode(output).split("\n")[:-1]


def index_at(repository: Repository, commit: str, scratch: str) -> IndexFile:
    """The user's index moved to a commit; the file itself is only read.

    Entries that survive keep their flags and stat data; the rest is looked up in the tree afresh.

    Raises:
        GitFailed: git refuses (an unmerged index).
    """
    copy = os.path.join(scratch, "moved.index")
    mode = None
    try:
        if os.path.exists(repository.index_path):
            # With its times: a copy with a new one would make every racy entry look settled.
            shutil.copy2(repository.index_path, copy)
            mode = stat.S_IMODE(os.stat(copy).st_mode)
        extra = {"GIT_INDEX_FILE": copy}
        # -i: the files are where they should be already. Without it git refuses each one that the index doesn't vouch for.
        process.run(repository.path, ["read-tree", "-i", "-m", commit], extra=extra)
        # Status 1 only says that some files differ from the index.
        process.run(repository.path, ["update-index", "-q", "--refresh"], extra=extra, accept=(0, 1))
        with open(copy, "rb") as file:
            made = os.fstat(file.fileno())
            return IndexFile(
                file.read(), made.st_mtime_ns, stat.S_IMODE(made.st_mode) if mode is None else mode
            )
    finally:
        for name in (copy, copy + ".lock"):
            if os.path.lexists(name):
                os.unlink(name)


def staged_alone(repository: Repository, commit: str, tree: str) -> dict[bytes, Entry]:
    """What only the index holds: entries that are neither a commit's nor a tree's (the files as a checkpoint has them).

    Raises:
        GitFailed: git can't read the index.
    """
    rows = process.split(
        process.run(repository.path, ["diff-index", "--cached", "--no-renames", "-r", "-z", commit])
    )
    staged = {}
    for facts, path in zip(rows[::2], rows[1::2], strict=True):
        _, mode, _, oid, _ = facts.decode().split(" ")
        if int(mode, 8) not in (0, GITLINK) and set(oid) != {"0"}:
            staged[path] = Entry(int(mode, 8), oid)
    held = trees.lookup(repository, tree, staged)
    return {path: entry for path, entry in staged.items() if path not in held or held[path].oid != entry.oid}
