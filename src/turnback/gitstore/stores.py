"""Where the objects of a repository are: its own folder and those that it borrows from."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from turnback.gitstore.repo import Repository

_DEPTH = 5  # as deep as git follows alternates of alternates


def folders(repository: Repository) -> list[str]:
    """The object folders that exist, its own first, then the alternates'."""
    found: list[str] = []
    _add(os.path.join(repository.common_dir, "objects"), found, 0)
    return found


def _add(folder: str, found: list[str], depth: int) -> None:
    if folder in found or depth > _DEPTH or not os.path.isdir(folder):
        return
    found.append(folder)
    try:
        with open(os.path.join(folder, "info", "alternates"), "rb") as file:
            lines = file.read().splitlines()
    except OSError:
        return
    for line in lines:
        # A quoted line (a name with a newline in it) names no folder here: it only costs the certainty of one sync.
        if line and not line.startswith(b"#"):
            _add(os.path.normpath(os.path.join(folder, os.fsdecode(line))), found, depth + 1)
