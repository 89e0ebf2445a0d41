"""A tool loop with a list of messages for a conversation, and turns that can be taken back, files and conversation together.

Run it on a repository of your own, or without an argument on one that it makes:

    python examples/tool_loop.py [FOLDER]

The "model" is two canned answers; everything else is what a harness does: begin a turn, note what the tools edit, end it, and, when
somebody doesn't like what came out, show a plan and carry it out.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from turnback import Agent, Workspace

ANSWERS = {
    "greet the user": [("greet.py", "print('hello')\n")],
    "make it louder": [("greet.py", "print('HELLO!!!')\n"), ("volume.cfg", "11\n")],
}


class ListHarness:
    """A harness whose conversation is a list: to go back is to copy it up to a turn (the adapter's one operation)."""

    name = "list"
    can_rewind = True
    needs = "harness_end"

    def __init__(self) -> None:
        self.conversations: dict[str, list[str]] = {"c1": []}
        self.current = "c1"

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        """A new conversation with the messages through one turn; the source stays as it is."""
        copy = f"c{len(self.conversations) + 1}"
        self.conversations[copy] = self.conversations[session or self.current][: int(str(harness_end))]
        return copy


def play(agent: Agent, harness: ListHarness, folder: Path, prompt: str) -> None:
    """One turn: the prompt, the tool calls that the model asks for, the end."""
    turn = agent.begin_turn(prompt)
    messages = harness.conversations[harness.current]
    messages.append(f"user: {turn.prompt}")
    for name, content in ANSWERS[prompt]:
        (folder / name).write_text(content)
        turn.edited(name)
        messages.append(f"tool: wrote {name}")
    turn.end(harness_end=str(len(messages)))


def main(arguments: list[str]) -> dict[str, Any]:
    """Two turns, then back to the first one; gives what is there afterwards."""
    folder = Path(arguments[0]) if arguments else Path(tempfile.mkdtemp(prefix="tool-loop-"))
    if not (folder / ".git").exists():
        subprocess.run(["git", "init", "-q", str(folder)], check=True)
    harness = ListHarness()
    with tempfile.TemporaryDirectory(prefix="tool-loop-state-") as state:
        agent = Workspace.open(folder, state_dir=state).add_agent(
            "loop", isolation="in_place", harness=harness
        )
        for prompt in ANSWERS:
            play(agent, harness, folder, prompt)
        target = agent.checkpoints(turn="t1").checkpoints[0].checkpoint
        plan = agent.rollback(target, dry_run=True)
        for file in plan.repos[0].files:
            print(f"{file.change} {file.path} ({file.class_})")
        done = agent.rollback(target, plan=plan.plan)
        harness.current = str(done.conversation.harness_session)
    return {
        "files": {path.name: path.read_text() for path in sorted(folder.glob("[!.]*"))},
        "messages": harness.conversations[harness.current],
        "dropped": done.conversation.drops,
    }


if __name__ == "__main__":
    print(main(sys.argv[1:]))
