"""Whether a checkpoint can bring the conversation back, and what would be dropped (contract 8, V-310..V-319, V-349, V-350).

One verdict serves both askers: the member ``conversation`` of a listing, and ``restore="all"``, which refuses a checkpoint that
can't. A conversation is never shortened in place: to go back means to continue from a copy through one turn (``rewind``), or, before the first
turn, from nothing, which every harness can. Nothing is asked of a harness here; the caller says what its adapter declares.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any

from turnback.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from collections.abc import Collection, Sequence

__all__ = ["Point", "TurnFacts", "Verdict", "Why", "check", "conversation", "rollback_note"]


class Why(StrEnum):
    """Which rule keeps a checkpoint to its files (V-319)."""

    MID_TURN = "mid_turn"
    OVERLAP = "overlap"
    FORK = "fork"
    DROPPED_TURN = "dropped_turn"
    NO_HARNESS_ID = "no_harness_id"
    CATCH_UP_FAILED = "catch_up_failed"


_SENTENCES = {
    Why.MID_TURN: "it was taken in the middle of a turn, so no point of the conversation goes with its files",
    Why.OVERLAP: "the next turn had begun when it was taken, so its files may hold part of that turn",
    Why.FORK: "it is where a fork began, and names the files of the agent that it was forked from",
    Why.DROPPED_TURN: "its turn was dropped by a rollback, so the conversation no longer holds it",
    Why.NO_HARNESS_ID: "its turn was logged without the id by which the harness finds it",
    Why.CATCH_UP_FAILED: "it isn't known what the harness holds, since reading it back after a take-over failed",
}


@dataclass(frozen=True, slots=True)
class Point:
    """A checkpoint, as far as the conversation goes.

    Attributes:
        through_turn: the last turn that had ended when it was taken; None before the first.
        reason: why it was taken.
        mid_turn: a turn was running.
        overlap: the next turn began before it was finished.
        catch_up_failed: a ``takeback`` whose ``catch_up`` failed.
    """

    through_turn: str | None
    reason: str
    mid_turn: bool = False
    overlap: bool = False
    catch_up_failed: bool = False


@dataclass(frozen=True, slots=True)
class TurnFacts:
    """One turn of the agent, with the ids that its harness gave it and whether a rollback dropped it."""

    turn: str
    dropped: bool = False
    harness_turn: str | None = None
    harness_end: str | None = None


@dataclass(frozen=True, slots=True)
class Verdict:
    """What going back to a checkpoint means for the conversation.

    Attributes:
        possible: the checkpoint can bring the conversation back: the member ``conversation`` of a listing.
        why: the rule that keeps it to its files; None when there is none.
        rewinds: ``restore="all"`` would drop a turn.
        through_turn: the checkpoint's.
        drops: the turns that would be dropped, oldest first.
        needs_adapter: dropping them takes the adapter's ``rewind``: there is a turn to go back to.
        unsupported: it does, and the adapter declares none.
    """

    possible: bool
    why: Why | None
    rewinds: bool
    through_turn: str | None
    drops: tuple[str, ...]
    needs_adapter: bool
    unsupported: bool

    def to_dict(self, restore: str) -> dict[str, Any]:
        """The result's ``{rewinds, through_turn, drops}``; with ``restore="files"`` nothing is rewound or dropped (V-028)."""
        whole = restore == "all"
        return {
            "rewinds": whole and self.rewinds,
            "through_turn": self.through_turn,
            "drops": list(self.drops) if whole else [],
        }


def conversation(
    point: Point,
    turns: Sequence[TurnFacts],
    *,
    rewind: bool,
    needs: Collection[str] = (),
    inherited: bool = False,
) -> Verdict:
    """Decide for one checkpoint (V-311..V-316).

    Args:
        point: the checkpoint.
        turns: every turn of the agent in order, the running one and dropped ones included.
        rewind: the adapter declares ``rewind``; missing means False (V-323).
        needs: which ids of the turn the adapter's rewind needs: ``harness_turn``, ``harness_end``.
        inherited: the conversation was copied from another agent's (a fork), so "before the first turn" isn't "from nothing", and no id is
            known for that point.
    """
    through = point.through_turn
    live = [turn for turn in turns if not turn.dropped]
    target = next((turn for turn in turns if turn.turn == through), None)
    if through is None:
        drops = tuple(turn.turn for turn in live)
    elif target is None:
        drops = ()
    else:
        later = {turn.turn for turn in turns[turns.index(target) + 1 :]}
        drops = tuple(turn.turn for turn in live if turn.turn in later)
    gone = through is not None and (target is None or target.dropped)
    needs_adapter = through is not None and (gone or bool(drops))
    why = _why(point)
    if why is None and gone:
        why = Why.DROPPED_TURN
    if why is None and through is None and inherited and drops:
        why = Why.NO_HARNESS_ID
    if why is None and needs_adapter and target is not None and not _found(target, needs):
        why = Why.NO_HARNESS_ID
    unsupported = needs_adapter and not rewind
    return Verdict(
        possible=why is None and not unsupported,
        why=why,
        rewinds=bool(drops),
        through_turn=through,
        drops=drops,
        needs_adapter=needs_adapter,
        unsupported=unsupported,
    )


def _why(point: Point) -> Why | None:
    """The rules about the checkpoint itself, before the ones about its turn."""
    if point.mid_turn:
        return Why.MID_TURN
    if point.overlap:
        return Why.OVERLAP
    if point.reason == "fork":
        return Why.FORK
    return Why.CATCH_UP_FAILED if point.catch_up_failed else None


def _found(turn: TurnFacts, needs: Collection[str]) -> bool:
    known = {"harness_turn": turn.harness_turn, "harness_end": turn.harness_end}
    return all(known.get(name) is not None for name in needs)


def check(verdict: Verdict, checkpoint: str) -> None:
    """Refuse ``restore="all"`` where the conversation can't come along (V-318, V-319, A-56).

    Raises:
        Unsupported: ``unsupported.harness_capability`` with ``fix``: a turn has to be gone back to and the adapter can't.
        Conflict: ``conflict.checkpoint_files_only`` with ``why``.
    """
    if verdict.unsupported:
        raise Unsupported(
            "harness_capability",
            f"this agent's harness can't take its conversation back to {verdict.through_turn}; restore the files alone with "
            "--restore=files, and the model will be told",
            fix="--restore=files",
        )
    if verdict.why is not None:
        raise Conflict(
            "checkpoint_files_only",
            f"{checkpoint} can't bring the conversation back: {_SENTENCES[verdict.why]}; restore the files alone with --restore=files",
            why=str(verdict.why),
        )


def rollback_note(template: str, through_turn: str | None) -> str:
    """The note put before the next prompt after files alone went back: ``{when}`` is filled in, other braces stay (V-349, V-350)."""
    when = "before your first turn" if through_turn is None else f"after turn {through_turn}"
    return template.replace("{when}", when)
