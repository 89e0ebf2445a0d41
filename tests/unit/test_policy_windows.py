"""Who changed what, case by case: histories as small tables. Positions in the log are the numbers."""

from __future__ import annotations

from itertools import pairwise

import pytest

from turnback.policy.windows import (
    Capture,
    PathClass,
    Rollback,
    TurnSpan,
    Window,
    WindowKind,
    classify,
    windows,
)


def cap(
    seq: int, reason: str, turn: str | None, state: str | None, agent: str = "a1", *, overlap: bool = False
) -> Capture:
    return Capture(seq, agent, reason, turn, state, overlap)


def now(state: str = "S") -> Capture:
    return Capture(1000, "a1", "now", None, state)


def shown(found: list[Window]) -> list[str]:
    """Each window as ``before>after kind``, by the names of the states."""
    return [
        f"{w.before.state}>{w.after.state} {w.turn or w.reason or w.kind}"
        + ("" if w.kind is not WindowKind.TURN else "!")
        for w in found
    ]


def walk(
    captures: list[Capture],
    spans: list[TurnSpan] | None = None,
    rollbacks: list[Rollback] | None = None,
    *,
    target: int | None = None,
    agent: str = "a1",
    foreign: bool = False,
) -> list[str]:
    """The windows from the first capture (or ``target``); the last one, which is always the same, is checked and left out."""
    found = windows(
        captures,
        spans or [],
        rollbacks or [],
        agent=agent,
        target_seq=captures[0].seq if target is None else target,
        now=now(),
        foreign=foreign,
    )
    assert found[-1].kind is WindowKind.GAP, "the last window is a gap, always"
    assert found[-1].after == now()
    for one, following in pairwise(found):
        assert one.after.state == following.before.state, "the windows form a chain"
    return shown(found[:-1])


T1 = TurnSpan("a1", "t1", 2, 4)
T2 = TurnSpan("a1", "t2", 6, 8)
TURNS = [
    cap(2, "turn_start", "t1", "A"),
    cap(4, "turn_end", "t1", "B"),
    cap(6, "turn_start", "t2", "C"),
    cap(8, "turn_end", "t2", "D"),
]


@pytest.mark.contract("V-037", "V-230", "V-231", "V-234")
def test_turns_and_what_lies_between() -> None:
    assert walk(TURNS, [T1, T2]) == ["A>B t1!", "B>C between_turns", "C>D t2!"]
    assert walk(TURNS, [T1, T2], target=4) == ["B>C between_turns", "C>D t2!"]
    assert walk(TURNS, [T1, T2], target=8) == []
    assert walk(TURNS[::-1], [T1, T2], target=2) == walk(TURNS, [T1, T2]), (
        "by log position, in whatever order they come"
    )


@pytest.mark.contract("V-240")
def test_the_last_window_is_a_gap_even_in_a_turn() -> None:
    found = windows(TURNS[:1], [TurnSpan("a1", "t1", 2, None)], [], agent="a1", target_seq=2, now=now())
    assert shown(found) == ["A>S since_last"]


@pytest.mark.contract("V-231")
def test_a_manual_capture_in_a_turn_splits_it() -> None:
    captures = [TURNS[0], cap(3, "manual", "t1", "M"), TURNS[1]]
    assert walk(captures, [T1]) == ["A>M t1!", "M>B t1!"]


def test_a_manual_capture_between_turns_doesnt_join_them() -> None:
    captures = [*TURNS[:2], cap(5, "manual", None, "M"), *TURNS[2:]]
    assert walk(captures, [T1, T2]) == ["A>B t1!", "B>M between_turns", "M>C between_turns", "C>D t2!"]


@pytest.mark.contract("V-232", "V-239", "A-10")
@pytest.mark.parametrize(
    ("span", "found"),
    [
        (TurnSpan("a2", "t1", 3, 3), "other_turn"),
        (TurnSpan("a2", "t1", 1, 3), "other_turn"),
        (TurnSpan("a2", "t1", 3, 5), "other_turn"),
        (TurnSpan("a2", "t1", 1, None), "other_turn"),
        (TurnSpan("a2", "t1", 3, None), "other_turn"),
        (TurnSpan("a2", "t1", 0, 1), "t1!"),
        (TurnSpan("a2", "t1", 4, 9), "t1!"),
        (TurnSpan("a2", "t1", 0, 2), "t1!"),
        (TurnSpan("a2", "t1", 5, None), "t1!"),
    ],
)
def test_another_agents_turn(span: TurnSpan, found: str) -> None:
    assert walk(TURNS[:2], [T1, span]) == [f"A>B {found}"]


def test_another_agents_turn_lasts_to_its_capture_and_begins_with_it() -> None:
    """Its turn_end capture closes it, later than turn.ended; its prompt is held until its turn_start capture."""
    late = [cap(3, "turn_end", "t9", "X", "a2")]
    assert walk([TURNS[0], *late, TURNS[1]], [T1, TurnSpan("a2", "t9", 0, 1)]) == [
        "A>X other_turn",
        "X>B t1!",
    ]
    early = [cap(3, "turn_start", "t9", "X", "a2")]
    spans = [T1, TurnSpan("a2", "t9", 1, None)]
    assert walk([TURNS[0], *early, TURNS[1]], spans) == ["A>X t1!", "X>B other_turn"]


@pytest.mark.contract("A-11")
def test_another_agents_capture_splits_a_turn_and_leaves_both_parts_turn_windows() -> None:
    captures = [TURNS[0], cap(3, "manual", None, "X", "a2"), TURNS[1]]
    assert walk(captures, [T1]) == ["A>X t1!", "X>B t1!"]
    between = [TURNS[1], cap(5, "manual", None, "X", "a2"), TURNS[2]]
    assert walk(between, [T1, T2]) == ["B>X between_turns", "X>C between_turns"]


def test_another_agents_turn_is_no_turn_of_ours() -> None:
    captures = [
        cap(2, "turn_start", "t1", "A", "a2"),
        cap(4, "turn_end", "t1", "B", "a2"),
        cap(5, "manual", None, "M"),
    ]
    assert walk(captures, [TurnSpan("a2", "t1", 2, 4)], target=2) == [
        "A>B between_turns",
        "B>M between_turns",
    ]


@pytest.mark.contract("V-235", "V-364")
def test_a_take_over() -> None:
    captures = [
        *TURNS[:2],
        cap(5, "takeover", None, "O"),
        cap(6, "manual", None, "M"),
        cap(7, "takeback", None, "P"),
    ]
    assert walk(captures, [T1]) == ["A>B t1!", "B>O between_turns", "O>M take_over", "M>P take_over"]


@pytest.mark.contract("V-232", "V-235")
@pytest.mark.parametrize(("back", "found"), [(None, "take_over"), (6, "take_over"), (1, "t1!")])
def test_a_take_over_of_another_agent_in_our_turn(back: int | None, found: str) -> None:
    """A person drives that agent's harness in our tree: nobody can tell its turns from ours."""
    captures = [cap(0, "takeover", None, "O", "a2"), *TURNS[:2]]
    if back is not None:
        captures.append(cap(back, "takeback", None, "P", "a2"))
    assert f"A>B {found}" in walk(captures, [T1], target=2) or f"P>B {found}" in walk(
        captures, [T1], target=2
    )


@pytest.mark.contract("V-236")
def test_across_a_failed_capture() -> None:
    failed_start = [TURNS[0], TURNS[1], cap(6, "turn_start", "t2", None), TURNS[3]]
    assert walk(failed_start, [T1, T2]) == ["A>B t1!", "B>D lost_capture"]
    failed_end = [TURNS[0], cap(4, "turn_end", "t1", None), *TURNS[2:]]
    assert walk(failed_end, [T1, T2]) == ["A>C lost_capture", "C>D t2!"]
    failed_manual = [TURNS[0], cap(3, "manual", "t1", None), TURNS[1]]
    assert walk(failed_manual, [T1]) == ["A>B lost_capture"]


@pytest.mark.contract("V-177", "V-237")
def test_across_pruned_captures() -> None:
    pruned = [TURNS[0], cap(4, "turn_end", "t1", None), cap(6, "turn_start", "t2", None), TURNS[3]]
    assert walk(pruned, [T1, T2]) == ["A>D lost_capture"]


@pytest.mark.contract("V-238", "A-10")
def test_a_turn_without_a_start() -> None:
    captures = [*TURNS[:2], TURNS[3]]
    assert walk(captures, [T1, T2]) == ["A>B t1!", "B>D no_turn_start"]
    split = [*TURNS[:2], cap(7, "manual", "t2", "M"), TURNS[3]]
    assert walk(split, [T1, T2]) == ["A>B t1!", "B>M no_turn_start", "M>D t2!"], (
        "it ran at both ends of the second half"
    )


def test_a_turn_end_that_holds_part_of_the_next_turn() -> None:
    """What the next turn wrote by then has no turn_start before it, so it can't be told from anybody's."""
    captures = [TURNS[0], cap(4, "turn_end", "t1", "B", overlap=True), cap(8, "turn_end", "t2", "D")]
    assert walk(captures, [T1, TurnSpan("a1", "t2", 3, 8)]) == ["A>B overlap", "B>D no_turn_start"]
    unsaid = [TURNS[0], TURNS[1], cap(8, "turn_end", "t2", "D")]
    assert walk(unsaid, [T1, TurnSpan("a1", "t2", 3, 8)]) == ["A>B overlap", "B>D no_turn_start"]
    split = [TURNS[0], cap(3, "manual", "t1", "M"), captures[1]]
    assert walk(split, [T1]) == ["A>M t1!", "M>B overlap"]


def test_a_turn_that_never_ended_ends_where_the_next_begins() -> None:
    captures = [TURNS[0], TURNS[2], TURNS[3]]
    assert walk(captures, [TurnSpan("a1", "t1", 2, None), T2]) == ["A>C between_turns", "C>D t2!"]


def test_a_turn_whose_end_was_never_captured() -> None:
    """Automatic capture was off, or it was killed: the next look is after the turn, and so is what was written in between."""
    captures = [TURNS[0], cap(5, "manual", None, "M"), TURNS[2]]
    assert walk(captures, [T1, T2]) == ["A>M between_turns", "M>C between_turns"]


def test_nothing_of_a_turn_comes_after_its_turn_end() -> None:
    """Even if the log says that it ended later, and another agent's capture lies between."""
    captures = [*TURNS[:2], cap(5, "manual", None, "X", "a2"), TURNS[2]]
    spans = [TurnSpan("a1", "t1", 2, 9), T2]
    assert walk(captures, spans, target=4) == ["B>X between_turns", "X>C between_turns"]


BACK = [
    cap(2, "turn_start", "t1", "A"),
    cap(4, "turn_end", "t1", "B"),
    cap(5, "pre_rollback", None, "C"),
    cap(7, "rollback", None, "D"),
]


@pytest.mark.contract("V-233")
@pytest.mark.parametrize(
    ("done", "found"),
    [
        (Rollback(6, 8, "a1", 7, "D", True), ["C>D rollback"]),
        (Rollback(6, 8, "a1", 7, "E", True), ["C>E rollback", "E>D rollback_drift"]),
        (Rollback(6, 8, "a1", 7, None, True), ["C>D rollback_unknown"]),
        (Rollback(6, 8, "a1", 7, "D", False), ["C>D rollback_unknown"]),
        (Rollback(6, None, "a1", 7, "D", False), ["C>D rollback_unknown"]),
        (Rollback(6, 8, "a2", 7, "D", True), ["C>D rollback_unknown"]),
        (Rollback(6, 8, "a1", 9, "D", True), ["C>D rollback_unknown"]),
        (Rollback(5, 8, "a1", 7, "D", True), ["C>D rollback_unknown"]),
        (None, ["C>D rollback_unknown"]),
    ],
)
def test_a_rollback(done: Rollback | None, found: list[str]) -> None:
    """Only what it was to write is its own: the rest was written by somebody meanwhile."""
    assert walk(BACK, [T1], [done] if done else []) == ["A>B t1!", "B>C between_turns", *found]


@pytest.mark.contract("V-233")
def test_a_rollback_of_another_agent_on_the_same_tree() -> None:
    captures = [
        cap(2, "turn_end", "t1", "A"),
        cap(5, "pre_rollback", None, "C", "a2"),
        cap(7, "rollback", None, "D", "a2"),
    ]
    assert walk(captures, [], [Rollback(6, 8, "a2", 7, "D", True)]) == ["A>C between_turns", "C>D rollback"]


def test_a_rollback_whose_safety_checkpoint_is_pruned() -> None:
    captures = [BACK[1], cap(5, "pre_rollback", None, None), BACK[3]]
    assert walk(captures, [], [Rollback(6, 8, "a1", 7, "D", True)]) == ["B>D lost_capture"]
    without = [BACK[1], BACK[3]]
    assert walk(without, [], [Rollback(6, 8, "a1", 7, "D", True)]) == ["B>D rollback_unknown"]


@pytest.mark.contract("V-019")
def test_back_to_a_safety_checkpoint() -> None:
    assert walk(BACK, [T1], [Rollback(6, 8, "a1", 7, "D", True)], target=5) == ["C>D rollback"]


def test_a_turn_during_somebodys_rollback_is_in_doubt() -> None:
    """The preflight lets no rollback run beside a turn; if a log says that one did, nothing is taken for the turn's."""
    assert walk(TURNS[:2], [T1], [Rollback(3, None, "a2", None, None, False)]) == ["A>B rollback_unknown"]


def test_a_forks_first_checkpoint_is_no_look_at_the_tree() -> None:
    """It names an old commit: taken for a look, it would seem that everything was changed back and forth."""
    captures = [*TURNS[:2], cap(5, "fork", None, "A", "a7"), *TURNS[2:]]
    assert walk(captures, [T1, T2]) == walk(TURNS, [T1, T2])


@pytest.mark.contract("V-196")
def test_back_to_where_a_fork_began_everything_before_its_turns_is_outside() -> None:
    captures = [
        *TURNS[:2],
        cap(5, "fork", None, "A", "a7"),
        cap(6, "turn_start", "t1", "B", "a7"),
        cap(8, "turn_end", "t1", "D", "a7"),
    ]
    spans = [T1, TurnSpan("a7", "t1", 6, 8)]
    assert walk(captures, spans, target=5, agent="a7") == ["A>B between_turns", "B>D t1!"]


def test_another_log_on_the_tree_makes_everything_a_gap() -> None:
    done = [Rollback(9, 11, "a1", 10, "F", True)]
    captures = [*TURNS, cap(8, "pre_rollback", None, "E"), cap(10, "rollback", None, "F")]
    assert {found.split()[1] for found in walk(captures, [T1, T2], done, foreign=True)} == {"foreign"}


def test_a_target_that_isnt_there() -> None:
    for captures in ([], [cap(2, "turn_start", "t1", None)], TURNS[1:]):
        with pytest.raises(ValueError, match="position 2"):
            windows(captures, [], [], agent="a1", target_seq=2, now=now())


TURN = Window(cap(2, "", None, "A"), cap(4, "", None, "B"), WindowKind.TURN, "a1", "t1")
GAP = Window(cap(4, "", None, "B"), cap(6, "", None, "C"), WindowKind.GAP, reason="between_turns")
TURN2 = Window(cap(6, "", None, "C"), cap(8, "", None, "D"), WindowKind.TURN, "a1", "t2")
ROLLED = Window(cap(8, "", None, "D"), cap(9, "", None, "E"), WindowKind.ROLLBACK, "a1")


@pytest.mark.contract("V-241", "V-242", "V-243", "V-248")
@pytest.mark.parametrize(
    ("changed", "edits", "found"),
    [
        ([(TURN, [b"p"])], [], PathClass.TURN),
        ([(TURN, [b"p"])], [("t1", b"p")], PathClass.AGENT),
        ([(TURN, [b"p"])], [("t1", b"q"), ("t9", b"p")], PathClass.TURN),
        ([(GAP, [b"p"])], [], PathClass.OUTSIDE),
        ([(TURN, [b"p"]), (GAP, [b"p"])], [("t1", b"p")], PathClass.OUTSIDE),
        ([(GAP, [b"p"]), (TURN2, [b"p"])], [("t2", b"p")], PathClass.OUTSIDE),
        ([(TURN, []), (TURN2, [b"p"])], [("t1", b"p")], PathClass.AGENT),
        ([(ROLLED, [b"p"])], [], PathClass.TURN),
        ([(TURN, []), (ROLLED, [b"p"])], [("t1", b"p")], PathClass.AGENT),
        ([(ROLLED, [b"p"]), (GAP, [b"p"])], [], PathClass.OUTSIDE),
        ([(TURN, [b"q"])], [("t1", b"p")], PathClass.OUTSIDE),
        ([], [("t1", b"p")], PathClass.OUTSIDE),
    ],
)
def test_classes(
    changed: list[tuple[Window, list[bytes]]], edits: list[tuple[str, bytes]], found: PathClass
) -> None:
    assert classify(changed, edits, [b"p"]) == {b"p": found}


@pytest.mark.contract("V-244")
def test_only_paths_that_differ_between_s_and_t_are_classified() -> None:
    """Changed and changed back: the windows name it, S and T don't differ there."""
    changed = [(TURN, [b"p", b"back"]), (GAP, [b"back"])]
    assert classify(changed, [], [b"p"]) == {b"p": PathClass.TURN}


def test_many_windows_are_quick() -> None:
    """A long log with sharers: a search for each window, not a walk through all turns."""
    captures, spans = [], []
    for n in range(20_000):
        agent = ("a1", "a2")[n % 2]
        captures += [
            cap(4 * n, "turn_start", f"t{n}", f"s{n}", agent),
            cap(4 * n + 2, "turn_end", f"t{n}", f"e{n}", agent),
        ]
        spans.append(TurnSpan(agent, f"t{n}", 4 * n, 4 * n + 2))
    found = windows(captures, spans, [], agent="a1", target_seq=0, now=now())
    assert sum(window.kind is WindowKind.TURN for window in found) == 10_000
