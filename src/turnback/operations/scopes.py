"""The repositories that an agent is given, and the folders that it works in: found, refused, or made (V-032, DESIGN parts 4 and 8).

``in_place`` works in a repository as it is. ``worktree`` and ``copy`` take a folder that exists, or make one below the state folder: with
``git worktree add`` at a detached HEAD, or with a plain local clone (committed files only). Every repository of a scope is looked at before
anything is made for one of them, and whoever makes the trees is given the way to take them away again.
"""

from __future__ import annotations

import os
import shutil
from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback import paths
from turnback.disk.private import make_folder
from turnback.errors import Failed, InvalidParams
from turnback.gitstore import process
from turnback.gitstore.repo import Repository, tree_key

if TYPE_CHECKING:
    from collections.abc import Sequence
    from contextlib import ExitStack

    from turnback.operations.context import Context
    from turnback.records.events import TreeRow
    from turnback.records.state import State


@dataclass(frozen=True, slots=True)
class Wanted:
    """One repository of a scope, looked at and not yet anybody's tree."""

    repo: str
    source: Repository
    given: Repository | None  # the worktree or copy that the caller has


def look_at(
    context: Context,
    repos: Sequence[str | bytes | os.PathLike[str]] | None,
    isolation: str,
    path: str | bytes | os.PathLike[str] | None,
    *,
    force: bool,
) -> list[Wanted]:
    """Look at every repository of a scope, and refuse what can't be an agent's; makes nothing.

    Raises:
        InvalidParams: ``invalid_params.repo``, ``.path``.
        Failed: ``failed.checkpoint_git``.
        Unsupported: ``unsupported.repository``.
    """
    scope = _named(context, repos)
    if path is not None and (isolation == "in_place" or len(scope) != 1):
        raise InvalidParams("path", "a folder can be named for a worktree or copy of one repository only")
    return [_looked_at(context, repo, isolation, path, force=force) for repo in scope]


def _named(context: Context, repos: Sequence[str | bytes | os.PathLike[str]] | None) -> list[str]:
    if repos is None:
        return ["."] if os.path.lexists(os.path.join(context.folder, ".git")) else []
    if isinstance(repos, str | bytes | os.PathLike):
        raise InvalidParams("repo", f"{os.fsdecode(repos)!r} is one name; give a list of repositories")
    scope: list[str] = []
    for given in repos:
        name = _text("repo", given)
        full = os.path.realpath(os.path.join(context.folder, name))
        relative = os.path.relpath(full, context.folder)
        if relative == ".." or relative.startswith("../"):
            raise InvalidParams("repo", f"{name!r} is {full}, outside the workspace {context.folder}")
        if not os.path.isdir(full):
            raise InvalidParams("repo", f"there is no folder {full}")
        if relative in scope:
            raise InvalidParams("repo", f"{name!r} is named twice")
        scope.append(relative)
    return scope


def _text(parameter: str, given: str | bytes | os.PathLike[str]) -> str:
    """A caller's name of a folder."""
    name = os.fsdecode(given)
    try:
        os.fsencode(name)
    except UnicodeEncodeError as error:
        raise InvalidParams(parameter, f"{name!r} can't be the name of a folder") from error
    if not name or "\0" in name:
        raise InvalidParams(parameter, f"{name!r} names no folder")
    return name


def _looked_at(
    context: Context,
    repo: str,
    isolation: str,
    path: str | bytes | os.PathLike[str] | None,
    *,
    force: bool,
) -> Wanted:
    """Look at one repository of the scope, and at the folder that was given for it; refuse either without having made anything."""
    source = Repository(os.path.join(context.folder, repo))
    given = None
    if path is not None:
        folder = os.path.join(context.folder, os.path.expanduser(_text("path", path)))
        if not os.path.isdir(folder):
            raise InvalidParams("path", f"there is no folder {folder}; leave it out to have one made")
        try:
            given = Repository(folder)
        except InvalidParams as error:
            raise InvalidParams("path", error.message) from error
        _refuse_other(source, given, isolation)
    if given is not None or isolation == "in_place":
        _refuse_broad(context, (given or source).path, force=force)
        _refuse_unspeakable((given or source).path)
    else:
        _refuse_unspeakable(os.path.join(context.state_dir, repo))
    return Wanted(repo, source, given)


def _refuse_other(source: Repository, given: Repository, isolation: str) -> None:
    """A folder that was given must be what it is called: a person's own tree taken for an agent's would not be guarded."""
    if isolation == "worktree" and (
        given.common_dir != source.common_dir or given.git_dir == given.common_dir or given.key == source.key
    ):
        raise InvalidParams(
            "path",
            f"{given.path} is no linked worktree of {source.path}; make one with git worktree add, or leave the folder out",
        )
    if isolation == "copy" and given.common_dir == source.common_dir:
        raise InvalidParams(
            "path",
            f"{given.path} is no copy: it has the same repository as {source.path}; leave the folder out",
        )


def _refuse_broad(context: Context, folder: str, *, force: bool) -> None:
    """The home folder, ``/`` and whatever holds the state folder are hardly meant (DESIGN part 4, Broad roots)."""
    state = os.path.realpath(context.state_dir)
    if folder == state:
        raise InvalidParams(
            "repo", f"{folder} is turnback's own state folder; choose another one for it with --state-dir"
        )
    broad = (
        folder == "/"
        or folder == os.path.realpath(os.path.expanduser("~"))
        or state.startswith(folder.rstrip("/") + "/")
    )
    if broad and not force:
        raise InvalidParams(
            "repo",
            f"{folder} is the home folder, the root, or holds turnback's own state folder; name a project's folder, or use --force",
        )


def _refuse_unspeakable(folder: str) -> None:
    if not paths.is_text(os.fsencode(folder)):
        raise InvalidParams(
            "repo",
            f"the path {paths.text(os.fsencode(folder))} is not UTF-8, so no record can name it; rename the folder (files in it may "
            "have any name)",
        )


def tree(context: Context, agent: str, wanted: Wanted, isolation: str, made: ExitStack) -> TreeRow:
    """A repository's tree for the agent; what is made for it is removed by ``made``."""
    if isolation == "in_place":
        folder = wanted.source.path
    elif wanted.given is not None:
        folder = wanted.given.path
    else:
        folder = os.path.realpath(_made(context, agent, wanted, isolation, made))
    row: TreeRow = {"repo": wanted.repo, "path": folder, "key": ""}
    if wanted.given is not None:
        row["borrowed"] = True
    return row


def name_in(state: State, folder: str) -> str:
    """The name of a tree in the log: the one that its path has there already, else its device and inode, unless those are another's.

    Both change while the folder stays what it is to everybody (restored from a backup, another mount); names don't.
    """
    known = {tree["path"]: tree["key"] for agent in list(state.agents.values()) for tree in agent.trees}
    if folder in known:
        return known[folder]
    key = tree_key(folder)
    theirs = {other: path for path, other in known.items()}
    if key not in theirs or os.path.realpath(theirs[key]) == folder or _is(theirs[key], folder):
        return key
    number = 2
    while f"{key}-{number}" in theirs:
        number += 1
    return f"{key}-{number}"


def _is(path: str, folder: str) -> bool:
    try:
        return os.path.samefile(path, folder)
    except OSError:
        return False


def _made(context: Context, agent: str, wanted: Wanted, isolation: str, made: ExitStack) -> str:
    """Make a worktree or copy in the state folder, named after the agent and the repository."""
    context.make_folders()
    source = wanted.source.path
    name = os.path.basename(source) if wanted.repo == "." else wanted.repo.replace("/", "-")
    folder = _free_folder(os.path.join(context.state_dir, "trees", agent), name)
    made.callback(_remove, source, folder, isolation)
    try:
        if isolation == "worktree":
            process.run(source, ["worktree", "add", "-q", "--detach", folder])
        else:
            process.run(context.folder, ["clone", "-q", "--no-hardlinks", "--", source, folder])
    except process.GitFailed as error:
        raise Failed(
            "worktree", f"the {isolation} {folder} can't be made: {error.stderr}", path=folder
        ) from error
    return folder


def _free_folder(above: str, name: str) -> str:
    """A new, empty folder: made by whoever gets it, since git takes away the folder of another git that is making the same one."""
    make_folder(above)
    number = 1
    while True:
        # Taken when two repositories have one name, or by what an agent of a log that is gone has left.
        folder = os.path.join(above, name if number == 1 else f"{name}-{number}")
        try:
            os.mkdir(folder, 0o700)
        except FileExistsError:
            number += 1
        except OSError as error:
            raise Failed("worktree", f"{folder} can't be made: {error.strerror}", path=folder) from error
        else:
            return folder


def _remove(source: str, folder: str, isolation: str) -> None:
    """Take away what was made for an agent that wasn't added."""
    if isolation == "worktree":
        with suppress(process.GitFailed):  # git failed to make it, so it knows nothing of it
            process.run(source, ["worktree", "remove", "--force", folder])
    shutil.rmtree(folder, ignore_errors=True)
