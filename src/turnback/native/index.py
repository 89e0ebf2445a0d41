"""git's index, read without git: what is tracked, and which trees git knows already.

``IndexView`` holds the C core's arrays; a Python object is made for an entry only when somebody asks for it, never for the
hundred thousand that are unchanged. The file's bytes are handed in: reading them (and the shared file of a split
index) is the caller's, and so is checking the trailing checksum, where that is wanted (``checksum_ok``).

What is refused, and why, stands in ``csrc/index.h``; everything refused is a ``CoreError``.
"""

from __future__ import annotations

import hashlib
import re
from typing import TYPE_CHECKING, Any, NamedTuple, Self

from turnback.native.lib import CoreError, ErrorCode, call, ffi, lib, owned

if TYPE_CHECKING:
    from collections.abc import Iterator

__all__ = ["IndexEntry", "IndexView", "TreeNode", "TreeNodes"]

_HASHES = {20: "sha1", 32: "sha256"}
_LINK = re.compile(rb"link(?=(.{4}))", re.DOTALL)


class IndexEntry(NamedTuple):
    """One path of the index.

    Attributes:
        path: relative to the tree; of a sparse index's folder it ends in ``/``.
        mode: git's: 0o100644, 0o100755, 0o120000, 0o160000, or 0o040000 for a sparse folder.
        oid: of the blob, the commit (gitlink) or the tree (sparse folder).
        stage: 0, or 1 to 3 in a conflict.
        skip_worktree: the index keeps its content, whatever the tree has.
        assume_unchanged: the user asked git not to look.
        intent_to_add: added without content.
        size: bytes of the file when it was added, modulo 2**32.
        mtime_ns: its modification time then.
    """

    path: bytes
    mode: int
    oid: bytes
    stage: int
    skip_worktree: bool
    assume_unchanged: bool
    intent_to_add: bool
    size: int
    mtime_ns: int


class TreeNode(NamedTuple):
    """A folder in the index's cache tree: its tree object (None: changed since) and how many entries are beneath it (-1 then)."""

    oid: bytes | None
    entry_count: int


class TreeNodes:
    """The cache tree, by folder (``b""``: the root). A look-up is one call of the core."""

    __slots__ = ("_index",)

    def __init__(self, index: Any) -> None:
        self._index = index

    def get(self, folder: bytes) -> TreeNode | None:
        """The node of a folder; None when git has none, or one whose number of entries no longer fits."""
        position = lib.tb_index_tree_find(self._index, folder, len(folder))
        if position < 0:
            return None
        node = self._index.tree[position]
        if node.entry_count < 0:
            return TreeNode(None, -1)
        return TreeNode(bytes(ffi.buffer(node.oid, self._index.oid_len)), node.entry_count)

    def __len__(self) -> int:
        return int(self._index.tree_count)

    def folders(self) -> list[bytes]:
        """Every folder that has a node, parents first: for tests and doctors."""
        paths: list[bytes] = []
        for position in range(len(self)):
            node = self._index.tree[position]
            name = bytes(ffi.buffer(self._index.tree_names + node.name_off, node.name_len))
            above = paths[node.parent] if position else b""
            paths.append(above + b"/" + name if above else name)
        return paths


class IndexView:
    """A parsed index: read-only, in git's order, safe to use from several threads.

    Attributes:
        version: 2, 3 or 4.
        oid_size: bytes of an object id, 20 or 32.
        is_split: it was merged with a shared file.
        is_sparse: some entries may be folders.
        tree_nodes: the cache tree.
    """

    __slots__ = ("_index", "is_sparse", "is_split", "oid_size", "tree_nodes", "version")

    def __init__(self, index: Any) -> None:
        self._index = index
        self.version: int = index.version
        self.oid_size: int = index.oid_len
        self.is_split = bool(index.flags & lib.TB_INDEX_SPLIT)
        self.is_sparse = bool(index.flags & lib.TB_INDEX_SPARSE)
        self.tree_nodes = TreeNodes(index)

    @classmethod
    def parse(cls, data: bytes, shared: bytes | None = None, oid_size: int = 20) -> Self:
        """Read the bytes of an index file.

        Args:
            data: the whole file.
            shared: the whole shared file, if it is a split index (``shared_oid`` says which).
            oid_size: 20 (sha1) or 32 (sha256).

        Raises:
            CoreError: it is damaged, has a mandatory extension that isn't known, or is split and ``shared`` is missing
                or another one (``ErrorCode.SHARED_INDEX``).
        """
        made = ffi.new("tb_index **")
        own = ffi.from_buffer("uint8_t[]", data)
        base = ffi.NULL if shared is None else ffi.from_buffer("uint8_t[]", shared)
        call(lib.tb_index_parse, made, own, len(data), base, len(shared or b""), oid_size)
        return cls(owned(made[0], lib.tb_index_free))

    @classmethod
    def empty(cls, oid_size: int = 20) -> Self:
        """What a repository has whose index was never written."""
        return cls.parse(b"DIRC\0\0\0\2\0\0\0\0" + bytes(oid_size), oid_size=oid_size)

    @staticmethod
    def shared_oid(data: bytes, oid_size: int = 20) -> bytes | None:
        """The id of the shared file (``sharedindex.<hex>`` in the git folder), None when the index isn't split.

        Raises:
            CoreError: it is damaged.
        """
        # It stands behind the entries, so finding it for certain is parsing; most files can't have it, and that is seen at once.
        if not any(
            oid_size <= int.from_bytes(found[1]) <= len(data) - found.end() - 4 - oid_size
            for found in _LINK.finditer(data)
        ):
            return None
        try:
            IndexView.parse(data, None, oid_size)
        except CoreError as error:
            if error.code is ErrorCode.SHARED_INDEX:
                return bytes.fromhex(error.detail)
            raise
        return None

    def checksum_ok(self, data: bytes) -> bool:
        """Whether ``data`` (what was parsed) has the checksum at its end; true also when git was told not to write one."""
        found = bytes(ffi.buffer(self._index.checksum, self.oid_size))
        if not any(found):
            return True
        hashed = memoryview(data)[: self._index.hashed_len]
        return hashlib.new(_HASHES[self.oid_size], hashed, usedforsecurity=False).digest() == found

    def __len__(self) -> int:
        return int(self._index.count)

    @property
    def pointer(self) -> Any:
        """For other calls of the core; good as long as this view lives."""
        return self._index

    @property
    def has_conflicts(self) -> bool:
        """Whether any entry is one side of a conflict."""
        return bool(self._index.conflicts)

    def __iter__(self) -> Iterator[IndexEntry]:
        """Every entry, as an object each: for tests and small indexes."""
        return map(self.entry, range(len(self)))

    def entry(self, position: int) -> IndexEntry:
        """The entry at a position.

        Raises:
            IndexError: there is none.
        """
        if not 0 <= position < len(self):
            raise IndexError(position)
        entry = self._index.entries[position]
        flags = entry.flags
        return IndexEntry(
            bytes(ffi.buffer(self._index.names + entry.name_off, entry.name_len)),
            entry.mode,
            bytes(ffi.buffer(entry.oid, self.oid_size)),
            entry.stage,
            bool(flags & lib.TB_ENTRY_SKIP_WORKTREE),
            bool(flags & lib.TB_ENTRY_ASSUME_UNCHANGED),
            bool(flags & lib.TB_ENTRY_INTENT_TO_ADD),
            entry.size,
            entry.mtime_s * 1_000_000_000 + entry.mtime_ns,
        )

    def path(self, position: int) -> bytes:
        """Only the path of an entry.

        Raises:
            IndexError: there is none.
        """
        if not 0 <= position < len(self):
            raise IndexError(position)
        entry = self._index.entries[position]
        return bytes(ffi.buffer(self._index.names + entry.name_off, entry.name_len))

    def find(self, path: bytes, stage: int | None = None) -> int | None:
        """The position of a path: of one stage of it, or, with None, of its first entry whatever the stage."""
        found = lib.tb_index_find(self._index, path, len(path), stage or 0)
        if found >= 0:
            return int(found)
        position = -1 - int(found)
        # Not there as stage 0; what stands in its place may be a conflict's stage of the same path.
        if stage is None and position < len(self) and self.path(position) == path:
            return position
        return None

    def skipped_named(self, name: bytes) -> list[int]:
        """The positions of skip-worktree entries whose last component is this name."""
        found = []
        position = lib.tb_index_next_skipped(self._index, 0, name, len(name))
        while position >= 0:
            found.append(int(position))
            position = lib.tb_index_next_skipped(self._index, position + 1, name, len(name))
        return found

    def prefix(self, folder: bytes) -> range:
        """The positions of all entries beneath a folder, given with or without a ``/`` at its end (``b""``: all)."""
        folder = folder.removesuffix(b"/")
        ends = ffi.new("uint32_t[2]")
        lib.tb_index_prefix(ends, ends + 1, self._index, folder, len(folder))
        return range(ends[0], ends[1])
