# The typed face of the C core. A test compares its names with what was compiled (csrc/tb.cdef.h is the source).
from collections.abc import Callable
from typing import Any, TypeAlias

from cffi import FFI

# What a pointer or struct of cffi holds is known at run time only: no static members.
_Data: TypeAlias = Any
_Bytes: TypeAlias = Any

class _FFI:
    NULL: _Data
    error: type[Exception]
    CData: TypeAlias = FFI.CData
    def new(self, cdecl: str, init: object = None) -> _Data: ...
    def gc(self, cdata: _Data, destructor: Callable[[_Data], None], size: int = 0) -> _Data: ...
    def buffer(self, cdata: _Data, size: int = -1) -> FFI.buffer: ...
    def from_buffer(self, cdecl: str, python_buffer: object, require_writable: bool = False) -> _Data: ...
    def unpack(self, cdata: _Data, length: int) -> Any: ...
    def cast(self, cdecl: str, source: object) -> Any: ...
    def addressof(self, cdata: object, *fields: str) -> _Data: ...
    def sizeof(self, cdecl: str | _Data) -> int: ...

ffi: _FFI
lib: _Lib

class _Lib:
    TB_OK: int
    TB_E_NOMEM: int
    TB_E_ARG: int
    TB_E_FORMAT: int
    TB_E_UNSUPPORTED: int
    TB_E_LIMIT: int
    TB_E_SHARED: int
    TB_E_IO: int
    TB_E_CANCELLED: int
    TB_E_TIMEOUT: int

    TB_ENTRY_ASSUME_UNCHANGED: int
    TB_ENTRY_SKIP_WORKTREE: int
    TB_ENTRY_INTENT_TO_ADD: int

    TB_STAT_IGNORE_CASE: int
    TB_WALK_UNTRACKED: int
    TB_WALK_NESTED: int
    TB_WALK_SPECIAL: int
    TB_WALK_UNLISTED: int
    TB_WALK_SKIP_FOLDER: int
    TB_WALK_ATTRIBUTES: int
    TB_WALK_OLD_STARSTAR: int

    TB_INDEX_SPLIT: int
    TB_INDEX_SPARSE: int
    TB_INDEX_TREE: int
    TB_INDEX_BAD_TREE: int

    def tb_index_parse(
        self,
        out: _Data,
        data: _Bytes,
        length: int,
        shared: _Bytes,
        shared_len: int,
        oid_len: int,
        err: _Data,
        /,
    ) -> int: ...
    def tb_index_free(self, index: _Data, /) -> None: ...
    def tb_index_find(self, index: _Data, name: _Bytes, name_len: int, stage: int, /) -> int: ...
    def tb_index_prefix(
        self, start: _Data, end: _Data, index: _Data, folder: _Bytes, folder_len: int, /
    ) -> None: ...
    def tb_index_next_skipped(self, index: _Data, from_: int, name: _Bytes, name_len: int, /) -> int: ...
    def tb_index_tree_find(self, index: _Data, folder: _Bytes, folder_len: int, /) -> int: ...

    TB_STAT_TRUST_CTIME: int
    TB_STAT_FULL: int
    TB_STAT_CHECK_DEV: int
    TB_STAT_FILEMODE: int
    TB_STAT_SYMLINKS: int
    TB_STAT_NSEC: int

    TB_STAT_UNCHANGED: int
    TB_STAT_RACY: int
    TB_STAT_CHANGED: int
    TB_STAT_TYPE_CHANGED: int
    TB_STAT_DELETED: int
    TB_STAT_IS_FOLDER: int
    TB_STAT_GITLINK: int
    TB_STAT_SKIP_WORKTREE: int
    TB_STAT_UNREADABLE: int
    TB_STAT_NARROW: int

    def tb_rename_exchange(self, from_dir: int, from_: bytes, to_dir: int, to: bytes, /) -> int: ...
    def tb_rename_new(self, from_dir: int, from_: bytes, to_dir: int, to: bytes, /) -> int: ...
    def tb_sync_filesystem(self, fd: int, /) -> int: ...
    def tb_walker_new(self) -> _Data: ...
    def tb_walker_free(self, walker: _Data) -> None: ...
    def tb_walk(
        self, out: _Data, walker: _Data, index: _Data, root_fd: int, options: _Data, err: _Data
    ) -> int: ...
    def tb_walk_free(self, result: _Data) -> None: ...
