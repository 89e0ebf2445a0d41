"""Gather the facts of the preflight (7.1), in one place for the dry run and the real call. Nothing is captured and nothing changes."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from turnback.clock import milliseconds
from turnback.errors import Failed, Unsupported
from turnback.gitstore import head, refs
from turnback.gitstore.index import read_view
from turnback.ids import number_of
from turnback.operations.listing import verdict
from turnback.operations.planning import foreign
from turnback.policy import preflight
from turnback.policy.grants import Grant
from turnback.policy.heads import HeadFacts
from turnback.policy.plan import Choices, OutsideChoice
from turnback.policy.preflight import Facts

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Repository
    from turnback.operations.context import Context
    from turnback.operations.rollback import Conversational, Request
    from turnback.records.events import CheckpointRow, RepoRow
    from turnback.records.state import AgentState, State


def gather(
    context: Context, request: Request, harness: Conversational | None, *, plan: str | None, busy: str | None
) -> Facts:
    """The facts of one call.

    Args:
        context: the workspace, with the principal who calls.
        request: what is asked.
        harness: the agent's adapter.
        plan: the plan of a real call; None for a dry run.
        busy: what holds the agent's lock: ``rollback``, ``capture``, or None when this call holds it.

    Raises:
        Failed: ``failed.checkpoint_git``: a tree is missing.
    """
    with context.reading() as state:
        agent = state.agents.get(request.agent)
        if agent is None:
            return _facts(context, request, plan=plan, agent_exists=False)
        row = agent.checkpoints.get(request.checkpoint)
        if row is None or not agent.trees:
            has_repo = bool(agent.trees)
            return _facts(context, request, plan=plan, has_repo=has_repo, checkpoint_exists=row is not None)
        known = _of_state(context, request, state, agent, row, harness)
        shared = {repo["repo"]: guarded(state, agent, repo) for repo in row["repos"]}
    try:
        known["rollback_running"] = _rolling(context, state, agent, busy)
        known["checkpoint_pending"] = busy == "capture"
        known["missing_ref"] = _missing_ref(context, agent, row)
        if known["missing_ref"] is not None:
            return _facts(context, request, plan=plan, missing_ref=known["missing_ref"])
        for repo in row["repos"]:
            shared[repo["repo"]] = shared[repo["repo"]] or _shared_with_another_log(context, agent, row, repo)
        known["guarded"] = any(shared.values())
        known["git_operations"] = _operations(context, row)
        known["heads"] = head_facts(context, row, shared, keep_head=request.keep_head)
    except (Failed, Unsupported):
        # A tree is missing, or git can't read it. What the log alone knows comes first: an archived agent's tree may well be gone.
        preflight.preflight(_facts(context, request, plan=plan, **known))
        raise
    return _facts(context, request, plan=plan, **known)


def _of_state(
    context: Context,
    request: Request,
    state: State,
    agent: AgentState,
    row: CheckpointRow,
    harness: Conversational | None,
) -> dict[str, Any]:
    """The facts that the log alone knows."""
    principal = context.principal.id
    return {
        "descendants": []
        if principal not in state.agents
        else [found.id for found in state.descendants(str(principal))],
        "state": agent.state,
        "stale_requests": list(agent.stale_requests),
        "live_children": sorted(child.id for child in state.descendants(agent.id) if child.live),
        "live_sharers": sorted(other.id for other in state.sharers(agent.id) if other.live),
        "verdict": verdict(agent, row, harness) if request.restore == "all" else None,
        "guarded": any(guarded(state, agent, repo) for repo in row["repos"]),
    }


def _facts(context: Context, request: Request, *, plan: str | None, **known: Any) -> Facts:
    """The facts, where what isn't known yet can't be asked either: the first check that applies ends the matter."""
    facts: dict[str, Any] = {
        "grant": Grant.WRITE,
        "descendants": (),
        "agent_exists": True,
        "has_repo": True,
        "checkpoint_exists": True,
        "missing_ref": None,
        "state": "settled",
        "pending": None,
        "rollback_running": None,
        "checkpoint_pending": False,
        "stale_requests": (),
        "live_children": (),
        "live_sharers": (),
        "git_operations": (),
        "verdict": None,
        "heads": (),
        "guarded": False,
        **known,
    }
    return Facts(
        agent=request.agent,
        checkpoint=request.checkpoint,
        restore=request.restore,
        outside=request.outside,
        keep_head=request.keep_head,
        dry_run=plan is None,
        plan=plan,
        scope=None,
        principal=context.principal,
        **facts,
    )


def _missing_ref(context: Context, agent: AgentState, row: CheckpointRow) -> str | None:
    name = refs.checkpoint_ref(agent.id, number_of(row["checkpoint"]))
    for repo in row["repos"]:
        if refs.resolve(_repository(context, repo), name) != repo["commit"]:
            return repo["repo"]
    return None


def _repository(context: Context, repo: RepoRow) -> Repository:
    return context.repository({"repo": repo["repo"], "path": repo["path"], "key": repo["key"]})


def _rolling(context: Context, state: State, agent: AgentState, busy: str | None) -> str | None:
    """The agent whose rollback runs here. One whose lock nobody holds was cut off: it runs no more, whatever the log still says."""
    if busy == "rollback" or (agent.rollback is not None and busy is not None):
        return agent.id
    for other in state.sharers(agent.id):
        if other.rollback is not None and context.agent_lock(other.id).held_by_other() is not None:
            return other.id
    return None


def _operations(context: Context, row: CheckpointRow) -> Sequence[tuple[str, str]]:
    found = []
    for repo in row["repos"]:
        repository = _repository(context, repo)
        operation = repository.operation()
        if operation is None and read_view(repository)[0].has_conflicts:
            operation = "unmerged"  # a stash pop that stopped: no state file tells of it (DESIGN 10.10)
        if operation is not None:
            found.append((repo["repo"], operation))
    return found


def guarded(state: State, agent: AgentState, repo: RepoRow) -> bool:
    """Whether one tree of an agent is guarded: in place, or used by another agent that isn't archived (section 2)."""
    if agent.isolation == "in_place":
        return True
    return any(tree["key"] == repo["key"] for other in state.sharers(agent.id) for tree in other.trees)


def _shared_with_another_log(context: Context, agent: AgentState, row: CheckpointRow, repo: RepoRow) -> bool:
    """Whether another log takes checkpoints of the very tree, which then is guarded (DESIGN 10.11).

    Only a repository with one working tree can say so: in one with several, the refs don't tell which of them another log works in.
    """
    if agent.isolation != "copy":
        return False
    repository = _repository(context, repo)
    if repository.git_dir != repository.common_dir or os.path.isdir(
        os.path.join(repository.common_dir, "worktrees")
    ):
        return False
    return foreign(context, repository, milliseconds(row["at"]))


def choices(
    context: Context, request: Request, agent: AgentState, row: CheckpointRow, repo: RepoRow
) -> Choices:
    """The caller's choices for one tree."""
    outside = None if request.outside is None else OutsideChoice(request.outside)
    with context.reading() as state:
        shared = guarded(state, agent, repo)
    return Choices(outside, guarded=shared or _shared_with_another_log(context, agent, row, repo))


def head_facts(
    context: Context, row: CheckpointRow, shared: dict[str, bool], *, keep_head: bool
) -> list[HeadFacts]:
    """Where HEAD was and is in each repository, and what lies between where it may have to move (7.5)."""
    found = []
    for repo in row["repos"]:
        repository = _repository(context, repo)
        now = repository.head()
        is_guarded = shared[repo["repo"]]
        between = head.Distance(ancestor=False)
        if not is_guarded and not keep_head and repo["head"] is not None and now.commit is not None:
            between = head.distance(repository, repo["head"], now.commit)
        found.append(
            HeadFacts(
                repo=repo["repo"],
                target_head=repo["head"],
                target_branch=repo.get("branch"),
                now_head=now.commit,
                now_branch=now.branch,
                is_ancestor=between.ancestor,
                dropped=len(between.dropped),
                pushed_commits=between.pushed,
                pushed_refs=between.refs,
                guarded=is_guarded,
            )
        )
    return found
