"""The one decision table of a rollback: what is known about a path in, what happens to it out (DESIGN part 7).

Each row of ``ROWS`` stands under the same number in ``docs/plan-table.md``, which says it in words and why; the tests run the rows of that
page against this module. What is known about a path is first boiled down to nine facets of a few values each, and the rows divide
every combination of them: exactly one row holds for any path.

What no row ever does: delete or write over something that S does not hold, delete what an ignore rule covers (T's rules or today's), write or
delete beneath a gitlink or a skipped folder, or touch a path that the caller wants kept. No row reads a file: the facts come from
whoever looked, and the writer looks again at the moment of the write.
"""

from __future__ import annotations

from functools import cache
from typing import Final, NamedTuple

from turnback import paths
from turnback.changes import LINK, ChangeKind
from turnback.policy.cases import Choices, Found, Left, LeftReason, PathCase, PathClass, Step

__all__ = ["ROWS", "Facets", "Row", "decide", "facets", "row"]


class Facets(NamedTuple):
    """A path's case boiled down to what the rows look at, in the order in which they look."""

    scope: str
    cover: str
    delta: str
    name: str
    whose: str
    merge: str
    ignored: str
    look: str
    stays: str


class Row(NamedTuple):
    """One row of the table: a pattern for each facet (values with ``|`` between, ``*`` for any) and the outcome."""

    id: str
    scope: str
    cover: str
    delta: str
    name: str
    whose: str
    merge: str
    ignored: str
    look: str
    stays: str
    outcome: str

    def holds(self, found: Facets) -> bool:
        """Whether the row holds for a path."""
        return all(
            pattern == "*" or value in pattern.split("|")
            for pattern, value in zip(self[1:-1], found, strict=True)
        )


# fmt: off
ROWS: Final = (
    #   id     scope  cover      delta                   name       whose            merge       ignored look       stays  outcome
    Row("P01", "out", "*",       "*",                    "*",       "*",             "*",        "*",    "*",       "*",   "nothing"),
    Row("P02", "in",  "skipped", "*",                    "*",       "*",             "*",        "*",    "*",       "*",   "left cover"),
    Row("P03", "in",  "gitlink", "same",                 "*",       "*",             "*",        "*",    "*",       "*",   "nothing"),
    Row("P04", "in",  "gitlink", "create|modify|delete", "*",       "*",             "*",        "*",    "*",       "*",   "left cover"),
    Row("P05", "in",  "none",    "same",                 "*",       "*",             "*",        "*",    "*",       "*",   "nothing"),
    Row("P06", "in",  "none",    "create|modify|delete", "refused", "*",             "*",        "*",    "*",       "*",   "left invalid_path"),
    Row("P07", "in",  "none",    "create|modify|delete", "collides", "*",            "*",        "*",    "*",       "*",   "left invalid_path"),
    Row("P08", "in",  "none",    "create|modify|delete", "fine",    "refuse",        "*",        "*",    "*",       "*",   "conflict"),
    Row("P09", "in",  "none",    "create|modify|delete", "fine",    "keep",          "*",        "*",    "*",       "*",   "left outside"),
    Row("P10", "in",  "none",    "create|modify|delete", "fine",    "merge",         "conflict", "*",    "*",       "*",   "left outside"),
    Row("P11", "in",  "none",    "create|modify|delete", "fine",    "merge",         "nothing",  "*",    "*",       "*",   "left outside"),
    Row("P12", "in",  "none",    "create|modify|delete", "fine",    "merge",         "result",   "*",    "clear",   "*",   "merge"),
    Row("P13", "in",  "none",    "create|modify|delete", "fine",    "merge",         "result",   "*",    "blocked", "*",   "left changed"),
    Row("P14", "in",  "none",    "delete",               "fine",    "own|overwrite", "*",        "yes",  "*",       "*",   "left ignored"),
    Row("P15", "in",  "none",    "delete",               "fine",    "own|overwrite", "*",        "no",   "clear",   "*",   "delete"),
    Row("P16", "in",  "none",    "delete",               "fine",    "own|overwrite", "*",        "no",   "blocked", "*",   "left changed"),
    Row("P17", "in",  "none",    "modify",               "fine",    "own|overwrite", "*",        "*",    "clear",   "*",   "modify"),
    Row("P18", "in",  "none",    "modify",               "fine",    "own|overwrite", "*",        "*",    "blocked", "*",   "left changed"),
    Row("P19", "in",  "none",    "create",               "fine",    "own|overwrite", "*",        "*",    "blocked", "*",   "left ignored_in_the_way"),
    Row("P20", "in",  "none",    "create",               "fine",    "own|overwrite", "*",        "*",    "clear",   "no",  "create"),
    Row("P21", "in",  "none",    "create",               "fine",    "own|overwrite", "*",        "*",    "clear",   "yes", "left stays"),
)
# fmt: on

_FREE = frozenset({Found.ABSENT, Found.FOLDER_EMPTY, Found.FOLDER_OF_CAPTURED})


def facets(case: PathCase, choices: Choices) -> Facets:
    """What the rows look at."""
    if case.cover is None or case.filtered:
        cover = "none"
    else:
        cover = "gitlink" if case.cover.reason is LeftReason.GITLINK else "skipped"
    name = "refused" if case.refused is not None else "collides" if case.collides else "fine"
    outside = case.path_class is None or case.path_class is PathClass.OUTSIDE
    return Facets(
        scope="in" if case.in_scope else "out",
        cover=cover,
        delta=_delta(case),
        name=name,
        whose=str(choices.effective) if outside else "own",
        merge=_merge(case),
        ignored="yes" if case.ignored_then or case.ignored_now else "no",
        look="clear" if _clear(case) else "blocked",
        stays="no" if case.stays is None else "yes",
    )


def _delta(case: PathCase) -> str:
    """What would happen to the path on the way from S to T, raw bytes included."""
    if case.filtered:
        return "same" if case.target_raw == case.state_raw else "modify"
    if (case.target, case.target_raw) == (case.state, case.state_raw):
        return "same"
    if case.target is None:
        # Raw bytes without an entry are a filtered file's: without both sides' bytes it is covered, and this is never asked.
        return "same" if case.state is None else "delete"
    return "create" if case.state is None else "modify"


def _merge(case: PathCase) -> str:
    if case.merge_conflict:
        return "conflict"
    if case.merged is None or case.merged == case.state:
        return "nothing"
    # Create and delete against somebody's modification have no common ground, and bytes that git can't give back no merged blob.
    unmergeable = None in (case.target, case.state) or case.target_raw or case.state_raw
    return "conflict" if unmergeable else "result"


def _clear(case: PathCase) -> bool:
    """Whether what is there is exactly what may go: what S holds, or nothing of anybody's (rows L01..L03)."""
    if case.state is None and not case.filtered:
        return case.found in _FREE
    link = case.state is not None and case.state.mode == LINK
    return case.found is (Found.LINK if link else Found.FILE)


@cache
def _row(found: Facets) -> Row:
    holding = [candidate for candidate in ROWS if candidate.holds(found)]
    if len(holding) != 1:
        message = f"{len(holding)} rows of the decision table hold for {found}"
        raise AssertionError(message)
    return holding[0]


def row(case: PathCase, choices: Choices) -> Row:
    """The one row that holds for a path."""
    return _row(facets(case, choices))


def decide(case: PathCase, choices: Choices) -> Step | Left | None:
    """What a rollback does to a path: a step, a reason for leaving it alone, or None when there is nothing to do.

    A path that is ``outside`` under ``refuse`` (row P08) comes out as left, so that nothing is lost if nobody asks
    ``plan.outside_conflicts``, which is where it becomes ``conflict.outside_edits``.
    """
    outcome = row(case, choices).outcome
    if outcome == "nothing":
        return None
    if outcome == "left cover" and case.cover is not None:
        return Left(case.cover.path, case.cover.reason, case.cover.detail)
    if outcome == "left stays" and case.stays is not None:
        stays = case.stays
        return Left(case.path, stays.reason, stays.detail or f"{paths.text(stays.path)} stays where it is")
    if outcome == "conflict":
        return Left(case.path, LeftReason.OUTSIDE)
    if outcome.startswith("left "):
        return Left(case.path, LeftReason(outcome[5:]), _detail(case, choices))
    path_class = case.path_class or PathClass.OUTSIDE
    if outcome == "merge":
        return Step(case.path, ChangeKind.MODIFY, path_class, case.merged, case.state, merged=True)
    target, raw = (None, None) if outcome == "delete" else (case.target, case.target_raw)
    return Step(
        case.path, ChangeKind(outcome), path_class, target, case.state, raw=raw, filtered=case.filtered
    )


def _detail(case: PathCase, choices: Choices) -> str | None:
    """What a person needs beyond the reason."""
    found = facets(case, choices)
    if found.name == "refused":
        return case.refused
    if found.name == "collides":
        return "another path has the same name on this filesystem"
    return "conflict" if found.whose == "merge" and found.merge == "conflict" else None
