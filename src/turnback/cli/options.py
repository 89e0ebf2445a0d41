"""The argument parser's own rules: no abbreviations, booleans as ``--x`` or ``--x=true``, and errors that name the option.

A mistake in the arguments is an error like any other: ``invalid_params.<option>``, so that ``--json`` can tell it too. argparse ends the process by
itself only for ``--help`` and ``--version``.
"""

from __future__ import annotations

import argparse
import difflib
import itertools
import re
from typing import TYPE_CHECKING, Any, NoReturn

from turnback.errors import InvalidParams

if TYPE_CHECKING:
    from collections.abc import Sequence

    Verbs = argparse._SubParsersAction["Parser"]

_NAMED = re.compile(r"argument (?P<names>[^:]+): (?P<what>.*)", re.DOTALL)
_MISSING = re.compile(r"the following arguments are required: (?P<names>.*)", re.DOTALL)
_UNKNOWN = re.compile(r"unrecognized arguments: (?P<names>.*)", re.DOTALL)
_GLOBAL = ("--workspace", "--state-dir", "--config")
_BOOLEANS = {"true": True, "false": False}


class Parser(argparse.ArgumentParser):
    """A parser whose errors are ``InvalidParams``."""

    def __init__(self, **options: Any) -> None:
        super().__init__(allow_abbrev=False, **options)

    def parse_known_args(  # type: ignore[override]  # argparse's own signature is two overloads
        self, args: Sequence[str] | None = None, namespace: argparse.Namespace | None = None
    ) -> tuple[argparse.Namespace, list[str]]:
        """Look for options that don't exist before argparse does: it would name a missing one instead of the misspelt one."""
        if self._subparsers is None:
            for word in itertools.takewhile(lambda word: word != "--", args or ()):
                name = word.partition("=")[0]
                if name.startswith("--") and name not in self._option_string_actions:
                    self.error(f"unrecognized arguments: {name}")
        return super().parse_known_args(args, namespace)

    def error(self, message: str) -> NoReturn:
        """Turn argparse's sentence into ours.

        Raises:
            InvalidParams: always.
        """
        if found := _NAMED.fullmatch(message):
            name, what = found["names"], f"{_shown(found['names'])}: {found['what']}"
        elif found := _MISSING.fullmatch(message):
            name, what = found["names"].split(",")[0], f"{found['names']} is missing"
        elif found := _UNKNOWN.fullmatch(message):
            name = found["names"].split(" ")[0].split("=")[0]
            what = f"there is no option or argument {found['names']} here{self._meant(name)}"
            if name in _GLOBAL:
                what = f"{name} stands before the verb: turnback {name}=... {self.prog.partition(' ')[2]}"
        else:
            name, what = "arguments", message
        raise InvalidParams(_parameter(name), f"{what}; see: {self.prog} --help")

    def _meant(self, name: str) -> str:
        close = difflib.get_close_matches(
            name, [known for known in self._option_string_actions if len(known) > 2], n=1
        )
        return f"; did you mean {close[0]}?" if close else ""


def _parameter(names: str) -> str:
    """The parameter that an option stands for: ``--dry-run`` is ``dry_run``."""
    last = names.rpartition("/")[2].strip().lstrip("-")
    return re.sub(r"[^a-z0-9]+", "_", last.lower()).strip("_") or "arguments"


def _shown(names: str) -> str:
    return names.replace("/", " or ")


def normal(arguments: Sequence[str]) -> tuple[list[str], bool]:
    """The arguments with every boolean as ``--x=true|false``, without ``--json``, and whether that was there. What follows ``--`` stays."""
    cut = arguments.index("--") if "--" in arguments else len(arguments)
    kept, as_json = [], False
    words = list(arguments[:cut])
    while words:
        word = words.pop(0)
        if word in BARE or word == "--json":
            word += f"={words.pop(0) if words and words[0] in _BOOLEANS else 'true'}"
        if word.startswith("--json="):
            as_json = word != "--json=false"
        else:
            kept.append(word)
    return [*kept, *arguments[cut:]], as_json


# The boolean options of every verb: argparse would otherwise take the word after a bare one for its value.
BARE = {"--dry-run", "--keep-head", "--force", "--follow", "--keep"}


def boolean(parser: argparse.ArgumentParser, name: str, words: str) -> None:
    """Add an option that is there or not; it must be one of ``BARE``."""
    if name not in BARE:
        raise ValueError(name)
    parser.add_argument(name, type=_truth, default=False, metavar="true|false", help=words)


def _truth(word: str) -> bool:
    if word not in _BOOLEANS:
        what = f"{word!r} is neither true nor false"
        raise argparse.ArgumentTypeError(what)
    return _BOOLEANS[word]


def text(word: str) -> str:
    """A value that must be text: names, labels, prompts.

    Raises:
        argparse.ArgumentTypeError: its bytes are not UTF-8.
    """
    try:
        word.encode("utf-8")
    except UnicodeEncodeError:
        raise argparse.ArgumentTypeError("it is not UTF-8 text") from None
    return word


def count(word: str) -> int:
    """A whole number of 1 or more.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,9}", word) or int(word) < 1:
        what = f"{word!r} is no whole number of 1 or more"
        raise argparse.ArgumentTypeError(what)
    return int(word)


def place(word: str) -> int:
    """A whole number of 0 or more.

    Raises:
        argparse.ArgumentTypeError: it is none.
    """
    if not re.fullmatch(r"[0-9]{1,18}", word):
        what = f"{word!r} is no whole number of 0 or more"
        raise argparse.ArgumentTypeError(what)
    return int(word)


def agent_option(parser: argparse.ArgumentParser, *, required: bool = True) -> None:
    """Add ``--agent``."""
    words = "the agent's id" if required else "the agent's id; the only one when it is left out"
    parser.add_argument("--agent", type=text, required=required, metavar="ID", help=words)
