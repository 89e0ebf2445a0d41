"""One running turn of an agent."""

from __future__ import annotations

from typing import TYPE_CHECKING, Self

from turnback.errors import TurnbackError
from turnback.operations import turns

if TYPE_CHECKING:
    import os
    from types import TracebackType

    from turnback.operations.context import Context
    from turnback.operations.results import CaptureFailure, TurnResult


class Turn:
    """A turn that has begun. As a context manager it ends with the block: ``completed``, or ``failed`` when the block raised.

    Attributes:
        agent: the agent's id.
        id: the turn's id, ``t<n>``.
        prompt: what to deliver to the model: the prompt given, after the pending note if there was one (V-348); None when none was given.
        checkpoint: the ``turn_start`` checkpoint, None when the capture failed, is off, or the harness began the turn, and on a handle
            that ``Agent.running_turn`` gave.
        reused: whether that is an earlier checkpoint whose state is the same.
        capture_failed: why that capture failed.
        ended: what ``end`` gave, once it was called on this object.

    Threads may share one; of two that end it, one gets ``not_found.turn``.
    """

    def __init__(self, context: Context, began: TurnResult) -> None:
        self._context = context
        self.agent = began.agent
        self.id = began.turn
        self.prompt: str | None = began.prompt
        self.checkpoint: str | None = began.checkpoint
        self.reused: bool | None = began.reused
        self.capture_failed: CaptureFailure | None = began.capture_failed
        self.ended: TurnResult | None = None

    def edited(self, *paths: str | bytes | os.PathLike[str], repo: str | None = None) -> None:
        """Note that a tool call named these paths: relative to the repository's tree, or absolute inside it.

        Args:
            paths: the paths.
            repo: the repository; None for the agent's only one, or the one that an absolute path lies in.

        Raises:
            InvalidParams: ``invalid_params.path``: a path lies outside the tree; nothing is noted then. ``invalid_params.repo``: it takes
                a repository to know which file is meant.
            NotFound: ``not_found.repo``, ``not_found.turn`` when the turn has ended.
        """
        turns.edited(self._context, self.agent, self.id, paths, repo)

    def end(
        self, reason: str = "completed", *, harness_turn: str | None = None, harness_end: str | None = None
    ) -> TurnResult:
        """End the turn and save its files. Ending twice is an error; the context manager leaves an ended turn alone.

        Args:
            reason: ``completed``, ``interrupted``, ``failed`` or ``limit``.
            harness_turn: the harness's own id of the turn.
            harness_end: the harness's id of the turn's last message.

        Raises:
            NotFound: ``not_found.turn``: it has ended.
        """
        self.ended = turns.end(self._context, self.agent, self.id, reason, harness_turn, harness_end)
        return self.ended

    def __repr__(self) -> str:
        return f"Turn({self.agent!r}, {self.id!r})"

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self.ended is not None:
            return
        reason = "completed" if kind is None else "failed" if issubclass(kind, Exception) else "interrupted"
        try:
            self.end(reason)
        except TurnbackError as failure:
            if failure.code == "not_found.turn":
                return  # somebody else ended it: another process, or ``Agent.end_turn``
            if error is None:
                raise
            # What the block raised is the news; that the end isn't in the log is told beside it.
            error.add_note(
                f"the end of turn {self.id} of {self.agent} could not be recorded: {failure.message}"
            )
