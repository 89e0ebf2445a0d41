"""What the verbs give back: frozen values with exactly the contract's members, and ``to_json`` (11.1).

A path is a ``str`` for people; one that isn't UTF-8 has U+FFFD in it and its exact bytes in ``path_b64`` (None otherwise). ``to_dict`` leaves
out members that the contract has only sometimes and that are None here.
"""

from __future__ import annotations

import base64
from dataclasses import dataclass, fields
from typing import Any, ClassVar

from turnback import paths
from turnback.records import codec


@dataclass(frozen=True, slots=True)
class Result:
    """Base of the results: JSON forms from the members."""

    # Members that to_dict leaves out when they are None; every other member is always there.
    optional: ClassVar[frozenset[str]] = frozenset({"path_b64"})

    def to_dict(self) -> dict[str, Any]:
        """The members as JSON-ready values, in the contract's order."""
        found: dict[str, Any] = {}
        for member in fields(self):
            value = getattr(self, member.name)
            if value is None and member.name in self.optional:
                continue
            found[member.name] = _plain(value)
        return found

    def to_json(self) -> bytes:
        """``to_dict`` as compact UTF-8 JSON."""
        return codec.dumps(self.to_dict())


def _plain(value: Any) -> Any:
    if isinstance(value, Result):
        return value.to_dict()
    if isinstance(value, tuple | list):
        return [_plain(item) for item in value]
    if isinstance(value, dict):
        return {key: _plain(item) for key, item in value.items()}
    return value


def path_members(path: bytes) -> dict[str, Any]:
    """``path`` and ``path_b64`` for a result with a path."""
    encoded = None if paths.is_text(path) else base64.b64encode(path).decode("ascii")
    return {"path": paths.text(path), "path_b64": encoded}


@dataclass(frozen=True, slots=True)
class Checkpoint(Result):
    """One item of ``checkpoints`` (the record of 4.2, without type and agent, plus ``conversation``)."""

    optional: ClassVar[frozenset[str]] = frozenset({"turn", "label"})

    checkpoint: str
    reason: str
    turn: str | None
    through_turn: str | None
    at: str
    mid_turn: bool
    overlap: bool
    conversation: bool
    label: str | None
    repos: tuple[dict[str, Any], ...]

    def __post_init__(self) -> None:
        # The rows come from the folded log: a caller who changes what it was given must not change that.
        object.__setattr__(self, "repos", tuple(_plain(row) for row in self.repos))


@dataclass(frozen=True, slots=True)
class CheckpointList(Result):
    """``agent.checkpoints``: newest first; ``pending`` while a capture hasn't finished."""

    agent: str
    pending: bool
    checkpoints: tuple[Checkpoint, ...]


@dataclass(frozen=True, slots=True)
class Taken(Result):
    """``agent.checkpoint``: the id, and whether it is an earlier one whose state is the same."""

    agent: str
    checkpoint: str
    reused: bool


@dataclass(frozen=True, slots=True)
class CaptureFailure(Result):
    """Why an automatic capture failed; the turn goes on all the same (3.1)."""

    code: str
    message: str


@dataclass(frozen=True, slots=True)
class TurnResult(Result):
    """What ``turn begin`` and ``turn end`` tell."""

    optional: ClassVar[frozenset[str]] = frozenset({"checkpoint", "reused", "capture_failed", "prompt"})

    agent: str
    turn: str
    checkpoint: str | None = None
    reused: bool | None = None
    capture_failed: CaptureFailure | None = None
    prompt: str | None = None


@dataclass(frozen=True, slots=True)
class DiffFile(Result):
    """One path of ``agent.checkpoint_diff``; counts are lines, 0 for a binary change."""

    repo: str
    path: str
    change: str
    added: int
    removed: int
    binary: bool
    path_b64: str | None = None


@dataclass(frozen=True, slots=True)
class Patch(Result):
    """The unified diff of one path: ``bytes`` is its whole length, ``text`` may be cut (``truncated``)."""

    text: str
    truncated: bool
    bytes: int


@dataclass(frozen=True, slots=True)
class CheckpointDiff(Result):
    """``agent.checkpoint_diff``."""

    optional: ClassVar[frozenset[str]] = frozenset({"patch"})

    files: tuple[DiffFile, ...]
    patch: Patch | None = None


@dataclass(frozen=True, slots=True)
class ConversationResult(Result):
    """What a rollback does to the conversation."""

    optional: ClassVar[frozenset[str]] = frozenset({"harness_session"})

    rewinds: bool
    through_turn: str | None
    drops: tuple[str, ...]
    harness_session: str | None = None


@dataclass(frozen=True, slots=True)
class HeadResult(Result):
    """What a rollback does to HEAD: ``commits`` is the number that it drops."""

    moves: bool
    from_: str | None
    to: str | None
    commits: int

    def to_dict(self) -> dict[str, Any]:
        """``from`` is a word of Python's, so the member has a trailing sign there and none here."""
        return {"moves": self.moves, "from": self.from_, "to": self.to, "commits": self.commits}


@dataclass(frozen=True, slots=True)
class PlannedFile(Result):
    """One path that a rollback restores or deletes."""

    path: str
    change: str
    class_: str
    path_b64: str | None = None

    def to_dict(self) -> dict[str, Any]:
        """``class`` is a word of Python's, so the member has a trailing sign there and none here."""
        found = {"path": self.path, "change": self.change, "class": self.class_}
        if self.path_b64 is not None:
            found["path_b64"] = self.path_b64
        return found


@dataclass(frozen=True, slots=True)
class LeftPath(Result):
    """One path that a rollback leaves alone, and why."""

    optional: ClassVar[frozenset[str]] = frozenset({"detail", "path_b64"})

    path: str
    reason: str
    detail: str | None = None
    path_b64: str | None = None


@dataclass(frozen=True, slots=True)
class RepoResult(Result):
    """One repository of a rollback."""

    optional: ClassVar[frozenset[str]] = frozenset({"warnings", "kept"})

    repo: str
    path: str
    head: HeadResult
    files: tuple[PlannedFile, ...]
    left: tuple[LeftPath, ...]
    ignored_edits: tuple[Any, ...]
    warnings: tuple[str, ...] | None = None
    kept: tuple[dict[str, Any], ...] | None = None


@dataclass(frozen=True, slots=True)
class RollbackPlan(Result):
    """``agent.rollback`` with ``dry_run``: what would happen, and the plan that the real call must quote."""

    optional: ClassVar[frozenset[str]] = frozenset()

    agent: str
    checkpoint: str
    dry_run: bool
    plan: str
    restore: str
    guarded: bool
    conversation: ConversationResult
    shared_with: tuple[str, ...]
    children: tuple[str, ...]
    repos: tuple[RepoResult, ...]


@dataclass(frozen=True, slots=True)
class RollbackDone(Result):
    """``agent.rollback``, the real call: what happened. ``exact`` is False when something else wrote meanwhile."""

    optional: ClassVar[frozenset[str]] = frozenset()

    agent: str
    checkpoint: str
    dry_run: bool
    restore: str
    safety: str
    after: str
    exact: bool
    conversation: ConversationResult
    shared_with: tuple[str, ...]
    children: tuple[str, ...]
    repos: tuple[RepoResult, ...]


@dataclass(frozen=True, slots=True)
class AgentInfo(Result):
    """``agent show``: an agent as the log has it now.

    ``cut_off`` is ``{checkpoint, safety}`` of its last rollback when that one was cut off (the process was killed, say) and no turn began since: the
    files may be half way, and ``safety`` holds the state before it (V-303).
    """

    optional: ClassVar[frozenset[str]] = frozenset({"parent", "harness", "binding", "note", "cut_off"})

    agent: str
    state: str
    isolation: str
    parent: str | None
    harness: str | None
    guarded: bool
    trees: tuple[dict[str, Any], ...]
    turns: tuple[dict[str, Any], ...]
    checkpoints: int
    shared_with: tuple[str, ...]
    children: tuple[str, ...]
    binding: dict[str, Any] | None = None
    note: str | None = None
    cut_off: dict[str, Any] | None = None
