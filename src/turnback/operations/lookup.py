"""Find what a caller named in the state: a checkpoint that still exists, with its refs in place."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback import ids
from turnback.errors import NotFound
from turnback.gitstore import refs

if TYPE_CHECKING:
    from turnback.operations.context import Context
    from turnback.records.events import CheckpointRow
    from turnback.records.state import AgentState


def checkpoint_of(context: Context, agent: AgentState, checkpoint: str) -> CheckpointRow:
    """The record of a checkpoint whose refs still hold what the log says (V-152).

    Raises:
        NotFound: ``not_found.checkpoint``: it never existed, was pruned, or its ref is gone or moved.
        Failed: ``failed.checkpoint_git``: a tree is missing.
    """
    row = agent.checkpoints.get(checkpoint)
    if row is None:
        why = "was pruned" if checkpoint in agent.pruned else "does not exist"
        raise NotFound(
            "checkpoint",
            f"{checkpoint} of {agent.id} {why}; list the others with: turnback log",
            checkpoint=checkpoint,
        )
    name = refs.checkpoint_ref(agent.id, ids.number_of(checkpoint))
    for repo in row["repos"]:
        repository = context.repository({"repo": repo["repo"], "path": repo["path"], "key": repo["key"]})
        if refs.resolve(repository, name) != repo["commit"]:
            raise NotFound(
                "checkpoint",
                f"the ref {name} of {checkpoint} is gone or was moved in {repo['path']}; it can't be trusted any more",
                checkpoint=checkpoint,
                repo=repo["repo"],
            )
    return row
