"""The one door to the compiled core: its calls, its errors as exceptions, the lifetime of its results.

A result of the core is freed when the last Python object that holds its pointer goes (``owned``). Pointers *into* a result don't
keep it alive, so they never leave the object that holds it: what goes out is copied, or a number.
"""

from __future__ import annotations

import enum
import os
from typing import TYPE_CHECKING, Any

from turnback._core import ffi, lib

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = [
    "CoreError",
    "ErrorCode",
    "call",
    "ffi",
    "lib",
    "owned",
    "rename_exchange",
    "rename_new",
    "sync_filesystem",
]


class ErrorCode(enum.IntEnum):
    """Why a call of the core failed; the values are those of ``enum tb_code``."""

    ARGUMENT = -2
    FORMAT = -3
    UNSUPPORTED = -4
    LIMIT = -5
    SHARED_INDEX = -6
    IO = -7
    CANCELLED = -8
    TIMEOUT = -9


class CoreError(Exception):
    """A call of the C core failed; the layers above say it in the user's words.

    Attributes:
        code: the kind of failure.
        detail: a sentence in ASCII: what was being done, and where it went wrong.
        os_error: the errno of ``ErrorCode.IO``, else 0.
        path: the path it is about (its first 512 bytes), else empty.
    """

    def __init__(self, code: ErrorCode, detail: str, os_error: int = 0, path: bytes = b"") -> None:
        super().__init__(code, detail, os_error, path)
        self.code = code
        self.detail = detail
        self.os_error = os_error
        self.path = path

    def __str__(self) -> str:
        text = self.detail
        if self.os_error:
            text += f": {os.strerror(self.os_error)}"
        if self.path:
            text += f" ({os.fsdecode(self.path)!r})"
        return text


def call(function: Callable[..., int], *arguments: Any) -> None:
    """Call a function of the core that ends in ``tb_error *err`` and returns 0 or a negative code.

    Raises:
        CoreError: it failed.
        MemoryError: it ran out of memory.
    """
    error = ffi.new("tb_error *")
    code = function(*arguments, error)
    if code == 0:
        return
    if code == lib.TB_E_NOMEM:
        raise MemoryError
    detail = bytes(ffi.buffer(error.detail)).split(b"\0", 1)[0].decode("ascii")
    path = bytes(ffi.buffer(error.path, error.path_len))
    raise CoreError(ErrorCode(code), detail, error.os_error, path)


def owned(pointer: Any, free: Callable[[Any], None]) -> Any:
    """The same pointer, freed when nobody holds it any more."""
    return ffi.gc(pointer, free)


def rename_exchange(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> int:
    """Swap what two names stand for, atomically: 0, or a negated errno (``csrc/safe_rename.h``)."""
    return lib.tb_rename_exchange(from_folder, from_name, to_folder, to_name)


def rename_new(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> int:
    """Rename only if the new name is free: 0, or a negated errno (``csrc/safe_rename.h``)."""
    return lib.tb_rename_new(from_folder, from_name, to_folder, to_name)


def sync_filesystem(descriptor: int) -> int:
    """Make everything that was written to a descriptor's filesystem durable: 0, or a negated errno (``csrc/sync.h``)."""
    return lib.tb_sync_filesystem(descriptor)
