"""What rollbacks left behind: files that waited for a writer, and everything that a killed one could not put away itself.

Nothing of it is removed unless its bytes are ones that a checkpoint with its refs in place holds; any others go to the pool and are told
(DESIGN 10.5). At an opening nothing in a person's tree is touched, not even a file of ours (7.6): hidden names there wait for the next
rollback, which somebody asked for.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING, Any

from turnback import ids, paths
from turnback.config import duration
from turnback.errors import TurnbackError
from turnback.gitstore import refs
from turnback.gitstore.locks import clear_stale
from turnback.native import moves
from turnback.native.files import Beneath
from turnback.operations.changeover import owner_of
from turnback.operations.holding import (
    ASIDE,
    BESIDE,
    GIT,
    HALF,
    ROOT,
    Kept,
    folder_of,
    let_go,
    remove_place,
)
from turnback.operations.notes import Noted, read_notes
from turnback.records.events import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Repository
    from turnback.operations.context import Context
    from turnback.records.state import AgentState


def clear(context: Context, agent_id: str, *, in_tree: bool) -> list[Kept]:
    """Put away what earlier rollbacks of an agent left, and tell what was kept. The agent's lock is held: none is running.

    Args:
        context: the workspace.
        agent_id: whose rollbacks.
        in_tree: also hidden files in the trees themselves.
    """
    agent = context.state().agent(agent_id)
    kept: list[Kept] = []
    for noted in read_notes(context.state_dir):
        if noted.agent != agent_id:
            continue
        done = True
        for repository, rows in _by_tree(context, agent, noted.rows):
            gone, found = _clear_tree(context, agent, repository, noted, rows, in_tree=in_tree)
            kept += found
            done = done and gone
        if done:
            with contextlib.suppress(OSError):
                os.unlink(noted.path)
    return kept


def clear_locks(context: Context, agent_id: str) -> None:
    """Remove the index locks that a killed rollback of this agent left. The agent's lock is held."""
    agent = context.state().agent(agent_id)
    for tree in agent.trees:
        with contextlib.suppress(TurnbackError):
            clear_stale(context.repository(tree), owner_of(context, agent_id))


def tell(agent_id: str, kept: Sequence[Kept]) -> list[Record]:
    """The record for a person about bytes that were kept after the rollback had ended."""
    if not kept:
        return []
    named = ", ".join(sorted({paths.text(one.path) for one in kept}))
    reason = (
        f"{named} of {agent_id}: somebody was still writing while a rollback replaced it. What was written is kept, see kept: "
        "sha256 is its name in the pool, place the file that it waits in"
    )
    data = {
        "agent": agent_id,
        "kind": "review",
        "reason": reason,
        "kept": [one.to_dict() for one in kept],
    }
    return [Record("attention.raised", data)]


def _by_tree(
    context: Context, agent: AgentState, rows: Sequence[dict[str, Any]]
) -> list[tuple[Repository | None, list[dict[str, Any]]]]:
    """Each tree of the agent's with what waits in it, also where that is nothing: an empty folder may be left."""
    repos = {tree["repo"]: tree for tree in agent.trees}
    found = []
    for repo in sorted({*repos, *(str(row["repo"]) for row in rows)}):
        repository = None
        if repo in repos:
            with contextlib.suppress(TurnbackError):
                repository = context.repository(repos[repo])
        found.append((repository, [row for row in rows if row["repo"] == repo]))
    return found


def _clear_tree(
    context: Context,
    agent: AgentState,
    repository: Repository | None,
    noted: Noted,
    rows: Sequence[dict[str, Any]],
    *,
    in_tree: bool,
) -> tuple[bool, list[Kept]]:
    """One tree's leftovers: whether nothing of them is left, and what there is to tell."""
    if repository is None:
        return not rows, []  # the tree is missing for now; what waits in it waits
    name = noted.name
    held = _held(agent, repository, noted.safety)
    keep = duration(context.config.checkpoints.keep_safety, "checkpoints.keep_safety")
    sure = noted.at is not None and context.clock.now() > noted.at + keep
    if not moves.LEASES and not sure:
        return (
            False,
            [],
        )  # nobody can say whether a writer is still there: it waits as long as safety checkpoints do
    done = True
    kept = []
    with Beneath(repository.path) as tree:
        for row in rows:
            if row["in"] != GIT and not in_tree:
                done = False
                continue
            path = paths.from_json(row["path"])
            folder = _place(tree, repository, row["in"], name, path)
            if folder is None:
                continue
            try:
                known = row["known"] if held else []
                label = os.fsencode(row["file"])
                with contextlib.suppress(FileNotFoundError):
                    os.unlink(label + HALF, dir_fd=folder)
                for file in (label, label + ASIDE):
                    where = _folder(tree, repository, row["in"], name, path)
                    place = os.path.join(where, os.fsdecode(file))
                    gone, one = let_go(folder, file, path, known, context.pool, place=place, sure=sure)
                    done = done and gone
                    if one is not None:
                        kept.append(one)
            finally:
                os.close(folder)
        for where in (GIT, ROOT) if in_tree else (GIT,):
            remove_place(folder_of(where, name, repository.git_dir, tree.root))
    return done, kept


def _held(agent: AgentState, repository: Repository, safety: str | None) -> bool:
    """Whether the safety checkpoint is still there with its ref, so that what it holds may go."""
    row = agent.checkpoints.get(safety or "")
    if row is None or safety is None:
        return False
    name = refs.checkpoint_ref(agent.id, ids.number_of(safety))
    return any(
        repo["path"] == repository.path and refs.resolve(repository, name) == repo["commit"]
        for repo in row["repos"]
    )


def _folder(tree: Beneath, repository: Repository, where: str, name: str, path: bytes) -> str:
    if where == BESIDE:
        return os.path.join(repository.path, os.path.dirname(os.fsdecode(path)))
    return folder_of(where, name, repository.git_dir, tree.root)


def _place(tree: Beneath, repository: Repository, where: str, name: str, path: bytes) -> int | None:
    """The folder that something waits in, open; None when it is gone, and so is what was in it."""
    try:
        if where == BESIDE:
            with tree.parent(path) as (folder, _):
                return os.dup(folder)
        return os.open(
            folder_of(where, name, repository.git_dir, tree.root),
            os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC,
        )
    except OSError:
        return None
