"""The configuration that a capture or restore depends on, as git itself reads it.

libgit2 doesn't see ``includeIf.hasconfig``, the environment's configuration files or anything newer than itself, so git is asked once
a capture: ``git config --list -z`` gives every file's values in order, and the last one of a key counts.
"""

from __future__ import annotations

import hashlib
import os
import re
from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Mapping

    from turnback.gitstore.repo import Repository

_WORDS = {"true": True, "yes": True, "on": True, "false": False, "no": False, "off": False, "": False}
_NUMBER = re.compile(r"[+-]?(0x[0-9a-f]+|\d+)[kmg]?")

# Any of these makes a filter driver: a required one without a clean command fails, it doesn't pass.
_DRIVER = ("clean", "smudge", "process", "required")
_COMMANDS = (".clean", ".smudge", ".process")


@dataclass(frozen=True, slots=True)
class Settings:
    """What git's configuration says for one tree.

    Attributes:
        file_mode, symlinks: whether the tree's filesystem keeps the exec bit, and links (``core.fileMode``, ``core.symlinks``).
        trust_ctime, full_stat: which stat data the index vouches by (``core.trustctime``; ``core.checkStat`` isn't ``minimal``).
        ignore_case: ``core.ignoreCase``.
        autocrlf: ``core.autocrlf``: ``"true"``, ``"input"`` or ``"false"``.
        eol: ``core.eol``, lower case, or ``"native"``.
        excludes_file, attributes_file: the user's own rules, absolute; the file may not exist. Empty: git was told to read none.
        filters: the names of the configured filter drivers.
        attributes_tree: ``attr.tree`` is set: attributes may come from a tree object.
        conversion: a digest of everything in the configuration that a conversion may depend on.
        commands: of the filter drivers, each once.
    """

    file_mode: bool
    symlinks: bool
    ignore_case: bool
    autocrlf: str
    eol: str
    excludes_file: str
    attributes_file: str
    filters: frozenset[str]
    trust_ctime: bool = True
    full_stat: bool = True
    attributes_tree: bool = False
    conversion: str = ""
    commands: tuple[str, ...] = ()


def of(repository: Repository, values: Mapping[str, str | None]) -> Settings:
    """The settings that some values mean; a key's value is None where it stands alone.

    Args:
        repository: the tree.
        values: the last value of each key, keys as git lists them.
    """
    filters = {
        key.removeprefix("filter.").rpartition(".")[0]
        for key in values
        if key.startswith("filter.") and key.rpartition(".")[2] in _DRIVER
    }
    autocrlf = (values.get("core.autocrlf") or "").lower()
    return Settings(
        file_mode=_flag(values, "core.filemode", default=True),
        symlinks=_flag(values, "core.symlinks", default=True),
        ignore_case=_flag(values, "core.ignorecase", default=False),
        autocrlf="input"
        if autocrlf == "input"
        else ("true" if _flag(values, "core.autocrlf", default=False) else "false"),
        eol=(values.get("core.eol", "native") or "").lower(),
        excludes_file=_user_file(repository, values, "core.excludesfile", "ignore"),
        attributes_file=_user_file(repository, values, "core.attributesfile", "attributes"),
        filters=frozenset(filters),
        trust_ctime=_flag(values, "core.trustctime", default=True),
        full_stat=(values.get("core.checkstat") or "").lower() != "minimal",
        attributes_tree="attr.tree" in values,
        conversion=_digest(values),
        commands=tuple(
            sorted(
                {
                    value
                    for key, value in values.items()
                    if value and key.startswith("filter.") and key.endswith(_COMMANDS)
                }
            )
        ),
    )


def _digest(values: Mapping[str, str | None]) -> str:
    rows = [
        f"{key}\n{value}"
        for key, value in sorted(values.items())
        if key.startswith(("filter.", "core.", "attr."))
    ]
    return hashlib.sha256("\0".join(rows).encode("utf-8", "surrogateescape")).hexdigest()


def _flag(values: Mapping[str, str | None], key: str, *, default: bool) -> bool:
    """A boolean in any of git's spellings: a word, a number (hexadecimal, octal, with a unit), or a key alone, which means true."""
    if key not in values:
        return default
    value = values[key]
    if value is None:
        return True
    word = value.lower()
    if word in _WORDS:
        return _WORDS[word]
    # Any other word makes git refuse the repository when it is first asked something, which is soon.
    number = _NUMBER.fullmatch(word)
    return number is not None and number[1].strip("0x") != ""


def _user_file(repository: Repository, values: Mapping[str, str | None], key: str, name: str) -> str:
    """The user's own rules: what the configuration names (relative to the tree, as git has it), else git's XDG default.

    The environment is read here and not by the command alone because it is git's own rule about where git's file is.
    """
    named = values.get(key)
    if named is not None:
        return os.path.join(repository.path, os.path.expanduser(named)) if named else ""
    base = os.environ.get("XDG_CONFIG_HOME") or os.path.join(os.path.expanduser("~"), ".config")
    return os.path.join(base, "git", name)
