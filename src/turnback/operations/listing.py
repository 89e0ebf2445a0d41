"""``agent.checkpoints``: the checkpoints as the log has them, newest first (V-390, V-391). Refs are not looked at (V-151)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnback import ids
from turnback.errors import InvalidParams, NotFound
from turnback.operations.results import Checkpoint, CheckpointList
from turnback.policy import conversation

if TYPE_CHECKING:
    from turnback.operations.context import Context
    from turnback.operations.rollback import Conversational
    from turnback.policy.conversation import Verdict
    from turnback.records.events import CheckpointRow, RepoRow
    from turnback.records.state import AgentState

# What a repository's part of the record shows to the outside (4.2); the rest is for the library itself.
_PUBLIC = ("repo", "path", "commit", "head", "branch", "skipped", "submodules")


def checkpoints(
    context: Context,
    agent_id: str,
    *,
    turn: str | None,
    before: str | None,
    limit: int,
    harness: Conversational | None,
) -> CheckpointList:
    """List an agent's checkpoints.

    Args:
        context: the workspace.
        agent_id: whose.
        turn: only those whose ``turn`` it is.
        before: only those older than this one.
        limit: at most so many.
        harness: the adapter, which decides whether the conversation can come along.

    Raises:
        NotFound: ``not_found.agent``, ``not_found.checkpoint`` for ``before``.
        InvalidParams: ``invalid_params.limit``, ``.turn``, ``.before``.
    """
    if limit < 1:
        raise InvalidParams("limit", f"{limit!r} is no limit; give a whole number from 1")
    agent = context.state().agent(agent_id)
    rows = list(agent.checkpoints.values())
    if before is not None:
        bound = ids.number_of(ids.parse_checkpoint(before, "before"))
        if before not in agent.checkpoints and before not in agent.pruned:
            raise NotFound("checkpoint", f"{before} of {agent_id} does not exist", checkpoint=before)
        rows = [row for row in rows if ids.number_of(row["checkpoint"]) < bound]
    if turn is not None:
        wanted = ids.parse_turn(turn)
        rows = [row for row in rows if row.get("turn") == wanted]
    rows = rows[::-1][:limit]
    pending = context.agent_lock(agent_id).held_by_other() is not None and agent.rollback is None
    turns = _turns(agent)
    return CheckpointList(agent_id, pending, tuple(_item(turns, row, harness) for row in rows))


def _item(
    turns: list[conversation.TurnFacts], row: CheckpointRow, harness: Conversational | None
) -> Checkpoint:
    return Checkpoint(
        checkpoint=row["checkpoint"],
        reason=row["reason"],
        turn=row.get("turn"),
        through_turn=row["through_turn"],
        at=row["at"],
        mid_turn=row["mid_turn"],
        overlap=row["overlap"],
        conversation=_verdict(turns, row, harness).possible,
        label=row.get("label"),
        repos=tuple(_repo(repo) for repo in row["repos"]),
    )


def _repo(row: RepoRow) -> dict[str, Any]:
    whole: dict[str, Any] = {**row}
    found = {member: whole[member] for member in _PUBLIC if member in whole}
    for member in ("raw", "modes"):
        if whole.get(member):
            found[member] = whole[member]
    return found


def verdict(agent: AgentState, row: CheckpointRow, harness: Conversational | None) -> Verdict:
    """What going back to a checkpoint means for the conversation (section 8)."""
    return _verdict(_turns(agent), row, harness)


def _turns(agent: AgentState) -> list[conversation.TurnFacts]:
    return [
        conversation.TurnFacts(turn.turn, turn.dropped, turn.harness_turn, turn.harness_end)
        for turn in list(agent.turns.values())
    ]


def _verdict(
    turns: list[conversation.TurnFacts], row: CheckpointRow, harness: Conversational | None
) -> Verdict:
    point = conversation.Point(
        through_turn=row["through_turn"],
        reason=row["reason"],
        mid_turn=row["mid_turn"],
        overlap=row["overlap"],
    )
    rewind = bool(harness is not None and getattr(harness, "can_rewind", False))
    needs = getattr(harness, "needs", None) if harness is not None else None
    return conversation.conversation(point, turns, rewind=rewind, needs=() if needs is None else (needs,))
