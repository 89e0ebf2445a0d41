"""Which checkpoints bring the conversation back, what they drop, and the note for the ones that don't."""

from __future__ import annotations

from typing import Any

import pytest

from turnback.config import ROLLBACK_NOTE
from turnback.errors import TurnbackError
from turnback.policy.conversation import Point, TurnFacts, check, conversation, rollback_note

TURNS = [TurnFacts(f"t{n}", harness_turn=f"h{n}", harness_end=f"e{n}") for n in (1, 2, 3)]
DROPPED = [TURNS[0], TurnFacts("t2", dropped=True, harness_turn="h2", harness_end="e2"), TURNS[2]]
BARE = [TurnFacts("t1"), TurnFacts("t2"), TurnFacts("t3")]
NOTE_AFTER = (
    "Note: the files were rolled back to their state after turn t3. Changes made after that point are gone, and what you "
    "remember of them may no longer be true. Read the files before you rely on them."
)
NOTE_BEFORE = (
    "Note: the files were rolled back to their state before your first turn. Changes made after that point are gone, and what "
    "you remember of them may no longer be true. Read the files before you rely on them."
)


def shown(point: Point, turns: list[TurnFacts], rewind: bool, **more: Any) -> str:
    """A verdict in a line: what a listing says, and what restore=all would do or why not."""
    verdict = conversation(point, turns, rewind=rewind, **more)
    try:
        check(verdict, "k2")
    except TurnbackError as error:
        found = error.data.get("why", error.code)
        assert not verdict.possible, "what is listed as possible is not refused"
    else:
        assert verdict.possible, "what is refused is not listed as possible"
        found = "rewinds" if verdict.rewinds else "nothing to rewind"
    return f"{found} [{' '.join(verdict.drops)}]"


@pytest.mark.contract("V-311", "V-312", "V-313", "V-314", "V-315", "V-316", "V-318", "V-319", "A-56")
@pytest.mark.parametrize(
    ("point", "turns", "rewind", "expected"),
    [
        # The latest turn: nothing to rewind, on any harness, with or without ids.
        (Point("t3", "turn_end"), TURNS, True, "nothing to rewind []"),
        (Point("t3", "turn_end"), BARE, False, "nothing to rewind []"),
        (Point("t3", "turn_start"), TURNS, False, "nothing to rewind []"),
        (Point("t1", "turn_end"), DROPPED[:2], False, "nothing to rewind []"),
        # An earlier turn: what the adapter can.
        (Point("t1", "turn_end"), TURNS, True, "rewinds [t2 t3]"),
        (Point("t1", "turn_end"), DROPPED, True, "rewinds [t3]"),
        (Point("t1", "turn_end"), TURNS, False, "unsupported.harness_capability [t2 t3]"),
        # Before the first turn: any harness.
        (Point(None, "turn_start"), TURNS, True, "rewinds [t1 t2 t3]"),
        (Point(None, "turn_start"), BARE, False, "rewinds [t1 t2 t3]"),
        (Point(None, "turn_start"), DROPPED, False, "rewinds [t1 t3]"),
        (Point(None, "manual"), [], False, "nothing to rewind []"),
        # The checkpoint can't.
        (Point("t3", "manual", mid_turn=True), TURNS, True, "mid_turn []"),
        (Point("t3", "turn_end", overlap=True), TURNS, True, "overlap []"),
        (Point("t3", "fork"), TURNS, True, "fork []"),
        (Point(None, "fork"), [], False, "fork []"),
        (Point("t3", "takeback", catch_up_failed=True), TURNS, True, "catch_up_failed []"),
        (Point("t3", "takeback", catch_up_failed=True), BARE, False, "catch_up_failed []"),
        (Point("t2", "turn_end"), DROPPED, True, "dropped_turn [t3]"),
        (Point("t2", "turn_end"), DROPPED[:2], True, "dropped_turn []"),
        (Point("t9", "turn_end"), TURNS, True, "dropped_turn []"),
        (Point("t1", "turn_end"), BARE, True, "no_harness_id [t2 t3]"),
        # Both apply: the capability goes first, when there is a turn to go back to.
        (Point("t1", "manual", mid_turn=True), TURNS, False, "unsupported.harness_capability [t2 t3]"),
        (Point("t2", "turn_end"), DROPPED, False, "unsupported.harness_capability [t3]"),
        (Point("t3", "turn_end", overlap=True), TURNS, False, "overlap []"),
        (Point(None, "manual", mid_turn=True), TURNS, False, "mid_turn [t1 t2 t3]"),
    ],
    ids=str,
)
def test_verdicts(point: Point, turns: list[TurnFacts], rewind: bool, expected: str) -> None:
    assert shown(point, turns, rewind, needs=("harness_end",)) == expected


@pytest.mark.contract("V-312", "V-325")
@pytest.mark.parametrize(
    ("needs", "found"),
    [
        ((), "rewinds"),
        (("harness_turn",), "rewinds"),
        (("harness_end",), "no_harness_id"),
        (("harness_turn", "harness_end"), "no_harness_id"),
    ],
)
def test_only_the_id_that_the_adapter_needs(needs: tuple[str, ...], found: str) -> None:
    turns = [TurnFacts("t1", harness_turn="h1"), TurnFacts("t2")]
    assert shown(Point("t1", "turn_end"), turns, True, needs=needs) == f"{found} [t2]"


def test_before_the_first_turn_of_a_fork_is_not_from_nothing() -> None:
    """A fork's conversation began as a copy: clearing it would lose what it was forked from."""
    assert shown(Point(None, "turn_start"), TURNS[:1], True, inherited=True) == "no_harness_id [t1]"
    assert shown(Point(None, "turn_start"), [], True, inherited=True) == "nothing to rewind []"
    assert shown(Point("t1", "turn_end"), TURNS[:2], True, inherited=True) == "rewinds [t2]"


@pytest.mark.contract("X-05")
def test_a_reused_checkpoint_drops_the_turn_that_changed_no_file() -> None:
    """k2 was taken after t1 and found again after t2."""
    assert shown(Point("t1", "turn_end"), TURNS[:2], True) == "rewinds [t2]"


@pytest.mark.contract("V-017", "V-028")
def test_the_member_of_the_result() -> None:
    verdict = conversation(Point("t1", "turn_end"), TURNS, rewind=True)
    assert verdict.to_dict("all") == {"rewinds": True, "through_turn": "t1", "drops": ["t2", "t3"]}
    assert verdict.to_dict("files") == {"rewinds": False, "through_turn": "t1", "drops": []}


@pytest.mark.contract("V-318", "V-319", "V-432", "V-437")
def test_the_errors() -> None:
    with pytest.raises(TurnbackError) as caught:
        check(conversation(Point("t1", "turn_end"), TURNS, rewind=False), "k2")
    assert caught.value.data == {"fix": "--restore=files"}
    assert caught.value.exit_code == 10
    with pytest.raises(TurnbackError) as caught:
        check(conversation(Point("t1", "fork"), TURNS, rewind=True), "k2")
    assert (caught.value.code, caught.value.data) == ("conflict.checkpoint_files_only", {"why": "fork"})
    assert caught.value.exit_code == 5
    assert "--restore=files" in caught.value.message


@pytest.mark.contract("V-349", "V-350")
def test_the_note() -> None:
    assert rollback_note(ROLLBACK_NOTE, "t3") == NOTE_AFTER
    assert rollback_note(ROLLBACK_NOTE, None) == NOTE_BEFORE
    assert rollback_note("{files} {when}, {}", "t1") == "{files} after turn t1, {}", "other braces stay"
    assert rollback_note("nothing to fill in", "t1") == "nothing to fill in"
