"""When a rollback fails: everything is taken back, looked at once more, and recorded as what it is (7.6).

Nothing here needs room on the disk, since a full one is the likeliest cause: the way back is made of renames, and the last look reads.

The log decides whether there is anything to take back: once it has the rollback's end, the rollback is done, whatever comes after.
"""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnback import paths
from turnback.errors import Failed, TurnbackError
from turnback.records.events import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from turnback.operations.changeover import Changeover, Undone
    from turnback.operations.context import Context


@dataclass(frozen=True, slots=True)
class Attempt:
    """A rollback that has its safety checkpoint, as ``rollback.ended`` names it."""

    agent: str
    checkpoint: str
    restore: str
    safety: str


def take_back(
    context: Context, attempt: Attempt, changeover: Changeover, error: BaseException
) -> BaseException:
    """Take everything back, record how it ended, and give the error to raise.

    What came before the first write (the harness refused, say) is given as it is, and so is what is no error (Ctrl-C).
    """
    started = _started(context, attempt)
    if started is False:
        changeover.over = True
        return error
    result = None
    if changeover.began:
        reason = error.message if isinstance(error, TurnbackError) else f"{type(error).__name__}: {error}"
        states = changeover.undo()
        result = _outcome(reason, states, attempt.safety, same=changeover.is_as_before())
    changeover.over = True
    changeover.finish()
    _record(context, attempt, changeover, error, result, started=started is not None)
    return error if result is None or not isinstance(error, Exception) else result


def log_quietly(context: Context, records: Sequence[Record]) -> None:
    """Log something after which nothing may fail any more: what the log can't take is missing there, and the next open says so."""
    with suppress(TurnbackError):
        context.log.append(records, durable=True)


def _started(context: Context, attempt: Attempt) -> bool | None:
    """Whether the log says that the rollback runs: False when it has the end already, None when it doesn't even have the beginning."""
    try:
        with context.reading() as state:
            running = state.agent(attempt.agent).rollback
            if running is not None and running["safety"] == attempt.safety:
                return True
            ended = any(
                row["agent"] == attempt.agent and row["safety"] == attempt.safety
                for row in reversed(state.rollbacks)
            )
            return False if ended else None
    except TurnbackError:
        return True  # it can't be read now; if it can't be written either, the next open finds the beginning without an end


def _outcome(reason: str, states: Mapping[str, Undone], safety: str, *, same: bool) -> TurnbackError:
    """``failed.rollback_undone`` when everything is as it was, else ``failed.rollback_partial``, which says what isn't."""
    if same and all(state.complete for state in states.values()):
        touched = [repo for repo, state in states.items() if state.touched]
        error = Failed(
            "rollback_undone",
            f"the rollback failed ({reason}) and was taken back: the files, HEAD and the index are as they were",
            repo=(touched or list(states))[-1],
        )
        error.data["reason"] = reason
        return error
    return Failed(
        "rollback_partial",
        f"the rollback failed ({reason}), and taking it back didn't work everywhere; {safety} holds the files as they were: "
        f"roll back to it with --checkpoint={safety} --restore=files",
        repos=[_row(repo, state) for repo, state in states.items()],
        safety=safety,
    )


def _row(repo: str, state: Undone) -> dict[str, Any]:
    row: dict[str, Any] = {"repo": repo, "state": "unchanged" if not state.touched else "undone"}
    if not state.complete:
        row["state"] = "mixed"
    if state.lost:
        row["paths"] = [paths.item(path) for path in sorted(set(state.lost))]
    return row


def _record(
    context: Context,
    attempt: Attempt,
    changeover: Changeover,
    error: BaseException,
    result: TurnbackError | None,
    *,
    started: bool,
) -> None:
    cause = result if result is not None else error
    data: dict[str, Any] = {
        "agent": attempt.agent,
        "checkpoint": attempt.checkpoint,
        "safety": attempt.safety,
        "restore": attempt.restore,
        "ok": False,
        "code": cause.code if isinstance(cause, TurnbackError) else "failed.rollback_undone",
    }
    if changeover.kept:
        data["kept"] = [kept.to_dict() for kept in changeover.kept]
        if result is not None:
            result.data["kept"] = data["kept"]
    if started:
        log_quietly(context, [Record("rollback.ended", data)])
