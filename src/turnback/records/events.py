"""What the log holds: the shape of each record, and which of them are published as events.

A record is a type and a JSON object. The shapes are ``TypedDict``s and not classes because the log is folded a hundred thousand
records at a time: what the decoder returns is used as it is. Members that the seed names (4.2, 11.2) have the seed's names;
the ones beyond it are marked *internal* and never appear in a published event.

A path in a record is in its JSON form (``turnback.paths.item``): a string, or ``{path, path_b64}``.
"""

from __future__ import annotations

from typing import Any, NamedTuple, NotRequired, TypeAlias, TypedDict

PathItem: TypeAlias = str | dict[str, str]


class Record(NamedTuple):
    """One record to append: its type (a key of ``PUBLISHED`` or of ``INTERNAL``) and its data."""

    type: str
    data: dict[str, Any]


class StoredRecord(NamedTuple):
    """One record as the log holds it: ``seq`` counts from 1 without gaps, ``ts`` is milliseconds since the epoch."""

    seq: int
    ts: int
    type: str
    data: dict[str, Any]


class TreeRow(TypedDict):
    """One repository in an agent's scope, and the folder it is checked out in.

    ``repo`` is relative to the workspace (``"."`` for the workspace itself), ``path`` the tree's canonical absolute path. ``key`` names the
    tree by device and inode: two spellings of one folder have one key (V-034). ``borrowed`` is true when the folder was given and not made by us.
    """

    repo: str
    path: str
    key: str
    borrowed: NotRequired[bool]


class RawRow(TypedDict):
    """A file whose bytes git's conversion would not bring back: they are in the pool by ``sha256``."""

    path: PathItem
    sha256: str
    bytes: int


class ModeRow(TypedDict):
    """A file with narrower permission bits than the umask would give (DESIGN part 7, Keeping)."""

    path: PathItem
    mode: int


class RulesRow(TypedDict, total=False):
    """The ignore rules of a moment that its tree doesn't hold (DESIGN 10.6): sha256 of the texts in the pool, absent when there is none."""

    info_exclude: str
    excludes_file: str
    ignore_case: bool


class RepoRow(TypedDict):
    """One repository in a checkpoint (4.2). *Internal*: ``tree`` (the commit's tree), ``key``, ``raw``, ``modes``, ``rules``."""

    repo: str
    path: str
    commit: str
    head: str | None
    branch: NotRequired[str]
    skipped: list[dict[str, Any]]
    submodules: list[dict[str, Any]]
    tree: str
    key: str
    raw: NotRequired[list[RawRow]]
    modes: NotRequired[list[ModeRow]]
    rules: NotRequired[RulesRow]


class CheckpointRow(TypedDict):
    """``checkpoint.taken``: the record of 4.2. ``turn`` is absent outside a turn (A-06)."""

    agent: str
    checkpoint: str
    reason: str
    turn: NotRequired[str]
    through_turn: str | None
    at: str
    mid_turn: bool
    overlap: bool
    label: NotRequired[str]
    repos: list[RepoRow]


# Type of the record -> type of the event that publishes it (11.2), with the members that the event has.
PUBLISHED: dict[str, tuple[str, tuple[str, ...]]] = {
    "checkpoint.taken": (
        "agent.checkpoint",
        ("agent", "checkpoint", "reason", "turn", "through_turn", "label", "repos"),
    ),
    "checkpoint.failed": ("agent.checkpoint_failed", ("agent", "reason", "code", "turn", "repo")),
    "rollback.started": ("agent.rollback_started", ("agent", "checkpoint", "safety", "restore")),
    "rollback.ended": (
        "agent.rollback_ended",
        ("agent", "checkpoint", "safety", "restore", "ok", "code", "after", "drops"),
    ),
    "fork.ended": ("agent.fork_ended", ("agent", "fork", "through_turn", "ok", "code", "checkpoint")),
}

# Records that are never published, with what their data holds.
INTERNAL: dict[str, str] = {
    "log.created": "format (int), workspace (path text), id (uuid): always the first record",
    "agent.added": "agent, isolation, trees [TreeRow], parent?, harness? (the adapter's name)",
    "agent.state": "agent, state",
    "agent.stale_requests": "agent, requests [str]",
    "agent.binding": "agent, harness_session (str or null), fork_source?, fork_at?",
    "turn.started": "agent, turn, origin, prompt?",
    "turn.edited": "agent, turn, repo, paths [PathItem]",
    "turn.ended": "agent, turn, reason, harness_turn?, harness_end?",
    "turn.dropped": "agent, turns [t<n>], by (the checkpoint rolled back to)",
    "checkpoint.reused": "agent, checkpoint, reason, through_turn, turn?, label?, mid_turn?",
    "checkpoint.pruned": "agent, checkpoints [k<n>]",
    "checkpoint.removed": "agent, repo, removed, kept",
    "note.pending": "agents [id], text",
    "note.delivered": "agent",
    "attention.raised": "agent, kind, reason",
}

# Members of rollback.started and rollback.ended beyond the event's: internal, for windows, undo and the doctor.
#   rollback.started: outside, keep_head, paths?, repos [{repo, path, tree, target}]
#   rollback.ended:   expected [{repo, tree}] when ok; kept? [{path, sha256}] pre-images that the result named


def published(record: StoredRecord, source: str) -> dict[str, Any] | None:
    """The event of a record in the seed's envelope (V-021), or None for an internal one."""
    found = PUBLISHED.get(record.type)
    if found is None:
        return None
    name, members = found
    data = {member: record.data[member] for member in members if member in record.data}
    if record.type == "checkpoint.taken":
        data["repos"] = [{"repo": row["repo"], "commit": row["commit"]} for row in record.data["repos"]]
    return {"seq": record.seq, "ts": record.ts, "source": source, "type": name, "data": data}
