"""What a rollback would do to one tree: the facts about every path that differs, put to the decision table (7.3, 7.4).

Facts come from the two stored states, the log's captures, git's ignore rules (the checkpoint's and today's) and one lstat a path. A
question that can't be answered counts as the answer that leaves a path alone.
"""

from __future__ import annotations

import os
import stat
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, Change, Entry
from turnback.errors import TurnbackError
from turnback.gitstore import ignore, refs, trees
from turnback.limits import Skipped, SkipReason
from turnback.native.files import Beneath, NotRegular
from turnback.operations import attribution
from turnback.operations.attribution import Held
from turnback.policy.plan import Covers, Found, PathCase, Plan, plan

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from turnback.gitstore.repo import Repository
    from turnback.operations.capture import Captured
    from turnback.operations.context import Context
    from turnback.policy.plan import Choices, Step
    from turnback.records.events import CheckpointRow, RepoRow
    from turnback.records.state import AgentState, State


@dataclass(frozen=True, slots=True)
class TreePlan:
    """One tree's part of a rollback.

    Attributes:
        captured: S: the tree's present state, stored as objects.
        target: T's record of this repository.
        plan: what happens to each path.
        raw: T's raw bytes by path.
        modes: permission bits that T's record names.
    """

    captured: Captured
    target: RepoRow
    plan: Plan
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
    state: State,
    agent: AgentState,
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
    now = Held(captured.snapshot.tree, {raw.path: raw.sha256 for raw in captured.snapshot.raw})
    then = Held.of(target)
    changed = _differences(repository, then, now)
    skipped_then = [_skipped(item) for item in target["skipped"]]
    skipped_now = list(captured.snapshot.skipped)
    wanted = {change.path for change in changed}
    covers = Covers(
        {
            change.path: change.new.oid
            for change in changed
            if change.new is not None and change.new.mode == GITLINK
        },
        [change.path for change in changed if change.old is not None and change.old.mode == GITLINK],
        skipped_then,
        skipped_now,
    )
    classes = attribution.classes(
        state, agent, repository, checkpoint, now, wanted, foreign=_foreign(state, repository)
    )
    deletions = [change.path for change in changed if change.new is None]
    ignored_now, ignored_then = _ignored(context, repository, target, deletions)
    cases = []
    with Beneath(repository.path) as tree:
        looks = _Looks(repository, tree, now.tree)
        for change in changed:
            entry = change.new or change.old
            cases.append(
                PathCase(
                    path=change.path,
                    target=change.new,
                    state=change.old,
                    found=looks.at(change.path, change.old),
                    target_raw=then.raw.get(change.path),
                    state_raw=now.raw.get(change.path),
                    path_class=classes.get(change.path),
                    cover=covers.of(change.path),
                    ignored_then=change.path in ignored_then,
                    ignored_now=change.path in ignored_now,
                    refused=paths.refusal(change.path, link=entry is not None and stat.S_ISLNK(entry.mode)),
                )
            )
        # Left out on either side and equal in both trees: reported all the same, since a rollback doesn't restore them. Not the paths
        # outside a sparse checkout: they are the same on purpose, and there may be hundreds of thousands.
        cases.extend(
            PathCase(path=path, target=None, state=None, found=Found.FILE, cover=covers.of(path))
            for path in {
                item.path.rstrip(b"/")
                for item in (*skipped_then, *skipped_now)
                if item.reason is not SkipReason.SKIP_WORKTREE
            }
            - wanted
        )
    return TreePlan(
        captured,
        target,
        plan(sorted(cases, key=lambda case: case.path), choices),
        then.raw,
        {paths.from_json(row["path"]): row["mode"] for row in target.get("modes", [])},
    )


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


def _foreign(state: State, repository: Repository) -> bool:
    """Whether the tree's repository has checkpoint refs that no record of this log names: another log works here (DESIGN 10.11)."""
    ours = {
        refs.checkpoint_ref(agent.id, int(checkpoint[1:]))
        for agent in state.agents.values()
        for checkpoint in (*agent.checkpoints, *agent.pruned)
    }
    for name in refs.listed(repository):
        owner = name.removeprefix(refs.PREFIX).rpartition("/")[0]
        if name not in ours and owner not in state.agents:
            return True
    return False


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


class _Looks:
    """What lstat finds at a path, and whether S holds it."""

    def __init__(self, repository: Repository, tree: Beneath, state_tree: str) -> None:
        self.repository = repository
        self.tree = tree
        self.state_tree = state_tree

    def at(self, path: bytes, state: Entry | None) -> Found:
        """Look at one path without following a link anywhere."""
        for above in paths.parents(path):
            found = self.tree.lstat(above)
            if found is None:
                return Found.ABSENT
            if not stat.S_ISDIR(found.st_mode):
                # A parent that S holds as a file or link is taken away by the plan first; anything else is in the way.
                held = trees.lookup(self.repository, self.state_tree, [above]).get(above)
                return (
                    Found.ABSENT if held is not None and not stat.S_ISDIR(held.mode) else Found.PARENT_BLOCKED
                )
        found = self.tree.lstat(path)
        if found is None:
            return Found.ABSENT
        if stat.S_ISREG(found.st_mode):
            return Found.FILE
        if stat.S_ISLNK(found.st_mode):
            return Found.LINK
        if not stat.S_ISDIR(found.st_mode):
            return Found.OTHER
        return self._folder(path) if state is None or state.mode != GITLINK else Found.FOLDER_WITH_UNCAPTURED

    def _folder(self, path: bytes) -> Found:
        files = []
        try:
            for folder, folders, names in os.walk(
                os.path.join(os.fsencode(self.repository.path), path), onerror=_raise
            ):
                inside = os.path.relpath(folder, os.fsencode(self.repository.path))
                if b".git" in folders or b".git" in names:
                    return Found.FOLDER_WITH_UNCAPTURED
                files += [inside + b"/" + name for name in names]
                files += [
                    inside + b"/" + name for name in folders if os.path.islink(os.path.join(folder, name))
                ]
        except OSError:
            return Found.FOLDER_WITH_UNCAPTURED
        if not files:
            return Found.FOLDER_EMPTY
        held = trees.lookup(self.repository, self.state_tree, files)
        return Found.FOLDER_OF_CAPTURED if len(held) == len(files) else Found.FOLDER_WITH_UNCAPTURED


def _raise(error: OSError) -> None:
    raise error


def raw_after(part: TreePlan, steps: Iterable[Step]) -> dict[bytes, str]:
    """The raw bytes beside the tree after some steps: S's, with each step's."""
    raw = {item.path: item.sha256 for item in part.captured.snapshot.raw}
    for step in steps:
        raw.pop(step.path, None)
        if step.raw is not None:
            raw[step.path] = step.raw
    return raw
