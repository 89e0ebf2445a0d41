"""Trees by recipe for the benchmarks: so many files in folders, the same bytes in every run, committed with git itself.

The files are like source code in size (1 to 6 KiB, a few larger) and stand fifty in a folder, four folders deep at most. Made once for a run and
then changed one file at a time, since making ten thousand files takes longer than anything that is measured.
"""

from __future__ import annotations

import os
import random
import subprocess
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pathlib import Path

PER_FOLDER = 50

IDENTITY = {
    "GIT_AUTHOR_NAME": "A Person",
    "GIT_AUTHOR_EMAIL": "person@example.org",
    "GIT_COMMITTER_NAME": "A Person",
    "GIT_COMMITTER_EMAIL": "person@example.org",
}


def seal(home: Path) -> None:
    """Give this process a home of its own and no git configuration but the repositories': call it before anything loads libgit2."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "gitconfig").touch()
    for name in [name for name in os.environ if name.startswith(("GIT_", "TURNBACK_", "XDG_"))]:
        del os.environ[name]
    os.environ.update(HOME=str(home), GIT_CONFIG_NOSYSTEM="1", GIT_CONFIG_GLOBAL=str(home / "gitconfig"))


def git(folder: Path, *arguments: str) -> str:
    """Run git in a folder and give what it printed."""
    done = subprocess.run(
        ["git", *arguments],
        cwd=folder,
        env={**os.environ, **IDENTITY},
        check=True,
        capture_output=True,
        text=True,
    )
    return done.stdout.strip()


def name_of(number: int) -> str:
    """The path of a tree's n-th file."""
    folder = number // PER_FOLDER
    return f"src/area{folder % 10}/part{folder // 10 % 10}/unit{folder}/file{number}.py"


def plant(folder: Path, files: int, ignored: int = 0) -> Path:
    """A repository of so many files with one commit, a settled index, and nothing changed.

    Args:
        folder: made here.
        files: how many.
        ignored: so many more in a folder ``build`` that is ignored as a whole.
    """
    chance = random.Random(files)
    folder.mkdir(parents=True)
    git(folder, "init", "-q", "-b", "main")
    for number in range(files):
        place = folder / name_of(number)
        place.parent.mkdir(parents=True, exist_ok=True)
        lines = chance.randint(20, 120) * (20 if number % 500 == 0 else 1)
        place.write_text(f"# file {number}\n" + f"value_{number} = compute({chance.random()})\n" * lines)
    (folder / ".gitignore").write_text("build/\n*.log\n")
    for number in range(ignored):
        place = folder / "build" / f"part{number // 100}" / f"made{number}.js"
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text("x")
    git(folder, "add", "-A")
    git(folder, "commit", "-q", "-m", "planted")
    # Entries whose time is the index's own are read again by everybody (racy): settle them, as a person's next command would.
    old = 1_700_000_000
    for number in range(files):
        os.utime(folder / name_of(number), (old, old))
    git(folder, "update-index", "-q", "--refresh")
    return folder
