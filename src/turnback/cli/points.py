"""Which checkpoint a person means who named none, and how checkpoints compare. Asks the library only; decides by what it lists."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnback import ids, paths
from turnback.errors import NotFound, TurnbackError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.workspace import Agent, Workspace

YES_NO = {"yes": "yes", "no": "no"}


def before_last_turn(workspace: Workspace, agent: Agent) -> str:
    """The newest checkpoint from before the agent's last turn whose files differ from now; before any turn, the newest that differs.

    A checkpoint is older than a turn when the last turn that had ended at its time is an earlier one. One taken in the middle of that turn
    is not; turns that a rollback dropped don't count. Where the newest checkpoint is a rollback's, the way goes on from its target: undoing again
    goes further back, and not forward again.

    Raises:
        NotFound: ``not_found.checkpoint``: there is none.
    """
    ended = [turn for turn in agent.show().turns if turn["reason"] is not None and not turn["dropped"]]
    last = ids.number_of(ended[-1]["turn"]) if ended else None
    items = list(_all(agent))
    older = [str(item["checkpoint"]) for item in items if last is None or _is_before(item, last)]
    if items and items[0]["reason"] == "rollback":
        gone_to = ids.number_of(_target(workspace, agent, items[0]["checkpoint"]))
        older = [checkpoint for checkpoint in older if ids.number_of(checkpoint) < gone_to]
    for checkpoint in older:
        if _differs(agent, checkpoint):
            return checkpoint
    what = f"before {ended[-1]['turn']} " if ended else ""
    raise NotFound(
        "checkpoint",
        f"no older checkpoint of {agent.id} {what}differs from the files now; list them with: turnback log",
    )


def _is_before(item: dict[str, Any], turn: int) -> bool:
    through = 0 if item["through_turn"] is None else ids.number_of(item["through_turn"])
    return through < turn and not (item["mid_turn"] and item.get("turn") == ids.turn_id(turn))


def _target(workspace: Workspace, agent: Agent, after: str) -> str:
    """What the rollback that ended with this checkpoint went back to; the checkpoint itself when that can't be found any more."""
    ended = workspace.events(["agent.rollback_ended"], [f"agent:{agent.id}"])
    return next(
        (event["data"]["checkpoint"] for event in ended if event["data"].get("after") == after), after
    )


def _all(agent: Agent) -> Iterator[dict[str, Any]]:
    before: str | None = None
    while items := agent.checkpoints(before=before).to_dict()["checkpoints"]:
        yield from items
        before = items[-1]["checkpoint"]


def _differs(agent: Agent, checkpoint: str) -> bool:
    try:
        return bool(agent.checkpoint_diff(checkpoint).files)
    except NotFound:
        return False  # its ref is gone or was moved: nobody can go back to it


def changed_files(agent: Agent, items: Sequence[dict[str, Any]]) -> dict[str, int | None]:
    """How many files differ from each checkpoint to the one before it; None where that can't be said."""
    found: dict[str, int | None] = {}
    if not items:
        return found
    rest = agent.checkpoints(before=items[-1]["checkpoint"], limit=1).to_dict()["checkpoints"]
    for newer, older in zip(items, [*items[1:], *rest], strict=False):
        found[newer["checkpoint"]] = _changed(agent, older, newer)
    return found


def _changed(agent: Agent, older: dict[str, Any], newer: dict[str, Any]) -> int | None:
    commits = [{repo["repo"]: repo["commit"] for repo in item["repos"]} for item in (older, newer)]
    if commits[0] == commits[1]:
        return 0
    try:
        return len(agent.checkpoint_diff(older["checkpoint"], newer["checkpoint"]).files)
    except TurnbackError:
        return None  # a list is shown even where one row can't be compared


def exact_path(item: dict[str, Any]) -> bytes:
    """The bytes of a path in a result."""
    return paths.from_json(item)
