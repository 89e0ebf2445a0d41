"""The agents contract for a harness: workspaces, agents, turns, checkpoints, rollback (DESIGN part 8).

ws = Workspace.open("~/code/app")
a2 = ws.add_agent("a2")
with a2.turn(prompt="rename the flag") as turn:
    turn.edited("src/main.py")
plan = a2.rollback("k1", restore="files", dry_run=True)
done = a2.rollback("k1", restore="files", plan=plan.plan)
"""

from turnback.policy.grants import Principal
from turnback.workspace.agent import Agent
from turnback.workspace.harness import Harness
from turnback.workspace.turn import Turn
from turnback.workspace.workspace import Workspace

__all__ = ["Agent", "Harness", "Principal", "Turn", "Workspace"]
