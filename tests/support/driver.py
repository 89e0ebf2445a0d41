"""An agent at work: turns, edits, checkpoints, differences and rollbacks at random, as fast as they go, each write noted.

Used by tests that let several of these loose on one repository, in processes or threads, and look at what is left.
"""

from __future__ import annotations

import contextlib
import os
import random
import subprocess
import time
from collections import Counter
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback.errors import Conflict

if TYPE_CHECKING:
    from turnback import Agent, Turn

# What a rollback, a dry run or a new turn may be told while others work in the same tree; anything else is a failure of the test.
EXPECTED = frozenset(
    {
        "conflict.tree_shared",
        "conflict.rollback_stale",
        "conflict.rollback_running",
        "conflict.checkpoint_pending",
        "conflict.head_moved",
        "conflict.outside_edits",
    }
)


@dataclass
class Driver:
    """One agent and its random work in one tree.

    Attributes:
        agent: the agent.
        root: its tree.
        commits: whether it commits now and then (a tree of its own).
        did: how often each thing was done, and each conflict met.
    """

    agent: Agent
    root: str
    seed: int
    commits: bool = False
    did: Counter[str] = field(default_factory=Counter)

    def __post_init__(self) -> None:
        self.random = random.Random(self.seed)

    def work(self, seconds: float) -> None:
        """Work until the time is over; what was begun is ended."""
        until = time.monotonic() + seconds
        while time.monotonic() < until:
            self.once()

    def once(self) -> None:
        """One thing, whichever comes."""
        step = self.random.choices(
            (self.turn, self.person, self.checkpoint, self.diff, self.roll_back), (8, 3, 1, 1, 3)
        )[0]
        try:
            step()
            self.did[step.__name__] += 1
        except Conflict as refused:
            if refused.code not in EXPECTED:
                raise
            self.did[refused.code] += 1

    def turn(self) -> None:
        """A turn with some edits; some of them are named by a tool call, and sometimes there is a checkpoint in its middle."""
        with self.agent.turn(prompt=f"work {self.random.random()}") as turn:
            assert turn.capture_failed is None, turn.capture_failed
            for _ in range(self.random.randint(0, 3)):
                self._edit(turn)
            if self.random.random() < 0.2:
                assert self.agent.checkpoint().agent == self.agent.id
                self._edit(turn)
            if self.commits and self.random.random() < 0.3:
                self._commit()
        assert turn.ended is not None
        assert turn.ended.capture_failed is None, turn.ended.capture_failed

    def person(self) -> None:
        """Somebody edits a file outside the turns of this agent."""
        self._write(f"person-of-{self.agent.id}/{self.random.randrange(5)}.txt")

    def checkpoint(self) -> None:
        """A checkpoint that somebody asked for."""
        self.agent.checkpoint(label=f"label {self.random.randrange(9)}")

    def diff(self) -> None:
        """Two checkpoints compared, or one with the files."""
        known = self._known()
        if known:
            self.agent.checkpoint_diff(
                self.random.choice(known), self.random.choice([None, self.random.choice(known)])
            )

    def roll_back(self) -> None:
        """A dry run, and what it showed."""
        known = self._known()
        if not known:
            return
        target = self.random.choice(known)
        outside = self.random.choice(["keep", "overwrite"])
        stay = self.random.random() < 0.5
        plan = self.agent.rollback(target, restore="files", outside=outside, keep_head=stay, dry_run=True)
        if self.random.random() < 0.3:
            return
        done = self.agent.rollback(target, restore="files", outside=outside, keep_head=stay, plan=plan.plan)
        self.did["exact" if done.exact else "inexact"] += 1

    def _known(self) -> list[str]:
        return [row.checkpoint for row in self.agent.checkpoints(limit=20).checkpoints]

    def _edit(self, turn: Turn) -> None:
        place = self.random.choice([f"of-{self.agent.id}", f"of-{self.agent.id}/deep", "shared"])
        name = f"{place}/{self.random.randrange(6)}.txt"
        if self.random.random() < 0.5:
            turn.edited(name)
        if self.random.random() < 0.15:
            self._delete(name)
        else:
            self._write(name)

    def _write(self, name: str) -> None:
        path = os.path.join(self.root, name)
        os.makedirs(os.path.dirname(path), exist_ok=True)
        # Written whole or not at all, as an editor does: a rollback may remove the folder, or replace the file, at any moment.
        draft = os.path.join(self.root, ".git-draft-" + self.agent.id)
        with open(draft, "w", encoding="utf-8") as file:
            file.write(f"{self.agent.id} {self.random.random()}\n" * self.random.randint(1, 5))
        try:
            os.replace(draft, path)
        except FileNotFoundError:
            os.unlink(draft)

    def _delete(self, name: str) -> None:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(os.path.join(self.root, name))

    def _commit(self) -> None:
        for words in (["add", "-A"], ["commit", "-q", "--allow-empty", "-m", "work"]):
            subprocess.run(["git", *words], cwd=self.root, check=True, capture_output=True)
