"""What a workspace does when it is opened after a crash: it records that a rollback was cut off, and touches no file (7.6, V-302, V-303)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.records.events import Record

if TYPE_CHECKING:
    from turnback.operations.context import Context

INTERRUPTED = "failed.rollback_interrupted"


def note_interrupted(context: Context) -> list[str]:
    """Record each rollback that began and never ended, and whose process is gone; gives the agents' ids.

    A rollback holds its agent's lock as long as it lives, so a lock that is free means that nobody is at it any more. Nothing is resumed and
    nothing is written to any tree: doing that unasked, on the memory of a plan, is what plans are there to prevent.
    """
    noted = []
    for agent in list(context.log.refresh().agents.values()):
        if agent.rollback is None:
            continue
        context.make_folders()
        lock = context.agent_lock(agent.id)
        if not lock.try_acquire():
            continue
        try:
            started = context.state().agent(agent.id).rollback
            if started is None:
                continue
            data = {
                "agent": agent.id,
                "checkpoint": started["checkpoint"],
                "safety": started["safety"],
                "restore": started["restore"],
                "ok": False,
                "code": INTERRUPTED,
            }
            reason = (
                f"a rollback of {agent.id} to {started['checkpoint']} was cut off; the files may be half way. "
                f"{started['safety']} holds the state before it: turnback agent rollback --agent={agent.id} "
                f"--checkpoint={started['safety']} --restore=files --dry-run"
            )
            records = [
                Record("rollback.ended", data),
                Record("attention.raised", {"agent": agent.id, "kind": "review", "reason": reason}),
            ]
            context.log.append(records)
            noted.append(agent.id)
        finally:
            lock.release()
    return noted
