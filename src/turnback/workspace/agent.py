"""One agent: its turns, its checkpoints, its rollbacks. A handle; what is true stands in the log."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, overload

from turnback import ids
from turnback.errors import InvalidParams
from turnback.operations import agents, capture, difference, listing, rollback, turns
from turnback.workspace.turn import Turn

if TYPE_CHECKING:
    import os
    from collections.abc import Sequence

    from turnback.operations.context import Context
    from turnback.operations.results import (
        AgentInfo,
        CheckpointDiff,
        CheckpointList,
        RollbackDone,
        RollbackPlan,
        Taken,
        TurnResult,
    )
    from turnback.workspace.harness import Harness


class Agent:
    """A handle on one agent, acting for the workspace's principal. Cheap; make as many as you like, in any thread.

    Attributes:
        id: the agent's id.
        harness: the adapter to its conversation, None when only files can be rolled back.
    """

    def __init__(self, context: Context, agent_id: str, harness: Harness | None = None) -> None:
        self._context = context
        self.id = agent_id
        self.harness = harness

    def __repr__(self) -> str:
        return f"Agent({self.id!r})"

    # turns

    def turn(self, prompt: str | None = None, *, origin: str = "user") -> Turn:
        """``begin_turn`` under the name that reads well in a ``with`` statement."""
        return self.begin_turn(prompt, origin=origin)

    def begin_turn(self, prompt: str | None = None, *, origin: str = "user") -> Turn:
        """Begin a turn: the agent is running and its files are saved when this returns. Deliver ``Turn.prompt`` then.

        Args:
            prompt: what the model will be told; a pending note is put before it, once. None leaves the note for ``next_prompt``.
            origin: ``user``, or ``harness`` for a turn that the harness began by itself (no capture then, V-072).

        Raises:
            Conflict: ``conflict.turn_running``, ``.invalid_transition``, ``.handed_over``, ``.rollback_running``.
        """
        return Turn(self._context, turns.begin(self._context, self.id, prompt, origin))

    def running_turn(self) -> Turn | None:
        """The turn that is running, as another process may have begun it; None when there is none."""
        found = turns.running(self._context, self.id)
        return None if found is None else Turn(self._context, found)

    def next_prompt(self, text: str) -> str:
        """A prompt with the pending note before it, once. ``begin_turn`` does the same by itself."""
        return agents.next_prompt(self._context, self.id, text)

    # checkpoints

    def checkpoint(self, label: str | None = None) -> Taken:
        """Take a checkpoint now, or reuse the latest one when nothing differs (a label is then set on that one).

        Raises:
            Failed, TimedOut: the capture failed; it is logged.
            Unsupported: ``unsupported.checkpoint_no_repo``.
            Conflict: ``conflict.invalid_transition``: the agent is archived.
        """
        return capture.manual(self._context, self.id, label)

    def checkpoints(
        self, *, turn: str | None = None, before: str | None = None, limit: int = 50
    ) -> CheckpointList:
        """The agent's checkpoints, newest first.

        Args:
            turn: only those of this turn.
            before: only those older than this checkpoint.
            limit: at most so many.
        """
        return listing.checkpoints(
            self._context, self.id, turn=turn, before=before, limit=limit, harness=self.harness
        )

    def checkpoint_diff(
        self,
        from_: str,
        to: str | None = None,
        *,
        repo: str | None = None,
        path: str | bytes | os.PathLike[str] | None = None,
    ) -> CheckpointDiff:
        """What changed from one checkpoint to another, or to the current files (``to=None``). With ``path`` also its patch.

        Raises:
            NotFound: ``not_found.checkpoint``, ``not_found.repo``.
            InvalidParams: ``invalid_params.path``, ``.repo``.
        """
        return difference.between(self._context, self.id, from_, to, repo, path)

    # rollback

    @overload
    def rollback(
        self,
        checkpoint: str,
        *,
        dry_run: Literal[True],
        restore: str = "all",
        outside: str | None = None,
        keep_head: bool = False,
    ) -> RollbackPlan: ...

    @overload
    def rollback(
        self,
        checkpoint: str,
        *,
        plan: str,
        restore: str = "all",
        outside: str | None = None,
        keep_head: bool = False,
    ) -> RollbackDone: ...

    def rollback(
        self,
        checkpoint: str,
        *,
        dry_run: bool = False,
        plan: str | None = None,
        restore: str = "all",
        outside: str | None = None,
        keep_head: bool = False,
    ) -> RollbackPlan | RollbackDone:
        """Go back to a checkpoint, in two calls: a dry run that shows a plan, and a real call that quotes it.

        Args:
            checkpoint: ``k<n>``.
            dry_run: only say what would change; changes nothing and logs nothing.
            plan: the plan of the dry run that somebody has seen.
            restore: ``all`` for files and conversation, ``files`` for files alone.
            outside: what happens to paths that somebody else changed: ``refuse`` (guarded trees), ``keep`` or ``overwrite``.
            keep_head: leave HEAD, the branch and the index where they are.

        Raises:
            TurnbackError: every code of contract 11.3 that concerns a rollback; nothing has changed then, except as
                ``failed.rollback_partial`` says.
        """
        if restore not in ("all", "files"):
            raise InvalidParams(
                "restore", f"{restore!r} is no choice; restore all (files and conversation) or files"
            )
        if outside not in (None, "refuse", "keep", "overwrite"):
            raise InvalidParams("outside", f"{outside!r} is no choice; it is refuse, keep or overwrite")
        request = rollback.Request(
            agent=self.id,
            checkpoint=ids.parse_checkpoint(checkpoint),
            restore=restore,
            outside=outside,
            keep_head=keep_head,
        )
        rollback.check_call(dry_run=dry_run, plan=plan)
        if plan is None:
            return rollback.dry_run(self._context, request, self.harness)
        return rollback.run(self._context, request, ids.parse_plan(plan), self.harness)

    # facts that the host knows

    def show(self) -> AgentInfo:
        """The agent as the log has it now."""
        return agents.info(self._context, self.id)

    def set_state(self, state: str) -> None:
        """Tell a state that only the host knows: ``queued``, ``needs_you``, ``handed_over``, ``settled``, ``failed``.

        While a turn runs it can only be ``running`` or ``needs_you``: end the turn first.

        Raises:
            InvalidParams: ``invalid_params.state``.
            Conflict: ``conflict.invalid_transition``, ``.turn_running``, ``.rollback_running``.
        """
        agents.set_state(self._context, self.id, state)

    def set_stale_requests(self, requests: Sequence[str]) -> None:
        """Tell which requests to a person are stale; a rollback waits until there are none."""
        agents.set_stale_requests(self._context, self.id, requests)

    def archive(self) -> None:
        """The agent does nothing more. Its checkpoints stay listed; it no longer counts as using its trees.

        Raises:
            Conflict: as ``set_state``.
        """
        agents.set_state(self._context, self.id, "archived")

    def end_turn(
        self, reason: str = "completed", *, harness_turn: str | None = None, harness_end: str | None = None
    ) -> TurnResult:
        """End whatever turn is running.

        Raises:
            NotFound: ``not_found.turn``: none is.
        """
        return turns.end_running(self._context, self.id, reason, harness_turn, harness_end)
