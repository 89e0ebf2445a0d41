"""Go back to a checkpoint: the dry run that makes a plan, and the real call that quotes it (section 7).

Both go through one ``_prepare``, so what was shown and what is done can't come apart: the plan is a digest of the choices and of every
tree's present state, and nothing is kept between the calls. The real call then follows the contract's seven steps in order; the
step functions stand below in that order. Nothing is written before the safety checkpoint and the log are on disk.
"""

from __future__ import annotations

from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from turnback.errors import Conflict, Failed
from turnback.gitstore import stores
from turnback.operations import capture, checks, leftovers, listing, planning, recovery
from turnback.operations.changeover import Changeover, sync_once
from turnback.operations.outcome import ignored_edits, repo_result
from turnback.operations.results import (
    ConversationResult,
    RepoResult,
    RollbackDone,
    RollbackPlan,
)
from turnback.operations.wayback import Attempt, log_quietly, take_back
from turnback.policy import conversation as talk
from turnback.policy import plan as planned
from turnback.policy import preflight
from turnback.policy.heads import head_move
from turnback.records.events import Record

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.conversation import Verdict
    from turnback.policy.heads import HeadMove
    from turnback.policy.preflight import Facts
    from turnback.records.events import CheckpointRow
    from turnback.records.state import AgentState, State


class Conversational(Protocol):
    """What a rollback asks of an agent's adapter (``turnback.workspace.Harness`` has the words)."""

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether ``rewind`` works."""
        ...

    @property
    def needs(self) -> str | None:
        """Which id of a turn ``rewind`` needs."""
        ...

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        """Make a copy of the conversation through one turn and give its id."""
        ...


@dataclass(frozen=True, slots=True)
class Request:
    """One call's choices, checked."""

    agent: str
    checkpoint: str
    restore: str
    outside: str | None
    keep_head: bool


@dataclass(frozen=True, slots=True)
class _Prepared:
    """All that both calls need: what was found, what would happen, and its digest."""

    agent: AgentState
    row: CheckpointRow
    facts: Facts
    parts: list[TreePlan]
    moves: dict[str, HeadMove]
    verdict: Verdict
    plan: str
    ignored: dict[str, list[bytes]]
    shared_with: tuple[str, ...]
    children: tuple[str, ...]


def _conversation(request: Request, verdict: Verdict, session: str | None) -> ConversationResult:
    if request.restore == "files":
        return ConversationResult(rewinds=False, through_turn=verdict.through_turn, drops=())
    return ConversationResult(verdict.rewinds, verdict.through_turn, tuple(verdict.drops), session)


def _repos(ready: _Prepared, changeover: Changeover | None = None) -> tuple[RepoResult, ...]:
    return tuple(
        repo_result(part, ready.moves[part.repo], ready.ignored[part.repo], changeover)
        for part in ready.parts
    )


def check_call(*, dry_run: bool, plan: str | None) -> None:
    """Refuse a call with both or neither of ``dry_run`` and ``plan`` (V-397).

    Raises:
        InvalidParams: ``invalid_params.plan``.
    """
    preflight.check_call(dry_run, plan)


def dry_run(context: Context, request: Request, harness: Conversational | None) -> RollbackPlan:
    """Say what a rollback would do. Writes objects that no ref holds, and nothing else; logs nothing (V-417)."""
    with _holding(context, request, harness, None):
        ready = _prepare(context, request, harness, None)
        return RollbackPlan(
            agent=request.agent,
            checkpoint=request.checkpoint,
            dry_run=True,
            plan=ready.plan,
            restore=request.restore,
            guarded=ready.facts.guarded,
            conversation=_conversation(request, ready.verdict, None),
            shared_with=ready.shared_with,
            children=ready.children,
            repos=_repos(ready),
        )


def run(context: Context, request: Request, plan: str, harness: Conversational | None) -> RollbackDone:
    """Do what the plan says, if it is still the plan (7.4).

    Raises:
        Conflict: ``conflict.rollback_stale``, and every conflict of the preflight; nothing has changed. ``conflict.index_locked``,
            ``conflict.branch_locked``: another git command is at work where HEAD would move; nothing has changed either.
        Failed: ``failed.rollback_undone``, ``failed.rollback_partial``.
    """
    with _holding(context, request, harness, plan):
        ready = _prepare(context, request, harness, plan)
        if ready.plan != plan:
            raise preflight.rollback_stale(request.checkpoint)
        _put_away(context, request.agent)
        with Changeover(context, request.agent, ready.parts, ready.moves) as changeover:
            safety = _make_safe(context, ready)
            try:
                _start(context, request, safety, changeover)
                session = _rewind(ready, harness)
                changeover.apply(safety)
                after, exact = _look_again(context, request, ready, changeover)
                _commit(context, request, ready, safety, after, session, changeover)
            except BaseException as error:
                attempt = Attempt(request.agent, request.checkpoint, request.restore, safety)
                failed = take_back(context, attempt, changeover, error)
                if failed is error:
                    raise
                raise failed from error
            changeover.over = True
            told = len(changeover.kept)
            changeover.finish()
            late = [kept for kept in changeover.kept[told:] if not kept.open]
            log_quietly(context, leftovers.tell(request.agent, late))
        return RollbackDone(
            agent=request.agent,
            checkpoint=request.checkpoint,
            dry_run=False,
            restore=request.restore,
            safety=safety,
            after=after,
            exact=exact and not changeover.changed,
            conversation=_conversation(request, ready.verdict, session),
            shared_with=ready.shared_with,
            children=ready.children,
            repos=_repos(ready, changeover),
        )


@contextmanager
def _holding(
    context: Context, request: Request, harness: Conversational | None, plan: str | None
) -> Iterator[None]:
    """Hold the agent and its trees; when somebody else holds the agent, the preflight says what that means (7.1, 5 and 6).

    What the system refuses inside comes out as ``failed.checkpoint_git``: whatever was begun has been taken back by then.
    """
    try:
        agent = context.state().agents.get(request.agent)
        if agent is None:
            preflight.preflight(checks.gather(context, request, harness, plan=plan, busy=None))
            raise AssertionError("an agent that doesn't exist passed the preflight")
        context.make_folders()
        lock = context.agent_lock(agent.id)
        busy = None
        if lock.try_acquire():
            lock.release()
        else:
            busy = "rollback" if context.state().agent(agent.id).rollback is not None else "capture"
        preflight.preflight(checks.gather(context, request, harness, plan=plan, busy=busy))
        with context.holding(agent, agent.trees, context.config.checkpoints.timeout_seconds):
            yield
    except OSError as error:
        message = f"the rollback could not begin: {error}; nothing has changed"
        raise Failed("checkpoint_git", message, reason=str(error)) from error


def _prepare(
    context: Context, request: Request, harness: Conversational | None, plan: str | None
) -> _Prepared:
    """Preflight 1 to 12, then S, then 13, then the digest (X-01). The locks are held."""
    facts = checks.gather(context, request, harness, plan=plan, busy=None)
    preflight.preflight(facts)
    agent = context.state().agent(request.agent)
    row = agent.checkpoints[request.checkpoint]
    wanted = {repo["repo"]: repo for repo in row["repos"]}
    captured = [
        one for one in capture.store(context, agent, capture.limits(context)) if one.tree["repo"] in wanted
    ]
    gone = wanted.keys() - {one.tree["repo"] for one in captured}
    if gone:
        repo = min(gone)
        reason = f"{repo} is no longer a repository of {agent.id}"
        raise Failed(
            "checkpoint_git", f"{reason}, so {request.checkpoint} can't be restored", repo=repo, reason=reason
        )
    heads = {head.repo: head.now_head for head in facts.heads}
    if any(one.snapshot.head.commit != heads[one.tree["repo"]] for one in captured):
        raise preflight.rollback_stale(
            request.checkpoint
        )  # HEAD moved between the look at it and the capture
    parts = [
        planning.plan_tree(
            context,
            agent.id,
            row,
            wanted[one.tree["repo"]],
            one,
            checks.choices(context, request, agent, row, wanted[one.tree["repo"]]),
        )
        for one in captured
    ]
    refused = preflight.outside_edits({part.repo: part.plan.conflicts for part in parts})
    if refused is not None:
        raise refused
    with context.reading() as state:
        shared_with = tuple(sorted(other.id for other in state.sharers(agent.id)))
        children = tuple(sorted(child.id for child in state.descendants(agent.id) if not child.archived))
    return _Prepared(
        agent=agent,
        row=row,
        facts=facts,
        parts=parts,
        moves={head.repo: head_move(head, keep_head=request.keep_head) for head in facts.heads},
        verdict=listing.verdict(agent, row, harness),
        plan=_digest(request, parts),
        ignored={part.repo: ignored_edits(context, agent.id, row, part) for part in parts},
        shared_with=shared_with,
        children=children,
    )


def _digest(request: Request, parts: Sequence[TreePlan]) -> str:
    states = [(part.repo, part.captured.snapshot.tree, part.captured.snapshot.head.commit) for part in parts]
    raw = {
        part.repo: planned.raw_hash((item.path, item.sha256) for item in part.captured.snapshot.raw)
        for part in parts
    }
    return planned.digest(
        request.checkpoint, request.restore, request.outside, request.keep_head, states, None, raw
    )


def _put_away(context: Context, agent: str) -> None:
    """Record an earlier rollback of this agent that was cut off, and put away what it left, also in the trees: somebody asked now."""
    recovery.end_interrupted(context, agent)
    leftovers.clear_locks(context, agent)
    context.log.append(leftovers.tell(agent, leftovers.clear(context, agent, in_tree=True)))


def _make_safe(context: Context, ready: _Prepared) -> str:
    """Step 2: the safety checkpoint from S, on disk before anything is written (V-036, V-253, DESIGN 10.2)."""
    captured = [part.captured for part in ready.parts]
    taken = capture.publish(context, ready.agent, captured, capture.Moment("pre_rollback"), durable=True)
    if any(part.plan.steps for part in ready.parts) or any(move.moves for move in ready.moves.values()):
        try:
            sync_once(
                folder
                for part in ready.parts
                for folder in (part.repository.git_dir, *stores.folders(part.repository), context.state_dir)
            )
        except OSError as error:
            raise Failed(
                "checkpoint_git",
                f"the safety checkpoint {taken.checkpoint} can't be made sure of: {error}; nothing was rolled back",
                reason=str(error),
            ) from error
    return taken.checkpoint


def _still_idle(state: State, request: Request) -> None:
    """The last look, under the log's lock: a turn that began since the preflight wins, and from here on none can begin."""
    agent = state.agent(request.agent)
    if agent.live:
        raise Conflict(
            "turn_running",
            f"{agent.id} began a turn meanwhile; nothing was rolled back. Try again when it has ended",
        )
    live = sorted(other.id for other in state.sharers(agent.id) if other.live)
    if live:
        raise Conflict(
            "tree_shared",
            f"other agents are at work in the same tree meanwhile ({', '.join(live)}); nothing was rolled back",
            agents=live,
        )


def _start(context: Context, request: Request, safety: str, changeover: Changeover) -> None:
    """Log ``rollback.started``, on disk before anything is written; what only an index holds is named there."""
    repos = []
    for tree in changeover.trees:
        row: dict[str, Any] = {
            "repo": tree.part.repo,
            "path": tree.part.target["path"],
            "tree": tree.part.captured.snapshot.tree,
            "target": tree.part.target["tree"],
        }
        if tree.index_sha256 is not None:
            row["index"] = {"sha256": tree.index_sha256, "staged": tree.staged}
        repos.append(row)
    data = {
        "agent": request.agent,
        "checkpoint": request.checkpoint,
        "safety": safety,
        "restore": request.restore,
        "outside": request.outside,
        "keep_head": request.keep_head,
        "repos": repos,
    }
    context.log.append(
        [Record("rollback.started", data)], check=lambda state: _still_idle(state, request), durable=True
    )


def _rewind(ready: _Prepared, harness: Conversational | None) -> str | None:
    """Step 3: a copy of the conversation through the checkpoint's turn, if a turn is dropped; nothing refers to it yet (V-255)."""
    if (
        ready.facts.restore != "all"
        or not ready.verdict.needs_adapter
        or harness is None
        or ready.verdict.through_turn is None
    ):
        return None
    turn = ready.agent.turns[ready.verdict.through_turn]
    session = (ready.agent.binding or {}).get("harness_session")
    return harness.rewind(
        session=session, through_turn=turn.turn, harness_turn=turn.harness_turn, harness_end=turn.harness_end
    )


def _look_again(
    context: Context, request: Request, ready: _Prepared, changeover: Changeover
) -> tuple[str, bool]:
    """Step 6: capture what came out, and compare it with what should have (V-258)."""
    agent = context.state().agent(request.agent)
    wanted = {part.repo: part for part in ready.parts}
    captured = [
        one for one in capture.store(context, agent, capture.limits(context)) if one.tree["repo"] in wanted
    ]
    through = ready.row["through_turn"] if request.restore == "all" else agent.through_turn
    taken = capture.publish(
        context, agent, captured, capture.Moment("rollback", through_turn=through), durable=True
    )
    exact = True
    for one in captured:
        tree, expected = changeover.expected(one.tree["repo"])
        raw = {item.path: item.sha256 for item in one.snapshot.raw}
        # S's raw bytes may be more than these: the index may vouch for files now that it didn't before, and nothing reads those.
        differs = any(raw.get(path, sha256) != sha256 for path, sha256 in expected.items())
        exact = exact and one.snapshot.tree == tree and not differs
    return taken.checkpoint, exact


def _commit(
    context: Context,
    request: Request,
    ready: _Prepared,
    safety: str,
    after: str,
    session: str | None,
    changeover: Changeover,
) -> None:
    """Step 7: the end, the dropped turns, the new binding and the notes, in one commit of the log (V-259)."""
    verdict = ready.verdict
    drops = list(verdict.drops) if request.restore == "all" else []
    data: dict[str, Any] = {
        "agent": request.agent,
        "checkpoint": request.checkpoint,
        "safety": safety,
        "restore": request.restore,
        "ok": True,
        "after": after,
        "drops": drops,
        "expected": changeover.expected_rows(),
    }
    if changeover.kept:
        data["kept"] = [kept.to_dict() for kept in changeover.kept]
    records = [Record("rollback.ended", data)]
    if drops:
        records.append(
            Record("turn.dropped", {"agent": request.agent, "turns": drops, "by": request.checkpoint})
        )
        records.append(Record("agent.binding", {"agent": request.agent, "harness_session": session}))
    told = [*ready.shared_with] if request.restore == "all" else [request.agent, *ready.shared_with]
    if told:
        note = talk.rollback_note(context.config.checkpoints.rollback_note, ready.row["through_turn"])
        records.append(Record("note.pending", {"agents": told, "text": note}))
    context.log.append(records, durable=True)
