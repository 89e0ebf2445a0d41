"""What a rollback would do to one tree: the facts about every path that differs, put to the decision table (7.3, 7.4).

Facts come from the two stored states, the log's captures, git's ignore rules (the checkpoint's and today's) and one lstat a path. A
question that can't be answered counts as the answer that leaves a path alone.
"""

from __future__ import annotations

import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, Change
from turnback.clock import milliseconds
from turnback.errors import TurnbackError
from turnback.gitstore import head, ignore, refs, trees
from turnback.limits import Skipped, SkipReason
from turnback.native.files import Beneath, NotRegular
from turnback.operations import attribution
from turnback.operations.attribution import Held
from turnback.operations.present import Present
from turnback.policy.plan import Covers, Found, PathCase, Plan, plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.operations.capture import Captured
    from turnback.operations.context import Context
    from turnback.policy.plan import Choices, Step
    from turnback.records.events import CheckpointRow, RepoRow
    from turnback.records.state import State


@dataclass(frozen=True, slots=True)
class TreePlan:
    """One tree's part of a rollback.

    Attributes:
        captured: S: the tree's present state, stored as objects.
        target: T's record of this repository.
        plan: what happens to each path.
        settings: the tree's configuration.
        raw: T's raw bytes by path.
        modes: permission bits that T's record names.
    """

    captured: Captured
    target: RepoRow
    plan: Plan
    settings: Settings
    raw: Mapping[bytes, str]
    modes: Mapping[bytes, int]

    @property
    def repo(self) -> str:
        """The repository, relative to the workspace."""
        return self.target["repo"]

    @property
    def repository(self) -> Repository:
        """The opened repository."""
        return self.captured.repository


def plan_tree(
    context: Context,
    agent_id: str,
    checkpoint: CheckpointRow,
    target: RepoRow,
    captured: Captured,
    choices: Choices,
) -> TreePlan:
    """Decide every path of one tree.

    Raises:
        MissingObject: an object of the checkpoint is gone.
    """
    repository = captured.repository
    with repository.kept.lock:
        configured = repository.kept.configuration.read()
    now = Held(captured.snapshot.tree, {raw.path: raw.sha256 for raw in captured.snapshot.raw})
    then = Held.of(target)
    changed = _differences(repository, then, now)
    covers = _covers(target, captured, changed)
    wanted = {change.path for change in changed}
    classes = attribution.classes(
        context,
        agent_id,
        repository,
        checkpoint,
        now,
        wanted,
        foreign=bool(wanted) and foreign(context, repository, milliseconds(checkpoint["at"])),
    )
    deletions = [change.path for change in changed if change.new is None and covers.of(change.path) is None]
    ignored_now, ignored_then = _ignored(context, repository, target, deletions)
    cases = []
    with Beneath(repository.path) as tree:
        present = Present(repository, configured, tree, now.tree, changed)
        for change in changed:
            entry = change.new or change.old
            cases.append(
                PathCase(
                    path=change.path,
                    target=change.new,
                    state=change.old,
                    found=present.at(change.path, change.old),
                    target_raw=then.raw.get(change.path),
                    state_raw=now.raw.get(change.path),
                    path_class=classes.get(change.path),
                    cover=covers.of(change.path),
                    ignored_then=change.path in ignored_then,
                    ignored_now=change.path in ignored_now,
                    refused=paths.refusal(change.path, link=entry is not None and stat.S_ISLNK(entry.mode))
                    or present.refusal(change.path),
                    collides=present.collides(change.path),
                )
            )
    cases += _left_out(target, captured, covers, wanted)
    return TreePlan(
        captured,
        target,
        plan(sorted(cases, key=lambda case: case.path), choices),
        configured,
        then.raw,
        {paths.from_json(row["path"]): row["mode"] for row in target.get("modes", [])},
    )


def _covers(target: RepoRow, captured: Captured, changed: Collection[Change]) -> Covers:
    """The gitlinks and skipped paths of both sides."""
    return Covers(
        {
            change.path: change.new.oid
            for change in changed
            if change.new is not None and change.new.mode == GITLINK
        },
        [change.path for change in changed if change.old is not None and change.old.mode == GITLINK],
        [_skipped(item) for item in target["skipped"]],
        captured.snapshot.skipped,
    )


def _left_out(
    target: RepoRow, captured: Captured, covers: Covers, known: Collection[bytes]
) -> Iterable[PathCase]:
    """What a capture left out on either side, equal in both trees: reported all the same, since a rollback doesn't restore it.

    Not the paths outside a sparse checkout: they are the same on purpose, and there may be hundreds of thousands.
    """
    skipped = (*(_skipped(item) for item in target["skipped"]), *captured.snapshot.skipped)
    found = {item.path.rstrip(b"/") for item in skipped if item.reason is not SkipReason.SKIP_WORKTREE}
    return [
        PathCase(path=path, target=None, state=None, found=Found.FILE, cover=covers.of(path))
        for path in found - set(known)
    ]


def _differences(repository: Repository, then: Held, now: Held) -> list[Change]:
    """What differs between S (old) and T (new): entries, or raw bytes that T has and the disk doesn't."""
    changed = trees.changes(repository, now.tree, then.tree)
    known = {change.path for change in changed}
    doubtful = [
        path for path, sha256 in then.raw.items() if path not in known and now.raw.get(path) != sha256
    ]
    if doubtful:
        entries = trees.lookup(repository, now.tree, doubtful)
        with Beneath(repository.path) as tree:
            for path in doubtful:
                # S may not have read the file, because the index vouched for it: only its bytes say whether they are T's.
                if _sha256(tree, path) != then.raw[path]:
                    changed.append(Change(path, entries.get(path), entries.get(path)))
    changed.sort(key=lambda change: change.path)
    return changed


def _sha256(tree: Beneath, path: bytes) -> str | None:
    try:
        look = tree.look(path)
    except (NotRegular, OSError):
        return None
    return None if look is None else look.sha256


def _skipped(item: Mapping[str, object]) -> Skipped:
    return Skipped(paths.from_json(item), int(str(item["bytes"])), SkipReason(str(item["reason"])))


def foreign(context: Context, repository: Repository, since: int) -> bool:
    """Whether another log takes checkpoints in this repository, too (DESIGN 10.11): a ref that no record of ours names says so.

    Only refs that were made since a moment (milliseconds) count: an older one, or one that a killed process of ours left before it could
    log it, tells nothing about what happened since. The refs of all working trees of a repository are in one place, so another log that
    works in another one of them counts too: the answer is then more careful than it needs to be.
    """
    held = refs.listed(repository)
    with context.reading() as state:
        unknown = [oid for name, oid in held.items() if not _is_ours(state, name)]
    return any(head.commit_time(repository, oid) * 1000 >= since - 999 for oid in unknown)


def _is_ours(state: State, name: str) -> bool:
    owner, _, number = name.removeprefix(refs.PREFIX).rpartition("/")
    agent = state.agents.get(owner)
    if agent is None or not number.isdecimal():
        return False
    checkpoint = f"k{number}"
    # One that is still to come: its capture is just making the ref, and will log it.
    return (
        checkpoint in agent.checkpoints or checkpoint in agent.pruned or int(number) >= agent.next_checkpoint
    )


def _ignored(
    context: Context, repository: Repository, target: RepoRow, deletions: Collection[bytes]
) -> tuple[set[bytes], set[bytes]]:
    """Which deletions today's ignore rules cover, and which the checkpoint's did; all of them where nobody can say."""
    if not deletions:
        return set(), set()
    wanted = sorted(deletions)
    try:
        now = ignore.covered_now(repository, wanted)
    except TurnbackError:
        now = set(wanted)
    rules = target.get("rules")
    if rules is None:
        return now, set(wanted)
    try:
        texts = {
            name: context.pool.get(str(rules[name])) if name in rules else None
            for name in ("info_exclude", "excludes_file")
        }
        known = ignore.Rules(
            texts["info_exclude"], texts["excludes_file"], ignore_case=bool(rules.get("ignore_case"))
        )
        with context.scratch() as scratch:
            then = ignore.covered_then(repository, target["tree"], known, wanted, scratch)
    except (TurnbackError, OSError):
        then = set(wanted)
    return now, then


def raw_after(part: TreePlan, steps: Iterable[Step]) -> dict[bytes, str]:
    """The raw bytes beside the tree after some steps: S's, with each step's."""
    raw = {item.path: item.sha256 for item in part.captured.snapshot.raw}
    for step in steps:
        raw.pop(step.path, None)
        if step.raw is not None:
            raw[step.path] = step.raw
    return raw
