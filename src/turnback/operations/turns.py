"""Begin a turn, note its edits, end it (3, 3.1). A capture that fails never stops a turn: it is logged, told, and the work goes on."""

from __future__ import annotations

import os
from contextlib import ExitStack, suppress
from typing import TYPE_CHECKING, Any

from turnback import ids, paths
from turnback.errors import Conflict, Failed, InvalidParams, NotFound, TurnbackError
from turnback.operations import agents, capture
from turnback.operations.results import CaptureFailure, Taken, TurnResult
from turnback.policy.preflight import rollback_running
from turnback.records.events import Record

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.operations.context import Context
    from turnback.records.events import PathItem, TreeRow
    from turnback.records.state import AgentState, State

ORIGINS = ("user", "harness")
REASONS = ("completed", "interrupted", "failed", "limit")


def begin(context: Context, agent_id: str, prompt: str | None, origin: str) -> TurnResult:
    """Start a turn: the agent is running, then its files are saved, and only then does the caller deliver the prompt (V-050, V-066).

    A turn that the harness started itself gets no ``turn_start`` capture (V-072): its files may have changed already.

    Raises:
        NotFound: ``not_found.agent``.
        Conflict: ``conflict.turn_running``, ``.invalid_transition`` (archived), ``.handed_over``, ``.rollback_running``.
    """
    if origin not in ORIGINS:
        raise InvalidParams("origin", f"{origin!r} is no origin of a turn; it is user or harness")
    agents.end_interrupted(context, agent_id)
    delivered = prompt
    note: str | None = None

    def started(state: State) -> Sequence[Record]:
        nonlocal delivered, note
        agent = state.agent(agent_id)
        _must_be_idle(state, agent)
        records = []
        if agent.note is not None and prompt is not None and origin == "user":
            note = agent.note
            delivered = f"{note}\n\n{prompt}" if prompt else note
            records.append(Record("note.delivered", {"agent": agent_id}))
        data: dict[str, Any] = {"agent": agent_id, "turn": ids.turn_id(agent.next_turn), "origin": origin}
        if delivered is not None:
            data["prompt"] = delivered
        return [*records, Record("turn.started", data)]

    turn = str(context.log.build(started)[-1].data["turn"])
    if origin == "harness":
        return TurnResult(agent_id, turn, prompt=delivered)
    try:
        taken, failure = automatic(context, agent_id, capture.Moment("turn_start", turn))
    except BaseException:
        # Stopped while the files were saved (Ctrl-C): the caller has no turn to end, and nothing was delivered, the note neither.
        records = [Record("turn.ended", {"agent": agent_id, "turn": turn, "reason": "interrupted"})]
        if note is not None:
            records.append(Record("note.pending", {"agents": [agent_id], "text": note}))
        with suppress(TurnbackError):
            context.log.append(records)
        raise
    return _result(agent_id, turn, taken, failure, delivered)


def running(context: Context, agent_id: str) -> TurnResult | None:
    """The turn that is running now, whoever began it; None when there is none.

    Raises:
        NotFound: ``not_found.agent``.
    """
    with context.reading() as state:
        agent = state.agent(agent_id)
        if agent.running_turn is None:
            return None
        return TurnResult(agent_id, agent.running_turn, prompt=agent.turns[agent.running_turn].prompt)


def edited(
    context: Context,
    agent_id: str,
    turn: str,
    given: Sequence[str | bytes | os.PathLike[str]],
    repo: str | None,
) -> None:
    """Note that a tool call of a running turn named these paths (relative to the tree, or absolute inside it).

    Args:
        context: the workspace.
        agent_id: whose turn.
        turn: the running turn.
        given: the paths.
        repo: the repository that they are in; None for the only one, or the one that an absolute path lies in.

    Raises:
        InvalidParams: ``invalid_params.path``: a path lies outside the tree; nothing is noted then. ``invalid_params.repo``: there are
            several repositories, and nothing says which.
        NotFound: ``not_found.repo``, ``not_found.turn``.
    """
    agent = context.state().agent(agent_id)
    found: dict[str, list[PathItem]] = {}
    for path in given:
        tree, inside = _placed(agent, repo, path)
        found.setdefault(tree["repo"], []).append(paths.item(inside))

    def noted(state: State) -> Sequence[Record]:
        if state.agent(agent_id).running_turn != turn:
            raise NotFound("turn", f"{turn} of {agent_id} is not running; edits belong to a running turn")
        return [
            Record("turn.edited", {"agent": agent_id, "turn": turn, "repo": name, "paths": items})
            for name, items in found.items()
        ]

    if found:
        context.log.build(noted)


def end(
    context: Context, agent_id: str, turn: str, reason: str, harness_turn: str | None, harness_end: str | None
) -> TurnResult:
    """End a turn: the agent is settled (or failed), then its files are saved (V-051 to V-054, V-068).

    Raises:
        InvalidParams: ``invalid_params.reason``.
        NotFound: ``not_found.turn``: it isn't running.
    """
    if reason not in REASONS:
        raise InvalidParams(
            "reason", f"{reason!r} is no reason for a turn's end; it is one of {', '.join(REASONS)}"
        )

    def ended(state: State) -> Sequence[Record]:
        if state.agent(agent_id).running_turn != turn:
            raise NotFound("turn", f"{turn} of {agent_id} is not running; it can't be ended")
        data: dict[str, Any] = {"agent": agent_id, "turn": turn, "reason": reason}
        if harness_turn is not None:
            data["harness_turn"] = harness_turn
        if harness_end is not None:
            data["harness_end"] = harness_end
        return [Record("turn.ended", data)]

    # The agent's lock is held from before the end is told until the files are saved: so no rollback and no next turn comes in between, and
    # a rollback that asks is told conflict.checkpoint_pending (V-069, V-070).
    with ExitStack() as held:
        late = None
        agent = context.state().agent(agent_id)
        try:
            held.enter_context(context.holding(agent, (), context.config.checkpoints.timeout_seconds))
        except TurnbackError as error:
            late = error
        context.log.build(ended)
        moment = capture.Moment("turn_end", turn)
        if late is None:
            taken, failure = automatic(context, agent_id, moment)
        else:
            taken, failure = None, _not_taken(context, agent_id, moment, late)
    return _result(agent_id, turn, taken, failure, None)


def end_running(
    context: Context, agent_id: str, reason: str, harness_turn: str | None, harness_end: str | None
) -> TurnResult:
    """End whatever turn of an agent is running.

    Raises:
        NotFound: ``not_found.turn``: none is.
    """
    running = context.state().agent(agent_id).running_turn
    if running is None:
        raise NotFound(
            "turn",
            f"no turn of {agent_id} is running; begin one with: turnback turn begin --agent={agent_id}",
        )
    return end(context, agent_id, running, reason, harness_turn, harness_end)


def automatic(
    context: Context, agent_id: str, moment: capture.Moment
) -> tuple[Taken | None, CaptureFailure | None]:
    """A capture that nobody asked for: nothing at all where it is switched off or there is no repository, and never an error."""
    if not context.config.checkpoints.enabled or not context.state().agent(agent_id).trees:
        return None, None
    try:
        return capture.take(context, agent_id, moment, explicit=False), None
    except TurnbackError as error:
        return None, CaptureFailure(error.code, error.message)
    except Exception as error:  # noqa: BLE001 - whatever broke, the turn goes on, and it is told (V-076)
        broken = Failed("internal", f"the capture failed: {type(error).__name__}: {error}")
        return None, _not_taken(context, agent_id, moment, broken)


def _not_taken(
    context: Context, agent_id: str, moment: capture.Moment, error: TurnbackError
) -> CaptureFailure | None:
    """Log that a capture failed which never came to its own logging; nothing where no capture was due."""
    if not context.config.checkpoints.enabled or not context.state().agent(agent_id).trees:
        return None
    data = {"agent": agent_id, "reason": moment.reason, "code": error.code, "message": error.message}
    if moment.turn is not None:
        data["turn"] = moment.turn
    if "repo" in error.data:
        data["repo"] = error.data["repo"]
    with suppress(TurnbackError):
        context.log.append([Record("checkpoint.failed", data)])
    return CaptureFailure(error.code, error.message)


def tree_of(agent: AgentState, repo: str) -> TreeRow:
    """The tree of one repository in an agent's scope.

    Raises:
        NotFound: ``not_found.repo``.
    """
    for tree in agent.trees:
        if tree["repo"] == repo:
            return tree
    known = ", ".join(tree["repo"] for tree in agent.trees) or "none"
    raise NotFound("repo", f"{repo!r} is no repository of {agent.id}; it has {known}")


def _must_be_idle(state: State, agent: AgentState) -> None:
    if agent.rollback is not None:
        raise rollback_running(agent.id)
    for other in state.sharers(agent.id):
        if other.rollback is not None:  # its writes and the turn's would land on each other (section 9)
            raise rollback_running(other.id)
    if agent.running_turn is not None:
        raise Conflict(
            "turn_running",
            f"{agent.running_turn} of {agent.id} is running; end it first with: turnback turn end --agent={agent.id}",
        )
    if agent.archived:
        raise Conflict("invalid_transition", f"agent {agent.id} is archived; add another one")
    if agent.state == "handed_over":
        raise Conflict("handed_over", f"agent {agent.id} is handed over to a person; take it back first")


def _placed(
    agent: AgentState, repo: str | None, given: str | bytes | os.PathLike[str]
) -> tuple[TreeRow, bytes]:
    """The tree that a tool's path is in, and the path relative to it."""
    path = _bytes(given)
    if repo is not None:
        return (tree := tree_of(agent, repo)), _inside(tree, path)
    if len(agent.trees) == 1:
        return agent.trees[0], _inside(agent.trees[0], path)
    if os.path.isabs(path):
        for tree in sorted(
            agent.trees, key=lambda row: -len(row["path"])
        ):  # a repository in another one first
            with suppress(InvalidParams):
                return tree, _inside(tree, path)
        raise InvalidParams("path", f"{paths.text(path)!r} lies in no repository of {agent.id}")
    for tree in agent.trees:
        if tree["repo"] == ".":
            return tree, _inside(tree, path)
    known = ", ".join(tree["repo"] for tree in agent.trees) or "none"
    raise InvalidParams("repo", f"{agent.id} has several repositories or none ({known}); say which one")


def _bytes(given: str | bytes | os.PathLike[str]) -> bytes:
    try:
        return os.fsencode(given)
    except UnicodeEncodeError as error:
        raise InvalidParams("path", f"{given!r} can't be the name of a file") from error


def _inside(tree: TreeRow, path: bytes) -> bytes:
    """A tool's path as one relative to the tree. Links are not followed: the path itself is what was named (A-26, X-26)."""
    if os.path.isabs(path) and b"\0" not in path:
        root = os.fsencode(tree["path"]).rstrip(b"/")
        normal = os.path.normpath(path)
        if not normal.startswith(root + b"/"):
            # The folder may have been named through a link above the tree: compare real folders, keep the last name as it is.
            normal = os.path.join(os.path.realpath(os.path.dirname(normal)), os.path.basename(normal))
        if not normal.startswith(root + b"/"):
            raise InvalidParams("path", f"{paths.text(path)!r} lies outside the tree {tree['path']}")
        path = normal[len(root) + 1 :]
    return paths.relative(path)


def _result(
    agent: str, turn: str, taken: Taken | None, failure: CaptureFailure | None, prompt: str | None
) -> TurnResult:
    return TurnResult(
        agent,
        turn,
        checkpoint=None if taken is None else taken.checkpoint,
        reused=None if taken is None else taken.reused,
        capture_failed=failure,
        prompt=prompt,
    )
