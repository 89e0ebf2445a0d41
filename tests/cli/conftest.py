"""A repository, the command in it, and the story that most tests start from."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import pytest

from support.command import Command
from turnback import Workspace

if TYPE_CHECKING:
    from support.git_repo import GitRepo
    from turnback import Agent


@pytest.fixture
def command(repo: GitRepo) -> Command:
    """``turnback`` in the repository."""
    return Command(repo.path, {})


@dataclass(frozen=True)
class Story:
    """Agent a5, in place, after two turns and a person's edits: k1 before t1, k2 after t1, k3 after t2.

    In both turns its edit tool wrote ``src/main.py``; in t2 a command made ``gen/out.txt`` too. Then a person edited ``README.md`` and wrote
    ``notes/todo.md``.
    """

    repo: GitRepo
    workspace: Workspace
    agent: Agent


@pytest.fixture
def turns(repo: GitRepo) -> Story:
    """The story up to the person's edits."""
    workspace = Workspace.open(repo.path)
    agent = workspace.add_agent("a5")
    with agent.turn(prompt="print two") as turn:
        repo.write("src/main.py", "print('two')\n")
        turn.edited("src/main.py")
    with agent.turn(prompt="print three") as turn:
        repo.write("src/main.py", "print('three')\n")
        turn.edited("src/main.py")
        repo.write("gen/out.txt", "made\n")
    return Story(repo, workspace, agent)


@pytest.fixture
def edited(turns: Story) -> Story:
    """The whole story."""
    turns.repo.write("README.md", "# my own words\n")
    turns.repo.write("notes/todo.md", "call mum\n")
    return turns
