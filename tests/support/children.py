"""Other processes in a test: small Python programs that talk to the test through pipes, so that nobody waits by the clock."""

import contextlib
import os
import subprocess
import sys
from types import TracebackType
from typing import IO, Self


class Child:
    """A Python program in a process of its own.

    It may ``say(line)`` and ``hear()``; the test uses ``hear`` and ``say`` of this object. Leaving the ``with`` ends it.
    """

    def __init__(self, program: str, *arguments: str) -> None:
        head = "import os, sys\ndef say(text): print(text, flush=True)\ndef hear(): return sys.stdin.readline().strip()\n"
        environment = {**os.environ, "PYTHONPATH": os.pathsep.join(sys.path)}
        self.process = subprocess.Popen(
            [sys.executable, "-c", head + program, *arguments],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            env=environment,
            text=True,
        )

    @property
    def _to(self) -> IO[str]:
        assert self.process.stdin is not None
        return self.process.stdin

    @property
    def _from(self) -> IO[str]:
        assert self.process.stdout is not None
        return self.process.stdout

    def hear(self) -> str:
        """The next line that it says; empty when it has ended."""
        return self._from.readline().strip()

    def say(self, text: str) -> None:
        """Let it hear a line."""
        self._to.write(text + "\n")
        self._to.flush()

    def kill(self) -> None:
        """SIGKILL, and wait until it is gone."""
        self.process.kill()
        self.process.wait()

    def finish(self) -> str:
        """What it still says until it ends; it must end well."""
        self._to.close()
        rest = self._from.read()
        assert self.process.wait() == 0, "the child process failed"
        return rest

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.process.poll() is None:
            self.kill()
        for pipe in (self._to, self._from):
            if not pipe.closed:
                with contextlib.suppress(BrokenPipeError):
                    pipe.close()
