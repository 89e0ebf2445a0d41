"""One look at a working tree, joined with its index, in one call of the core and without the GIL (``csrc/walk.h``).

What the index vouches for gives no Python object; everything else is an ``Item``. Nothing but folders and ``.gitignore`` files is opened.
"""

from __future__ import annotations

import enum
from typing import TYPE_CHECKING, Any, NamedTuple

from turnback.native.lib import call, ffi, lib, owned

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.native.index import IndexView

__all__ = ["CancelFlag", "EntryState", "Item", "Kind", "Walk", "Walker"]


class Kind(enum.Enum):
    """What an item is; tracked paths have an ``EntryState`` instead."""

    UNTRACKED = enum.auto()
    NESTED = enum.auto()  # an untracked folder with a .git in it
    SPECIAL = enum.auto()  # an untracked pipe, socket or device
    UNLISTED = enum.auto()  # a folder that can't be listed
    SKIP_FOLDER = enum.auto()  # a folder that isn't there, all of it skip-worktree
    ATTRIBUTES = enum.auto()  # a .gitattributes file, besides any other item it has


class EntryState(enum.Enum):
    """How a tracked path on disk stands to its index entry, when the index doesn't vouch for it.

    ``CHANGED`` says that its stat data differ, that another kind of file is there (``Item.mode`` says which), or that it is a conflict or
    intent-to-add. ``RACY`` says that nothing differs, and that the file is too young for that to prove anything. Of both only the content
    tells whether it really differs.
    """

    NARROW = enum.auto()  # unchanged, with permissions narrower than usual
    RACY = enum.auto()
    CHANGED = enum.auto()
    DELETED = enum.auto()  # also: a parent is missing, a file or a link
    FOLDER = enum.auto()  # a folder stands where the index has a file
    GITLINK = enum.auto()  # a nested repository's folder is there: its HEAD is the caller's to compare
    SKIP_WORKTREE = enum.auto()  # not looked at
    UNREADABLE = enum.auto()  # it could not be looked at


_KINDS: dict[int, Kind | EntryState] = {
    lib.TB_WALK_UNTRACKED: Kind.UNTRACKED,
    lib.TB_WALK_NESTED: Kind.NESTED,
    lib.TB_WALK_SPECIAL: Kind.SPECIAL,
    lib.TB_WALK_UNLISTED: Kind.UNLISTED,
    lib.TB_WALK_SKIP_FOLDER: Kind.SKIP_FOLDER,
    lib.TB_WALK_ATTRIBUTES: Kind.ATTRIBUTES,
    lib.TB_STAT_RACY: EntryState.RACY,
    lib.TB_STAT_CHANGED: EntryState.CHANGED,
    lib.TB_STAT_TYPE_CHANGED: EntryState.CHANGED,
    lib.TB_STAT_DELETED: EntryState.DELETED,
    lib.TB_STAT_IS_FOLDER: EntryState.FOLDER,
    lib.TB_STAT_GITLINK: EntryState.GITLINK,
    lib.TB_STAT_SKIP_WORKTREE: EntryState.SKIP_WORKTREE,
    lib.TB_STAT_UNREADABLE: EntryState.UNREADABLE,
    lib.TB_STAT_NARROW: EntryState.NARROW,
}


class CancelFlag:
    """Stops a running walk from another thread: ``set()``, and it ends with ``ErrorCode.CANCELLED``."""

    __slots__ = ("_flag",)

    def __init__(self) -> None:
        self._flag = ffi.new("int32_t *")

    def set(self) -> None:
        """Ask the walk to stop; it looks between folders."""
        self._flag[0] = 1

    @property
    def pointer(self) -> Any:
        """For the core."""
        return self._flag


class Item(NamedTuple):
    """One path that the index doesn't vouch for.

    Attributes:
        kind: what it is.
        position: in the index, None when it is untracked.
        path: of an untracked one; empty when there is a position.
        mode: ``st_mode``; 0 when nothing was seen.
        size: bytes; of a ``SKIP_FOLDER`` the number of entries beneath it, from ``position`` on.
        mtime_ns, ctime_ns, inode, device: as ``os.stat_result`` has them.
    """

    kind: Kind | EntryState
    position: int | None
    path: bytes
    mode: int
    size: int
    mtime_ns: int
    ctime_ns: int
    inode: int
    device: int


class Walk:
    """What one look found.

    Attributes:
        items: in no order.
        stat_calls, open_calls, folders_listed, ignore_lookups, ignore_reads, threads: the work done.
    """

    __slots__ = (
        "folders_listed",
        "ignore_lookups",
        "ignore_reads",
        "items",
        "open_calls",
        "stat_calls",
        "threads",
    )

    def __init__(self, result: Any) -> None:
        names = result.names
        self.items = [
            Item(
                _KINDS[item.kind],
                None if item.position < 0 else item.position,
                bytes(ffi.buffer(names + item.path_off, item.path_len)),
                item.value.mode,
                item.value.size,
                item.value.mtime_ns,
                item.value.ctime_ns,
                item.value.ino,
                item.value.dev,
            )
            for item in ffi.unpack(result.items, result.count)
        ]
        self.stat_calls: int = result.stat_calls
        self.open_calls: int = result.open_calls
        self.folders_listed: int = result.folders_listed
        self.ignore_lookups: int = result.ignore_lookups
        self.ignore_reads: int = result.ignore_reads
        self.threads: int = result.threads


class Walker:
    """Walks one tree again and again; keeps its parsed ``.gitignore`` files. One walk at a time."""

    __slots__ = ("_walker",)

    def __init__(self) -> None:
        made = lib.tb_walker_new()
        if made == ffi.NULL:
            raise MemoryError
        self._walker = owned(made, lib.tb_walker_free)

    def walk(
        self,
        view: IndexView,
        root_fd: int,
        index_mtime_ns: int,
        *,
        excludes_file: bytes | None = None,
        info_exclude: bytes | None = None,
        hidden: bytes = b"",
        start: bytes = b"",
        ignore_case: bool = False,
        old_starstar: bool = False,
        rules: Sequence[tuple[bytes, bytes]] = (),
        file_mode: bool = True,
        symlinks: bool = True,
        trust_ctime: bool = True,
        full: bool = True,
        nanoseconds: bool = True,
        usual_permissions: int | None = None,
        threads: int = 0,
        deadline: float | None = None,
        cancel: CancelFlag | None = None,
    ) -> Walk:
        """Look at the whole tree, or at one folder of it.

        What is tracked is looked at by git's rule, racy entries included (``csrc/stat_data.h``); assume-unchanged is never believed.

        Args:
            view: the index.
            root_fd: the open folder of the tree.
            index_mtime_ns: modification time of the index file.
            excludes_file, info_exclude: the texts of the user's and the repository's own rules.
            hidden: names that begin with this are not there.
            start: look at this folder only, and as a plain one, whatever ``.git`` it has.
            ignore_case: ``core.ignoreCase``.
            old_starstar: agree with a git before 2.51.2 about ``x**/y``.
            rules: folder and text of each ``.gitignore`` that isn't checked out (skip-worktree).
            file_mode: ``core.fileMode``.
            symlinks: ``core.symlinks``.
            trust_ctime: ``core.trustctime``.
            full: ``core.checkStat`` is not ``minimal``.
            nanoseconds: compare them too, where both sides have them; git, as it is usually built, does not.
            usual_permissions: of a new plain file; unchanged files with narrower ones are then ``NARROW``.
            threads: 0 takes as many as pay off.
            deadline: by ``time.monotonic``.
            cancel: stops the walk from another thread.

        Raises:
            CoreError: ``TIMEOUT``, ``CANCELLED``, or too few descriptors (``IO``).
        """
        options = ffi.new("tb_walk_options *")
        options.stat.flags = (
            (lib.TB_STAT_FILEMODE if file_mode else 0)
            | (lib.TB_STAT_SYMLINKS if symlinks else 0)
            | (lib.TB_STAT_TRUST_CTIME if trust_ctime else 0)
            | (lib.TB_STAT_FULL if full else 0)
            | (lib.TB_STAT_NSEC if nanoseconds else 0)
            | (lib.TB_STAT_IGNORE_CASE if ignore_case else 0)
        )
        options.stat.threads = threads
        options.stat.index_mtime_ns = index_mtime_ns
        options.stat.usual_permissions = usual_permissions or 0
        # 0 means none, so a deadline that passed at or before the clock's start is the first nanosecond.
        options.stat.deadline_ns = 0 if deadline is None else max(1, int(deadline * 1_000_000_000))
        options.stat.cancel = ffi.NULL if cancel is None else cancel.pointer
        options.flags = lib.TB_WALK_OLD_STARSTAR if old_starstar else 0
        held = []
        for name, text in (
            ("excludes_file", excludes_file),
            ("info_exclude", info_exclude),
            ("hidden", hidden),
            ("start", start),
        ):
            if text is not None:
                buffer = ffi.new("char[]", text)
                held.append(buffer)
                part = getattr(options, name)
                part.bytes = buffer
                part.len = len(text)
        if rules:
            table = ffi.new("tb_walk_rules[]", len(rules))
            for row, (folder, text) in zip(table, sorted(rules), strict=True):
                for part, content in ((row.folder, folder), (row.text, text)):
                    buffer = ffi.new("char[]", content)
                    held.append(buffer)
                    part.bytes = buffer
                    part.len = len(content)
            options.rules = table
            options.rules_count = len(rules)
        made = ffi.new("tb_walk_result **")
        call(lib.tb_walk, made, self._walker, view.pointer, root_fd, options)
        return Walk(owned(made[0], lib.tb_walk_free))
