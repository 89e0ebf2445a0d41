"""What differs between two trees: one ``Change`` a path, and the entries that stand at both ends.

Modes are git's: 0o100644 and 0o100755 files, 0o120000 links, 0o160000 gitlinks (submodules and nested repositories). There are no
renames here: a renamed file is a deletion and a creation (V-136).
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

FILE = 0o100644
EXECUTABLE = 0o100755
LINK = 0o120000
GITLINK = 0o160000
FOLDER = 0o040000


class ChangeKind(StrEnum):
    """What happens to a path on the way from the first tree to the second (V-394, A-26: modify covers type and mode)."""

    CREATE = "create"
    MODIFY = "modify"
    DELETE = "delete"


@dataclass(frozen=True, slots=True)
class Entry:
    """What a tree holds at one path.

    Attributes:
        mode: git's mode.
        oid: the object's id, in hex.
    """

    mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class Change:
    """One path that differs: ``old`` is None for a path that the second tree adds, ``new`` for one that it lacks."""

    path: bytes
    old: Entry | None
    new: Entry | None

    @property
    def kind(self) -> ChangeKind:
        """create, modify or delete."""
        if self.old is None:
            return ChangeKind.CREATE
        return ChangeKind.DELETE if self.new is None else ChangeKind.MODIFY
