"""Blobs, trees and commits in and out of a repository; never the index.

Object ids are hex strings outside and raw bytes inside a tree object. What libgit2 raises comes out as ``Failed("checkpoint_git")`` with
the repository's path; a missing object as ``MissingObject``, so that a caller can fall back to reading the file again (DESIGN 10.1).
"""

from __future__ import annotations

from contextlib import contextmanager
from typing import TYPE_CHECKING

from turnback.changes import FOLDER, Entry
from turnback.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Iterator

    from turnback.gitstore.repo import Repository

IDENTITY = ("venom", "venom@localhost")  # V-138: no identity of the user's is needed, none is read

_BLOB, _TREE = 3, 2


class MissingObject(Failed):
    """An object that should exist doesn't: pruned, or never fetched."""

    def __init__(self, oid: str, path: str) -> None:
        super().__init__(
            "checkpoint_git",
            f"object {oid} is missing from {path}; git fsck tells more",
            reason=f"missing object {oid}",
        )
        self.oid = oid


@contextmanager
def translated(repository: Repository, doing: str) -> Iterator[None]:
    """Turn libgit2's many exceptions into ours, with what was being done and where."""
    import pygit2

    try:
        yield
    except (pygit2.GitError, OSError, KeyError, ValueError) as error:
        # A bare KeyError from the object database, a NotFoundError from what builds on it: both are an object that isn't there.
        if isinstance(error, KeyError):
            raise MissingObject(str(error.args[0]) if error.args else "?", repository.path) from error
        raise Failed("checkpoint_git", f"{doing} in {repository.path}: {error}", reason=str(error)) from error


def exists(repository: Repository, oid: str) -> bool:
    """Whether the object is there (10 microseconds when it isn't: libgit2 looks at the pack folder again).

    A pack that this thread's repository has open answers also when it is gone; ``Repository.reopen`` forgets it.
    """
    with translated(repository, "looking up an object"):
        return oid in repository.libgit2.odb


def read_blob(repository: Repository, oid: str) -> bytes:
    """The bytes of a blob.

    Raises:
        MissingObject: it isn't there.
    """
    with translated(repository, "reading a blob"):
        kind, data = repository.libgit2.odb.read(oid)
    if int(kind) != _BLOB:
        raise Failed("checkpoint_git", f"object {oid} of {repository.path} is no blob", reason="not a blob")
    return bytes(data)


def blob_size(repository: Repository, oid: str) -> int:
    """The size of a blob in bytes, without reading it; 0 when it isn't there (a partial clone)."""
    try:
        with translated(repository, "looking up a blob"):
            kind, size = repository.libgit2.odb.read_header(oid)
    except MissingObject:
        return 0
    return int(size) if int(kind) == _BLOB else 0


def read_tree(repository: Repository, oid: str) -> dict[bytes, Entry]:
    """The entries of one tree object: name (bytes) to entry; a folder has mode ``FOLDER``.

    Raises:
        MissingObject: it isn't there.
    """
    with translated(repository, "reading a tree"):
        kind, data = repository.libgit2.odb.read(oid)
    if int(kind) != _TREE:
        raise Failed("checkpoint_git", f"object {oid} of {repository.path} is no tree", reason="not a tree")
    return parse_tree(data, len(oid) // 2)


def parse_tree(data: bytes, oid_size: int = 20) -> dict[bytes, Entry]:
    """A raw tree object as a dict in git's order."""
    entries: dict[bytes, Entry] = {}
    at = 0
    while at < len(data):
        blank = data.index(b" ", at)
        nul = data.index(b"\0", blank)
        end = nul + 1 + oid_size
        entries[data[blank + 1 : nul]] = Entry(int(data[at:blank], 8), data[nul + 1 : end].hex())
        at = end
    return entries


def tree_bytes(entries: dict[bytes, Entry]) -> bytes:
    """A raw tree object. Made here, since libgit2's builder can't take names that aren't UTF-8."""
    rows = sorted(entries.items(), key=lambda row: row[0] + b"/" if row[1].mode == FOLDER else row[0])
    return b"".join(b"%o %s\0%s" % (entry.mode, name, bytes.fromhex(entry.oid)) for name, entry in rows)


def write_commit(repository: Repository, tree: str, parents: list[str], message: str, at: int) -> str:
    """Make a commit that no ref holds yet, by the project's own identity; nothing is signed.

    Args:
        tree: the tree's id.
        parents: the parents' ids.
        message: the whole message, with its trailers.
        at: milliseconds since the epoch.
    """
    import pygit2

    with translated(repository, "making a commit"):
        signature = pygit2.Signature(*IDENTITY, at // 1000, 0)
        return str(repository.libgit2.create_commit(None, signature, signature, message, tree, parents))
