"""Who changed what (contract 7.3, V-230..V-248): captures of one tree become windows, and each path gets a class.

git can't say who wrote a file, but two captures can say *when* it changed. The captures of one tree, every agent's, in log order
(A-09), are taken in pairs from the target T to the present state S. A pair is

- a **turn** window when the same turn of this agent ran at both ends, and no other agent's turn, no take-over and no rollback
  touched the time between;
- a **rollback** window for exactly what a rollback was to write: from the state before it to the state that it expected. What
  differs between that and the capture after it was written by somebody else meanwhile, and is a gap of its own;
- a **gap** in every other case.

A path that a gap changed is ``outside``, whatever else changed it too. When in doubt, this module says gap, and so ``outside``:
calling the agent's work somebody else's costs a question, the reverse costs somebody their work. It sees no file and no repository:
a state is a name, and the caller says which paths differ between two of them.

What it can't see: a person who edits a file while the agent's turn runs looks like the turn (V-248).
"""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

__all__ = [
    "Capture",
    "GapReason",
    "PathClass",
    "Rollback",
    "TurnSpan",
    "Window",
    "WindowKind",
    "classify",
    "windows",
]

_FOREVER = 1 << 62


class WindowKind(StrEnum):
    """Whose writes a window holds."""

    TURN = "turn"
    ROLLBACK = "rollback"
    GAP = "gap"


class PathClass(StrEnum):
    """Who changed a path between T and S (contract 7.3)."""

    OUTSIDE = "outside"
    AGENT = "agent"
    TURN = "turn"


class GapReason(StrEnum):
    """Why a window is a gap; for people and for tests, nothing is decided by it."""

    BETWEEN_TURNS = "between_turns"
    TAKE_OVER = "take_over"
    LOST_CAPTURE = "lost_capture"
    NO_TURN_START = "no_turn_start"
    OTHER_TURN = "other_turn"
    OVERLAP = "overlap"
    ROLLBACK_UNKNOWN = "rollback_unknown"
    ROLLBACK_DRIFT = "rollback_drift"
    SINCE_LAST = "since_last"
    FOREIGN = "foreign"


@dataclass(frozen=True, slots=True)
class Capture:
    """One capture of one tree, deduplicated ones included (V-037).

    Attributes:
        seq: its record's position in the log.
        agent: whose checkpoint it is.
        reason: as in contract 3 (``turn_start``, ``turn_end``, ``manual``, ...); ``now`` for S.
        turn: its own turn for ``turn_start`` and ``turn_end``, the running one for a mid-turn ``manual``, else None (A-06).
        state: a name for what it holds: equal names mean equal files, raw bytes included. None when the capture failed or was pruned.
        overlap: the next turn began before this capture was finished (V-070).
    """

    seq: int
    agent: str
    reason: str
    turn: str | None
    state: str | None
    overlap: bool = False


@dataclass(frozen=True, slots=True)
class TurnSpan:
    """The time in which a turn ran, by log position (A-10); ``end_seq`` is None while it runs.

    Where the turn has a ``turn_start`` or ``turn_end`` capture, that is where its time begins or ends, whatever the positions
    given here: the prompt is held until the first, and the second closes the turn.
    """

    agent: str
    turn: str
    start_seq: int
    end_seq: int | None


@dataclass(frozen=True, slots=True)
class Rollback:
    """One rollback on this tree, by any agent: its writes are nobody's work.

    Attributes:
        started_seq: the position of ``rollback.started``.
        ended_seq: of ``rollback.ended``; None when it never ended.
        agent: the agent that was rolled back.
        after_seq: the position of its ``rollback`` capture, if it came that far.
        expected: the name of the state that it was to leave; None when unknown, or when its objects are gone.
        ok: it ended well.
    """

    started_seq: int
    ended_seq: int | None
    agent: str
    after_seq: int | None
    expected: str | None
    ok: bool


@dataclass(frozen=True, slots=True)
class Window:
    """Two consecutive looks at one tree. ``agent`` and ``turn`` are set for a turn window, ``agent`` for a rollback's; ``reason`` is
    a ``GapReason`` for a gap and empty otherwise.
    """

    before: Capture
    after: Capture
    kind: WindowKind
    agent: str | None = None
    turn: str | None = None
    reason: str = ""


def windows(
    captures: Iterable[Capture],
    spans: Iterable[TurnSpan],
    rollbacks: Iterable[Rollback],
    *,
    agent: str,
    target_seq: int,
    now: Capture,
    foreign: bool = False,
) -> list[Window]:
    """The windows of one tree from the target's capture to S, oldest first (V-230).

    Args:
        captures: every capture of this tree, every agent's, also the ones before the target (a take-over may have begun there).
        spans: every turn of every agent that uses the tree.
        rollbacks: every rollback that touched the tree.
        agent: whose rollback this is: only its turns make turn windows.
        target_seq: the position of T's capture.
        now: S, with reason ``now``. The window that ends in it is a gap, always (V-240).
        foreign: another log captures this tree too, so that nothing can be told from ours: every window is a gap.

    Raises:
        ValueError: no capture with a state stands at ``target_seq``.
    """
    ordered = sorted(captures, key=lambda capture: capture.seq)
    history = _History(ordered, spans, rollbacks, agent, foreign=foreign)
    before: Capture | None = None
    lost = False
    found: list[Window] = []
    for capture in ordered:
        if capture.seq < target_seq:
            continue
        if capture.seq == target_seq:
            before = capture if capture.state is not None else None
        elif capture.reason == "fork" or before is None:
            # A fork's first checkpoint is a second name for an old commit: nobody looked at the tree when it was made.
            continue
        elif capture.state is None:
            lost = True
        else:
            found += history.between(before, capture, lost=lost)
            before, lost = capture, False
    if before is None:
        message = f"no capture with a state at position {target_seq}"
        raise ValueError(message)
    reason = GapReason.FOREIGN if foreign else GapReason.SINCE_LAST
    found.append(Window(before, now, WindowKind.GAP, reason=reason))
    return found


class _Times:
    """Stretches of the log, merged and sorted, so that "does one overlap this window" is a search and not a walk."""

    def __init__(self, stretches: Iterable[tuple[int, int]]) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        for start, end in sorted(stretches):
            if self._ends and start < self._ends[-1]:
                self._ends[-1] = max(self._ends[-1], end)
            else:
                self._starts.append(start)
                self._ends.append(end)

    def touch(self, before: int, after: int) -> bool:
        """Whether one has time in common with the open stretch between two positions."""
        at = bisect_left(self._starts, after) - 1
        return at >= 0 and self._ends[at] > before


class _History:
    """What ran when, in log positions."""

    def __init__(
        self,
        captures: list[Capture],
        spans: Iterable[TurnSpan],
        rollbacks: Iterable[Rollback],
        agent: str,
        *,
        foreign: bool,
    ) -> None:
        self._agent = agent
        self._foreign = foreign
        self._begun = {(c.agent, c.turn): c.seq for c in captures if c.reason == "turn_start"}
        ended = {(c.agent, c.turn): c.seq for c in captures if c.reason == "turn_end"}
        ran = _ran(list(spans), self._begun, ended)
        self._own = sorted((start, end, turn) for owner, turn, start, end in ran if owner == agent)
        self._double = _Times(_shared(self._own))
        self._others = _Times((start, end) for owner, _, start, end in ran if owner != agent)
        self._taken = _Times(_take_overs(captures))
        rollbacks = list(rollbacks)
        self._rollbacks = {r.after_seq: r for r in rollbacks if r.after_seq is not None}
        self._rolling = _Times(
            (r.started_seq, _FOREVER if r.ended_seq is None else r.ended_seq) for r in rollbacks
        )

    def between(self, before: Capture, after: Capture, *, lost: bool) -> list[Window]:
        """One pair of captures as windows: one, or two for a rollback during which somebody wrote."""
        if self._foreign:
            return [_gap(before, after, GapReason.FOREIGN)]
        if lost:
            return [_gap(before, after, GapReason.LOST_CAPTURE)]
        if after.reason == "rollback":
            return self._rollback(before, after)
        turn = self._running(before)
        if (
            turn is None
            or turn != self._running(after)
            or self._is(before, "turn_end")
            or self._is(after, "turn_start")
        ):
            return [_gap(before, after, self._why(before, after))]
        doubt = self._doubt(before, after)
        if doubt is not None:
            return [_gap(before, after, doubt)]
        return [Window(before, after, WindowKind.TURN, agent=self._agent, turn=turn)]

    def _is(self, capture: Capture, reason: str) -> bool:
        return capture.agent == self._agent and capture.reason == reason

    def _running(self, capture: Capture) -> str | None:
        """The turn of this agent that ran at a capture. Its own captures say so themselves, another's are looked up (A-11)."""
        if capture.agent == self._agent:
            return capture.turn
        at = bisect_right(self._own, (capture.seq, _FOREVER, ""))
        for _, end, turn in reversed(self._own[max(0, at - 2) : at]):
            if capture.seq <= end:
                return turn
        return None

    def _doubt(self, before: Capture, after: Capture) -> GapReason | None:
        """Why a window in which one turn ran from end to end can't be taken for its work all the same."""
        if self._others.touch(before.seq, after.seq):
            return GapReason.OTHER_TURN
        if self._taken.touch(before.seq, after.seq):
            return GapReason.TAKE_OVER
        if self._rolling.touch(before.seq, after.seq):
            return GapReason.ROLLBACK_UNKNOWN
        # A turn that the harness began by itself before this one's turn_end was captured has no turn_start: what it wrote
        # in that time, and what anybody wrote just before it, can't be told from this turn's.
        late = after.agent == self._agent and after.overlap
        return GapReason.OVERLAP if late or self._double.touch(before.seq, after.seq) else None

    def _rollback(self, before: Capture, after: Capture) -> list[Window]:
        done = self._rollbacks.get(after.seq)
        if (
            done is None
            or not done.ok
            or done.expected is None
            or before.reason != "pre_rollback"
            or not before.agent == after.agent == done.agent
            or not before.seq < done.started_seq < after.seq
        ):
            return [_gap(before, after, GapReason.ROLLBACK_UNKNOWN)]
        if done.expected == after.state:
            return [Window(before, after, WindowKind.ROLLBACK, agent=done.agent)]
        expected = Capture(done.started_seq, done.agent, "expected", None, done.expected)
        return [
            Window(before, expected, WindowKind.ROLLBACK, agent=done.agent),
            _gap(expected, after, GapReason.ROLLBACK_DRIFT),
        ]

    def _why(self, before: Capture, after: Capture) -> GapReason:
        if self._taken.touch(before.seq, after.seq):
            return GapReason.TAKE_OVER
        turn = self._running(after)
        if turn is not None and (self._agent, turn) not in self._begun:
            return GapReason.NO_TURN_START
        return GapReason.BETWEEN_TURNS


def _gap(before: Capture, after: Capture, reason: GapReason) -> Window:
    return Window(before, after, WindowKind.GAP, reason=reason)


def _ran(
    spans: list[TurnSpan], begun: dict[tuple[str, str | None], int], ended: dict[tuple[str, str | None], int]
) -> list[tuple[str, str, int, int]]:
    """Each turn as (agent, turn, start, end). One without an end runs until its agent's next turn begins: there is one at a time."""
    started = [(begun.get((span.agent, span.turn), span.start_seq), span) for span in spans]
    started.sort(key=lambda pair: pair[0], reverse=True)
    following: dict[str, int] = {}
    ran = []
    for start, span in started:
        last = ended.get((span.agent, span.turn))
        ends = [end for end in (span.end_seq, last) if end is not None]
        end = max(ends) if ends else following.get(span.agent, _FOREVER)
        ran.append((span.agent, span.turn, start, end))
        following[span.agent] = start
    return ran


def _shared(ran: list[tuple[int, int, str]]) -> Iterable[tuple[int, int]]:
    """When two turns of one agent ran at once, from its turns in order."""
    until = 0
    for start, end, _ in ran:
        if start < until:
            yield start, min(end, until)
        until = max(until, end)


def _take_overs(captures: list[Capture]) -> Iterable[tuple[int, int]]:
    """When an agent, ours or another, was in a person's hands: from its ``takeover`` to its first capture that it can't have then."""
    since: dict[str, int] = {}
    for capture in captures:
        if capture.reason == "takeover":
            since.setdefault(capture.agent, capture.seq)
        elif capture.reason in ("takeback", "turn_start", "turn_end", "pre_rollback"):
            start = since.pop(capture.agent, None)
            if start is not None:
                yield start, capture.seq
    for start in since.values():
        yield start, _FOREVER


def classify(
    changed: Iterable[tuple[Window, Iterable[bytes]]],
    edits: Iterable[tuple[str, bytes]],
    paths: Collection[bytes],
) -> dict[bytes, PathClass]:
    """The class of each path that differs between S and T (V-241..V-244).

    A path that a gap changed is ``outside``; one that no window changed (which right differences can't give) is too. Of the rest, one
    that an edit call of a turn window names is ``agent``, anything else ``turn``: a command of the agent's, or a rollback.

    Args:
        changed: the windows, each with the paths that differ between its two states.
        edits: (turn, path) of every edit call of this agent in this tree.
        paths: the paths that differ between S and T; only these are classified.
    """
    outside: set[bytes] = set()
    ours: set[bytes] = set()
    turns: set[str | None] = set()
    for window, touched in changed:
        if window.kind is WindowKind.GAP:
            outside.update(touched)
            continue
        ours.update(touched)
        if window.kind is WindowKind.TURN:
            turns.add(window.turn)
    named = {path for turn, path in edits if turn in turns}
    classes = {}
    for path in paths:
        if path in outside or path not in ours:
            classes[path] = PathClass.OUTSIDE
        else:
            classes[path] = PathClass.AGENT if path in named else PathClass.TURN
    return classes
