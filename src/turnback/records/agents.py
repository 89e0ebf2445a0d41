"""What the state knows about one agent: its trees, turns, checkpoints and captures, as ``turnback.records.state`` folds them.

These are values without behaviour of their own but a few readings. Only the fold changes them.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, NamedTuple

if TYPE_CHECKING:
    from turnback.records.events import CheckpointRow, PathItem, TreeRow

__all__ = ["LIVE", "AgentState", "CaptureRow", "TurnState"]

LIVE: Final = frozenset({"queued", "running", "needs_you", "handed_over"})


class CaptureRow(NamedTuple):
    """One capture, in log order: also the ones that made no checkpoint of their own (3.2), and the failed ones.

    ``outcome`` is ``taken``, ``reused`` or ``failed``; ``checkpoint`` is None when it failed. The row stays when its checkpoint is pruned.
    """

    seq: int
    agent: str
    reason: str
    turn: str | None
    checkpoint: str | None
    outcome: str
    mid_turn: bool


@dataclass(slots=True)
class TurnState:
    """One turn. ``start_seq`` and ``end_seq`` are places in the log; ``end_seq`` and ``reason`` are None while it runs."""

    turn: str
    origin: str
    prompt: str | None
    start_seq: int
    end_seq: int | None = None
    reason: str | None = None
    harness_turn: str | None = None
    harness_end: str | None = None
    dropped: bool = False


@dataclass(slots=True)
class AgentState:
    """Everything the log says about one agent.

    Attributes:
        state: ``settled``, ``running``, ``failed``, or what ``agent.state`` set (``queued``, ``needs_you``, ``handed_over``, ``archived``).
        turns: by id, in the order they started.
        checkpoints: by id, oldest first, without the pruned ones; a label given later is in the row.
        pruned: ids of the checkpoints that went.
        next_turn, next_checkpoint: the number that the next one gets; never one that was used (V-340).
        ended: ids of the turns that have ended, in log order.
        edits: ``(seq, turn, repo, path)`` of every edit that a tool call named.
        binding: data of the last ``agent.binding``.
        note: what the next prompt begins with, or None.
        rollback: data of the ``rollback.started`` that has no end yet, with its ``seq``; else None.
        attention: data of each ``attention.raised``.
    """

    id: str
    parent: str | None
    isolation: str
    harness: str | None
    trees: list[TreeRow]
    state: str = "settled"
    turns: dict[str, TurnState] = field(default_factory=dict)
    checkpoints: dict[str, CheckpointRow] = field(default_factory=dict)
    pruned: set[str] = field(default_factory=set)
    next_turn: int = 1
    next_checkpoint: int = 1
    ended: list[str] = field(default_factory=list)
    running_turn: str | None = None
    edits: list[tuple[int, str, str, PathItem]] = field(default_factory=list)
    binding: dict[str, Any] | None = None
    note: str | None = None
    stale_requests: list[str] = field(default_factory=list)
    rollback: dict[str, Any] | None = None
    attention: list[dict[str, Any]] = field(default_factory=list)

    @property
    def through_turn(self) -> str | None:
        """The turn that ended last and is not dropped: what conversation goes with the files of now (3.3)."""
        return next((turn for turn in reversed(self.ended) if not self.turns[turn].dropped), None)

    @property
    def last_turn(self) -> str | None:
        """The turn with the highest number, dropped or not, ended or not."""
        return f"t{self.next_turn - 1}" if self.next_turn > 1 else None

    @property
    def latest_checkpoint(self) -> CheckpointRow | None:
        """The newest checkpoint that is still there."""
        return next(reversed(self.checkpoints.values()), None)

    @property
    def live(self) -> bool:
        """Whether it is queued, running, waiting for a person, or handed over (section 2)."""
        return self.state in LIVE

    @property
    def archived(self) -> bool:
        """Whether it is archived: nothing is captured, and it is nobody's sharer."""
        return self.state == "archived"
