"""No command without help and documentation, and none that says yes in advance."""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

import turnback
from turnback.cli.main import parser

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.command import Command
    from support.git_repo import GitRepo

ROOT = Path(__file__).resolve().parents[2]


def commands(top: argparse.ArgumentParser) -> Iterator[tuple[str, argparse.ArgumentParser, str | None]]:
    """Every command below a parser: its whole name, its parser, its line of help."""
    for action in top._actions:
        if isinstance(action, argparse._SubParsersAction):
            helps = {choice.dest: choice.help for choice in action._choices_actions}
            for name, below in action.choices.items():
                yield below.prog, below, helps.get(name)
                yield from commands(below)


ALL = list(commands(parser()))
LEAVES = [(name, found) for name, found, _ in ALL if found._subparsers is None]


def test_every_command_and_option_has_help() -> None:
    """One line each, in the list and at the command itself."""
    for name, found, line in ALL:
        assert line, f"{name} has no line of help"
        for action in found._actions:
            if not isinstance(action, argparse._SubParsersAction):
                assert action.help, f"{name}: {action.option_strings or action.dest} has no help"


@pytest.mark.parametrize(("name", "found"), LEAVES, ids=[name for name, _ in LEAVES])
def test_every_command_is_documented(name: str, found: argparse.ArgumentParser) -> None:
    """docs/cli.md has a heading for each command and names each of its options below it."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    heading = f"### `{name}`\n"
    assert heading in text, f"docs/cli.md has no heading for {name}"
    section = text.split(heading)[1].split("\n### ")[0].split("\n## ")[0]
    for action in found._actions:
        for option in action.option_strings or ([action.metavar] if isinstance(action.metavar, str) else []):
            if option not in ("-h", "--help"):
                assert option in section, f"docs/cli.md doesn't tell {option} of {name}"


def test_the_documentation_names_no_command_that_is_not_there() -> None:
    """Headings and commands are the same set."""
    text = (ROOT / "docs" / "cli.md").read_text(encoding="utf-8")
    told = {line[5:-1] for line in text.splitlines() if line.startswith("### `turnback")}
    assert told == {name for name, _ in LEAVES}


@pytest.mark.contract("V-402")
def test_every_command_has_a_json_form(command: Command, repo: GitRepo) -> None:
    """One run of each with ``--json``: an object, or one an event, and nothing else."""
    lines = {
        "turnback agent add": ["a2", "--repo=."],
        "turnback agent show": ["a2"],
        "turnback agent list": [],
        "turnback turn begin": ["--agent=a2", "--prompt=go"],
        "turnback turn edited": ["--agent=a2", "--", "README.md"],
        "turnback turn end": ["--agent=a2"],
        "turnback agent checkpoint": ["--agent=a2"],
        "turnback save": ["a label"],
        "turnback agent checkpoints": ["--agent=a2"],
        "turnback log": [],
        "turnback agent checkpoint-diff": ["--agent=a2", "--from=k1"],
        "turnback diff": ["k1"],
        "turnback agent rollback": ["--agent=a2", "--checkpoint=k1", "--restore=files", "--dry-run"],
        "turnback undo": ["k1"],
        "turnback events": [],
        "turnback agent archive": ["a2"],
        "turnback demo": [],
    }
    assert lines.keys() == {name for name, _ in LEAVES}
    for name, words in lines.items():
        if name == "turnback turn end":
            repo.write("README.md", "# changed in the turn\n")
        ran = command("--json", *name.split()[1:], *words, code=5 if name == "turnback undo" else 0)
        assert ran.err == "", name
        told = [json.loads(line) for line in ran.out.splitlines()]
        assert told, name
        assert all(isinstance(one, dict) for one in told), name


@pytest.mark.contract("V-499")
def test_nothing_says_yes_in_advance() -> None:
    """No option of any command skips the plan."""
    for name, found in LEAVES:
        options = {option for action in found._actions for option in action.option_strings}
        assert not options & {"--yes", "-y", "--assume-yes", "--no-confirm"}, name


def test_help_and_version_are_printed(command: Command) -> None:
    """On the output with 0; without any word the help is an error's."""
    assert command("--version").out == f"turnback {turnback.__version__}\n"
    for words in ((), ("agent",), ("agent", "rollback"), ("undo",)):
        ran = command(*words, "--help")
        assert ran.out.startswith(f"usage: {' '.join(['turnback', *words])} ")
    assert command(code=2).err.startswith("usage: turnback ")
