"""Add an agent and its trees; say what an agent is (V-030 to V-035, DESIGN part 8).

``in_place`` works in the repository as it is. ``worktree`` and ``copy`` take a folder that exists, or make one: with ``git worktree add`` at a
detached HEAD, or with a plain local clone. Nothing is added when any repository of the scope is refused.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from turnback import ids
from turnback.errors import Conflict, Failed, InvalidParams, NotFound
from turnback.gitstore import process
from turnback.gitstore.repo import Repository, tree_key
from turnback.operations.results import AgentInfo
from turnback.records.events import Record, TreeRow

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.operations.context import Context
    from turnback.records.state import AgentState, State

ISOLATIONS = ("in_place", "worktree", "copy")


def add(
    context: Context,
    agent_id: str,
    *,
    repos: Sequence[str] | None,
    isolation: str,
    path: str | None,
    parent: str | None,
    harness: str | None,
    force: bool,
) -> None:
    """Add an agent.

    Args:
        context: the workspace.
        agent_id: its id.
        repos: repositories relative to the workspace; None for the workspace itself where that is one, else none.
        isolation: ``in_place``, ``worktree`` or ``copy``.
        path: an existing folder for a worktree or copy (of the only repository); None to make them below the state folder.
        parent: the agent that started this one.
        harness: the adapter's name.
        force: accept a broad root (the home folder, ``/``, a folder that holds the state folder).

    Raises:
        InvalidParams: ``invalid_params.agent``, ``.repo``, ``.isolation``, ``.path``, ``.parent``.
        Conflict: ``conflict.agent_exists``.
        NotFound: ``not_found.agent``: the parent.
        Failed: ``failed.worktree``: the folder can't be made.
    """
    agent = ids.agent_id(agent_id)
    if isolation not in ISOLATIONS:
        raise InvalidParams(
            "isolation", f"{isolation!r} is no isolation; it is one of {', '.join(ISOLATIONS)}"
        )
    state = context.state()
    _must_be_new(state, agent)
    if parent is not None:
        state.agent(ids.agent_id(parent))
    scope = _scope(context, repos)
    if path is not None and (isolation == "in_place" or len(scope) != 1):
        raise InvalidParams("path", "a folder can be named for a worktree or copy of one repository only")
    trees = []
    for repo in scope:
        source = os.path.join(context.folder, repo)
        Repository(source)  # refuses what is no repository of its own before anything is made
        trees.append(_tree(context, agent, repo, source, isolation, path, force=force))
    data: dict[str, Any] = {"agent": agent, "isolation": isolation, "trees": trees}
    if parent is not None:
        data["parent"] = parent
    if harness is not None:
        data["harness"] = harness
    context.make_folders()
    context.log.append([Record("agent.added", data)], check=lambda now: _must_be_new(now, agent))


def _must_be_new(state: State, agent: str) -> None:
    if agent in state.agents:
        raise Conflict(
            "agent_exists",
            f"there is an agent {agent} already; choose another id, or use that one",
            agent=agent,
        )


def _scope(context: Context, repos: Sequence[str] | None) -> list[str]:
    if repos is None:
        return ["."] if os.path.lexists(os.path.join(context.folder, ".git")) else []
    scope = []
    for given in repos:
        full = os.path.realpath(os.path.join(context.folder, given))
        relative = os.path.relpath(full, context.folder)
        if relative == ".." or relative.startswith("../"):
            raise InvalidParams("repo", f"{given!r} lies outside the workspace {context.folder}")
        if not os.path.isdir(full):
            raise InvalidParams("repo", f"there is no folder {full}")
        if relative in scope:
            raise InvalidParams("repo", f"{given!r} is named twice")
        scope.append(relative)
    return scope


def _tree(
    context: Context, agent: str, repo: str, source: str, isolation: str, path: str | None, *, force: bool
) -> TreeRow:
    borrowed = isolation != "in_place" and path is not None
    if isolation == "in_place":
        folder = source
    elif path is not None:
        folder = os.path.join(context.folder, path)
        Repository(folder)
    else:
        folder = _made(context, agent, repo, source, isolation)
    folder = os.path.realpath(folder)
    _refuse_broad(context, folder, force=force)
    row: TreeRow = {"repo": repo, "path": folder, "key": tree_key(folder)}
    if borrowed:
        row["borrowed"] = True
    return row


def _made(context: Context, agent: str, repo: str, source: str, isolation: str) -> str:
    """Make a worktree or copy in the state folder, named after the agent and the repository."""
    context.make_folders()
    name = os.path.basename(os.path.realpath(source)) if repo == "." else repo.replace("/", "-")
    folder = os.path.join(context.state_dir, "trees", agent, name)
    os.makedirs(os.path.dirname(folder), mode=0o700, exist_ok=True)
    if os.path.lexists(folder):
        raise Failed("worktree", f"{folder} exists already; remove it, or name it with --path", path=folder)
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


def _refuse_broad(context: Context, folder: str, *, force: bool) -> None:
    """The home folder, ``/`` and whatever holds the state folder are hardly meant (DESIGN part 4, Broad roots)."""
    state = os.path.realpath(context.state_dir)
    broad = (
        folder == "/"
        or folder == os.path.realpath(os.path.expanduser("~"))
        or state == folder
        or (state + "/").startswith(folder.rstrip("/") + "/")
    )
    if broad and not force:
        raise InvalidParams(
            "repo",
            f"{folder} is the home folder, the root, or holds turnback's own state folder; name a project's folder, or use --force",
        )


def info(context: Context, agent_id: str) -> AgentInfo:
    """What an agent is now.

    Raises:
        NotFound: ``not_found.agent``.
    """
    state = context.state()
    agent = state.agent(agent_id)
    shared = state.sharers(agent_id)
    return AgentInfo(
        agent=agent.id,
        state=agent.state,
        isolation=agent.isolation,
        parent=agent.parent,
        harness=agent.harness,
        guarded=guarded(state, agent),
        trees=tuple({"repo": tree["repo"], "path": tree["path"]} for tree in agent.trees),
        turns=tuple(
            {
                "turn": turn.turn,
                "origin": turn.origin,
                "prompt": turn.prompt,
                "reason": turn.reason,
                "dropped": turn.dropped,
            }
            for turn in agent.turns.values()
        ),
        checkpoints=len(agent.checkpoints),
        shared_with=tuple(sorted(other.id for other in shared)),
        children=tuple(sorted(child.id for child in state.children(agent_id))),
        binding=agent.binding,
        note=agent.note,
    )


def guarded(state: State, agent: AgentState) -> bool:
    """Whether a rollback of this agent could overwrite somebody else's work (section 2)."""
    return agent.isolation == "in_place" or bool(state.sharers(agent.id))


def set_state(context: Context, agent_id: str, value: str) -> None:
    """Tell the state that the host knows (A-01); turns set ``running``, ``settled`` and ``failed`` by themselves.

    Raises:
        InvalidParams: ``invalid_params.state``.
        Conflict: ``conflict.invalid_transition``: it is archived, which is final.
    """
    known = ("queued", "running", "needs_you", "handed_over", "settled", "failed", "archived")
    if value not in known:
        raise InvalidParams("state", f"{value!r} is no state of an agent; it is one of {', '.join(known)}")

    def check(state: State) -> None:
        if state.agent(agent_id).archived:
            raise Conflict("invalid_transition", f"agent {agent_id} is archived; that is final")

    context.log.append([Record("agent.state", {"agent": agent_id, "state": value})], check=check)


def set_stale_requests(context: Context, agent_id: str, requests: Sequence[str]) -> None:
    """Tell which inbox items of an agent are stale; a rollback waits until there are none."""

    def check(state: State) -> None:
        state.agent(agent_id)

    context.log.append(
        [Record("agent.stale_requests", {"agent": agent_id, "requests": list(requests)})], check=check
    )


def next_prompt(context: Context, agent_id: str, text: str) -> str:
    """A prompt with the agent's pending note before it, once (V-346)."""
    given = text

    def delivered(state: State) -> Sequence[Record]:
        nonlocal given
        note = state.agent(agent_id).note
        if note is None:
            return []
        given = f"{note}\n\n{text}"
        return [Record("note.delivered", {"agent": agent_id})]

    if context.state().agent(agent_id).note is not None:
        context.log.build(delivered)
    return given


def must_exist(context: Context, agent_id: str) -> None:
    """Raise ``not_found.agent`` unless there is such an agent."""
    try:
        context.state().agent(ids.agent_id(agent_id))
    except InvalidParams as error:
        raise NotFound("agent", error.message) from error
