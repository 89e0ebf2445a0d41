"""The note of a rollback's waiting files, in the state folder: one line before each move, so that a kill leaves nothing unexplained.

A note is there as long as anything of its rollback may lie about: a lock, a folder, a file. Its own name says whose rollback it is.
"""

from __future__ import annotations

import contextlib
import json
import os
from dataclasses import dataclass
from typing import Any

from turnback.disk.private import make_folder, open_file, write_all
from turnback.records import codec


class Note:
    """The lines about one rollback's displaced files, in the state folder; gone when nothing waits any more."""

    def __init__(self, path: str, descriptor: int) -> None:
        self.path = path
        self._descriptor = descriptor

    @classmethod
    def create(cls, state_dir: str, agent: str, name: str, at: int) -> Note:
        """Begin the note of an agent's rollback with a name of its own; ``at`` is now, in milliseconds.

        Raises:
            Failed: ``failed.state_folder``.
            OSError: it can't be written.
        """
        folder = os.path.join(state_dir, "holding")
        make_folder(folder)
        path = os.path.join(folder, f"{agent}.{name}.ndjson")
        note = cls(path, open_file(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND))
        try:
            note.add({"at": at})
        except BaseException:
            note.close(done=True)
            raise
        return note

    def add(self, row: dict[str, Any]) -> None:
        """Add a line. It outlives the process, not a power cut: what waits is then found without it."""
        write_all(self._descriptor, codec.dumps(row) + b"\n")

    def close(self, *, done: bool) -> None:
        """Close it, and remove it when nothing waits any more."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1
        if done:
            with contextlib.suppress(OSError):
                os.unlink(self.path)


@dataclass(frozen=True, slots=True)
class Noted:
    """A note as it was read.

    Attributes:
        path: its file.
        agent, name: whose rollback, and that one's own name.
        at: when it began, in milliseconds; None when the note was cut off before it said so.
        safety: its safety checkpoint; None when it hadn't come that far.
        rows: the files that may wait.
    """

    path: str
    agent: str
    name: str
    at: int | None
    safety: str | None
    rows: tuple[dict[str, Any], ...]


def read_notes(state_dir: str) -> list[Noted]:
    """Every note there is. A line that was cut off by a kill is left out.

    Whether a rollback is still at it is for the caller to know: its agent's lock says so.
    """
    folder = os.path.join(state_dir, "holding")
    try:
        names = sorted(os.listdir(folder))
    except FileNotFoundError:
        return []
    found = []
    for file_name in names:
        agent, _, name = file_name.removesuffix(".ndjson").partition(".")
        path = os.path.join(folder, file_name)
        with contextlib.suppress(OSError), open(path, "rb") as file:
            rows = [row for line in file.read().split(b"\n") if (row := _row(line)) is not None]
            about: dict[str, Any] = {}
            for row in rows:
                about |= {} if "file" in row else row
            waiting = tuple(row for row in rows if "file" in row)
            found.append(Noted(path, agent, name, about.get("at"), about.get("safety"), waiting))
    return found


def _row(line: bytes) -> dict[str, Any] | None:
    try:
        row = json.loads(line)
    except ValueError:
        return None
    return row if isinstance(row, dict) else None
