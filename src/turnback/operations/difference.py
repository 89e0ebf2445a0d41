"""``agent.checkpoint_diff``: what changed between two checkpoints, or between one and the current files (V-393 to V-395)."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback import ids, paths
from turnback.errors import InvalidParams, NotFound
from turnback.gitstore import attributes, diff, trees
from turnback.operations import capture
from turnback.operations.lookup import checkpoint_of
from turnback.operations.results import CheckpointDiff, DiffFile, Patch, path_members
from turnback.operations.turns import tree_of

if TYPE_CHECKING:
    import os

    from turnback.changes import Change
    from turnback.gitstore.repo import Repository
    from turnback.operations.context import Context
    from turnback.records.events import RepoRow


def between(
    context: Context,
    agent_id: str,
    start: str,
    end: str | None,
    repo: str | None,
    path: str | bytes | os.PathLike[str] | None,
) -> CheckpointDiff:
    """Compare two checkpoints, or one with the current files.

    Args:
        context: the workspace.
        agent_id: whose checkpoints.
        start: the earlier checkpoint's id.
        end: the later one's, None for the current files (stored as objects that no ref holds, X-08).
        repo: only this repository.
        path: only this path, and its patch; it must say which repository when there are several.

    Raises:
        NotFound: ``not_found.agent``, ``.checkpoint``, ``.repo``.
        InvalidParams: ``invalid_params.from``, ``.to``, ``.path``, ``.repo``.
    """
    state = context.state()
    agent = state.agent(agent_id)
    before = checkpoint_of(context, agent, ids.parse_checkpoint(start, "from"))
    rows = {row["repo"]: row for row in before["repos"]}
    if repo is not None:
        tree_of(agent, repo)
        if repo not in rows:
            raise NotFound("repo", f"{start} doesn't hold the repository {repo!r}; it was added later")
        rows = {repo: rows[repo]}
    wanted = None if path is None else paths.relative(path)
    if wanted is not None and len(rows) > 1:
        raise InvalidParams("repo", f"{start} holds {len(rows)} repositories; say which one the path is in")
    if end is None:
        later = {
            one.tree["repo"]: one.snapshot.tree
            for one in capture.store(context, agent, capture.limits(context))
        }
    else:
        after = checkpoint_of(context, agent, ids.parse_checkpoint(end, "to"))
        later = {row["repo"]: row["tree"] for row in after["repos"]}
    files: list[DiffFile] = []
    patch = None
    for name, row in sorted(rows.items()):
        if name not in later:
            raise NotFound("repo", f"{end} doesn't hold the repository {name!r}")
        repository = context.repository({"repo": name, "path": row["path"], "key": row["key"]})
        changed = trees.changes(repository, row["tree"], later[name])
        if wanted is not None:
            changed = [change for change in changed if change.path == wanted]
            patch = _patch(context, repository, changed)
        files += _files(repository, name, changed)
    return CheckpointDiff(tuple(files), patch)


def changed_files(context: Context, older: RepoRow, newer: RepoRow) -> list[Change]:
    """The changes from one checkpoint's state of a repository to another's."""
    repository = context.repository({"repo": newer["repo"], "path": newer["path"], "key": newer["key"]})
    return trees.changes(repository, older["tree"], newer["tree"])


def _files(repository: Repository, repo: str, changed: list[Change]) -> list[DiffFile]:
    text = attributes.diff_as_text(repository, [change.path for change in changed])
    found = []
    for change in changed:
        counted = diff.counts(repository, change, text.get(change.path))
        found.append(
            DiffFile(
                repo=repo,
                **path_members(change.path),
                change=str(change.kind),
                added=counted.added,
                removed=counted.removed,
                binary=counted.binary,
            )
        )
    return found


def _patch(context: Context, repository: Repository, changed: list[Change]) -> Patch:
    if not changed:
        return Patch("", truncated=False, bytes=0)
    change = changed[0]
    text = attributes.diff_as_text(repository, [change.path])
    data = diff.patch(repository, change, text.get(change.path))
    limit = context.config.harness.body_max
    # A cut in the middle of a character would show as a bad one: the replacement stands for what was cut.
    return Patch(data[:limit].decode("utf-8", "replace"), truncated=len(data) > limit, bytes=len(data))
