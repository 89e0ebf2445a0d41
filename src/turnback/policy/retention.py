"""Which checkpoints of one agent stay (contract 5.2, V-172..V-177): a list and the limits in, a decision with its reason for each out.

Pruning only ever deletes refs, and it makes attribution more cautious, never less: a window across a pruned capture is a gap
(``windows``). This module deletes nothing and reads no clock.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final

from turnback import ids

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["Decision", "Item", "KeepReason", "retain"]

# The rows of 5.2: what goes by count and age. ``manual`` goes by age alone, ``pre_rollback`` by its own.
COUNTED: Final = frozenset({"turn_start", "turn_end", "takeover", "takeback", "fork", "rollback"})


class KeepReason(StrEnum):
    """Why a checkpoint stays or goes."""

    NEWEST = "newest"
    RECENT = "recent"
    LABELLED = "labelled"
    SAFETY = "safety"
    BEYOND_KEEP = "beyond_keep"
    OLDER_THAN_KEEP_FOR = "older_than_keep_for"
    OLDER_THAN_KEEP_SAFETY = "older_than_keep_safety"


@dataclass(frozen=True, slots=True)
class Item:
    """One checkpoint that is still there.

    Attributes:
        checkpoint: its id, ``k<n>``.
        reason: why it was taken.
        at: when, in milliseconds.
        pinned: it has a label, or an explicit checkpoint reused it: it goes by the rule for ``manual`` (X-06).
    """

    checkpoint: str
    reason: str
    at: int
    pinned: bool = False


@dataclass(frozen=True, slots=True)
class Decision:
    """Whether one checkpoint stays, and why."""

    checkpoint: str
    keep: bool
    reason: KeepReason


def retain(items: Iterable[Item], *, now: int, keep: int, keep_for: int, keep_safety: int) -> list[Decision]:
    """Decide for every checkpoint of one agent, newest first.

    The newest of all stays whatever the limits (V-172). ``keep`` counts only checkpoints that it governs (A-15), from the newest by id: clocks
    jump, ids don't. A checkpoint exactly as old as a limit stays; one from the future stays.

    Args:
        items: the agent's checkpoints, in any order.
        now: milliseconds.
        keep: how many of the counted ones.
        keep_for: milliseconds.
        keep_safety: milliseconds.
    """
    decisions = []
    counted = 0
    for place, item in enumerate(
        sorted(items, key=lambda found: ids.number_of(found.checkpoint), reverse=True)
    ):
        governed = item.reason in COUNTED and not item.pinned
        counted += governed
        reason = _reason(
            item, now - item.at, beyond=governed and counted > keep, limits=(keep_for, keep_safety)
        )
        if place == 0:
            decisions.append(Decision(item.checkpoint, True, KeepReason.NEWEST))
        else:
            stays = reason in (KeepReason.RECENT, KeepReason.LABELLED, KeepReason.SAFETY)
            decisions.append(Decision(item.checkpoint, stays, reason))
    return decisions


def _reason(item: Item, age: int, *, beyond: bool, limits: tuple[int, int]) -> KeepReason:
    keep_for, keep_safety = limits
    if item.reason == "pre_rollback":
        # A label lengthens its life and never shortens it: it may hold the only copy of somebody's edit.
        limit = max(keep_for, keep_safety) if item.pinned else keep_safety
        return KeepReason.SAFETY if age <= limit else KeepReason.OLDER_THAN_KEEP_SAFETY
    if age > keep_for:
        return KeepReason.OLDER_THAN_KEEP_FOR
    if beyond:
        return KeepReason.BEYOND_KEEP
    return KeepReason.RECENT if item.reason in COUNTED and not item.pinned else KeepReason.LABELLED
