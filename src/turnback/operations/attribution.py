"""Who changed what in one tree between a checkpoint and now: the log's captures and the trees' differences, put to ``policy.windows``.

A state's name is its tree's id and, where raw bytes are kept, a digest of their list, so that two states differ when either does. A capture
whose objects are gone counts like a pruned one: nothing can be told across it.
"""

from __future__ import annotations

import hashlib
from dataclasses import replace
from typing import TYPE_CHECKING, Any

from turnback import paths
from turnback.gitstore import objects, trees
from turnback.policy import windows

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable, Mapping

    from turnback.gitstore.repo import Repository
    from turnback.operations.context import Context
    from turnback.policy.windows import PathClass
    from turnback.records.events import CheckpointRow, RepoRow
    from turnback.records.state import AgentState, CaptureRow, State


class Held:
    """What a state holds: its tree, and the raw bytes kept beside it by path."""

    __slots__ = ("name", "raw", "tree")

    def __init__(self, tree: str, raw: Mapping[bytes, str]) -> None:
        self.tree = tree
        self.raw = dict(raw)
        self.name = tree
        if raw:
            listed = "\n".join(f"{path.hex()} {sha256}" for path, sha256 in sorted(raw.items()))
            self.name = f"{tree}:{hashlib.sha256(listed.encode()).hexdigest()}"

    @classmethod
    def of(cls, row: RepoRow) -> Held:
        """What a checkpoint's record says about one repository."""
        return cls(row["tree"], {paths.from_json(raw["path"]): raw["sha256"] for raw in row.get("raw", [])})


def classes(
    context: Context,
    agent_id: str,
    repository: Repository,
    target: CheckpointRow,
    now: Held,
    wanted: Collection[bytes],
    *,
    foreign: bool,
) -> dict[bytes, PathClass]:
    """The class of each path that differs between a checkpoint and the present state of one tree (7.3).

    Args:
        context: the workspace; its log is where the captures are.
        agent_id: whose rollback it is.
        repository: the tree.
        target: the checkpoint's record.
        now: the present state, stored as objects.
        wanted: the paths that differ.
        foreign: another log has captures of this tree, so that every window is a gap (DESIGN 10.11).
    """
    if not wanted:
        return {}
    known: dict[str, Held] = {now.name: now}
    with context.reading() as state:
        agent = state.agent(agent_id)
        found = _windows(state, agent, repository.key, target, now, known, foreign=foreign)
        edits = [
            (turn, paths.from_json(path))
            for _, turn, repo, path in agent.edits
            if _repo_key(agent, repo) == repository.key
        ]
    changed = [_changed(repository, known, window, wanted) for window in found]
    return windows.classify(changed, edits, wanted)


def _windows(
    state: State,
    agent: AgentState,
    key: str,
    target: CheckpointRow,
    now: Held,
    known: dict[str, Held],
    *,
    foreign: bool,
) -> list[windows.Window]:
    """The windows of one tree, from the log; the states that they begin and end with are added to ``known``."""
    captures = []
    target_seq = 0
    for row in state.captures:
        held = _held(state, row.agent, row.checkpoint, key)
        if row.agent == agent.id and row.checkpoint == target["checkpoint"] and row.outcome == "taken":
            target_seq = row.seq
        elif held is None and not _uses(state.agents[row.agent], key):
            continue
        if held is not None:
            known[held.name] = held
        captures.append(
            windows.Capture(
                row.seq,
                row.agent,
                row.reason,
                row.turn,
                None if held is None else held.name,
                overlap=_overlaps(state, row),
            )
        )
    spans = [
        windows.TurnSpan(other.id, turn.turn, turn.start_seq, turn.end_seq)
        for other in list(state.agents.values())
        if _uses(other, key)
        for turn in other.turns.values()
    ]
    return windows.windows(
        captures,
        spans,
        list(_rollbacks(state, key, known)),
        agent=agent.id,
        target_seq=target_seq,
        now=windows.Capture(state.seq + 1, agent.id, "now", None, now.name),
        foreign=foreign,
    )


def _overlaps(state: State, row: CaptureRow) -> bool:
    """Whether the next turn had begun before a capture was finished; a reused checkpoint's record doesn't say so of the second time."""
    stored = state.agents[row.agent].checkpoints.get(row.checkpoint or "")
    return stored is not None and row.outcome == "taken" and stored["overlap"]


def _held(state: State, agent: str, checkpoint: str | None, key: str) -> Held | None:
    if checkpoint is None:
        return None
    row = state.agents[agent].checkpoints.get(checkpoint)
    if row is None:
        return None
    return next((Held.of(repo) for repo in row["repos"] if repo["key"] == key), None)


def _uses(agent: AgentState, key: str) -> bool:
    return any(tree["key"] == key for tree in agent.trees)


def _repo_key(agent: AgentState, repo: str) -> str | None:
    return next((tree["key"] for tree in agent.trees if tree["repo"] == repo), None)


def _rollbacks(state: State, key: str, known: dict[str, Held]) -> Iterable[windows.Rollback]:
    after_seqs = {(row.agent, row.checkpoint): row.seq for row in state.captures if row.outcome == "taken"}
    for row in state.rollbacks:
        agent = state.agents[row["agent"]]
        if row["started"] is None or not _uses(agent, key):
            continue
        expected = _expected(row, agent, key)
        if expected is not None:
            known[expected.name] = expected
        after = row.get("after")
        yield windows.Rollback(
            started_seq=row["started"],
            ended_seq=row["ended"],
            agent=agent.id,
            after_seq=None if after is None else after_seqs.get((agent.id, after)),
            expected=None if expected is None else expected.name,
            ok=bool(row["ok"]),
        )
    for agent in list(state.agents.values()):
        if agent.rollback is not None and _uses(agent, key):
            # It was cut off, or it runs in another tree of that agent's: what it wrote here, nobody can say.
            yield windows.Rollback(
                started_seq=agent.rollback["seq"],
                ended_seq=None,
                agent=agent.id,
                after_seq=None,
                expected=None,
                ok=False,
            )


def _expected(row: dict[str, Any], agent: AgentState, key: str) -> Held | None:
    for item in row.get("expected") or []:
        if _repo_key(agent, item["repo"]) == key:
            return Held(
                item["tree"], {paths.from_json(raw["path"]): raw["sha256"] for raw in item.get("raw", [])}
            )
    return None


def _changed(
    repository: Repository, known: Mapping[str, Held], window: windows.Window, wanted: Collection[bytes]
) -> tuple[windows.Window, Collection[bytes]]:
    """A window with the paths that differ between its ends."""
    before, after = known[str(window.before.state)], known[str(window.after.state)]
    if before.name == after.name:
        return window, ()
    try:
        found = {change.path for change in trees.changes(repository, before.tree, after.tree)}
    except objects.MissingObject:
        # The ends can't be compared any more: any path may have changed there, and nobody can say who did it.
        return replace(window, kind=windows.WindowKind.GAP, reason=windows.GapReason.LOST_CAPTURE), wanted
    found.update(
        path for path in before.raw.keys() | after.raw.keys() if before.raw.get(path) != after.raw.get(path)
    )
    return window, found
