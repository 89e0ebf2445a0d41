"""What the ``diff`` attribute says about paths: text, binary, or nothing (then the content decides)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.gitstore import process

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Repository


def diff_as_text(repository: Repository, paths: Sequence[bytes]) -> dict[bytes, bool]:
    """Path to True (shown as text) or False (binary), for the paths that an attribute of whatever origin decides."""
    if not paths:
        return {}
    output = process.run(
        repository.path, ["check-attr", "-z", "--stdin", "diff"], stdin=[path + b"\0" for path in paths]
    )
    rows = process.split(output)
    found = {}
    for at in range(0, len(rows), 3):
        if rows[at + 2] in (b"set", b"unset"):
            found[rows[at]] = rows[at + 2] == b"set"
    return found
