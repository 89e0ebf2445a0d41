"""What a rollback's two calls say of one repository: what happens, what is left and why, and what a person should know besides (11.1)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback import paths
from turnback.errors import TurnbackError
from turnback.gitstore import ignore, trees
from turnback.operations.changeover import staged_alone
from turnback.operations.results import HeadResult, LeftPath, PlannedFile, RepoResult, path_members

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.operations.changeover import Changeover
    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.heads import HeadMove
    from turnback.records.events import CheckpointRow


def repo_result(
    part: TreePlan, move: HeadMove, ignored: Sequence[bytes], changeover: Changeover | None
) -> RepoResult:
    """One repository's part of a result.

    Args:
        part: its plan.
        move: where its HEAD goes.
        ignored: as ``ignored_edits`` gave them.
        changeover: what was done; None in a dry run.
    """
    lost = set() if changeover is None else changeover.untouched(part.repo)
    files = tuple(
        PlannedFile(**path_members(step.path), change=str(step.change), class_=str(step.path_class))
        for step in part.plan.steps
        if step.path not in lost
    )
    left = [
        LeftPath(**path_members(left.path), reason=str(left.reason), detail=left.detail)
        for left in part.plan.left
    ]
    if changeover is not None:
        left += changeover.left(part.repo)
    return RepoResult(
        repo=part.repo,
        path=part.target["path"],
        head=HeadResult(move.moves, move.before, move.after, move.commits),
        files=files,
        left=tuple(sorted(left, key=lambda item: item.path)),
        ignored_edits=tuple(paths.item(path) for path in ignored),
        warnings=_warnings(part, move, changeover) or None,
        kept=None if changeover is None else changeover.kept_rows(part.repo),
    )


def _warnings(part: TreePlan, move: HeadMove, changeover: Changeover | None) -> tuple[str, ...]:
    """What a person should know that no member of the contract's says."""
    found = [
        f"submodule {paths.text(item.path)} has changes of its own, which no checkpoint of this repository holds"
        for item in part.captured.snapshot.nested
        if item.dirty
    ]
    if changeover is None:
        staged = [paths.text(path) for path in sorted(staged_alone(part, move))]
        found += [
            f"{name} is staged with content that is nowhere else; the index follows HEAD, and that content is kept"
            for name in staged
        ]
    else:
        found += [
            f"{row['path']} was staged with content that was nowhere else; it is kept as {row['sha256']}"
            for row in changeover.staged(part.repo)
        ]
    return tuple(found)


def ignored_edits(context: Context, agent: str, row: CheckpointRow, part: TreePlan) -> list[bytes]:
    """Ignored paths that an edit call named since the checkpoint: no checkpoint holds them (V-123, A-31)."""
    with context.reading() as state:
        since = next(
            (
                capture.seq
                for capture in state.captures
                if capture.agent == agent and capture.checkpoint == row["checkpoint"]
            ),
            0,
        )
        edited = {
            paths.from_json(path)
            for seq, _, repo, path in state.agent(agent).edits
            if seq > since and repo == part.repo
        }
    if not edited:
        return []
    held = trees.lookup(part.repository, part.captured.snapshot.tree, edited)
    candidates = sorted(path for path in edited if path not in held)
    try:
        return sorted(ignore.covered_now(part.repository, candidates))
    except TurnbackError:
        return candidates
