"""The configuration that a capture or restore depends on, as git itself reads it.

libgit2 doesn't see ``includeIf.hasconfig``, the environment's configuration files or anything newer than itself, so git is asked once
a capture: ``git config --list -z`` gives every file's values in order, and the last one of a key counts.
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.gitstore import process

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository

_TRUE = {"true", "yes", "on", "1"}


@dataclass(frozen=True, slots=True)
class Settings:
    """What git's configuration says for one tree.

    Attributes:
        file_mode, symlinks: whether the tree's filesystem keeps the exec bit, and links (``core.fileMode``, ``core.symlinks``).
        ignore_case: ``core.ignoreCase``.
        autocrlf: ``core.autocrlf``: ``"true"``, ``"input"`` or ``"false"``.
        eol: ``core.eol``, lower case, or ``"native"``.
        excludes_file, attributes_file: the user's own rules, absolute; the file may not exist.
        filters: the names of the configured filter drivers.
    """

    file_mode: bool
    symlinks: bool
    ignore_case: bool
    autocrlf: str
    eol: str
    excludes_file: str
    attributes_file: str
    filters: frozenset[str]


def read(repository: Repository, deadline: float | None = None) -> Settings:
    """Ask git for the configuration of a tree.

    Raises:
        GitFailed, TimedOut, Unsupported: as ``process.run``.
    """
    values: dict[str, str | None] = {}
    for row in process.split(
        process.run(repository.path, ["config", "--list", "-z", "--includes"], deadline=deadline)
    ):
        key, newline, value = row.partition(b"\n")
        # A key without a value (no newline) means true.
        values[os.fsdecode(key)] = os.fsdecode(value) if newline else None
    filters = {
        key.removeprefix("filter.").rpartition(".")[0]
        for key in values
        if key.startswith("filter.") and key.rpartition(".")[2] in ("clean", "smudge", "process")
    }
    autocrlf = _text(values, "core.autocrlf", "false")
    return Settings(
        file_mode=_flag(values, "core.filemode", default=True),
        symlinks=_flag(values, "core.symlinks", default=True),
        ignore_case=_flag(values, "core.ignorecase", default=False),
        autocrlf="input" if autocrlf == "input" else ("true" if autocrlf in _TRUE else "false"),
        eol=_text(values, "core.eol", "native"),
        excludes_file=_user_file(repository, values, "core.excludesfile", "ignore"),
        attributes_file=_user_file(repository, values, "core.attributesfile", "attributes"),
        filters=frozenset(filters),
    )


def _flag(values: dict[str, str | None], key: str, *, default: bool) -> bool:
    if key not in values:
        return default
    value = values[key]
    return value is None or value.lower() in _TRUE


def _text(values: dict[str, str | None], key: str, default: str) -> str:
    if key not in values:
        return default
    value = values[key]
    return "true" if value is None else value.lower()


def _user_file(repository: Repository, values: dict[str, str | None], key: str, name: str) -> str:
    """The user's own rules: what the configuration names (relative to the tree, as git has it), else git's XDG default.

    The environment is read here and not by the command alone because it is git's own rule about where git's file is.
    """
    named = values.get(key)
    if named:
        return os.path.join(repository.path, os.path.expanduser(named))
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "git", name)
