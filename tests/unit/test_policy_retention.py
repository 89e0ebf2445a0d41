"""Which checkpoints stay: the rows of 5.2 as tables."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnback.policy.retention import COUNTED, Item, KeepReason, retain

DAY = 86_400_000
NOW = 100 * DAY


def kept(
    items: list[Item], *, keep: int = 100, keep_for: int = 14 * DAY, keep_safety: int = 30 * DAY
) -> dict[str, str]:
    """Each checkpoint with ``+`` or ``-`` and the reason."""
    decisions = retain(items, now=NOW, keep=keep, keep_for=keep_for, keep_safety=keep_safety)
    return {d.checkpoint: f"{'+' if d.keep else '-'}{d.reason}" for d in decisions}


def item(number: int, reason: str = "turn_end", days: float = 0, *, pinned: bool = False) -> Item:
    return Item(f"k{number}", reason, NOW - int(days * DAY), pinned)


@pytest.mark.contract("V-172")
@pytest.mark.parametrize("reason", sorted(COUNTED | {"manual", "pre_rollback"}))
def test_the_newest_always_stays(reason: str) -> None:
    found = kept([item(1, reason, 99), item(2, reason, 99)], keep=0, keep_for=0, keep_safety=0)
    assert found["k2"] == "+newest"
    assert found["k1"].startswith("-")


@pytest.mark.contract("V-173")
@pytest.mark.parametrize("reason", sorted(COUNTED))
def test_counted_ones_go_beyond_keep_or_by_age(reason: str) -> None:
    assert kept([item(n, reason) for n in range(1, 5)], keep=2) == {
        "k4": "+newest",
        "k3": "+recent",
        "k2": "-beyond_keep",
        "k1": "-beyond_keep",
    }
    assert kept([item(1, reason, 14.1), item(2, reason, 14), item(3)]) == {
        "k3": "+newest",
        "k2": "+recent",
        "k1": "-older_than_keep_for",
    }


@pytest.mark.contract("V-174", "A-15")
def test_manual_goes_by_age_alone_and_takes_no_place() -> None:
    items = [
        item(1, "manual", 15),
        item(2, "manual", 13),
        item(3),
        item(4, "manual"),
        item(5, "pre_rollback"),
        item(6),
    ]
    assert kept(items, keep=2) == {
        "k6": "+newest",
        "k5": "+safety",
        "k4": "+labelled",
        "k3": "+recent",
        "k2": "+labelled",
        "k1": "-older_than_keep_for",
    }


@pytest.mark.contract("V-175")
def test_safety_goes_by_its_own_age() -> None:
    items = [item(1, "pre_rollback", 31), item(2, "pre_rollback", 30), item(3, "pre_rollback", 15), item(4)]
    assert kept(items, keep=0) == {
        "k4": "+newest",
        "k3": "+safety",
        "k2": "+safety",
        "k1": "-older_than_keep_safety",
    }


@pytest.mark.contract("X-06")
def test_a_label_pins_to_the_row_of_manual() -> None:
    items = [item(1, "turn_end", 15, pinned=True), item(2, "turn_end", 13, pinned=True), item(3), item(4)]
    assert kept(items, keep=1) == {
        "k4": "+newest",
        "k3": "-beyond_keep",
        "k2": "+labelled",
        "k1": "-older_than_keep_for",
    }


def test_a_label_never_shortens_a_safety_checkpoints_life() -> None:
    items = [item(1, "pre_rollback", 20, pinned=True), item(2, "pre_rollback", 40, pinned=True), item(3)]
    assert kept(items) == {"k3": "+newest", "k2": "-older_than_keep_safety", "k1": "+safety"}
    assert kept(items, keep_for=50 * DAY)["k2"] == "+safety"


def test_newest_is_by_id_and_not_by_clock() -> None:
    """The clock was set back between the two, and k10 is newer than k9."""
    assert kept([item(9, days=-5), item(10, days=40)], keep=1) == {"k10": "+newest", "k9": "-beyond_keep"}
    assert kept([item(10, days=40), item(9, days=-5)])["k9"] == "+recent", (
        "in any order; the future is not old"
    )


def test_nothing() -> None:
    assert kept([]) == {}


items_of = st.lists(
    st.tuples(
        st.sampled_from(sorted(COUNTED | {"manual", "pre_rollback"})), st.integers(-5, 60), st.booleans()
    ),
    max_size=20,
)


@given(made=items_of, keep=st.integers(0, 5), limits=st.tuples(st.integers(0, 40), st.integers(0, 40)))
@pytest.mark.contract("V-172", "V-173", "V-174", "V-175")
def test_against_the_table_read_aloud(
    made: list[tuple[str, int, bool]], keep: int, limits: tuple[int, int]
) -> None:
    items = [item(n + 1, reason, days, pinned=pinned) for n, (reason, days, pinned) in enumerate(made)]
    found = retain(items, now=NOW, keep=keep, keep_for=limits[0] * DAY, keep_safety=limits[1] * DAY)
    assert [d.checkpoint for d in found] == [f"k{n}" for n in range(len(items), 0, -1)]
    for place, decision in enumerate(found):
        reason, days, pinned = made[len(made) - 1 - place]
        newer = [m for m in made[len(made) - place :] if m[0] in COUNTED and not m[2]]
        if place == 0:
            expected = True
        elif reason == "pre_rollback":
            expected = days <= limits[1] or (pinned and days <= limits[0])
        elif reason == "manual" or pinned:
            expected = days <= limits[0]
        else:
            expected = days <= limits[0] and len(newer) < keep
        assert decision.keep is expected
        assert (
            decision.reason in {KeepReason.NEWEST, KeepReason.RECENT, KeepReason.LABELLED, KeepReason.SAFETY}
        ) is expected
