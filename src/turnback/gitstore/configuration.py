"""The settings of one tree, asked of git once and kept while every file that they came from stays what it was.

A process costs more than a look at a hundred files, so git is asked again only when something that its answer depends on has changed: each file
that it read, each one that it would read if it were there (the user's, the system's, an include that is missing), the environment that
names them, and the branch where an include depends on it. A file that is young when it is read is not trusted: it may change within a tick of its clock.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING, NamedTuple

from turnback.gitstore import process, settings
from turnback.gitstore.dirty import Stamp

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings

# Where a git may have its system file; only one of them counts, but a change of any asks again.
_SYSTEM = ("/etc/gitconfig", "/usr/local/etc/gitconfig", "/opt/homebrew/etc/gitconfig")
_ENVIRONMENT = ("HOME", "XDG_CONFIG_HOME", "GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM")


class _Key(NamedTuple):
    """Everything that git's answer depended on, at one moment."""

    environment: tuple[str | None, ...]
    files: tuple[tuple[str, Stamp | None], ...]
    branch: str | None


class Configuration:
    """The settings of one tree. Not for several threads at once: whoever holds the tree's lock uses it.

    Attributes:
        asked: how often git was asked, for tests.
    """

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._settings: Settings | None = None
        self._key: _Key | None = None
        self._by_branch = False
        self.asked = 0

    def read(self, deadline: float | None = None) -> Settings:
        """The settings as they are now.

        Raises:
            GitFailed, TimedOut, Unsupported: as ``process.run``.
        """
        if self._settings is not None and self._key is not None:
            now = self._now(path for path, _ in self._key.files)
            if now == self._key:
                return self._settings
        self._settings, self._key = None, None
        # The stamps are taken before git reads: a file that changes in between has another one next time.
        candidates = self._candidates()
        before = self._now(candidates)
        started = time.time_ns()
        rows = self._ask(deadline)
        found = settings.of(self._repository, {key: value for _, key, value in rows})
        files = {*candidates, *self._mentioned(rows)}
        self._by_branch = any(key.startswith("includeif.onbranch:") for _, key, _ in rows)
        after = self._now(sorted(files))
        known = dict(before.files)
        settled = all(path not in known or known[path] == stamp for path, stamp in after.files)
        # Young by the time before git read: what was written since then is never old.
        young = any(stamp is not None and stamp.young(started) for _, stamp in after.files)
        if settled and not young and before.environment == after.environment:
            self._settings, self._key = found, after
        return found

    def _ask(self, deadline: float | None) -> list[tuple[str, str, str | None]]:
        self.asked += 1
        output = process.run(
            self._repository.path,
            ["config", "--list", "--show-origin", "-z", "--includes"],
            deadline=deadline,
        )
        parts = process.split(output)
        rows = []
        for origin, row in zip(parts[::2], parts[1::2], strict=True):
            key, newline, value = row.partition(b"\n")
            # A key without a value (no newline) means true.
            rows.append((os.fsdecode(origin), os.fsdecode(key), os.fsdecode(value) if newline else None))
        return rows

    def _candidates(self) -> list[str]:
        """The files that git reads, or would if they were there."""
        home = os.path.expanduser("~")
        xdg = os.environ.get("XDG_CONFIG_HOME") or os.path.join(home, ".config")
        found = [
            os.path.join(self._repository.common_dir, "config"),
            os.path.join(self._repository.git_dir, "config.worktree"),
            os.path.join(xdg, "git", "config"),
            os.path.join(home, ".gitconfig"),
            *_SYSTEM,
        ]
        found += [
            os.environ[name] for name in ("GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM") if os.environ.get(name)
        ]
        return sorted(set(found))

    def _mentioned(self, rows: Iterable[tuple[str, str, str | None]]) -> set[str]:
        """The files that git read, and the includes that it looked for."""
        found = set()
        for origin, key, value in rows:
            kind, _, name = origin.partition(":")
            if kind != "file":
                continue
            file = os.path.join(self._repository.path, name)
            found.add(file)
            if value is not None and (
                key == "include.path" or (key.startswith("includeif.") and key.endswith(".path"))
            ):
                found.add(os.path.join(os.path.dirname(file), os.path.expanduser(value)))
        return found

    def _now(self, files: Iterable[str]) -> _Key:
        return _Key(
            tuple(os.environ.get(name) for name in _ENVIRONMENT),
            tuple((path, stamp_of(path)) for path in files),
            self._repository.head().branch if self._by_branch else None,
        )


def stamp_of(path: str) -> Stamp | None:
    """The stamp of a file (links followed), None when it isn't there."""
    try:
        return Stamp.of(os.stat(path))
    except OSError:
        return None
