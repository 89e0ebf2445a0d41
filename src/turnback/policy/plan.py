"""The plan of a rollback: every path's decision, the order of the writes, the state expected after them, and the digest that
binds a real call to the dry run that somebody has seen (contract 7.2 and 7.4).

A plan is data. It is made twice, in the dry run and in the real call, from the same facts, and never stored (V-224); whoever applies
it follows it and decides nothing. A path that isn't in ``steps`` is not touched (V-040).
"""

from __future__ import annotations

import hashlib
import json
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from turnback import paths as names
from turnback.changes import ChangeKind
from turnback.policy.cases import (
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
)
from turnback.policy.table import decide, row

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping, Sequence

    from turnback.changes import Entry

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
    "Plan",
    "Step",
    "decide",
    "digest",
    "expected_entries",
    "in_scope",
    "order",
    "outside_conflicts",
    "plan",
    "raw_hash",
]


@dataclass(frozen=True, slots=True)
class Plan:
    """What a rollback does to one tree.

    Attributes:
        steps: sorted by path.
        left: what it leaves alone, sorted by path, each path once.
        conflicts: outside paths for which the caller has to choose first (``conflict.outside_edits``); also in ``left``.
    """

    steps: tuple[Step, ...]
    left: tuple[Left, ...]
    conflicts: tuple[bytes, ...]


def plan(cases: Iterable[PathCase], choices: Choices) -> Plan:
    """Decide every path of one tree, then once more the ones that would come to stand where another one stays.

    T may hold a file where S has a folder, and the reverse. If something of S's there is left alone (kept, ignored, out of scope), the new
    path can't be written without destroying it, so it is left too and says for what (row P21).

    Args:
        cases: every path that differs between S and T, and every path that a capture of theirs skipped; out of scope ones too,
            since they may stand in the way.
        choices: the caller's choices for this tree.
    """
    steps: dict[bytes, Step] = {}
    left: dict[bytes, Left] = {}
    staying: dict[bytes, Left] = {}
    created: list[PathCase] = []
    conflicts: list[bytes] = []
    for case in cases:
        decision = decide(case, choices)
        if isinstance(decision, Step):
            steps[case.path] = decision
            if decision.change is ChangeKind.CREATE:
                created.append(case)
            continue
        if isinstance(decision, Left):
            left[decision.path] = staying[case.path] = decision
            if row(case, choices).outcome == "conflict":
                conflicts.append(case.path)
        elif case.state is not None and not case.in_scope:
            detail = f"{names.text(case.path)} isn't among the paths asked for"
            staying[case.path] = Left(case.path, LeftReason.IGNORED_IN_THE_WAY, detail)
    if staying and created:
        beneath = {above: stays for path, stays in staying.items() for above in names.parents(path)}
        for case in created:
            blocking = beneath.get(case.path) or _above(case.path, staying)
            if blocking is not None:
                decision = decide(replace(case, stays=blocking), choices)
                if isinstance(decision, Left):
                    del steps[case.path]
                    left[case.path] = decision
    return Plan(
        steps=tuple(steps[path] for path in sorted(steps)),
        left=tuple(left[path] for path in sorted(left)),
        conflicts=tuple(sorted(conflicts)),
    )


def _above(path: bytes, staying: Mapping[bytes, Left]) -> Left | None:
    return next((staying[above] for above in names.parents(path) if above in staying), None)


def outside_conflicts(cases: Iterable[PathCase], choices: Choices) -> list[bytes]:
    """The paths that make a rollback under ``refuse`` fail with ``conflict.outside_edits``, sorted (V-245)."""
    return sorted(case.path for case in cases if row(case, choices).outcome == "conflict")


def order(steps: Iterable[Step]) -> tuple[list[Step], list[Step]]:
    """Deletions, longest paths first, then writes by path, so that a file can replace a folder and a folder a file (V-262, V-263)."""
    deletions: list[Step] = []
    writes: list[Step] = []
    for step in steps:
        (deletions if step.change is ChangeKind.DELETE else writes).append(step)
    deletions.sort(key=lambda step: (-len(step.path), step.path))
    writes.sort(key=lambda step: step.path)
    return deletions, writes


def expected_entries(entries: Mapping[bytes, Entry], steps: Iterable[Step]) -> dict[bytes, Entry]:
    """The entries that S's tree has after the steps: S's, with each step's path replaced or removed (V-271).

    A step of raw bytes alone changes no entry: a tree that couldn't take the file before can't take it afterwards.
    """
    expected = dict(entries)
    for step in steps:
        if step.filtered:
            continue
        if step.target is None:
            expected.pop(step.path, None)
        else:
            expected[step.path] = step.target
    return expected


def in_scope(path: bytes, scope: Collection[bytes] | None) -> bool:
    """Whether a path is one of those the caller named, or lies beneath one. None names everything."""
    return scope is None or path in scope or any(above in scope for above in names.parents(path))


def raw_hash(rows: Iterable[tuple[bytes, str]]) -> str | None:
    """One hash for a tree's list of raw bytes (path, sha256), whatever its order; None when it is empty."""
    listed = [[names.item(path), sha256] for path, sha256 in sorted(rows)]
    return hashlib.sha256(_compact(listed)).hexdigest() if listed else None


def digest(
    checkpoint: str,
    restore: str,
    outside: str | None,
    keep_head: bool,
    repos: Sequence[tuple[str, str, str | None]],
    paths: Collection[bytes] | None = None,
    raw: Mapping[str, str | None] | None = None,
) -> str:
    """The plan's digest: ``p1-`` and the first 16 hex digits of the SHA-256 of its compact JSON (V-222, V-223, A-12).

    Args:
        checkpoint: T's id.
        restore: ``all`` or ``files``.
        outside: as the caller gave it, None when omitted.
        keep_head: as the caller gave it.
        repos: (repo, S's tree, S's HEAD or None), in any order.
        paths: the scope, in any order; a member of the JSON only when given.
        raw: by repo, ``raw_hash`` of S's raw bytes; a member of that repo only where there are any.
    """
    hashes = raw or {}
    rows = []
    for repo, tree, head in sorted(repos, key=lambda found: found[0]):
        member: dict[str, Any] = {"repo": repo, "tree": tree, "head": head}
        if hashes.get(repo):
            member["raw"] = hashes[repo]
        rows.append(member)
    value: dict[str, Any] = {
        "checkpoint": checkpoint,
        "restore": restore,
        "outside": None if outside is None else str(outside),
        "keep_head": keep_head,
        "repos": rows,
    }
    if paths is not None:
        value["paths"] = [names.item(path) for path in sorted(set(paths))]
    return "p1-" + hashlib.sha256(_compact(value)).hexdigest()[:16]


def _compact(value: Any) -> bytes:
    text = json.dumps(value, ensure_ascii=False, separators=(",", ":"))
    return text.encode("utf-8", "surrogateescape")
