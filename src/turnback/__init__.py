"""Go back to any turn of a coding agent.

from turnback import Workspace

ws = Workspace.open("~/code/app")
a2 = ws.add_agent("a2")
with a2.turn(prompt="rename the flag") as turn:
    turn.edited("src/main.py")
plan = a2.rollback("k1", restore="files", dry_run=True)
done = a2.rollback("k1", restore="files", plan=plan.plan)
"""

import sys

from turnback.config import Config
from turnback.errors import (
    Conflict,
    Denied,
    Failed,
    InvalidParams,
    NotFound,
    TimedOut,
    TurnbackError,
    Unsupported,
)

if sys.platform == "win32":
    raise Unsupported(
        "platform", "turnback works on Linux and macOS; Windows has no safe replacement of open files"
    )

from turnback.workspace import Agent, Harness, Principal, Turn, Workspace

__version__ = "0.1.0"

__all__ = [
    "Agent",
    "Config",
    "Conflict",
    "Denied",
    "Failed",
    "Harness",
    "InvalidParams",
    "NotFound",
    "Principal",
    "TimedOut",
    "Turn",
    "TurnbackError",
    "Unsupported",
    "Workspace",
    "__version__",
]
