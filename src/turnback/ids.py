"""Names of things: agents, turns ``t<n>``, checkpoints ``k<n>``, plans, object ids.

Ids are counted per agent from 1 and never reused (V-030, V-340). What isn't an id gets a clear error here, before it can
become part of a ref name or a path.
"""

from __future__ import annotations

import re
from typing import NewType

from turnback.errors import InvalidParams

AgentId = NewType("AgentId", str)
CheckpointId = NewType("CheckpointId", str)
TurnId = NewType("TurnId", str)

_AGENT = re.compile(r"[a-z0-9][a-z0-9_-]{0,63}")
_NUMBERED = re.compile(r"([kt])([1-9][0-9]{0,17})")
_PLAN = re.compile(r"p1-[0-9a-f]{16}")


def agent_id(text: object) -> AgentId:
    """Check an agent's id (DESIGN part 8): lower case letters, digits, ``_`` and ``-``, at most 64, not starting with a sign.

    Raises:
        InvalidParams: ``invalid_params.agent``.
    """
    if not isinstance(text, str) or not _AGENT.fullmatch(text):
        shown = text if isinstance(text, str) else type(text).__name__
        raise InvalidParams(
            "agent",
            f"{shown!r} is no agent id; use 1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit",
        )
    return AgentId(text)


def checkpoint_id(number: int) -> CheckpointId:
    """The id of an agent's n-th checkpoint, ``k<n>``."""
    return CheckpointId(f"k{number}")


def turn_id(number: int) -> TurnId:
    """The id of an agent's n-th turn, ``t<n>``."""
    return TurnId(f"t{number}")


def number_of(identifier: str) -> int:
    """The ``n`` of ``k<n>`` or ``t<n>``.

    Raises:
        InvalidParams: ``invalid_params.checkpoint`` or ``.turn`` when it has another form.
    """
    match = _NUMBERED.fullmatch(identifier)
    if match is None:
        raise InvalidParams(
            "checkpoint", f"{identifier!r} is no checkpoint or turn id; they look like k3 and t2"
        )
    return int(match[2])


def parse_checkpoint(text: object, parameter: str = "checkpoint") -> CheckpointId:
    """Check that a caller's text has the form ``k<n>``.

    Raises:
        InvalidParams: ``invalid_params.<parameter>``.
    """
    if isinstance(text, str) and text.startswith("k") and _NUMBERED.fullmatch(text):
        return CheckpointId(text)
    raise InvalidParams(
        parameter, f"{text!r} is no checkpoint id; they look like k3 (list them with: turnback log)"
    )


def parse_turn(text: object) -> TurnId:
    """Check that a caller's text has the form ``t<n>``.

    Raises:
        InvalidParams: ``invalid_params.turn``.
    """
    if isinstance(text, str) and text.startswith("t") and _NUMBERED.fullmatch(text):
        return TurnId(text)
    raise InvalidParams("turn", f"{text!r} is no turn id; they look like t2")


def parse_plan(text: object) -> str:
    """Check that a caller's text has the form of a plan digest, ``p1-`` and 16 hex digits (V-222).

    Raises:
        InvalidParams: ``invalid_params.plan``.
    """
    if isinstance(text, str) and _PLAN.fullmatch(text):
        return text
    raise InvalidParams(
        "plan",
        f"{text!r} is no plan; take it from the result of a dry run, it looks like p1-721bd71abfebcbfe",
    )
