"""Run ``git`` as the contract wants it: configuration pinned, hooks off, nothing inherited that redirects it.

Of the ``GIT_*`` variables only those stay that say where the user's own configuration is and where git's programs are (its answer depends on
them), and those of the git-lfs filter, which is part of what a file is stored as. Everything else goes: what points at another
repository, index, object folder or work tree, what injects configuration for one call, what traces into files. The search for the
repository ends at the folder that was named, whatever becomes of the ``.git`` in it meanwhile.

A child has no terminal, reads nothing from ours, takes no optional lock, and says nothing in a translation. It leads a session of its own, so that
when its deadline passes the filters that it started go with it.
"""

from __future__ import annotations

import contextlib
import functools
import os
import re
import signal
import subprocess
import time
from typing import TYPE_CHECKING

from turnback.errors import Failed, TimedOut, Unsupported

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

_KEPT = {"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM", "GIT_EXEC_PATH"}
_KEPT_PREFIX = "GIT_LFS_"

# hooksPath and fsmonitor: both are programs of somebody else's. untrackedCache: git would write it into the index it is given.
# safecrlf: a capture must not fail on mixed line endings (DESIGN 10.12). splitIndex: git would write a shared file of its own beside the user's.
# showUntrackedFiles: "dirty" doesn't depend on how somebody likes their status. quotePath: output is read with -z anyway.
_PINNED = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.untrackedCache=false",
    "core.quotePath=false",
    "core.safecrlf=false",
    "core.splitIndex=false",
    "status.showUntrackedFiles=normal",
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


def environment(tree: str | bytes, extra: Mapping[str, str] | None = None) -> dict[str, str]:
    """The environment of a child that works in a folder: ours without what redirects git."""
    found = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith("GIT_") or name in _KEPT or name.startswith(_KEPT_PREFIX)
    }
    found.update(
        GIT_CEILING_DIRECTORIES=os.path.dirname(os.path.realpath(os.fsdecode(tree))),
        GIT_OPTIONAL_LOCKS="0",
        GIT_TERMINAL_PROMPT="0",
        GIT_NO_LAZY_FETCH="1",
        GIT_NO_REPLACE_OBJECTS="1",
        # Not LC_ALL: a clean filter that sorts or decodes must do it in the user's locale, as under the user's own git add.
        LANGUAGE="C",
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
        deadline: a ``time.monotonic`` value after which the child and everything it started is killed.
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
    data = stdin if isinstance(stdin, bytes) else b"".join(stdin)
    try:
        process = subprocess.Popen(
            command,
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env=environment(tree, extra),
            start_new_session=True,
        )
    except FileNotFoundError as error:
        raise Unsupported("git", "there is no git on the PATH; install git 2.31 or newer") from error
    try:
        timeout = None if deadline is None else max(0.0, deadline - time.monotonic())
        stdout, stderr = process.communicate(data, timeout)
    except subprocess.TimeoutExpired as error:
        raise TimedOut(
            "checkpoint", "git took longer than the capture's time limit; nothing was left behind"
        ) from error
    finally:
        _end(process)
    if process.returncode not in accept:
        raise GitFailed(arguments, process.returncode, stderr)
    return stdout


def _end(process: subprocess.Popen[bytes]) -> None:
    """Whatever happened, leave no child: one that still runs is killed with its whole session, before its number can be used again."""
    if process.returncode is None:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, signal.SIGKILL)
    for pipe in (process.stdin, process.stdout, process.stderr):
        if pipe is not None:
            with contextlib.suppress(BrokenPipeError):
                pipe.close()
    process.wait()


def split(output: bytes) -> list[bytes]:
    """The items of a ``-z`` list."""
    return output.split(b"\0")[:-1] if output else []


@functools.cache
def old_starstar() -> bool:
    """Whether the installed git takes the stars of ``x**/y`` for a component of their own: before 2.51.2 it did."""
    found = re.search(r"(\d+)\.(\d+)(?:\.(\d+))?", os.fsdecode(run(os.sep, ["version"])))
    return found is not None and tuple(int(part or 0) for part in found.groups()) < (2, 51, 2)
