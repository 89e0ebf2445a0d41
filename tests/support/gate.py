"""A gate inside a capture: whoever captures waits in the middle of reading a file, until a test lets it go on.

It is a clean filter of git's that waits for a fifo, so nothing of the library is replaced and nobody waits by the clock.
"""

from __future__ import annotations

import os
import select
import threading
from typing import TYPE_CHECKING, Self, TypeVar

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path
    from types import TracebackType

    from support.git_repo import GitRepo

T = TypeVar("T")

_PATIENCE = (
    60_000  # milliseconds until a capture that never comes fails the test, instead of holding it up for ever
)


class Gate:
    """The gate of one repository; use it in a ``with`` statement.

    Both fifos are held open at both ends, so that no opening of one waits for another.
    """

    def __init__(self, repo: GitRepo, tmp_path: Path) -> None:
        self.repo = repo
        self._entered, self._key = (self._fifo(tmp_path / name) for name in ("entered", "key"))
        script = f"echo in > {tmp_path / 'entered'}; read line < {tmp_path / 'key'}; cat"
        repo.git("config", "filter.gate.clean", f"sh -c '{script}'")
        repo.write(".git/info/attributes", "*.gated filter=gate\n")

    @staticmethod
    def _fifo(path: Path) -> int:
        os.mkfifo(path)
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)

    def close(self) -> None:
        """From now on a capture that reads ``held.gated`` waits."""
        self.repo.write("held.gated", f"{os.urandom(4).hex()}\n")

    def wait(self) -> None:
        """Return when a capture has come to the gate."""
        poll = select.poll()
        poll.register(self._entered, select.POLLIN)
        assert poll.poll(_PATIENCE), "no capture came to the gate"
        assert os.read(self._entered, 3) == b"in\n"

    def pass_once(self, call: Callable[[], T]) -> T:
        """The result of a call that captures once; the gate is closed again behind it."""
        found: list[T] = []
        calling = threading.Thread(target=lambda: found.append(call()))
        calling.start()
        self.wait()
        os.write(self._key, b"once\n")
        calling.join()
        return found[0]

    def open(self) -> None:
        """Let it pass, and every later one."""
        self.repo.git("config", "--unset", "filter.gate.clean")
        os.write(self._key, b"open\n")

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        os.close(self._entered)
        os.close(self._key)
