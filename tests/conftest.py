"""A sealed room for every test: a home of its own, no git configuration of the user or the system, no variable that redirects git.

The home that stands while modules are imported is sealed too, since libgit2 looks for its configuration files once in a process.
"""

from __future__ import annotations

import atexit
import os
import shutil
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

if TYPE_CHECKING:
    from collections.abc import Iterator

    from support.git_repo import GitRepo

_STRIPPED = ("GIT_", "TURNBACK_", "XDG_", "LC_")
_ROOM = Path(tempfile.mkdtemp(prefix="turnback-tests-"))
atexit.register(shutil.rmtree, _ROOM, ignore_errors=True)


def _sealed(home: Path) -> dict[str, str]:
    """The variables that a sealed process has, its home made."""
    home.mkdir(parents=True, exist_ok=True)
    (home / "gitconfig").touch()
    return {
        "HOME": str(home),
        "GIT_CONFIG_NOSYSTEM": "1",
        "GIT_CONFIG_GLOBAL": str(home / "gitconfig"),
        "LC_ALL": "C.UTF-8",
        "TZ": "UTC",
        "TERM": "dumb",
    }


for _name in list(os.environ):
    if _name.startswith(_STRIPPED):
        del os.environ[_name]
for _name in ("NO_COLOR", "EDITOR", "PAGER", "LANG", "LANGUAGE"):
    os.environ.pop(_name, None)
os.environ.update(_sealed(_ROOM / "import"))


@pytest.fixture(autouse=True)
def home(monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The test's own home: empty but for an empty git configuration. Autouse: no test sees the user's."""
    place = Path(tempfile.mkdtemp(prefix="home-", dir=_ROOM))
    for name, value in _sealed(place).items():
        monkeypatch.setenv(name, value)
    yield place
    shutil.rmtree(place, ignore_errors=True)


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """A repository with one commit: ``README.md`` and ``src/main.py``."""
    from support.git_repo import GitRepo

    made = GitRepo.init(tmp_path / "repo")
    made.write("README.md", "# a project\n")
    made.write("src/main.py", "print('one')\n")
    made.commit("first")
    return made
