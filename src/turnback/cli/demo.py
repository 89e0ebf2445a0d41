"""The demonstration's story: two turns, a person's edits, a rollback and its undo. Each step is a command that anybody could type."""

from __future__ import annotations

import io
import os
import re
import shlex
import subprocess
from typing import TYPE_CHECKING, TypeAlias

from turnback.cli.env import Environment
from turnback.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    Execute: TypeAlias = Callable[[Sequence[str], Environment, Terminal], int]

_IDENTITY = {
    "GIT_AUTHOR_NAME": "Demo",
    "GIT_AUTHOR_EMAIL": "demo@localhost",
    "GIT_COMMITTER_NAME": "Demo",
    "GIT_COMMITTER_EMAIL": "demo@localhost",
}
_CONFLICT = 5


class Story:
    """Runs steps in a folder, shows each with its output, and counts what came out as it should.

    Attributes:
        checks: how many things were looked at.
        wrong: what was not as expected, in words.
    """

    def __init__(self, folder: str, execute: Execute, terminal: Terminal, *, silent: bool) -> None:
        self.tree = os.path.join(folder, "app")
        self.checks = 0
        self.wrong: list[str] = []
        self._environment = Environment(folder=self.tree, state_dir=os.path.join(folder, "state"))
        self._execute = execute
        self._terminal = terminal
        self._silent = silent
        for place in (self.tree, os.path.join(folder, "home")):
            os.mkdir(place)

    def note(self, text: str) -> None:
        """Say what happens next."""
        self._say("")
        self._say(self._terminal.style(f"# {text}", "cyan"))

    def shell(self, command: str) -> None:
        """Run a shell command in the tree, as the agent's tools or a person's editor would."""
        self._say(self._terminal.style(f"$ {command}", "bold"))
        done = subprocess.run(
            ["sh", "-c", command],
            cwd=self.tree,
            env={**os.environ, **_IDENTITY},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            check=False,
        )
        if done.stdout:
            self._say(done.stdout.decode("utf-8", "replace").rstrip("\n"))
        self.expect(done.returncode == 0, f"{command!r} ended with {done.returncode}")

    def turnback(self, command: str, code: int = 0) -> str:
        """Run a turnback command line by the command's own functions, show it with its output, and give the output."""
        self._say(self._terminal.style(f"$ turnback {command}", "bold"))
        out = io.StringIO()
        terminal = Terminal(out, out, io.StringIO(), color=self._terminal.color)
        ended = self._execute(shlex.split(command), self._environment, terminal)
        self._say(out.getvalue().rstrip("\n"))
        if ended:
            self._say(self._terminal.style(f"(exit code {ended})", "dim"))
        self.expect(ended == code, f"{command!r} ended with {ended} instead of {code}")
        return out.getvalue()

    def files(self) -> dict[str, bytes]:
        """Every file of the tree with its bytes."""
        found = {}
        for folder, names, others in os.walk(self.tree):
            names[:] = [name for name in names if name != ".git"]
            for name in others:
                full = os.path.join(folder, name)
                with open(full, "rb") as file:
                    found[os.path.relpath(full, self.tree)] = file.read()
        return found

    def expect(self, right: bool, what: str) -> None:
        """Note whether something is as it should be."""
        self.checks += 1
        if not right:
            self.wrong.append(what)

    def expect_files(self, expected: dict[str, bytes], when: str) -> None:
        """Compare every file of the tree with what it should hold."""
        found = self.files()
        for name in sorted(expected.keys() | found.keys()):
            self.expect(expected.get(name) == found.get(name), f"{name} is not as expected {when}")

    def _say(self, text: str) -> None:
        if not self._silent:
            self._terminal.say(text)


def tell(story: Story) -> None:
    """Play the story; what was wrong stands in ``story.wrong``."""
    story.note("A small repository, and an agent that works in it beside you")
    story.shell(
        "git init -q -b main && mkdir src && echo 'print(\"hello\")' > src/greet.py && echo 'A greeter' > README.md"
    )
    story.shell("echo 'call mum' > notes.txt && git add -A && git commit -q -m 'first'")
    story.turnback("agent add ada --repo .")

    story.note("Turn 1: the agent's edit tool writes a file; the harness says so")
    story.turnback("turn begin --agent=ada --prompt 'greet by name'")
    story.shell("echo 'import sys; print(\"hello\", sys.argv[1])' > src/greet.py")
    story.turnback("turn edited --agent=ada -- src/greet.py")
    story.turnback("turn end --agent=ada")
    good = story.files()

    story.note("Turn 2: a shell command rewrites, makes and deletes files; no tool call names any of them")
    story.turnback("turn begin --agent=ada --prompt 'tidy up'")
    story.shell(
        "sed 's/hello/HELLO/' src/greet.py > new && mv new src/greet.py"
        " && mkdir gen && echo junk > gen/out.txt && rm notes.txt"
    )
    story.turnback("turn end --agent=ada")

    story.note("You edit the README meanwhile")
    story.shell("echo 'A greeter, with my own words' > README.md")
    mine = story.files()
    readme = mine["README.md"]

    story.note("What was saved, and what turn 2 did")
    story.turnback("log")
    story.turnback("diff k2 k3")

    story.note("Back to the end of turn 1. Your edit is in the way, so this is refused until you choose")
    story.turnback("agent rollback --agent=ada --checkpoint=k2 --restore=files --dry-run", code=_CONFLICT)
    story.note("Keep your edit. A dry run changes nothing; it gives a plan")
    shown = story.turnback(
        "agent rollback --agent=ada --checkpoint=k2 --restore=files --outside=keep --dry-run"
    )
    story.expect_files(mine, "after the dry run")
    story.note("The real call quotes the plan, and does exactly that")
    story.turnback(
        f"agent rollback --agent=ada --checkpoint=k2 --restore=files --outside=keep {_plan(shown)}"
    )
    story.expect_files({**good, "README.md": readme}, "after the rollback")
    story.shell("cat src/greet.py notes.txt README.md")

    story.note("A rollback can be rolled back: k4 is the state just before it")
    shown = story.turnback("agent rollback --agent=ada --checkpoint=k4 --restore=files --dry-run")
    story.turnback(f"agent rollback --agent=ada --checkpoint=k4 --restore=files {_plan(shown)}")
    story.expect_files(mine, "after undoing the rollback")
    story.turnback("log")


def _plan(shown: str) -> str:
    """The option that quotes the plan, as it stands in the dry run's last line."""
    found = re.search(r"--plan=p1-[0-9a-f]{16}", shown)
    return found[0] if found else "--plan=missing"
