"""Which paths the ignore rules of a moment cover: today's rules, or those of a checkpoint.

The rules of a checkpoint are more than its tree: ``info/exclude`` and the user's excludes file count too (DESIGN 10.6), so a capture keeps
their exact text. To answer for that moment, its ``.gitignore`` files are laid out in a scratch folder and git is asked there; a path
needs not exist for that. When the question can't be answered the error goes up: no caller may take silence for "not ignored".
"""

from __future__ import annotations

import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.changes import LINK
from turnback.gitstore import objects, process, trees
from turnback.paths import parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings


@dataclass(frozen=True, slots=True)
class Rules:
    """The ignore rules of a moment that its tree doesn't hold.

    Attributes:
        info_exclude: the text of ``info/exclude``, None when there is none.
        excludes_file: the text of the user's excludes file, None when there is none.
        ignore_case: ``core.ignoreCase``.
    """

    info_exclude: bytes | None
    excludes_file: bytes | None
    ignore_case: bool


def rules_now(repository: Repository, settings: Settings) -> Rules:
    """Read the rules of this moment that no tree holds."""
    return Rules(
        info_exclude=_text(os.path.join(repository.common_dir, "info", "exclude")),
        excludes_file=_text(settings.excludes_file),
        ignore_case=settings.ignore_case,
    )


def _text(path: str) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None  # git goes on without one that it can't read, and so do the rules


def covered_now(repository: Repository, paths: Sequence[bytes], deadline: float | None = None) -> set[bytes]:
    """Those of the paths that today's rules ignore, tracked or not.

    A path beyond a symbolic link is no path of the tree, so no rule covers it; git refuses to answer at all when one is among them.

    Raises:
        GitFailed: git can't say.
    """
    root = os.fsencode(repository.path)
    links: dict[bytes, bool] = {}

    def reachable(path: bytes) -> bool:
        for above in parents(path):
            if above not in links:
                links[above] = os.path.islink(os.path.join(root, above))
            if links[above]:
                return False
        return True

    return _asked(repository.path, list(filter(reachable, paths)), (), None, deadline)


def covered_then(
    repository: Repository,
    tree: str,
    rules: Rules,
    paths: Sequence[bytes],
    scratch: str,
    deadline: float | None = None,
) -> set[bytes]:
    """Those of the paths that the rules of a checkpoint ignore.

    Args:
        repository: where the checkpoint's objects are.
        tree: the checkpoint's tree, for its ``.gitignore`` files.
        rules: what else ruled then.
        paths: the paths in question.
        scratch: an empty private folder.
        deadline: for the process.

    Raises:
        GitFailed: git can't say.
        MissingObject: a ``.gitignore`` of the checkpoint is gone.
    """
    if not paths:
        return set()
    root = os.path.join(scratch, "rules")
    git_dir = os.path.join(root, ".git")
    for folder in ("objects", "refs", "info"):
        os.makedirs(os.path.join(git_dir, folder))
    _write(os.path.join(git_dir, "HEAD"), b"ref: refs/heads/none\n")
    _write(os.path.join(git_dir, "config"), b"[core]\n\trepositoryformatversion = 0\n\tbare = false\n")
    _write(os.path.join(git_dir, "info", "exclude"), rules.info_exclude or b"")
    excludes = os.path.join(git_dir, "excludes")
    _write(excludes, rules.excludes_file or b"")
    for path, entry in trees.lookup(repository, tree, _ignore_files(paths)).items():
        # git doesn't follow a .gitignore that is a link, so it rules nothing.
        if entry.mode & 0o170000 == 0o100000 and entry.mode != LINK:
            target = os.path.join(os.fsencode(root), path)
            os.makedirs(os.path.dirname(target), exist_ok=True)
            _write(target, objects.read_blob(repository, entry.oid))
    settings = (
        f"core.excludesFile={excludes}",
        f"core.ignoreCase={'true' if rules.ignore_case else 'false'}",
    )
    return _asked(root, paths, settings, {"GIT_DIR": git_dir, "GIT_WORK_TREE": root}, deadline)


def _asked(
    folder: str,
    paths: Sequence[bytes],
    settings: Sequence[str],
    extra: dict[str, str] | None,
    deadline: float | None,
) -> set[bytes]:
    if not paths:
        return set()
    arguments: list[str | bytes] = []
    for setting in settings:
        arguments += ["-c", setting]
    # --no-index: the rules' own answer, also for a tracked path. -v, because a path whose last word is a negated rule is listed without.
    arguments += ["check-ignore", "--no-index", "-v", "-z", "--stdin"]
    # ./ keeps a name that begins with ":" from being read as pathspec magic.
    output = process.run(
        folder,
        arguments,
        stdin=[b"./" + path + b"\0" for path in paths],
        extra=extra,
        deadline=deadline,
        accept=(0, 1),
    )
    rows = process.split(output)
    found = set()
    for at in range(0, len(rows), 4):
        if not rows[at + 2].startswith(b"!"):
            found.add(rows[at + 3].removeprefix(b"./"))
    return found


def _ignore_files(paths: Iterable[bytes]) -> set[bytes]:
    found = {b".gitignore"}
    for path in paths:
        above = path.rpartition(b"/")[0]
        while above:
            found.add(above + b"/.gitignore")
            above = above.rpartition(b"/")[0]
    return found


def _write(path: str | bytes, data: bytes) -> None:
    with open(path, "wb") as file:
        file.write(data)
