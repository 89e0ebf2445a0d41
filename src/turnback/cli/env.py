"""The only reader of the environment, the home folder and the terminal: everything below gets values (STYLE habit 12).

``TURNBACK_STATE`` names the state folder, ``TURNBACK_PRINCIPAL`` whoever the command acts for (``agent:a2``), ``TURNBACK_CONFIG`` the settings
as a file or as JSON; without it the user's own file counts if there is one. A repository is never asked for settings: a cloned one must
not weaken its user's protection (11.5).
"""

from __future__ import annotations

import os
import sys
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING

import platformdirs

from turnback.errors import InvalidParams

if TYPE_CHECKING:
    from collections.abc import Iterator


@dataclass(frozen=True, slots=True)
class Environment:
    """What surrounds one run of the command.

    Attributes:
        folder: the current folder, which is the workspace unless ``--workspace`` names another.
        state_dir: ``TURNBACK_STATE``.
        principal: ``TURNBACK_PRINCIPAL``.
        config: ``TURNBACK_CONFIG``.
        tty: the output is a terminal.
        interactive: a person can be asked: the input is one too.
        color: the output is a terminal that shows colours, and nobody asked for none.
        debug: ``TURNBACK_DEBUG``: a traceback may be shown.
    """

    folder: str
    state_dir: str | None = None
    principal: str | None = None
    config: str | None = None
    tty: bool = False
    interactive: bool = False
    color: bool = False
    debug: bool = False


def read() -> Environment:
    """The environment of this process.

    Raises:
        InvalidParams: ``invalid_params.workspace``: the current folder has been removed.
    """
    try:
        folder = os.getcwd()
    except OSError as error:
        raise InvalidParams(
            "workspace", "the current folder is gone; change to one that exists, or name one with --workspace"
        ) from error
    shown = sys.stdout is not None and sys.stdout.isatty()
    asked = sys.stdin is not None and sys.stdin.isatty()
    return Environment(
        folder=folder,
        state_dir=os.environ.get("TURNBACK_STATE") or None,
        principal=os.environ.get("TURNBACK_PRINCIPAL") or None,
        config=os.environ.get("TURNBACK_CONFIG") or None,
        tty=shown,
        interactive=shown and asked,
        color=shown and not os.environ.get("NO_COLOR") and os.environ.get("TERM") not in (None, "", "dumb"),
        debug=bool(os.environ.get("TURNBACK_DEBUG")),
    )


def settings(given: str | None) -> bytes | None:
    """The text of the settings: given as JSON, in a file that was named, or in the user's own file; None without any.

    Args:
        given: ``--config`` or ``TURNBACK_CONFIG``: JSON when it starts with a brace, else a file's path.

    Raises:
        InvalidParams: ``invalid_params.config``: the file can't be read.
    """
    if given is not None and given.lstrip().startswith("{"):
        return os.fsencode(given)
    path = user_file() if given is None else os.path.expanduser(given)
    try:
        with open(path, "rb") as file:
            return file.read()
    except FileNotFoundError as error:
        if given is None:
            return None
        raise InvalidParams(
            "config", f"there is no file {path}; name one, or give the JSON itself"
        ) from error
    except OSError as error:
        raise InvalidParams("config", f"{path} can't be read: {error.strerror}") from error


def user_file() -> str:
    """Where the user's own settings are, whether or not there are any."""
    return os.path.join(platformdirs.user_config_dir("turnback", appauthor=False), "config.json")


@contextmanager
def sealed(home: str) -> Iterator[None]:
    """For the demonstration: another home and no git configuration, so that nothing of the user's is read or written. Not for threads."""
    kept = dict(os.environ)
    for name in list(os.environ):
        if name.startswith(("GIT_", "XDG_", "TURNBACK_")):
            del os.environ[name]
    os.environ.update(HOME=home, GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=os.devnull)
    try:
        yield
    finally:
        os.environ.clear()
        os.environ.update(kept)
