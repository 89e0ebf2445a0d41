"""A log, read and judged again by simple means: no record lost, every ref in its place, and who changed what by the letter of the contract.

Nothing of the library is used but the form of its log: one JSON object a line. The judgement of windows is written down a second time here,
slowly and plainly, so that a test can hold the library's against it.
"""

from __future__ import annotations

import json
import os
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    from collections.abc import Iterable

    from support.git_repo import GitRepo

Data = dict[str, Any]


class Look(NamedTuple):
    """One capture of a tree, as the log tells it."""

    seq: int
    agent: str
    reason: str
    turn: str | None
    tree: str | None  # None: it failed


class Log:
    """A log on disk.

    Attributes:
        records: every line, in order.
    """

    def __init__(self, state_dir: str) -> None:
        with open(os.path.join(state_dir, "log.ndjson"), "rb") as file:
            self.records: list[Data] = [json.loads(line) for line in file]

    def of(self, *types: str) -> list[Data]:
        """The records of some types, each with its ``seq`` beside its data."""
        return [
            {**row["data"], "seq": row["seq"], "type": row["type"]}
            for row in self.records
            if row["type"] in types
        ]

    def is_gapless(self) -> bool:
        """Whether the records are numbered 1, 2, 3 ... and each group of lines is whole."""
        numbers = [row["seq"] for row in self.records]
        return numbers == list(range(1, len(numbers) + 1)) and self.records[-1]["left"] == 0

    def lost_refs(self, repo: GitRepo) -> list[str]:
        """The checkpoints that are logged and whose ref doesn't hold the logged commit, and the refs that no record names."""
        named = {
            f"refs/venom/checkpoints/{row['agent']}/{row['checkpoint'][1:]}": part["commit"]
            for row in self.of("checkpoint.taken")
            for part in row["repos"]
        }
        there = {name: oid for name, oid in repo.refs().items() if name.startswith("refs/venom/")}
        return sorted(name for name in named.keys() | there.keys() if named.get(name) != there.get(name))

    def looks(self, key: str) -> list[Look]:
        """The captures of one tree, every agent's, oldest first."""
        trees: dict[tuple[str, str], str] = {}
        users = self.users(key)
        found = []
        for row in self.of("checkpoint.taken", "checkpoint.reused", "checkpoint.failed"):
            if row["agent"] not in users:
                continue
            name = (row["agent"], row.get("checkpoint", ""))
            if row["type"] == "checkpoint.taken":
                trees[name] = next(part["tree"] for part in row["repos"] if part["key"] == key)
            tree = None if row["type"] == "checkpoint.failed" else trees[name]
            found.append(Look(row["seq"], row["agent"], row["reason"], row.get("turn"), tree))
        return found

    def users(self, key: str) -> set[str]:
        """The agents that work in a tree."""
        return {row["agent"] for row in self.of("agent.added") for tree in row["trees"] if tree["key"] == key}

    def turns(self, key: str, looks: list[Look]) -> list[tuple[str, str, int, int]]:
        """(agent, turn, from, to) of the turns in a tree: from its ``turn_start`` capture, where it has one, to its ``turn_end``."""
        users = self.users(key)
        ends = {(row["agent"], row["turn"]): row["seq"] for row in self.of("turn.ended")}
        found = []
        for row in self.of("turn.started"):
            name = (row["agent"], row["turn"])
            if name[0] not in users:
                continue
            begun = [
                look.seq for look in looks if (look.agent, look.turn, look.reason) == (*name, "turn_start")
            ]
            ended = [
                look.seq for look in looks if (look.agent, look.turn, look.reason) == (*name, "turn_end")
            ]
            last = max([*ended, ends.get(name, 1 << 60)]) if name in ends else 1 << 60
            found.append((*name, begun[0] if begun else row["seq"], last))
        return found

    def turns_during_rollbacks(self, sharing: Iterable[str]) -> list[str]:
        """Turns that began while a rollback of their agent, or of one that shares its tree, was running."""
        shared = set(sharing)
        running: dict[str, str] = {}
        wrong = []
        for row in self.of("rollback.started", "rollback.ended", "turn.started"):
            agent = row["agent"]
            if row["type"] == "rollback.started":
                running[agent] = row["safety"]
            elif row["type"] == "rollback.ended":
                del running[agent]
            else:
                others = running.keys() & (shared | {agent}) if agent in shared else running.keys() & {agent}
                wrong += [
                    f"{row['turn']} of {agent} at {row['seq']} during a rollback of {other}"
                    for other in others
                ]
        return wrong

    def outside(self, repo: GitRepo, key: str, agent: str, checkpoint: str, now: str) -> set[bytes]:
        """The paths that a gap changed between a checkpoint and the present tree (7.3)."""
        looks = self.looks(key)
        turns = self.turns(key, looks)
        rollbacks = self._rollbacks(key)
        target = next(
            row["seq"]
            for row in self.of("checkpoint.taken")
            if (row["agent"], row["checkpoint"]) == (agent, checkpoint)
        )
        found: set[bytes] = set()
        before: Look | None = None
        lost = False
        for after in [look for look in looks if look.seq >= target]:
            if before is None:
                before = after
                continue
            if after.tree is None:
                lost = True
                continue
            assert before.tree is not None
            if lost:
                found |= differing(repo, before.tree, after.tree)
            elif after.reason == "rollback":
                expected = rollbacks.get(after.seq, {}).get("expected")
                found |= differing(repo, expected or before.tree, after.tree)
            elif not _own(before, after, agent, turns, rollbacks):
                found |= differing(repo, before.tree, after.tree)
            before, lost = after, False
        assert before is not None
        assert before.tree is not None
        return found | differing(repo, before.tree, now)

    def _rollbacks(self, key: str) -> dict[int, Data]:
        """Rollbacks by the position of their last capture: from, to, and the tree that they were to leave."""
        repos = {
            (row["agent"], tree["repo"])
            for row in self.of("agent.added")
            for tree in row["trees"]
            if tree["key"] == key
        }
        taken = {(row["agent"], row["checkpoint"]): row["seq"] for row in self.of("checkpoint.taken")}
        started: dict[str, Data] = {}
        found = {}
        for row in self.of("rollback.started", "rollback.ended"):
            if row["type"] == "rollback.started":
                started[row["agent"]] = row
            elif row["ok"]:
                expected = {part["repo"]: part["tree"] for part in row["expected"]}
                for repo, tree in expected.items():
                    if (row["agent"], repo) in repos:
                        found[taken[row["agent"], row["after"]]] = {
                            "from": started[row["agent"]]["seq"],
                            "to": row["seq"],
                            "expected": tree,
                        }
        return found


def _own(
    before: Look,
    after: Look,
    agent: str,
    turns: list[tuple[str, str, int, int]],
    rollbacks: dict[int, Data],
) -> bool:
    """Whether one turn of the agent ran at both ends, and nothing of anybody else's ran in between."""
    running = [
        (start, end)
        for owner, _, start, end in turns
        if owner == agent and start <= before.seq and after.seq <= end
    ]
    others = [turn for turn in turns if turn[0] != agent and turn[2] < after.seq and turn[3] > before.seq]
    rolling = [row for row in rollbacks.values() if row["from"] < after.seq and row["to"] > before.seq]
    return bool(running) and not others and not rolling


def differing(repo: GitRepo, one: str, two: str) -> set[bytes]:
    """The paths that differ between two trees, by git."""
    if one == two:
        return set()
    return set(repo.git("diff-tree", "-r", "-z", "--no-renames", "--name-only", one, two).split(b"\0")[:-1])
