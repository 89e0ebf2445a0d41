"""The one tree of errors: what went wrong, a stable code, the data for a program, and what a person does next.

The class before the dot of a code fixes the exit code of the command (seed section 11.3)::

    TurnbackError
    ├── Failed          1   failed.checkpoint_git, .checkpoint_too_large, .rollback_undone, .rollback_partial,
    │                       .rollback_interrupted, .state_folder, .log_corrupt, .worktree, .internal
    ├── InvalidParams   2   invalid_params.<the parameter>
    ├── NotFound        3   not_found.agent, .checkpoint, .turn, .repo, .workspace, .harness_session
    ├── Denied          4   denied.agent_caller, denied.grant
    ├── Conflict        5   conflict.<why it can't be done now>
    ├── TimedOut        7   timeout.checkpoint, timeout.lock, timeout.harness_request
    └── Unsupported    10   unsupported.harness_capability, .checkpoint_no_repo, .log_format, .platform, .repository

A library user catches a class (``except Conflict``) or compares ``error.code``; nothing needs the text. ``data`` holds only
what JSON can hold: whoever raises has put paths into their JSON form already (``turnback.paths``).
"""

from __future__ import annotations

import json
from typing import Any, ClassVar

__all__ = [
    "Conflict",
    "Denied",
    "Failed",
    "InvalidParams",
    "NotFound",
    "TimedOut",
    "TurnbackError",
    "Unsupported",
]


class TurnbackError(Exception):
    """Base of everything that turnback raises on purpose.

    Attributes:
        code: the stable name, ``<class>.<reason>``; part of the contract.
        message: one or two sentences for a person: what is wrong and what to do next.
        data: JSON-ready members for a program (seed section 11.3 names them for its codes).
        exit_code: what the command ends with; fixed by the class.
    """

    exit_code: ClassVar[int] = 1
    kind: ClassVar[str] = "failed"

    def __init__(self, reason: str, message: str, /, **data: Any) -> None:
        super().__init__(message)
        self.code = f"{self.kind}.{reason}"
        self.message = message
        self.data: dict[str, Any] = {name: value for name, value in data.items() if value is not None}

    def to_dict(self) -> dict[str, Any]:
        """The envelope ``{"error": {code, message, data}}`` (V-025); ``data`` is left out when it is empty."""
        error: dict[str, Any] = {"code": self.code, "message": self.message}
        if self.data:
            error["data"] = self.data
        return {"error": error}

    def to_json(self) -> bytes:
        """``to_dict`` as compact UTF-8 JSON. The standard library's encoder: an error must never fail to be told."""
        text = json.dumps(self.to_dict(), ensure_ascii=False, separators=(",", ":"))
        return text.encode("utf-8", "backslashreplace")

    def __reduce__(self) -> tuple[Any, ...]:
        return _rebuild, (type(self), self.message, self.__dict__)


def _rebuild(kind: type[TurnbackError], message: str, members: dict[str, Any]) -> TurnbackError:
    """Unpickling across processes, without the constructor: a subclass may have one of its own."""
    error = kind.__new__(kind, message)
    Exception.__init__(error, message)
    error.__dict__.update(members)
    return error


class Failed(TurnbackError):
    """Something broke: git, the disk, the state folder. ``data`` says where."""

    exit_code = 1
    kind = "failed"


class InvalidParams(TurnbackError):
    """A parameter is missing, malformed or doesn't go with another; the reason is the parameter's name."""

    exit_code = 2
    kind = "invalid_params"


class NotFound(TurnbackError):
    """The agent, checkpoint, turn or folder that was named does not exist (any more)."""

    exit_code = 3
    kind = "not_found"


class Denied(TurnbackError):
    """The caller may not do this; somebody else may (seed section 11.4)."""

    exit_code = 4
    kind = "denied"


class Conflict(TurnbackError):
    """It can't be done in the present state; the message says what to change or which choice to make."""

    exit_code = 5
    kind = "conflict"


class TimedOut(TurnbackError):
    """A limit of time passed; whatever was half done has been cleaned up."""

    exit_code = 7
    kind = "timeout"


class Unsupported(TurnbackError):
    """This harness, repository, platform or log is not one that turnback can serve; the message names the reason."""

    exit_code = 10
    kind = "unsupported"
