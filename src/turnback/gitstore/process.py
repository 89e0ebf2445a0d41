"""Run ``git`` as the contract wants it: configuration pinned, hooks off, nothing inherited that redirects it.

Every ``GIT_*`` variable that points git at another repository, index, object folder or work tree is stripped, as are those that
inject configuration for one call; the ones that say where the user's own configuration is (``GIT_CONFIG_GLOBAL``,
``GIT_CONFIG_SYSTEM``, ``GIT_CONFIG_NOSYSTEM``) stay, since git's answer depends on them. A child has no terminal, reads nothing from ours,
takes no optional lock, and is killed when its deadline passes.
"""

from __future__ import annotations

import os
import subprocess
import time
from typing import TYPE_CHECKING

from turnback.errors import Failed, TimedOut, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}

# hooksPath and fsmonitor: both are programs of somebody else's. untrackedCache: git would write it into the index it is given.
# safecrlf: a capture must not fail on mixed line endings (DESIGN 10.12). quotePath: output is read with -z anyway.
_PINNED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "core.splitIndex=false",
    "gc.auto=0",
    "maintenance.auto=false",
    "advice.addEmbeddedRepo=false",
)


class GitFailed(Failed):
    """A git command ended with an error; ``stderr`` is what it said (``failed.checkpoint_git`` until somebody above knows better)."""

    def __init__(self, arguments: Sequence[bytes | str], status: int, stderr: bytes) -> None:
        said = stderr.decode("utf-8", "replace").strip()
        name = next((os.fsdecode(word) for word in arguments if not os.fsdecode(word).startswith("-")), "git")
        super().__init__(
            "checkpoint_git",
            f"git {name} failed: {said or f'status {status}'}",
            reason=said or f"status {status}",
        )
        self.status = status
        self.stderr = said


def environment(extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child: ours without what redirects git."""
    found = {
        name: value for name, value in os.environ.items() if not name.startswith("GIT_") or name in _KEPT
    }
    found.update(
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_NO_REPLACE_OBJECTS="1",
        LC_ALL="C",
    )
    if extra:
        found.update(extra)
    return found


def run(
    tree: str | bytes,
    arguments: Sequence[str | bytes],
    *,
    stdin: bytes | Iterable[bytes] = b"",
    extra: Mapping[str, str] | None = None,
    deadline: float | None = None,
    accept: tuple[int, ...] = (0,),
) -> bytes:
    """Run one git command in a folder and give what it printed.

    Args:
        tree: the folder to run in (``-C``).
        arguments: the command and its arguments; never seen by a shell.
        stdin: what the command reads.
        extra: more environment variables.
        deadline: a ``time.monotonic`` value after which the child is killed.
        accept: the exit statuses that are no failure.

    Raises:
        GitFailed: the command ended with another status.
        TimedOut: ``timeout.checkpoint``: the deadline passed; the child is gone.
        Unsupported: ``unsupported.git``: there is no git on the PATH.
    """
    command: list[str | bytes] = ["git"]
    for setting in _PINNED:
        command += ["-c", setting]
    command += ["-C", tree, *arguments]
    timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
    data = stdin if isinstance(stdin, bytes) else b"".join(stdin)
    try:
        done = subprocess.run(
            command, input=data, capture_output=True, env=environment(extra), timeout=timeout, check=False
        )
    except subprocess.TimeoutExpired as error:
        raise TimedOut(
            "checkpoint", "git took longer than the capture's time limit; nothing was left behind"
        ) from error
    except FileNotFoundError as error:
        raise Unsupported("git", "there is no git on the PATH; install git 2.31 or newer") from error
    if done.returncode not in accept:
        raise GitFailed(arguments, done.returncode, done.stderr)
    return done.stdout


def split(output: bytes) -> list[bytes]:
    """The items of a ``-z`` list."""
    return output.split(b"\0")[:-1] if output else []
