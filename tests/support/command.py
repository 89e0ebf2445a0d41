"""The real command in a process of its own, and the same at a pseudo-terminal where a test answers its questions."""

from __future__ import annotations

import errno
import json
import os
import pty
import select
import signal
import subprocess
import sys
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Self

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

PROGRAM = (sys.executable, "-m", "turnback")
_LONGEST = 60.0  # seconds that any step may take on a busy machine before the test gives up


@dataclass(frozen=True)
class Ran:
    """How one run of the command ended."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        """The one line of JSON that it printed."""
        assert self.out.endswith("\n"), f"no whole line: {self.out!r}"
        assert self.out.count("\n") == 1, f"not one line: {self.out!r}"
        return json.loads(self.out)

    def error(self) -> Any:
        """The members of the error envelope that it printed with ``--json``; nothing else may have been printed."""
        envelope = self.json()
        assert set(envelope) == {"error"}, f"no error envelope: {envelope}"
        assert self.err == "", f"a JSON error is told once, on the output: {self.err}"
        return envelope["error"]


@dataclass(frozen=True)
class Command:
    """Runs ``turnback`` in a folder.

    Attributes:
        folder: the current folder of the process.
        environment: variables beyond those of the test's sealed room.
    """

    folder: Path
    environment: Mapping[str, str]

    def __call__(self, *words: str | bytes, code: int = 0, also: Mapping[str, str] | None = None) -> Ran:
        """Run it without a terminal; the exit code must be ``code``. ``also``: more environment variables."""
        done = subprocess.run(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.variables(also),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=_LONGEST,
            check=False,
        )
        ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
        assert ran.code == code, f"turnback {words} ended with {ran.code}:\n{ran.out}\n{ran.err}"
        assert "Traceback" not in ran.err, ran.err
        return ran

    def json(self, *words: str | bytes, also: Mapping[str, str] | None = None) -> Any:
        """Run it with ``--json`` and give what it printed."""
        return self("--json", *words, also=also).json()

    def fails(
        self, code: str, exit_code: int, *words: str | bytes, also: Mapping[str, str] | None = None
    ) -> Any:
        """Run it with ``--json``; it must end with this error. Gives the error's members."""
        error = self("--json", *words, code=exit_code, also=also).error()
        assert error["code"] == code, error
        assert error["message"]
        return error

    def variables(self, also: Mapping[str, str] | None = None) -> dict[str, str]:
        """The environment of the process: the sealed room's, the command's, and more for one run."""
        return {**os.environ, **self.environment, **(also or {})}

    def start(self, *words: str) -> subprocess.Popen[bytes]:
        """Start it and return at once; for what goes on until it is stopped."""
        return subprocess.Popen(
            [*PROGRAM, *words],
            cwd=self.folder,
            env=self.variables(),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
        )

    def at_terminal(self, *words: str, also: Mapping[str, str] | None = None) -> AtTerminal:
        """Start it at a pseudo-terminal."""
        return AtTerminal([*PROGRAM, *words], self.folder, self.variables({"TERM": "xterm", **(also or {})}))


class AtTerminal:
    """A program at a pseudo-terminal. A test reads until a prompt stands there and then answers: nothing waits for a time."""

    def __init__(self, words: list[str], folder: Path, variables: dict[str, str]) -> None:
        self._main, side = pty.openpty()
        self._process = subprocess.Popen(
            words, cwd=folder, env=variables, stdin=side, stdout=side, stderr=side, start_new_session=True
        )
        os.close(side)
        self._seen = 0
        self.output = ""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        if self._process.poll() is None:
            self._process.kill()
        self._process.wait()
        os.close(self._main)

    def until(self, prompt: str) -> str:
        """Read until this text appears after what was read before; gives what came up to it."""
        start = self._seen
        while (at := self.output.find(prompt, start)) < 0:
            if not self._read():
                raise AssertionError(f"{prompt!r} never appeared; the output was:\n{self.output}")
        self._seen = at + len(prompt)
        return self.output[start : self._seen]

    def answer(self, prompt: str, line: str) -> str:
        """Read until a prompt appears and type a line; gives what came up to the prompt."""
        shown = self.until(prompt)
        self.type(line)
        return shown

    def type(self, line: str) -> None:
        """Type a line."""
        os.write(self._main, line.encode() + b"\n")

    def interrupt(self) -> None:
        """Do what Ctrl-C does."""
        self._process.send_signal(signal.SIGINT)

    def end(self, code: int = 0) -> str:
        """Read to the end; the exit code must be ``code``. Gives what came since the last prompt."""
        start = self._seen
        while self._read():
            pass
        found = self._process.wait(timeout=_LONGEST)
        assert found == code, f"it ended with {found}:\n{self.output}"
        assert "Traceback" not in self.output, self.output
        return self.output[start:]

    def _read(self) -> bool:
        deadline = time.monotonic() + _LONGEST
        ready, _, _ = select.select([self._main], [], [], max(0.0, deadline - time.monotonic()))
        if not ready:
            raise AssertionError(f"nothing came for {_LONGEST} s; the output was:\n{self.output}")
        try:
            data = os.read(self._main, 65536)
        except OSError as error:
            if error.errno == errno.EIO:  # Linux: the other side is closed
                return False
            raise
        self.output += data.decode("utf-8", "replace").replace("\r\n", "\n")
        return bool(data)
