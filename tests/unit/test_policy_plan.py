"""The decision table: the rows of docs/plan-table.md are read and run against the code, and no row ever loses anything."""

from __future__ import annotations

from itertools import product
from pathlib import Path
from typing import NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnback.changes import EXECUTABLE, FILE, LINK, ChangeKind, Entry
from turnback.limits import Skipped, SkipReason
from turnback.policy.plan import (
    Choices,
    Cover,
    Covers,
    Found,
    Left,
    LeftReason,
    OutsideChoice,
    PathCase,
    PathClass,
    Step,
    decide,
    outside_conflicts,
    plan,
)
from turnback.policy.table import ROWS, Facets, facets, row

PAGE = Path(__file__).parents[2] / "docs" / "plan-table.md"
PATH = b"src/main.py"
A, B, C = Entry(FILE, "a" * 40), Entry(FILE, "b" * 40), Entry(FILE, "c" * 40)
LINK_A = Entry(LINK, "d" * 40)

VALUES = {
    "scope": ("in", "out"),
    "cover": ("none", "skipped", "gitlink"),
    "delta": ("same", "create", "modify", "delete"),
    "name": ("fine", "refused", "collides"),
    "whose": ("own", "refuse", "keep", "overwrite", "merge"),
    "merge": ("nothing", "result", "conflict"),
    "ignored": ("no", "yes"),
    "look": ("clear", "blocked"),
    "stays": ("no", "yes"),
}
EVERY = [Facets(*values) for values in product(*VALUES.values())]


class PageRow(NamedTuple):
    """A row of the page: for each facet the values it takes, and the outcome."""

    id: str
    takes: tuple[frozenset[str] | None, ...]
    outcome: str

    def holds(self, found: Facets) -> bool:
        return all(takes is None or value in takes for takes, value in zip(self.takes, found, strict=True))


def cells(prefix: str) -> list[list[str]]:
    """The tables' rows whose number starts with a letter."""
    lines = PAGE.read_text(encoding="utf-8").splitlines()
    split = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("| ")]
    return [row for row in split if row[0][:1] == prefix and row[0][1:].isdigit()]


def values(cell: str) -> frozenset[str] | None:
    return None if cell == "*" else frozenset(value.strip() for value in cell.split(","))


PAGE_ROWS = [PageRow(row[0], tuple(values(cell) for cell in row[1:-1]), row[-1]) for row in cells("P")]
CLEAR = {row[1]: values(row[2]) for row in cells("L")}


def construct(wanted: Facets) -> list[tuple[PathCase, Choices]]:
    """Every case that boils down to the facets; none where they can't occur together."""
    target, state = {"same": (A, A), "create": (A, None), "modify": (A, B), "delete": (None, B)}[wanted.delta]
    if wanted.merge == "result" and None in (target, state):
        return []
    cover = {
        "none": None,
        "skipped": Cover(PATH, LeftReason.TOO_BIG),
        "gitlink": Cover(PATH, LeftReason.GITLINK, "commit of T"),
    }[wanted.cover]
    clear = CLEAR["nothing" if state is None else "file"]
    assert clear is not None
    looks = [found for found in Found if (found.value in clear) is (wanted.look == "clear")]
    rules = [(False, False)] if wanted.ignored == "no" else [(True, False), (False, True), (True, True)]
    says: list[tuple[PathClass | None, Choices]]
    if wanted.whose == "own":
        says = [
            (path_class, Choices(None, guarded))
            for path_class in (PathClass.AGENT, PathClass.TURN)
            for guarded in (False, True)
        ]
    else:
        choice = OutsideChoice(wanted.whose)
        says = [(PathClass.OUTSIDE, Choices(choice, guarded=True)), (None, Choices(choice))]
        if wanted.whose in ("refuse", "overwrite"):
            says.append((PathClass.OUTSIDE, Choices(None, guarded=wanted.whose == "refuse")))
    return [
        (
            PathCase(
                path=PATH,
                target=target,
                state=state,
                found=found,
                path_class=path_class,
                cover=cover,
                ignored_then=then,
                ignored_now=now,
                refused="a reason" if wanted.name == "refused" else None,
                collides=wanted.name == "collides",
                in_scope=wanted.scope == "in",
                merged=C if wanted.merge == "result" else None,
                merge_conflict=wanted.merge == "conflict",
                stays=Left(b"src", LeftReason.OUTSIDE) if wanted.stays == "yes" else None,
            ),
            choices,
        )
        for found in looks
        for then, now in rules
        for path_class, choices in says
    ]


def told(decision: Step | Left | None, case: PathCase, conflict: bool) -> str:
    """A decision in the page's words."""
    if decision is None:
        return "nothing"
    if isinstance(decision, Left):
        if conflict:
            return "conflict"
        if case.cover is not None and decision == Left(case.cover.path, case.cover.reason, case.cover.detail):
            return "left cover"
        if case.stays is not None and decision.reason is case.stays.reason and decision.detail:
            return "left stays" if "stays where it is" in decision.detail else f"left {decision.reason}"
        return f"left {decision.reason}"
    return "merge" if decision.merged else str(decision.change)


def test_the_page_and_the_code_have_the_same_rows() -> None:
    coded = [PageRow(r.id, tuple(values(p.replace("|", ",")) for p in r[1:-1]), r.outcome) for r in ROWS]
    assert coded == PAGE_ROWS


def test_the_page_lists_the_facets_values() -> None:
    listed = {
        cells[0]: tuple(cells[1].strip("`").split("` `"))
        for line in PAGE.read_text(encoding="utf-8").splitlines()
        if len(cells := [cell.strip() for cell in line.strip("|").split("|")]) == 3
        and cells[0] in Facets._fields
    }
    assert {name: set(found) for name, found in listed.items()} == {n: set(v) for n, v in VALUES.items()}


def test_every_combination_falls_in_exactly_one_row() -> None:
    used = set()
    for found in EVERY:
        holding = [page.id for page in PAGE_ROWS if page.holds(found)]
        assert len(holding) == 1, f"{found}: {holding}"
        used.add(holding[0])
    assert used == {page.id for page in PAGE_ROWS}, "a row of the page that nothing falls in"


@pytest.mark.contract(
    "V-190", "V-191", "V-192", "V-245", "V-246", "V-247", "V-264", "V-265", "V-268", "V-269"
)
@pytest.mark.parametrize("page", PAGE_ROWS, ids=lambda page: page.id)
def test_row(page: PageRow) -> None:
    """Whatever falls in the row gets the outcome that the page says."""
    tried = 0
    for wanted in EVERY:
        if not page.holds(wanted):
            continue
        for case, choices in construct(wanted):
            tried += 1
            assert facets(case, choices) == wanted
            assert row(case, choices).id == page.id
            conflict = bool(outside_conflicts([case], choices))
            assert told(decide(case, choices), case, conflict) == page.outcome, (case, choices)
    assert tried, "the row can't occur"


@pytest.mark.parametrize("holds", ["nothing", "file", "link"])
@pytest.mark.parametrize("found", list(Found))
@pytest.mark.contract("V-270")
def test_look(holds: str, found: Found) -> None:
    """Rows L01 to L03: what may stand at a path for the plan to go on."""
    state = {"nothing": None, "file": B, "link": LINK_A}[holds]
    case = PathCase(path=PATH, target=A, state=state, found=found)
    clear = CLEAR[holds]
    assert clear is not None
    assert facets(case, Choices()).look == ("clear" if found.value in clear else "blocked")


entries = st.sampled_from([None, A, B, Entry(EXECUTABLE, "a" * 40), LINK_A])
raws = st.sampled_from([None, "1" * 64, "2" * 64])
covers = st.sampled_from(
    [None, *(Cover(path, reason) for path in (PATH, b"src") for reason in (*LeftReason,)[1:9])]
)
cases = st.builds(
    PathCase,
    path=st.just(PATH),
    target=entries,
    state=entries,
    found=st.sampled_from(Found),
    target_raw=raws,
    state_raw=raws,
    path_class=st.sampled_from([None, *PathClass]),
    cover=covers,
    ignored_then=st.booleans(),
    ignored_now=st.booleans(),
    refused=st.sampled_from([None, "a reason"]),
    collides=st.booleans(),
    in_scope=st.booleans(),
    merged=entries,
    merge_conflict=st.booleans(),
    stays=st.sampled_from([None, Left(b"src", LeftReason.OUTSIDE)]),
)
choices = st.builds(Choices, outside=st.sampled_from([None, *OutsideChoice]), guarded=st.booleans())


@given(case=cases, chosen=choices)
@pytest.mark.contract("V-040", "V-041", "V-246", "V-266", "V-267", "V-268", "V-269", "V-270")
def test_no_combination_loses_anything(case: PathCase, chosen: Choices) -> None:
    """Whatever is known about a path, one row holds, and a step is taken only where nothing can be lost."""
    decision = decide(case, chosen)
    outside = case.path_class in (None, PathClass.OUTSIDE)
    if isinstance(decision, Left):
        assert decision.reason in LeftReason
        return
    if decision is None:
        same = (case.target, case.target_raw) == (case.state, case.state_raw)
        assert not case.in_scope or same or case.target == case.state or case.filtered
        return
    held = case.state is not None or case.filtered
    assert case.in_scope, "a step out of scope"
    assert (case.refused, case.collides) == (None, False), "a step on a name that may not be written"
    assert case.cover is None or case.filtered, "a step at or beneath a gitlink or a skipped path"
    assert not (outside and chosen.effective in (OutsideChoice.KEEP, OutsideChoice.REFUSE)), "kept is left"
    if decision.change is ChangeKind.CREATE:
        assert not held
        assert case.stays is None
        assert case.found in (Found.ABSENT, Found.FOLDER_EMPTY, Found.FOLDER_OF_CAPTURED), (
            "written over something"
        )
    else:
        assert held, "deleted or replaced what S does not hold"
        kind = Found.LINK if case.state is not None and case.state.mode == LINK else Found.FILE
        assert case.found is kind, "what is there is not what S holds"
    if decision.change is ChangeKind.DELETE:
        assert case.target is None
        assert (case.ignored_then, case.ignored_now) == (False, False), "deleted what an ignore rule covers"
    if decision.merged:
        assert (outside, chosen.effective) == (True, OutsideChoice.MERGE)
        assert (decision.target, case.merge_conflict) == (case.merged, False)
    elif decision.change is not ChangeKind.DELETE:
        assert (decision.target, decision.raw) == (case.target, case.target_raw), "not what T holds"


@pytest.mark.contract("V-192", "V-245", "V-247")
@pytest.mark.parametrize(
    ("outside", "guarded", "effective"),
    [
        (None, True, "refuse"),
        (None, False, "overwrite"),
        ("refuse", False, "refuse"),
        ("keep", True, "keep"),
        ("overwrite", True, "overwrite"),
        ("merge", True, "merge"),
    ],
)
def test_the_default_of_outside(outside: str | None, guarded: bool, effective: str) -> None:
    given_choice = None if outside is None else OutsideChoice(outside)
    assert Choices(given_choice, guarded).effective == effective


def case(
    path: bytes,
    target: Entry | None,
    state: Entry | None,
    found: Found | None = None,
    path_class: PathClass = PathClass.TURN,
    *,
    cover: Cover | None = None,
    in_scope: bool = True,
    ignored_now: bool = False,
) -> PathCase:
    return PathCase(
        path=path,
        target=target,
        state=state,
        found=found or (Found.ABSENT if state is None else Found.FILE),
        path_class=path_class,
        cover=cover,
        in_scope=in_scope,
        ignored_now=ignored_now,
    )


@pytest.mark.contract("V-263")
def test_a_file_takes_the_place_of_a_folder_and_the_reverse() -> None:
    cases = [
        case(b"a", A, None, Found.FOLDER_OF_CAPTURED),
        case(b"a/x", None, B),
        case(b"b", None, B),
        case(b"b/y", A, None),
    ]
    made = plan(cases, Choices())
    assert [(step.path, str(step.change)) for step in made.steps] == [
        (b"a", "create"),
        (b"a/x", "delete"),
        (b"b", "delete"),
        (b"b/y", "create"),
    ]
    assert made.left == ()


@pytest.mark.parametrize(
    ("stays", "reason"),
    [
        (case(b"a/x", None, B, path_class=PathClass.OUTSIDE), "outside"),
        (case(b"a/x", None, B, ignored_now=True), "ignored"),
        (case(b"a/x", None, B, Found.ABSENT), "changed"),
        (case(b"a/x", None, None, cover=Cover(b"a/x", LeftReason.TOO_BIG)), "too_big"),
        (case(b"a/x/y", None, None, cover=Cover(b"a/x", LeftReason.UNREADABLE)), "unreadable"),
        (case(b"a/x", None, B, cover=Cover(b"a/x", LeftReason.GITLINK)), "gitlink"),
        (case(b"a/x", None, B, in_scope=False), "ignored_in_the_way"),
    ],
)
def test_what_stays_beneath_keeps_the_new_file_away(stays: PathCase, reason: str) -> None:
    """T has a file where S has a folder, and something in the folder is left."""
    cases = [case(b"a", A, None, Found.FOLDER_OF_CAPTURED), stays, case(b"a/z", None, B)]
    made = plan(cases, Choices(OutsideChoice.KEEP))
    assert [step.path for step in made.steps] == [b"a/z"], "the rest of the folder goes all the same"
    assert {left.path: str(left.reason) for left in made.left}[b"a"] == reason


def test_what_stays_above_keeps_the_new_file_away() -> None:
    """S has a file, kept, where T has a folder."""
    cases = [case(b"a", None, B, path_class=PathClass.OUTSIDE), case(b"a/b/c", A, None)]
    made = plan(cases, Choices(OutsideChoice.KEEP))
    assert made.steps == ()
    assert [left.to_dict() for left in made.left] == [
        {"path": "a", "reason": "outside"},
        {"path": "a/b/c", "reason": "outside", "detail": "a stays where it is"},
    ]


def test_a_cover_is_reported_once() -> None:
    """Everything beneath a gitlink or a skipped folder gives one item (DESIGN 10.7)."""
    cover = Cover(b"lib", LeftReason.GITLINK, "c" * 40)
    cases = [case(b"lib/" + name, None, B, cover=cover) for name in (b"a", b"b/c", b"d")]
    made = plan([*cases, case(b"x", A, B)], Choices())
    assert made.left == (Left(b"lib", LeftReason.GITLINK, "c" * 40),)
    assert [step.path for step in made.steps] == [b"x"]


@pytest.mark.contract("V-024", "V-245")
def test_conflicts_are_the_outside_paths_that_would_be_touched() -> None:
    cases = [
        case(b"notes", B, A, path_class=PathClass.OUTSIDE),
        case(b"README", B, A, path_class=PathClass.OUTSIDE),
        case(b"big", B, A, path_class=PathClass.OUTSIDE, cover=Cover(b"big", LeftReason.TOO_BIG)),
        case(b"same", A, A, path_class=PathClass.OUTSIDE),
        case(b"mine", B, A),
    ]
    guarded = Choices(None, guarded=True)
    assert outside_conflicts(cases, guarded) == [b"README", b"notes"]
    made = plan(cases, guarded)
    assert made.conflicts == (b"README", b"notes")
    assert [step.path for step in made.steps] == [b"mine"], "nothing outside is touched even if nobody asks"
    assert outside_conflicts(cases, Choices()) == []


def covered(covers: Covers, path: bytes) -> tuple[bytes, str, str | None] | None:
    found = covers.of(path)
    return None if found is None else (found.path, str(found.reason), found.detail)


def test_covers() -> None:
    covers = Covers(
        {b"lib": "1" * 40, b"vendor": "2" * 40},
        [b"lib", b"deep/er/sub", b"new/sub"],
        target_skipped=[
            Skipped(b"big", 9, SkipReason.TOO_BIG),
            Skipped(b"cone/", 0, SkipReason.SKIP_WORKTREE),
        ],
        state_skipped=[
            Skipped(b"big", 9, SkipReason.UNREADABLE),
            Skipped(b"deep", 0, SkipReason.UNREADABLE),
            Skipped(b"vendor", 0, SkipReason.NESTED_UNBORN),
        ],
    )
    assert covered(covers, b"lib") == (b"lib", "gitlink", "1" * 40)
    assert covered(covers, b"lib/a/b") == (b"lib", "gitlink", "1" * 40)
    assert covered(covers, b"library") is None
    assert covered(covers, b"new/sub/a") == (b"new/sub", "gitlink", None), "S alone has it: no commit of T's"
    assert covered(covers, b"big") == (b"big", "unreadable", None), (
        "what is there now goes before what was there then"
    )
    assert covered(covers, b"big/x") == (b"big", "unreadable", None)
    assert covered(covers, b"cone/x") == (b"cone", "skip_worktree", None)
    assert covered(covers, b"deep/er/sub/x") == (b"deep", "unreadable", None), "the outermost"
    assert covered(covers, b"vendor") == (b"vendor", "nested_unborn", "2" * 40)
    assert covered(Covers({}, []), b"lib") is None


@pytest.mark.parametrize(
    ("target_raw", "state_raw", "expected"),
    [
        ("1" * 64, "2" * 64, "modify"),
        ("1" * 64, "1" * 64, None),
        (None, "2" * 64, "filter"),
        ("1" * 64, None, "filter"),
    ],
)
def test_a_path_skipped_for_its_filter(
    target_raw: str | None, state_raw: str | None, expected: str | None
) -> None:
    """It is restored from exact bytes when both sides have them, else left (DESIGN 10.8)."""
    skipped = PathCase(
        path=PATH,
        target=A,
        state=A,
        found=Found.FILE,
        target_raw=target_raw,
        state_raw=state_raw,
        path_class=PathClass.TURN,
        cover=Cover(PATH, LeftReason.FILTER),
    )
    decision = decide(skipped, Choices())
    if expected is None:
        assert decision is None
    elif isinstance(decision, Step):
        assert (str(decision.change), decision.raw, decision.filtered) == (expected, target_raw, True)
    else:
        assert decision is not None
        assert str(decision.reason) == expected


def test_exact_bytes_beneath_a_path_skipped_for_its_filter_are_no_reason_to_write() -> None:
    beneath = PathCase(
        path=PATH,
        target=A,
        state=B,
        found=Found.FILE,
        target_raw="1" * 64,
        state_raw="2" * 64,
        path_class=PathClass.TURN,
        cover=Cover(b"src", LeftReason.FILTER),
    )
    assert decide(beneath, Choices()) == Left(b"src", LeftReason.FILTER)


@pytest.mark.parametrize(
    ("merged", "raw", "expected"),
    [
        (C, None, C),
        (B, None, Left(PATH, LeftReason.OUTSIDE)),
        (None, None, Left(PATH, LeftReason.OUTSIDE)),
        (C, "1" * 64, Left(PATH, LeftReason.OUTSIDE, "conflict")),
    ],
)
def test_a_merge(merged: Entry | None, raw: str | None, expected: Entry | Left) -> None:
    """A merged file, nothing of the agent's to take out, and bytes that git can't give back."""
    both = PathCase(path=PATH, target=A, state=B, found=Found.FILE, merged=merged, state_raw=raw)
    decision = decide(both, Choices(OutsideChoice.MERGE))
    if isinstance(decision, Step):
        assert (decision.target, decision.merged, decision.path_class) == (expected, True, PathClass.OUTSIDE)
    else:
        assert decision == expected


def test_equal_entries_with_other_exact_bytes_are_a_modification() -> None:
    mixed = PathCase(
        path=PATH, target=A, state=A, found=Found.FILE, state_raw="1" * 64, path_class=PathClass.TURN
    )
    decision = decide(mixed, Choices())
    assert isinstance(decision, Step)
    assert (decision.change, decision.target, decision.raw) == (ChangeKind.MODIFY, A, None)
