"""``turnback turn begin|edited|end``: what a harness calls around each turn.

A failed capture never stops a turn: it is told on the error stream and in ``capture_failed``, and the command still ends with 0.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from turnback.cli.options import agent_option, text
from turnback.cli.render import count, visible
from turnback.errors import InvalidParams, NotFound

if TYPE_CHECKING:
    import argparse

    from turnback.cli.options import Verbs
    from turnback.cli.session import Session


def register(verbs: Verbs) -> None:
    """Add the verbs below ``turn``."""
    begin = verbs.add_parser(
        "begin",
        help="begin a turn: its files are saved when this returns",
        description="Begin a turn and save the files as they are. Deliver the prompt to the model when this has returned; where the result "
        "has a prompt of its own, deliver that one: a note about a rollback stands before yours.",
    )
    agent_option(begin)
    begin.add_argument("--prompt", type=text, metavar="TEXT", help="what the model will be told")
    begin.add_argument(
        "--origin",
        choices=("user", "harness"),
        default="user",
        help="harness: the harness began the turn by itself, so nothing is saved at its start",
    )
    begin.set_defaults(run=_begin)

    edited = verbs.add_parser(
        "edited",
        help="note that a tool call named these paths",
        description="Note which paths an edit tool named in the running turn. It is what tells an agent's edits from a command's.",
    )
    agent_option(edited)
    edited.add_argument(
        "--repo", type=text, default=".", metavar="PATH", help="the repository, relative to the workspace"
    )
    edited.add_argument(
        "paths",
        nargs="*",
        metavar="PATH",
        help="relative to the repository, or absolute inside it; any bytes; write -- before the first",
    )
    edited.set_defaults(run=_edited)

    end = verbs.add_parser("end", help="end the running turn and save its files")
    agent_option(end)
    end.add_argument(
        "--reason",
        choices=("completed", "interrupted", "failed", "limit"),
        default="completed",
        help="why it ended (default: completed)",
    )
    end.add_argument("--harness-turn", type=text, metavar="ID", help="the harness's own id of the turn")
    end.add_argument(
        "--harness-end", type=text, metavar="ID", help="the harness's id of the turn's last message"
    )
    end.set_defaults(run=_end)


def _begin(args: argparse.Namespace, session: Session) -> None:
    turn = session.agent(args.agent).begin_turn(args.prompt, origin=args.origin)
    result = _members(turn.agent, turn.id, turn.checkpoint, turn.reused, turn.capture_failed)
    if turn.prompt != args.prompt:
        result["prompt"] = turn.prompt
    session.show(result, _lines(result, "began"))
    _tell_failure(session, result)


def _edited(args: argparse.Namespace, session: Session) -> None:
    if not args.paths:
        raise InvalidParams("path", "no path was named; write them after --")
    agent = session.agent(args.agent)
    turn = agent.running_turn()
    if turn is None:
        raise NotFound("turn", f"no turn of {agent.id} is running; edits belong to a running turn")
    turn.edited(*map(os.fsencode, args.paths), repo=args.repo)
    result = {"agent": agent.id, "turn": turn.id, "edited": len(args.paths)}
    session.show(result, [f"{count(len(args.paths), 'edit')} noted in {turn.id} of {agent.id}"])


def _end(args: argparse.Namespace, session: Session) -> None:
    ended = session.agent(args.agent).end_turn(
        args.reason, harness_turn=args.harness_turn, harness_end=args.harness_end
    )
    result = ended.to_dict()
    session.show(ended, _lines(result, "ended"))
    _tell_failure(session, result)


def _members(
    agent: str, turn: str, checkpoint: str | None, reused: bool | None, failure: Any
) -> dict[str, Any]:
    result: dict[str, Any] = {"agent": agent, "turn": turn}
    if checkpoint is not None:
        result["checkpoint"] = checkpoint
    if reused is not None:
        result["reused"] = reused
    if failure is not None:
        result["capture_failed"] = failure.to_dict()
    return result


def _lines(result: dict[str, Any], verb: str) -> list[str]:
    checkpoint = result.get("checkpoint")
    if checkpoint is None:
        saved = "nothing was saved"
    elif result.get("reused"):
        saved = f"the files are as in {checkpoint}"
    else:
        saved = f"saved as {checkpoint}"
    lines = [f"{result['turn']} of {result['agent']} {verb}; {saved}"]
    if "prompt" in result:
        lines += ["Deliver this prompt:", *(visible(line) for line in result["prompt"].split("\n"))]
    return lines


def _tell_failure(session: Session, result: dict[str, Any]) -> None:
    failure = result.get("capture_failed")
    if failure is not None and not session.as_json:
        session.terminal.warn(
            f"turnback: the files were not saved, and the work goes on: {visible(failure['message'])} [{failure['code']}]"
        )
