"""Work that is killed at its n-th step: each write, new name, removal or sync of a process is a place where it may die.

The steps are calls of ``os`` that change a filesystem. A process of its own, without threads, forks for each try; the child kills itself
(``SIGKILL``) just before its n-th step, or in the middle of it when that is a write. Trying every n until the work gets through
covers each state that a kill can leave.
"""

from __future__ import annotations

from typing import Self

from support.children import Child

_PROGRAM = """
import signal

left = 0

def mortal(name):
    real = getattr(os, name)
    def step(*arguments, **options):
        global left
        if name == "open" and not arguments[1] & os.O_CREAT:
            return real(*arguments, **options)
        left -= 1
        if left == 0:
            if name in ("write", "pwrite"):
                real(arguments[0], arguments[1][: len(arguments[1]) // 2], *arguments[2:])
            os.kill(os.getpid(), signal.SIGKILL)
        return real(*arguments, **options)
    setattr(os, name, step)

{setup}

def work(folder):
{work}

for name in ("write", "pwrite", "open", "link", "rename", "unlink", "mkdir", "utime", "fsync", "ftruncate"):
    mortal(name)
while line := hear():
    number, _, folder = line.partition(" ")
    child = os.fork()
    if not child:
        left = int(number)
        work(folder)
        os._exit(0)
    status = os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])
    say({{0: "done", -9: "killed"}}.get(status, f"failed with {{status}}"))
"""


class Mortal:
    """A piece of work that can be killed at any step.

    Args:
        setup: Python source that runs once, at the top level.
        work: Python source of the work; it finds its argument in ``folder``.
    """

    def __init__(self, setup: str, work: str) -> None:
        body = "".join(f"    {line}\n" for line in work.strip().splitlines())
        self._child = Child(_PROGRAM.format(setup=setup, work=body))

    def killed_at(self, step: int, folder: str) -> bool:
        """Do the work in a folder and die at a step, counted from 1; False when the work got through before."""
        self._child.say(f"{step} {folder}")
        answer = self._child.hear()
        assert answer in ("done", "killed"), f"the work {answer or 'never answered'}"
        return answer == "killed"

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self._child.__exit__(None, None, None)
