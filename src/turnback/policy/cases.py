"""What is known about one path of a rollback, and what can come out of it: the words of the decision table (``table``).

Values only. Whoever looks at trees, ignore rules and the disk fills in a ``PathCase``; the table turns it into a ``Step`` or a ``Left``. A fact
that can't be had is filled in as the careful answer: ``ignored_then=True``, ``found=Found.OTHER``, ``path_class=None``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from turnback import paths
from turnback.policy.windows import PathClass

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from turnback.changes import ChangeKind, Entry
    from turnback.limits import Skipped

__all__ = [
    "Choices",
    "Cover",
    "Covers",
    "Found",
    "Left",
    "LeftReason",
    "OutsideChoice",
    "PathCase",
    "PathClass",
    "Step",
]


class OutsideChoice(StrEnum):
    """What to do with paths that somebody else changed (V-245..V-247; ``merge``: DESIGN part 7)."""

    REFUSE = "refuse"
    KEEP = "keep"
    OVERWRITE = "overwrite"
    MERGE = "merge"


class LeftReason(StrEnum):
    """Why a path is left alone (V-265..V-269, and DESIGN parts 4 and 7 for the ones beyond the contract)."""

    OUTSIDE = "outside"
    TOO_BIG = "too_big"
    SKIP_WORKTREE = "skip_worktree"
    UNREADABLE = "unreadable"
    NOT_REGULAR = "not_regular"
    NESTED_UNBORN = "nested_unborn"
    INVALID_PATH = "invalid_path"
    FILTER = "filter"
    GITLINK = "gitlink"
    IGNORED_IN_THE_WAY = "ignored_in_the_way"
    IGNORED = "ignored"
    CHANGED = "changed"


class Found(StrEnum):
    """What ``lstat`` of a path finds, without following a link anywhere.

    A parent that S holds as a file or link doesn't count as one: the plan takes it away first, and beneath it there is nothing.

    Attributes:
        ABSENT: nothing.
        FILE: a regular file (also one that stands for a link where the filesystem has none).
        LINK: a symbolic link.
        FOLDER_EMPTY: a folder with no file in it at any depth.
        FOLDER_OF_CAPTURED: a folder in which S holds every file.
        FOLDER_WITH_UNCAPTURED: a folder with something that S doesn't hold: an ignored or skipped file, a nested repository.
        OTHER: a fifo, a socket, a device, or what can't be looked at.
        PARENT_BLOCKED: a parent is a file, a link or something else that S doesn't hold.
    """

    ABSENT = "absent"
    FILE = "file"
    LINK = "link"
    FOLDER_EMPTY = "folder_empty"
    FOLDER_OF_CAPTURED = "folder_of_captured"
    FOLDER_WITH_UNCAPTURED = "folder_with_uncaptured"
    OTHER = "other"
    PARENT_BLOCKED = "parent_blocked"


@dataclass(frozen=True, slots=True)
class Cover:
    """Something that a rollback doesn't look beneath (DESIGN 10.7): a gitlink or a skipped path at or above a path."""

    path: bytes
    reason: LeftReason
    detail: str | None = None


class Covers:
    """The gitlinks and skipped paths of T and S, asked by path.

    At one path a skip goes before a gitlink (it says what is there) and S's before T's; the gitlink's commit in T stays the detail.

    Args:
        target_links: T's gitlinks with their commits. Equal ones in T and S may be given: row P03 passes over them.
        state_links: S's gitlinks.
        target_skipped: what T's capture left out.
        state_skipped: what S's did.
    """

    def __init__(
        self,
        target_links: Mapping[bytes, str],
        state_links: Iterable[bytes],
        target_skipped: Iterable[Skipped] = (),
        state_skipped: Iterable[Skipped] = (),
    ) -> None:
        self._covers: dict[bytes, Cover] = {}
        for path in (*state_links, *target_links):
            self._covers[path] = Cover(path, LeftReason.GITLINK, target_links.get(path))
        for skipped in (*target_skipped, *state_skipped):
            path = skipped.path.rstrip(b"/")
            self._covers[path] = Cover(path, LeftReason(skipped.reason.value), target_links.get(path))

    def of(self, path: bytes) -> Cover | None:
        """The outermost cover at or above a path, or None."""
        if not self._covers:
            return None
        for above in paths.parents(path):
            found = self._covers.get(above)
            if found is not None:
                return found
        return self._covers.get(path)


@dataclass(frozen=True, slots=True)
class Left:
    """A path that the rollback leaves alone, and why."""

    path: bytes
    reason: LeftReason
    detail: str | None = None

    def to_dict(self) -> dict[str, str]:
        """``{path, reason, detail?}``, with ``path_b64`` where the name isn't UTF-8."""
        found = {**paths.members(self.path), "reason": str(self.reason)}
        return found if self.detail is None else {**found, "detail": self.detail}


@dataclass(frozen=True, slots=True)
class Step:
    """What a rollback does to one path.

    Attributes:
        path: relative to the tree's root.
        change: create, modify or delete.
        path_class: who changed it since T.
        target: what is to stand there; None for a deletion, and for a ``filtered`` file that no tree holds.
        state: what S holds there, for the writer to compare and for the way back.
        raw: sha256 of the exact bytes to write where git's conversion wouldn't give them.
        merged: ``target`` is a merge and not T's entry.
        filtered: only the raw bytes change: the tree can't hold this file, since its filter doesn't run.
    """

    path: bytes
    change: ChangeKind
    path_class: PathClass
    target: Entry | None
    state: Entry | None
    raw: str | None = None
    merged: bool = False
    filtered: bool = False

    def to_dict(self) -> dict[str, Any]:
        """``{path, change, class}``, and ``merged: true`` for a merge."""
        found = {
            **paths.members(self.path),
            "change": str(self.change),
            "class": str(self.path_class),
        }
        return {**found, "merged": True} if self.merged else found


@dataclass(frozen=True, slots=True, kw_only=True)
class PathCase:
    """All that is known about one path.

    Attributes:
        target: T's entry.
        state: S's entry.
        found: what is there now.
        target_raw: sha256 of T's raw bytes, where it has some.
        state_raw: sha256 of S's.
        path_class: who changed it; None counts as ``outside``.
        cover: from ``Covers.of``.
        ignored_then: T's ignore rules cover it (as an untracked path), or it isn't known whether they do.
        ignored_now: today's do, likewise.
        refused: ``paths.refusal`` of it.
        collides: on this filesystem its name is also another path's (letter case, say), and that one stays: S holds it and T too; or,
            for a path of T, T holds it. One that goes is no collision, and ``found`` looks as if it were gone.
        in_scope: it is among the ``paths`` that the caller named, or none were named.
        merged: the merge's result, with ``outside="merge"``; S's entry when nothing of the agent's was in it.
        merge_conflict: it couldn't be merged.
        stays: a path above or beneath it that the plan leaves in its place (``plan`` fills it in).
    """

    path: bytes
    target: Entry | None
    state: Entry | None
    found: Found
    target_raw: str | None = None
    state_raw: str | None = None
    path_class: PathClass | None = None
    cover: Cover | None = None
    ignored_then: bool = False
    ignored_now: bool = False
    refused: str | None = None
    collides: bool = False
    in_scope: bool = True
    merged: Entry | None = None
    merge_conflict: bool = False
    stays: Left | None = None

    @property
    def filtered(self) -> bool:
        """Skipped for its filter, but both sides have the exact bytes (DESIGN 10.8)."""
        return (
            self.cover is not None
            and self.cover.reason is LeftReason.FILTER
            and self.cover.path == self.path
            and self.target_raw is not None
            and self.state_raw is not None
        )


@dataclass(frozen=True, slots=True)
class Choices:
    """The caller's choices for one tree.

    Attributes:
        outside: as given; None when omitted.
        guarded: the tree is guarded.
    """

    outside: OutsideChoice | None = None
    guarded: bool = False

    @property
    def effective(self) -> OutsideChoice:
        """``outside``, or its default: refuse in a guarded tree, overwrite elsewhere (V-192)."""
        if self.outside is not None:
            return self.outside
        return OutsideChoice.REFUSE if self.guarded else OutsideChoice.OVERWRITE
