"""Take a checkpoint: look at every tree of an agent, store what is there, commit, make the refs, write one record (sections 3 and 4).

The order is what keeps it safe: objects first (nothing refers to them), then all commits, then all refs (each only if it is absent), then
the record. A failure anywhere deletes the refs made so far and leaves nothing but loose objects. How a tree is looked at is the business of
``gitstore.snapshot``; nothing here knows.
"""

from __future__ import annotations

import hashlib
import os
from contextlib import ExitStack, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnback import ids, paths
from turnback.clock import stamp
from turnback.errors import Conflict, Failed, InvalidParams, TimedOut, TurnbackError, Unsupported
from turnback.gitstore import fold, objects, refs, snapshot
from turnback.gitstore.repo import tree_key
from turnback.limits import CaptureLimits
from turnback.operations.results import Taken
from turnback.records.events import CheckpointRow, Record, RepoRow, RulesRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.snapshot import Snapshot
    from turnback.operations.context import Context
    from turnback.records.events import TreeRow
    from turnback.records.state import AgentState

# These always get a checkpoint of their own (3.2, A-07).
_NEVER_REUSED = frozenset({"pre_rollback", "rollback", "fork"})

_LABEL = 200  # characters: a label is a line in a list

# That others can't write a file is nothing to remember: under a umask of 002 it would be every file of most repositories.
_OTHERS_WRITE = 0o022


@dataclass(frozen=True, slots=True)
class Captured:
    """The stored state of one tree, not yet held by a ref."""

    tree: TreeRow
    repository: Repository
    snapshot: Snapshot


@dataclass(frozen=True, slots=True)
class Moment:
    """When a capture is taken, as its record tells it."""

    reason: str
    turn: str | None = None
    through_turn: str | None = None
    mid_turn: bool = False
    overlap: bool = False
    label: str | None = None


def limits(context: Context, timeout: float | None = None) -> CaptureLimits:
    """The configured limits, with the deadline of a capture that begins now (seconds; the configured timeout when None)."""
    settings = context.config.checkpoints
    seconds = settings.timeout_seconds if timeout is None else timeout
    return CaptureLimits(
        settings.max_file_bytes, settings.max_total_bytes, context.clock.monotonic() + seconds
    )


def store(context: Context, agent: AgentState, bounds: CaptureLimits) -> list[Captured]:
    """Store the present state of each tree of an agent, as objects that no ref holds; sorted by repository.

    Raises:
        Unsupported: ``unsupported.checkpoint_no_repo``: the agent has no repository.
        Failed, TimedOut: of the first tree that fails, with ``data.repo``.
    """
    if not agent.trees:
        raise Unsupported(
            "checkpoint_no_repo",
            f"agent {agent.id} has no git repository in its scope, so there is nowhere to keep checkpoints; "
            "run git init in the folder and add the agent again",
        )
    found: list[Captured] = []
    for tree in sorted(agent.trees, key=lambda row: row["repo"]):
        try:
            repository = context.repository(tree)
            _must_have_own_refs(repository, found)
            with context.scratch() as scratch:
                taken = snapshot.take(
                    repository,
                    bounds,
                    usual=context.usual_permissions() & ~_OTHERS_WRITE,
                    scratch=scratch,
                    pool=context.pool,
                    cache_file=context.dirty_file(repository.key),
                )
        except OSError as error:
            raise _io_failure(error, repo=tree["repo"]) from error
        except (Failed, TimedOut, Unsupported) as error:
            error.data.setdefault("repo", tree["repo"])
            raise
        found.append(Captured(tree, repository, taken))
    return found


def _must_have_own_refs(repository: Repository, others: Sequence[Captured]) -> None:
    """Two worktrees of one repository share their refs, and a checkpoint has one ref in each repository (5.1)."""
    for other in others:
        if other.repository.common_dir == repository.common_dir:
            raise Failed(
                "checkpoint_git",
                f"{other.repository.path} and {repository.path} are worktrees of one repository and share its refs; "
                "give each to an agent of its own",
                reason="two trees share their refs",
            )


def _io_failure(error: OSError, repo: str | None = None) -> Failed:
    """A full disk or a folder that can't be written to is a failed capture, which never stops a turn."""
    where = "" if error.filename is None else f" ({paths.text(os.fsencode(error.filename))})"
    said = f"{error.strerror or error}{where}"
    return Failed("checkpoint_git", f"the checkpoint can't be stored: {said}", reason=said, repo=repo)


def take(context: Context, agent_id: str, moment: Moment, *, explicit: bool) -> Taken:
    """Take one checkpoint of an agent, or reuse the latest one when nothing differs.

    Args:
        context: the workspace.
        agent_id: whose trees.
        moment: the reason and the turn; ``through_turn`` and ``mid_turn`` are filled in from the state.
        explicit: somebody asked for it: works with ``enabled=false`` too, and a failure is the caller's.

    Raises:
        TurnbackError: the capture failed; it is logged as ``checkpoint.failed`` first, where the log takes it.
    """
    bounds = limits(context)
    agent = context.state().agent(agent_id)
    if not agent.trees and not explicit:
        raise Unsupported("checkpoint_no_repo", f"agent {agent_id} has no git repository in its scope")
    try:
        with context.holding(agent, agent.trees, context.config.checkpoints.timeout_seconds):
            agent = context.state().agent(agent_id)
            if agent.rollback is not None and moment.reason not in ("pre_rollback", "rollback"):
                raise Conflict(
                    "rollback_running",
                    f"a rollback of {agent_id} is running; try again when it has ended",
                    agent=agent_id,
                )
            captured = store(context, agent, bounds)
            try:
                taken = publish(context, agent, captured, moment)
            except objects.MissingObject:
                # git gc --prune=now ran in between and took objects that no ref held yet: read the files again, all of them.
                for one in captured:
                    one.repository.kept.dirty(context.dirty_file(one.repository.key)).forget()
                captured = store(context, agent, bounds)
                taken = publish(context, agent, captured, moment)
            for one in captured:
                if one.snapshot.writer.made_pack:
                    _fold_packs(context, agent, one.repository)
            return taken
    except TurnbackError as error:
        if not (isinstance(error, Conflict) or error.code == "unsupported.checkpoint_no_repo"):
            _log_failure(context, agent_id, moment, error)
        raise
    except OSError as error:
        failure = _io_failure(error)
        with suppress(TurnbackError, OSError):  # a full disk may have no room for this either
            _log_failure(context, agent_id, moment, failure)
        raise failure from error


def _fold_packs(context: Context, agent: AgentState, repository: Repository) -> None:
    """Many small packs slow every git command: ours are folded together now and then, by one process at a time.

    A fold that fails leaves everything as it was: the checkpoint is there, and a later capture tries again.
    """
    lock = context.tree_lock(f"objects-{tree_key(repository.common_dir)}", agent.id)
    if lock.try_acquire():
        try:
            with suppress(Failed):
                fold.fold(repository)
        finally:
            lock.release()


def manual(context: Context, agent_id: str, label: str | None) -> Taken:
    """A checkpoint that somebody asked for (V-392). Reads only, so it works while the agent runs or is handed over (V-363).

    Raises:
        InvalidParams: ``invalid_params.label``: it is empty or longer than 200 characters.
        Conflict: ``conflict.invalid_transition``: the agent is archived (A-16).
    """
    if label is not None and not 0 < len(label.strip()) <= _LABEL:
        raise InvalidParams("label", f"a label has 1 to {_LABEL} characters")
    if context.state().agent(agent_id).archived:
        raise Conflict("invalid_transition", f"agent {agent_id} is archived; nothing more is saved for it")
    return take(context, agent_id, Moment("manual", label=label), explicit=True)


def publish(
    context: Context,
    agent: AgentState,
    captured: Sequence[Captured],
    moment: Moment,
    *,
    durable: bool = False,
) -> Taken:
    """Give stored states a checkpoint: commits, refs, and the record; or reuse the latest one. The agent's lock is held.

    Raises:
        Failed: ``failed.checkpoint_git``: a commit or ref can't be made; the refs made so far are gone again.
    """
    state = context.state()
    agent = state.agent(agent.id)
    moment = _filled(agent, moment)
    latest = _latest(agent)
    if moment.reason not in _NEVER_REUSED and latest is not None and _same(context, latest, captured):
        data: dict[str, Any] = {
            "agent": agent.id,
            "checkpoint": latest["checkpoint"],
            "reason": moment.reason,
            "through_turn": moment.through_turn,
        }
        if moment.turn is not None:
            data["turn"] = moment.turn
        if moment.label is not None:
            data["label"] = moment.label
        if moment.mid_turn:
            data["mid_turn"] = True
        context.log.append([Record("checkpoint.reused", data)], durable=durable)
        return Taken(agent.id, latest["checkpoint"], reused=True)
    with ExitStack() as made:
        row = _publish_new(context, agent, captured, moment, latest, made)
        try:
            context.log.append([Record("checkpoint.taken", dict(row))], durable=durable)
        except BaseException:
            # A ref without a record would make every later window a gap. The record may be there all the same: an error can come after it.
            with suppress(TurnbackError, OSError):
                if row["checkpoint"] in context.state().agent(agent.id).checkpoints:
                    made.pop_all()
            raise
        made.pop_all()
    return Taken(agent.id, row["checkpoint"], reused=False)


def _publish_new(
    context: Context,
    agent: AgentState,
    captured: Sequence[Captured],
    moment: Moment,
    latest: CheckpointRow | None,
    keep: ExitStack,
) -> CheckpointRow:
    """All commits, then all refs; an id whose ref somebody has already is skipped (V-159). ``keep`` gets what deletes the refs again."""
    number = agent.next_checkpoint
    at = context.clock.now()
    while True:
        # Looked for first, so that a log which was lost with a thousand refs doesn't cost a thousand commits.
        while not all(
            refs.is_free(one.repository, refs.checkpoint_ref(agent.id, number)) for one in captured
        ):
            number += 1
        checkpoint = ids.checkpoint_id(number)
        rows = [_repo_row(context, agent, one, checkpoint, moment, latest, at) for one in captured]
        name = refs.checkpoint_ref(agent.id, number)
        with ExitStack() as made:
            try:
                for one, row in zip(captured, rows, strict=True):
                    refs.create(one.repository, name, row["commit"])
                    made.callback(refs.delete, one.repository, name, row["commit"])
                # From here on the refs hold them; what went before that is noticed here (DESIGN 10.1).
                for one, row in zip(captured, rows, strict=True):
                    _must_exist(one, row)
            except refs.RefExists:
                # The id was used by a log that is gone, or by a process that was killed before its record: never overwrite it.
                number += 1
                continue
            keep.push(made.pop_all())
        checkpoint_row: CheckpointRow = {
            "agent": agent.id,
            "checkpoint": checkpoint,
            "reason": moment.reason,
            "through_turn": moment.through_turn,
            "at": stamp(at),
            "mid_turn": moment.mid_turn,
            "overlap": moment.overlap,
            "repos": rows,
        }
        if moment.turn is not None:
            checkpoint_row["turn"] = moment.turn
        if moment.label is not None:
            checkpoint_row["label"] = moment.label
        return checkpoint_row


def _must_exist(one: Captured, row: RepoRow) -> None:
    one.repository.reopen()  # what it has open may be a pack that is gone
    for oid in (row["commit"], row["tree"], *sorted(one.snapshot.cleaned)):
        if not objects.exists(one.repository, oid):
            raise objects.MissingObject(oid, one.repository.path)
    for oid in one.snapshot.writer.lost():
        raise objects.MissingObject(oid, one.repository.path)


def _repo_row(
    context: Context,
    agent: AgentState,
    one: Captured,
    checkpoint: str,
    moment: Moment,
    latest: CheckpointRow | None,
    at: int,
) -> RepoRow:
    """One repository's part of the record; a repository that didn't change keeps its last commit (V-161)."""
    taken = one.snapshot
    before = _row_of(latest, one.tree["repo"])
    if (
        before is not None
        and moment.reason not in _NEVER_REUSED
        and _same_state(before, taken)
        and _held(agent, latest, one, before)
    ):
        commit = before["commit"]
    else:
        parents = [] if taken.head.commit is None else [taken.head.commit]
        commit = objects.write_commit(
            one.repository, taken.tree, parents, message(agent.id, checkpoint, moment), at
        )
    row: RepoRow = {
        "repo": one.tree["repo"],
        "path": one.tree["path"],
        "commit": commit,
        "head": taken.head.commit,
        "skipped": [item.to_dict() for item in taken.skipped],
        "submodules": [
            {**paths.members(item.path), "commit": item.commit, "dirty": item.dirty} for item in taken.nested
        ],
        "tree": taken.tree,
        "key": one.tree["key"],
    }
    if taken.head.branch is not None:
        row["branch"] = taken.head.branch
    if taken.raw:
        row["raw"] = [
            {"path": paths.item(raw.path), "sha256": raw.sha256, "bytes": raw.bytes} for raw in taken.raw
        ]
    if taken.modes:
        row["modes"] = [
            {"path": paths.item(path), "mode": mode} for path, mode in sorted(taken.modes.items())
        ]
    for text in (taken.rules.info_exclude, taken.rules.excludes_file):
        if text is not None:
            context.pool.put(text)
    row["rules"] = _rules(taken)
    return row


def _rules(taken: Snapshot) -> RulesRow:
    """The ignore rules that no tree holds, each text by its digest in the pool."""
    found: RulesRow = {"ignore_case": taken.rules.ignore_case}
    if taken.rules.info_exclude is not None:
        found["info_exclude"] = hashlib.sha256(taken.rules.info_exclude).hexdigest()
    if taken.rules.excludes_file is not None:
        found["excludes_file"] = hashlib.sha256(taken.rules.excludes_file).hexdigest()
    return found


def message(agent: str, checkpoint: str, moment: Moment) -> str:
    """The commit message with its trailers (V-141)."""
    lines = [
        f"venom checkpoint {agent}/{checkpoint}",
        "",
        f"Venom-Agent: {agent}",
        f"Venom-Checkpoint: {checkpoint}",
        f"Venom-Reason: {moment.reason}",
    ]
    if moment.turn is not None:
        lines.append(f"Venom-Turn: {moment.turn}")
    return "\n".join(lines) + "\n"


def _filled(agent: AgentState, moment: Moment) -> Moment:
    """A moment with what the state knows: the last ended turn, and whether a turn runs around a manual checkpoint (A-05, A-06)."""
    mid_turn = moment.reason == "manual" and agent.running_turn is not None
    return Moment(
        reason=moment.reason,
        turn=agent.running_turn if mid_turn else moment.turn,
        through_turn=moment.through_turn
        if moment.through_turn is not None or moment.reason == "rollback"
        else agent.through_turn,
        mid_turn=mid_turn,
        # A turn that the harness began before this one's end was saved (V-073).
        overlap=moment.overlap or (moment.reason == "turn_end" and agent.running_turn is not None),
        label=moment.label,
    )


def _latest(agent: AgentState) -> CheckpointRow | None:
    return next(reversed(agent.checkpoints.values()), None)


def _row_of(checkpoint: CheckpointRow | None, repo: str) -> RepoRow | None:
    if checkpoint is None:
        return None
    return next((row for row in checkpoint["repos"] if row["repo"] == repo), None)


def _same(context: Context, latest: CheckpointRow, captured: Sequence[Captured]) -> bool:
    """Whether the latest checkpoint holds exactly this state in every repository, and its refs still do too."""
    if {row["repo"] for row in latest["repos"]} != {one.tree["repo"] for one in captured}:
        return False
    agent = context.state().agent(latest["agent"])
    for one in captured:
        before = _row_of(latest, one.tree["repo"])
        if before is None or not _same_state(before, one.snapshot) or not _held(agent, latest, one, before):
            return False
    return True


def _same_state(before: RepoRow, taken: Snapshot) -> bool:
    """The same tree and HEAD (commit and branch, A-08), and the same of everything else that a rollback to it would go by.

    That is: raw bytes, left-out paths (what was too big then and isn't now must not look new), narrow permissions (a secret must
    not come back wider than it was) and the ignore rules outside the tree.
    """
    raw = [(paths.from_json(row["path"]), row["sha256"]) for row in before.get("raw", [])]
    modes = {paths.from_json(row["path"]): row["mode"] for row in before.get("modes", [])}
    return (
        before["tree"] == taken.tree
        and before["head"] == taken.head.commit
        and before.get("branch") == taken.head.branch
        and raw == [(item.path, item.sha256) for item in taken.raw]
        and [(paths.from_json(item), item["reason"]) for item in before["skipped"]]
        == [(item.path, item.reason) for item in taken.skipped]
        and modes == taken.modes
        and before.get("rules") == _rules(taken)
    )


def _held(agent: AgentState, latest: CheckpointRow | None, one: Captured, before: RepoRow) -> bool:
    if latest is None or before["key"] != one.tree["key"]:
        return False
    name = refs.checkpoint_ref(agent.id, ids.number_of(latest["checkpoint"]))
    return refs.resolve(one.repository, name) == before["commit"]


def _log_failure(context: Context, agent: str, moment: Moment, error: TurnbackError) -> None:
    data: dict[str, Any] = {
        "agent": agent,
        "reason": moment.reason,
        "code": error.code,
        "message": error.message,
    }
    if moment.turn is not None:
        data["turn"] = moment.turn
    if "repo" in error.data:
        data["repo"] = error.data["repo"]
    context.log.append([Record("checkpoint.failed", data)])
