"""Add an agent, say what it is, and take the facts about it that only the host knows (V-030 to V-035, DESIGN part 8)."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

from turnback import ids
from turnback.errors import Conflict, InvalidParams
from turnback.operations import recovery, scopes
from turnback.operations.results import AgentInfo
from turnback.policy.preflight import rollback_running
from turnback.records.events import Record

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from turnback.operations.context import Context
    from turnback.records.state import AgentState, State

ISOLATIONS = ("in_place", "worktree", "copy")
STATES = ("queued", "running", "needs_you", "handed_over", "settled", "failed", "archived")


def add(
    context: Context,
    agent_id: str,
    *,
    repos: Sequence[str | bytes | os.PathLike[str]] | None,
    isolation: str,
    path: str | bytes | os.PathLike[str] | None,
    parent: str | None,
    harness: str | None,
    force: bool,
) -> None:
    """Add an agent.

    Args:
        context: the workspace.
        agent_id: its id.
        repos: repositories relative to the workspace; None for the workspace itself where that is one, else none.
        isolation: ``in_place``, ``worktree`` or ``copy``.
        path: an existing folder for a worktree or copy (of the only repository); None to make them below the state folder.
        parent: the agent that started this one.
        harness: the adapter's name.
        force: accept a broad root (the home folder, ``/``, a folder that holds the state folder).

    Raises:
        InvalidParams: ``invalid_params.agent``, ``.repo``, ``.isolation``, ``.path``.
        Conflict: ``conflict.agent_exists``.
        NotFound: ``not_found.agent``: the parent.
        Failed: ``failed.worktree``: the folder can't be made. ``failed.checkpoint_git``: the repository can't be opened.
        Unsupported: ``unsupported.repository``.
    """
    agent = ids.agent_id(agent_id)
    if isolation not in ISOLATIONS:
        raise InvalidParams(
            "isolation", f"{isolation!r} is no isolation; it is one of {', '.join(ISOLATIONS)}"
        )
    state = context.state()
    _must_be_new(state, agent)
    if parent is not None:
        state.agent(ids.agent_id(parent))
    wanted = scopes.look_at(context, repos, isolation, path, force=force)
    with ExitStack() as made:
        trees = [scopes.tree(context, agent, one, isolation, made) for one in wanted]
        data: dict[str, Any] = {"agent": agent, "isolation": isolation, "trees": trees}
        if parent is not None:
            data["parent"] = parent
        if harness is not None:
            data["harness"] = harness
        context.make_folders()

        def added(now: State) -> Sequence[Record]:
            _must_be_new(now, agent)
            for row in trees:
                row["key"] = scopes.name_in(now, row["path"])
            return [Record("agent.added", data)]

        context.log.build(added)
        made.pop_all()


def _must_be_new(state: State, agent: str) -> None:
    if agent in state.agents:
        raise Conflict(
            "agent_exists",
            f"there is an agent {agent} already; choose another id, or use that one",
            agent=agent,
        )


def info(context: Context, agent_id: str) -> AgentInfo:
    """What an agent is now.

    Raises:
        NotFound: ``not_found.agent``.
    """
    with context.reading() as state:
        return _info(state, state.agent(agent_id))


def _info(state: State, agent: AgentState) -> AgentInfo:
    return AgentInfo(
        agent=agent.id,
        state=agent.state,
        isolation=agent.isolation,
        parent=agent.parent,
        harness=agent.harness,
        guarded=guarded(state, agent),
        trees=tuple({"repo": tree["repo"], "path": tree["path"]} for tree in agent.trees),
        turns=tuple(
            {
                "turn": turn.turn,
                "origin": turn.origin,
                "prompt": turn.prompt,
                "reason": turn.reason,
                "dropped": turn.dropped,
            }
            for turn in agent.turns.values()
        ),
        checkpoints=len(agent.checkpoints),
        shared_with=tuple(sorted(other.id for other in state.sharers(agent.id))),
        children=tuple(sorted(child.id for child in state.children(agent.id))),
        binding=None if agent.binding is None else dict(agent.binding),
        note=agent.note,
        cut_off=_cut_off(state, agent),
    )


def _cut_off(state: State, agent: AgentState) -> dict[str, Any] | None:
    last = next((row for row in reversed(state.rollbacks) if row["agent"] == agent.id), None)
    if last is None or last.get("code") != recovery.INTERRUPTED:
        return None
    if any(turn.start_seq > last["ended"] for turn in agent.turns.values()):
        return None
    return {"checkpoint": last["checkpoint"], "safety": last["safety"]}


def guarded(state: State, agent: AgentState) -> bool:
    """Whether a rollback of this agent could overwrite somebody else's work (section 2)."""
    return agent.isolation == "in_place" or bool(state.sharers(agent.id))


def set_state(context: Context, agent_id: str, value: str) -> None:
    """Tell the state that the host knows (A-01); turns set ``running``, ``settled`` and ``failed`` by themselves.

    While a turn runs the agent is ``running`` or ``needs_you`` and nothing else: an agent that seemed settled could be rolled back
    under its own hands.

    Raises:
        InvalidParams: ``invalid_params.state``.
        Conflict: ``conflict.invalid_transition``: it is archived, which is final. ``conflict.turn_running``,
            ``conflict.rollback_running``.
    """
    if value not in STATES:
        raise InvalidParams("state", f"{value!r} is no state of an agent; it is one of {', '.join(STATES)}")
    end_interrupted(context, agent_id)

    def told(state: State) -> Sequence[Record]:
        agent = state.agent(agent_id)
        if agent.archived:
            raise Conflict("invalid_transition", f"agent {agent_id} is archived; that is final")
        if agent.rollback is not None:
            raise rollback_running(agent_id)
        if agent.running_turn is not None and value not in ("running", "needs_you"):
            raise Conflict(
                "turn_running",
                f"{agent.running_turn} of {agent_id} is running, so it can't be {value}; end the turn first",
            )
        return [] if agent.state == value else [Record("agent.state", {"agent": agent_id, "state": value})]

    context.log.build(told)


def end_interrupted(context: Context, agent_id: str) -> None:
    """Record the end of a rollback that this agent's state still has and whose process is gone, so that nothing waits for it for ever.

    Raises:
        NotFound: ``not_found.agent``.
    """
    with context.reading() as state:
        agents = [state.agent(agent_id), *state.sharers(agent_id)]
        cut_off = any(agent.rollback is not None for agent in agents)
    if cut_off:
        recovery.note_interrupted(context)


def set_stale_requests(context: Context, agent_id: str, requests: Sequence[str]) -> None:
    """Tell which inbox items of an agent are stale; a rollback waits until there are none.

    Raises:
        InvalidParams: ``invalid_params.requests``.
        NotFound: ``not_found.agent``.
    """
    if isinstance(requests, str) or not all(requests):
        raise InvalidParams("requests", "give a list of the requests' ids; an empty one when none is stale")

    def check(state: State) -> None:
        state.agent(agent_id)

    context.log.append(
        [Record("agent.stale_requests", {"agent": agent_id, "requests": list(requests)})], check=check
    )


def next_prompt(context: Context, agent_id: str, text: str) -> str:
    """A prompt with the agent's pending note before it, once (V-346)."""
    given = text

    def delivered(state: State) -> Sequence[Record]:
        nonlocal given
        note = state.agent(agent_id).note
        if note is None:
            return []
        given = f"{note}\n\n{text}"
        return [Record("note.delivered", {"agent": agent_id})]

    if context.state().agent(agent_id).note is not None:
        context.log.build(delivered)
    return given
