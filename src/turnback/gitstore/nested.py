"""Repositories inside a tree: submodules, clones that somebody made there, linked worktrees.

What counts as one, and which commit it is at, is git's own rule for a gitlink: a ``.git`` folder or file that leads to a git folder, and its HEAD
followed through the refs. Neither asks who owns the repository or which format its objects have, so libgit2, which does, isn't used.
"""

from __future__ import annotations

import contextlib
import os
import re
import stat

from turnback.gitstore import process

_OID = re.compile(rb"[0-9a-f]{40}(?=\s|$)")
_SYMBOLIC = re.compile(rb"ref:\s*(refs/\S+)")
_HOPS = 5  # as far as git follows symbolic refs
_OWN = (b"refs/bisect/", b"refs/worktree/", b"refs/rewritten/")  # not shared between linked worktrees


def is_repository(path: bytes) -> bool:
    """Whether git takes a folder for a repository of its own (an empty ``.git`` or a junk file is nothing)."""
    return _git_dir(path) is not None


def commit(path: bytes) -> str | None:
    """The commit that a repository is at; None when it has none yet, or none that git could record."""
    git_dir = _git_dir(path)
    if git_dir is None:
        return None
    common = _common_dir(git_dir)
    if os.path.isdir(os.path.join(common, b"reftable")):
        with contextlib.suppress(process.GitFailed):
            return process.run(path, ["rev-parse", "-q", "--verify", "HEAD"]).decode().strip()
        return None
    name = b"HEAD"
    for _ in range(_HOPS):
        text = _ref(git_dir, common, name)
        if text is None:
            return None
        symbolic = _SYMBOLIC.match(text)
        if symbolic is None:
            found = _OID.match(text)
            return None if found is None else found[0].decode()
        name = symbolic[1]
        if b".." in name.split(b"/"):
            return None
    return None


def is_dirty(path: bytes, deadline: float | None = None) -> bool:
    """Whether a nested repository has staged, changed or untracked files; also when git can't say.

    Raises:
        TimedOut: ``timeout.checkpoint``.
    """
    try:
        return bool(
            process.run(path, ["status", "--porcelain", "-z", "--ignore-submodules=none"], deadline=deadline)
        )
    except process.GitFailed:
        return True


def _git_dir(path: bytes) -> bytes | None:
    """The git folder that a ``.git`` is or leads to; None when it leads to none."""
    place = os.path.join(path, b".git")
    try:
        kind = os.stat(place).st_mode
    except OSError:
        return None
    if stat.S_ISREG(kind):
        text = _read(place)
        if text is None:
            return place  # unreadable: git takes it for a repository all the same
        if not text.startswith(b"gitdir: "):
            return None
        place = os.path.join(path, text.removeprefix(b"gitdir: ").rstrip(b"\r\n"))
    return place if _is_git_dir(place) else None


def _is_git_dir(place: bytes) -> bool:
    head = os.path.join(place, b"HEAD")
    text = _linked(head) or _read(head) or b""
    common = _common_dir(place)
    return (
        (_SYMBOLIC.match(text) is not None or _OID.match(text) is not None)
        and os.path.isdir(os.path.join(common, b"objects"))
        and os.path.isdir(os.path.join(common, b"refs"))
    )


def _common_dir(git_dir: bytes) -> bytes:
    named = _read(os.path.join(git_dir, b"commondir"))
    return git_dir if named is None else os.path.join(git_dir, named.rstrip(b"\r\n"))


def _ref(git_dir: bytes, common: bytes, name: bytes) -> bytes | None:
    """The text of a ref: loose, else packed."""
    place = os.path.join(git_dir if name == b"HEAD" or name.startswith(_OWN) else common, name)
    text = _linked(place) or _read(place)
    if text is not None:
        return text
    for line in (_read(os.path.join(common, b"packed-refs")) or b"").splitlines():
        if line[41:] == name:
            return line
    return None


def _linked(place: bytes) -> bytes | None:
    """A symbolic ref of the oldest form, a symbolic link, as text."""
    try:
        return b"ref: " + os.readlink(place)
    except OSError:
        return None


def _read(place: bytes) -> bytes | None:
    try:
        # Non-blocking: a pipe that somebody put there must not hold the capture up.
        descriptor = os.open(place, os.O_RDONLY | os.O_CLOEXEC | os.O_NONBLOCK)
        with open(descriptor, "rb") as file:
            return file.read()
    except OSError:
        return None
