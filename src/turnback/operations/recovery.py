"""What a workspace does when it is opened after a crash: it records that a rollback was cut off, and touches no file (7.6, V-302, V-303)."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

from turnback.operations import leftovers
from turnback.operations.notes import read_notes
from turnback.records.events import Record

if TYPE_CHECKING:
    from turnback.operations.context import Context
    from turnback.records.state import State

INTERRUPTED = "failed.rollback_interrupted"


def note_interrupted(context: Context) -> list[str]:
    """Record each rollback that began and never ended, and whose process is gone; gives the agents' ids.

    A rollback holds its agent's lock as long as it lives, so a lock that is free means that nobody is at it any more. Nothing is resumed and
    nothing is written to any tree: doing that unasked, on the memory of a plan, is what plans are there to prevent. What such a
    rollback left in its own places is put away (``turnback.operations.leftovers``).
    """
    noted = []
    for agent_id in _suspects(context, context.log.refresh()):
        context.make_folders()
        lock = context.agent_lock(agent_id)
        if not lock.try_acquire():
            continue
        try:
            interrupted = end_interrupted(context, agent_id)
            if interrupted:
                noted.append(agent_id)
            leftovers.clear_locks(context, agent_id)
            kept = leftovers.clear(context, agent_id, in_tree=False)
            # What goes on waiting was named when it began to: by the rollback's result, or now if that never came.
            told = [one for one in kept if interrupted or one.place is None]
            context.log.append(leftovers.tell(agent_id, told))
        finally:
            lock.release()
    return noted


def end_interrupted(context: Context, agent_id: str) -> bool:
    """Record the end of an agent's rollback that was cut off, if there is one. The agent's lock is held."""
    started = context.state().agent(agent_id).rollback
    if started is None:
        return False
    data = {
        "agent": agent_id,
        "checkpoint": started["checkpoint"],
        "safety": started["safety"],
        "restore": started["restore"],
        "ok": False,
        "code": INTERRUPTED,
    }
    reason = (
        f"a rollback of {agent_id} to {started['checkpoint']} was cut off; the files may be half way. "
        f"{started['safety']} holds the state before it; this shows how to go back there, and asks: "
        f"turnback undo --agent={agent_id} {started['safety']}"
    )
    context.log.append(
        [
            Record("rollback.ended", data),
            Record("attention.raised", {"agent": agent_id, "kind": "review", "reason": reason}),
        ],
        durable=True,
    )
    return True


def _suspects(context: Context, state: State) -> list[str]:
    """The agents with a rollback that may have been cut off, and those of which something may still lie about."""
    found = [agent.id for agent in list(state.agents.values()) if agent.rollback is not None]
    if os.path.isdir(os.path.join(context.state_dir, "holding")):
        notes = read_notes(context.state_dir)
        found += [noted.agent for noted in notes if noted.agent in state.agents]
    return list(dict.fromkeys(found))
