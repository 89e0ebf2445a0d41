"""Who may do what (contract 11.4, V-450..V-453): a principal, the grant that it holds, and the two rules beyond grants for rollback.

The principal belongs to the handle that somebody works with and never comes from the parameters of a call (V-451): an agent can't call
itself a person by saying so. Two rules hold for agents whatever their grants: a guarded tree, where a person's work may lie, is rolled
back by a person only; and an agent rolls back its own descendants and nobody else.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Final, Literal, Self

from turnback import ids
from turnback.errors import Denied, InvalidParams

if TYPE_CHECKING:
    from collections.abc import Collection

__all__ = ["VERBS", "Grant", "Principal", "agent_caller", "check_grant", "may_roll_back"]


class Grant(StrEnum):
    """How far a principal may go with an agent. ``write`` includes ``read``; without either nothing is allowed."""

    READ = "read"
    WRITE = "write"


# What each verb needs on the agent that it names (11.1, V-450). A verb that isn't listed changes something: it needs write.
VERBS: Final[dict[str, Grant]] = {
    "agent.checkpoints": Grant.READ,
    "agent.checkpoint": Grant.WRITE,
    "agent.checkpoint_diff": Grant.READ,
    "agent.rollback": Grant.WRITE,
    "agent.show": Grant.READ,
    "agent.list": Grant.READ,
    "events": Grant.READ,
}


@dataclass(frozen=True, slots=True)
class Principal:
    """The person or agent a handle acts for. Make one with ``person()``, ``agent(id)`` or ``parse(text)``.

    Attributes:
        kind: ``person`` or ``agent``.
        id: the agent's id; None for a person.
    """

    kind: Literal["person", "agent"]
    id: str | None = None

    def __post_init__(self) -> None:
        if self.kind not in ("person", "agent") or (self.kind == "agent") is (self.id is None):
            raise InvalidParams("principal", "a principal is a person, or an agent with its id")

    @classmethod
    def person(cls) -> Self:
        """Somebody at a terminal, or a program on their behalf."""
        return cls("person")

    @classmethod
    def agent(cls, agent: str) -> Self:
        """An agent.

        Raises:
            InvalidParams: ``invalid_params.agent`` when that is no agent id.
        """
        return cls("agent", ids.agent_id(agent))

    @classmethod
    def parse(cls, text: str) -> Self:
        """A principal from its text form, ``person`` or ``agent:<id>``.

        Raises:
            InvalidParams: ``invalid_params.principal``, or ``.agent`` for a malformed id.
        """
        if text == "person":
            return cls.person()
        kind, found, agent = text.partition(":")
        if kind == "agent" and found:
            return cls.agent(agent)
        raise InvalidParams("principal", f"{text!r} is no principal; write person, or agent: and an id")

    @property
    def is_person(self) -> bool:
        """Whether it is a person."""
        return self.kind == "person"

    def __str__(self) -> str:
        return "person" if self.id is None else f"agent:{self.id}"


def check_grant(verb: str, agent: str, held: Grant | None) -> None:
    """Refuse a verb whose grant on the agent the principal doesn't hold (V-450).

    Args:
        verb: as in ``VERBS``.
        agent: the agent that the call names.
        held: what the principal holds on it; None for nothing.

    Raises:
        Denied: ``denied.grant``.
    """
    needed = VERBS.get(verb, Grant.WRITE)
    if held is None or (needed is Grant.WRITE and held is not Grant.WRITE):
        raise Denied(
            "grant", f"{verb} needs the grant {needed} on {agent}; ask whoever gives the grants for it"
        )


def may_roll_back(
    principal: Principal,
    target: str,
    descendants: Collection[str],
    *,
    guarded: bool,
    dry_run: bool,
) -> bool:
    """Whether the two rules of 11.4 let this principal roll that agent back (V-452, V-453).

    A person may, and a dry run is open to anybody with the grant (A-17). An agent's real call needs a descendant of its own with no guarded
    tree. It is never its own descendant; ``preflight`` gives a running agent that asks for itself ``conflict.turn_running`` first.

    Args:
        principal: who calls.
        target: the agent to be rolled back.
        descendants: the ids of all descendants of the calling agent, at any depth.
        guarded: any tree of the target is guarded.
        dry_run: nothing would be written.
    """
    if principal.is_person or dry_run:
        return True
    return target != principal.id and target in descendants and not guarded


def agent_caller(principal: Principal, target: str, *, guarded: bool) -> Denied:
    """The refusal ``denied.agent_caller``, with the reason that applies (V-422)."""
    why = (
        f"somebody else's work may lie in the tree of {target}, so a person has to roll it back"
        if guarded
        else f"{principal.id} may roll back its own descendants only, and {target} is none; a person may"
    )
    return Denied("agent_caller", f"{why}; a dry run is allowed")
