"""Repository paths: bytes inside, two forms in JSON, and the names that may never be written.

A path inside a tree is ``bytes`` with ``/`` between components, relative to the tree's root, exactly as git stores it. In JSON a
path is a string; one that isn't UTF-8 has U+FFFD in place of its bad bytes, and a second member ``path_b64`` has the exact
bytes (DESIGN part 5). A path that comes out of a tree object is never trusted: ``refusal`` says why one may not be
written (a ``.git`` in any spelling that some filesystem folds to it, ``..``, an absolute path), before anything is.
"""

from __future__ import annotations

import base64
import os
import re
from typing import Any

from turnback.errors import InvalidParams

# Names of the files that turnback puts beside a target for the moment of an exchange. Every capture leaves them out by this
# prefix (DESIGN 10.13), so that one left by a killed process is never mistaken for somebody's work.
TEMPORARY_PREFIX = b".turnback-tmp-"

# What HFS+ ignores inside a name: a ``.git`` with one of these in it is ``.git`` there (as git's is_hfs_dotgit).
_HFS_IGNORED = re.compile("[\u200c\u200d\u200e\u200f\u202a-\u202e\u206a-\u206f\ufeff]")
_NTFS_DOTGIT = re.compile(r"(?:\.git|git~1)[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL | re.ASCII)
# .gitmodules as NTFS may spell it (git's is_ntfs_dotgitmodules, its hashed short names apart).
_GITMODULES = re.compile(r"(?:\.gitmodules|gitmod~[1-4])[ .]*(?::.*)?", re.IGNORECASE | re.DOTALL | re.ASCII)


def text(path: bytes) -> str:
    """The path as a string for people and JSON; bytes that aren't UTF-8 come out as U+FFFD."""
    return path.decode("utf-8", "replace")


def is_text(path: bytes) -> bool:
    """Whether the string form is exact, so that no ``path_b64`` is needed."""
    try:
        path.decode("utf-8")
    except UnicodeDecodeError:
        return False
    return True


def members(path: bytes) -> dict[str, str]:
    """The JSON members of a path: ``path``, and ``path_b64`` when the bytes aren't UTF-8."""
    found = {"path": text(path)}
    if not is_text(path):
        found["path_b64"] = base64.b64encode(path).decode("ascii")
    return found


def item(path: bytes) -> str | dict[str, str]:
    """A path as an item in a JSON list of paths: a string, or ``{path, path_b64}`` when the bytes aren't UTF-8."""
    return text(path) if is_text(path) else members(path)


def from_json(value: Any) -> bytes:
    """The exact bytes of a path in either JSON form (a string, or an object with ``path`` and maybe ``path_b64``)."""
    if isinstance(value, str):
        return value.encode("utf-8", "surrogateescape")
    encoded = value.get("path_b64")
    return base64.b64decode(encoded) if encoded is not None else from_json(value["path"])


def refusal(path: bytes, *, link: bool = False, hfs: bool = True) -> str | None:
    """Why this path may not be written or deleted, or None when it may.

    The rules are git's own for a path in a tree (verify_path with protectNTFS), on every platform: a tree made on one machine is
    restored on another.

    Args:
        path: relative to the tree's root.
        link: the entry is a symbolic link: git refuses one in place of ``.gitmodules``.
        hfs: also refuse what only HFS+ folds to ``.git``. A capture doesn't, since git adds such names everywhere but on macOS.
    """
    if not path or path.startswith(b"/"):
        return "an absolute or empty path"
    if b"\0" in path:
        return "a NUL in the name"
    for component in path.split(b"/"):
        if component in (b"", b".", b".."):
            return f"a component {text(component)!r}"
        if _is_dotgit(component, hfs=hfs):
            return "a name that some filesystem takes for .git"
    if link and _GITMODULES.fullmatch(text(path.rpartition(b"/")[2])):
        return "a symbolic link in place of .gitmodules"
    return None


def _is_dotgit(component: bytes, *, hfs: bool) -> bool:
    # Backslash separates components on NTFS: each part is looked at by itself, as git does.
    for part in component.split(b"\\"):
        name = text(part)
        if _NTFS_DOTGIT.fullmatch(name) or (hfs and _HFS_IGNORED.sub("", name).lower() == ".git"):
            return True
    return False


def relative(given: str | bytes | os.PathLike[str], parameter: str = "path") -> bytes:
    """A caller's path inside a tree, as bytes: ``./a``, ``d/../a`` and ``a`` are one path; links are not resolved.

    Raises:
        InvalidParams: ``invalid_params.<parameter>`` when it is absolute, the tree's root, or leaves the tree.
    """
    path = os.fsencode(given)
    shown = text(path)
    if not path or b"\0" in path:
        raise InvalidParams(parameter, f"{shown!r} names no file; give a path inside the tree")
    if path.startswith(b"/"):
        raise InvalidParams(parameter, f"{shown!r} is an absolute path; give it relative to the tree's root")
    normal = os.path.normpath(path)
    if normal == b"..":
        raise InvalidParams(parameter, f"{shown!r} lies outside the tree")
    if normal.startswith(b"../"):
        raise InvalidParams(parameter, f"{shown!r} lies outside the tree")
    if normal == b".":
        raise InvalidParams(parameter, f"{shown!r} is the tree itself; name a file or a folder in it")
    return normal


def parents(path: bytes) -> list[bytes]:
    """The folders above a path, outermost first: ``a/b/c`` has ``a`` and ``a/b``."""
    found = []
    at = path.find(b"/")
    while at >= 0:
        found.append(path[:at])
        at = path.find(b"/", at + 1)
    return found
