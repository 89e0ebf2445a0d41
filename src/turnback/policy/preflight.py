"""What refuses a rollback before anything is captured or written (contract 7.1, V-200..V-214): facts in, the first error out.

The dry run and the real call go through the same checks in the same order (X-02): the parameters, the grant, item 1 (does it exist), the
rules for agents as callers, then items 2 to 12. Item 13, ``conflict.outside_edits``, needs the captured state and so comes later
(X-01); its error is made here too. Every message says what a person does next. Nothing is interrupted, changed or waited for.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from turnback import ids, paths
from turnback.errors import Conflict, InvalidParams, NotFound, Unsupported
from turnback.policy import conversation
from turnback.policy.cases import OutsideChoice
from turnback.policy.grants import Grant, Principal, agent_caller, check_grant, may_roll_back
from turnback.policy.heads import HeadFacts, check_heads

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping, Sequence

__all__ = [
    "CHECKS",
    "LIVE",
    "Facts",
    "check_call",
    "check_choices",
    "outside_edits",
    "preflight",
    "rollback_running",
    "rollback_stale",
]

LIVE: Final = frozenset({"queued", "running", "needs_you", "handed_over"})
RESTORE: Final = ("all", "files")


@dataclass(frozen=True, slots=True, kw_only=True)
class Facts:
    """Everything that the checks look at. Only the call's own parameters have defaults: a fact that nobody looked up must not pass.

    Attributes:
        agent, checkpoint, restore, outside, keep_head, dry_run, plan, scope: the call; ``scope`` is its ``paths``.
        principal: who calls; ``grant``: what they hold on the agent; ``descendants``: of the calling agent, at any depth.
        agent_exists: the workspace has the agent.
        has_repo: its scope has a git repository.
        checkpoint_exists: its log has the checkpoint and it isn't pruned.
        missing_ref: the first repo whose ref is gone or no longer holds the logged commit.
        state: the agent's (A-01).
        pending: what was asked for and hasn't begun, or goes on beside the state: ``turn``, ``compaction`` or ``fork``.
        rollback_running: the agent whose running rollback owns this agent or one of its trees.
        checkpoint_pending: a capture of the agent hasn't finished.
        stale_requests: its stale inbox items.
        live_children: its live descendants, at any depth (V-207).
        live_sharers: the live agents that use one of its trees.
        git_operations: (repo, operation) of every operation under way: merge, rebase, cherry-pick, revert, bisect, unmerged.
        verdict: what the checkpoint can do for the conversation; None for ``restore="files"``.
        heads: HEAD of each tree.
        guarded: any tree of the agent is guarded.
    """

    agent: str
    checkpoint: str
    restore: str = "all"
    outside: str | None = None
    keep_head: bool = False
    dry_run: bool = False
    plan: str | None = None
    scope: Sequence[bytes] | None = None
    principal: Principal
    grant: Grant | None
    descendants: Collection[str]
    agent_exists: bool
    has_repo: bool
    checkpoint_exists: bool
    missing_ref: str | None
    state: str
    pending: str | None
    rollback_running: str | None
    checkpoint_pending: bool
    stale_requests: Sequence[str]
    live_children: Sequence[str]
    live_sharers: Sequence[str]
    git_operations: Sequence[tuple[str, str]]
    verdict: conversation.Verdict | None
    heads: Sequence[HeadFacts]
    guarded: bool


def preflight(facts: Facts) -> None:
    """Run every check in order.

    Raises:
        TurnbackError: of the first check that applies; the classes and codes are those of the checks below (11.3).
    """
    for check in CHECKS:
        check(facts)


def check_call(dry_run: bool, plan: str | None) -> None:
    """``dry_run`` and ``plan`` go in exactly one combination each (V-220, V-421).

    Raises:
        InvalidParams: ``invalid_params.plan`` for both or neither, and for what isn't a plan.
    """
    if dry_run and plan is not None:
        raise InvalidParams(
            "plan", "a dry run makes a plan and takes none; leave out either --dry-run or --plan"
        )
    if not dry_run and plan is None:
        raise InvalidParams(
            "plan",
            "a rollback needs the plan of a dry run that somebody has seen; run it with --dry-run first",
        )
    if plan is not None:
        ids.parse_plan(plan)


def check_choices(restore: str, outside: str | None, scope: Sequence[bytes] | None) -> None:
    """The values of ``restore`` and ``outside``, and what ``paths`` goes with (V-310, DESIGN part 7).

    Raises:
        InvalidParams: ``invalid_params.restore``, ``.outside`` or ``.paths``.
    """
    if restore not in RESTORE:
        raise InvalidParams("restore", f"{restore!r} is no value of restore; it takes all or files")
    if outside is not None and outside not in tuple(OutsideChoice):
        raise InvalidParams(
            "outside", f"{outside!r} is no value of outside; it takes refuse, keep, overwrite or merge"
        )
    if scope is not None and not scope:
        raise InvalidParams(
            "paths", "no path was given; name some, or leave out --paths to restore everything"
        )
    if scope is not None and restore != "files":
        raise InvalidParams(
            "restore", "some paths alone can't take the conversation along; add --restore=files"
        )


def _parameters(facts: Facts) -> None:
    check_call(facts.dry_run, facts.plan)
    check_choices(facts.restore, facts.outside, facts.scope)


def _grant(facts: Facts) -> None:
    check_grant("agent.rollback", facts.agent, facts.grant)


def _exists(facts: Facts) -> None:
    """Item 1."""
    if not facts.agent_exists:
        raise NotFound("agent", f"there is no agent {facts.agent}; list them with: turnback agent list")
    if not facts.has_repo:
        raise Unsupported(
            "checkpoint_no_repo",
            f"{facts.agent} has no git repository in its scope, so it has no checkpoints; make one with: git init",
        )
    if not facts.checkpoint_exists:
        raise NotFound(
            "checkpoint",
            f"{facts.agent} has no checkpoint {facts.checkpoint}, or it was pruned; list them with: turnback log",
            checkpoint=facts.checkpoint,
        )
    if facts.missing_ref is not None:
        raise NotFound(
            "checkpoint",
            f"the ref of {facts.checkpoint} in {facts.missing_ref} is gone or names another commit, so its files can't be "
            "trusted; choose another checkpoint",
            checkpoint=facts.checkpoint,
            repo=facts.missing_ref,
        )


def _caller(facts: Facts) -> None:
    """Agents as callers (11.4). An agent that asks for itself goes on: item 4 has the better answer."""
    if str(facts.principal) != f"agent:{facts.agent}":
        _may(facts)


def _may(facts: Facts) -> None:
    allowed = may_roll_back(
        facts.principal, facts.agent, facts.descendants, guarded=facts.guarded, dry_run=facts.dry_run
    )
    if not allowed:
        raise agent_caller(facts.principal, facts.agent, guarded=facts.guarded)


def _archived(facts: Facts) -> None:
    """Item 2."""
    if facts.state == "archived":
        raise Conflict(
            "invalid_transition",
            f"{facts.agent} is archived; its checkpoints are ordinary commits, so take what you need with git",
        )


def _handed_over(facts: Facts) -> None:
    """Item 3."""
    if facts.state == "handed_over":
        raise Conflict(
            "handed_over", f"{facts.agent} is handed over to its harness's own interface; take it back first"
        )


def _turn_running(facts: Facts) -> None:
    """Item 4, and then what no agent may do to itself."""
    pending = {
        "turn": "a turn was asked for and hasn't begun",
        "compaction": "a compaction was asked for and hasn't begun",
        "fork": "a fork of it is running",
    }
    why = None
    if facts.state in ("queued", "running", "needs_you"):
        why = f"{facts.agent} is {facts.state.replace('needs_you', 'waiting for you in a turn')}"
    elif facts.pending is not None:
        why = f"{facts.agent}: {pending.get(facts.pending, f'a {facts.pending} is pending')}"
    if why is not None:
        raise Conflict(
            "turn_running",
            f"{why}; stop it or wait for its end, whose checkpoint you can then go back to as well",
        )
    _may(facts)


def rollback_running(owner: str) -> Conflict:
    """``conflict.rollback_running``, also for the verbs that a running rollback keeps out (V-371)."""
    return Conflict(
        "rollback_running", f"a rollback of {owner} is running; wait until it has ended", agent=owner
    )


def _rollback_running(facts: Facts) -> None:
    """Item 5."""
    if facts.rollback_running is not None:
        raise rollback_running(facts.rollback_running)


def _checkpoint_pending(facts: Facts) -> None:
    """Item 6."""
    if facts.checkpoint_pending:
        raise Conflict(
            "checkpoint_pending", f"a checkpoint of {facts.agent} is still being taken; try again in a moment"
        )


def _stale_requests(facts: Facts) -> None:
    """Item 7."""
    if facts.stale_requests:
        requests = list(facts.stale_requests)
        raise Conflict(
            "stale_requests",
            f"{facts.agent} has stale requests ({', '.join(requests)}), planned against the files that would be replaced; "
            "answer them or cancel their turn first",
            requests=requests,
        )


def _live_children(facts: Facts) -> None:
    """Item 8."""
    if facts.live_children:
        children = list(facts.live_children)
        raise Conflict(
            "live_children",
            f"agents that {facts.agent} started are still at work ({', '.join(children)}); stop them first",
            children=children,
        )


def _tree_shared(facts: Facts) -> None:
    """Item 9."""
    if facts.live_sharers:
        agents = list(facts.live_sharers)
        raise Conflict(
            "tree_shared",
            f"other agents are at work in the same tree ({', '.join(agents)}); stop them first",
            agents=agents,
        )


def _git_operation(facts: Facts) -> None:
    """Item 10."""
    for repo, operation in facts.git_operations:
        under_way = "has unmerged paths" if operation == "unmerged" else f"is in the middle of a {operation}"
        raise Conflict(
            "git_operation",
            f"{repo} {under_way}, which belongs to no checkpoint; finish or abort it first",
            repo=repo,
            operation=operation,
        )


def _conversation(facts: Facts) -> None:
    """Item 11."""
    if facts.restore == "all":
        if facts.verdict is None:
            message = "restore=all needs a verdict about the conversation"
            raise ValueError(message)
        conversation.check(facts.verdict, facts.checkpoint)


def _heads(facts: Facts) -> None:
    """Item 12. With ``paths`` HEAD doesn't move."""
    check_heads(facts.heads, keep_head=facts.keep_head or facts.scope is not None)


CHECKS: Final[tuple[Callable[[Facts], None], ...]] = (
    _parameters,
    _grant,
    _exists,
    _caller,
    _archived,
    _handed_over,
    _turn_running,
    _rollback_running,
    _checkpoint_pending,
    _stale_requests,
    _live_children,
    _tree_shared,
    _git_operation,
    _conversation,
    _heads,
)


def outside_edits(conflicts: Mapping[str, Sequence[bytes]]) -> Conflict | None:
    """Item 13: ``conflict.outside_edits`` for the conflicting paths of each repo (``plan.outside_conflicts``), None without any (V-024)."""
    rows = [
        {"repo": repo, "paths": [paths.item(path) for path in found]}
        for repo, found in sorted(conflicts.items())
        if found
    ]
    if not rows:
        return None
    total = sum(len(found) for found in conflicts.values())
    return Conflict(
        "outside_edits",
        f"{total} path{'' if total == 1 else 's'} changed outside the agent's turns; choose --outside=keep or --outside=overwrite",
        repos=rows,
    )


def rollback_stale(checkpoint: str) -> Conflict:
    """``conflict.rollback_stale``: the tree, HEAD or a choice isn't what the plan was made for (V-225, V-436)."""
    return Conflict(
        "rollback_stale",
        "the files, HEAD or a choice differ from what the plan was made for; run the dry run again and look at what it says",
        checkpoint=checkpoint,
    )
