"""``turnback undo``: the same rollback for a person in a hurry, who sees the plan and is asked before anything is written.

Whatever a person answers is an answer to a plan on the screen. Where there is no terminal nothing is guessed: the plan is shown with the exact
command that would carry it out, and the command ends with an error.
"""

from __future__ import annotations

import argparse
from typing import TYPE_CHECKING, Any

from turnback.cli import points
from turnback.cli.cmd_rollback import real_call, undisturbed
from turnback.cli.options import agent_option, boolean, text
from turnback.cli.render import error_lines, visible
from turnback.cli.render_list import cut_off_lines
from turnback.cli.render_plan import done_lines, is_empty, plan_lines
from turnback.errors import Conflict, Unsupported

if TYPE_CHECKING:
    from turnback.cli.options import Verbs
    from turnback.cli.session import Session
    from turnback.workspace import Agent

_OUTSIDE = {"keep": "keep", "overwrite": "overwrite", "quit": "quit"}


def register(verbs: Verbs) -> None:
    """Add ``undo``."""
    undo = verbs.add_parser(
        "undo",
        help="go back to a checkpoint, after showing the plan and asking",
        description="Go back to a checkpoint; without one, to the files as they were before the agent's last turn. Shows the plan and asks before "
        "anything is written. What is undone is itself saved first, and can be brought back the same way.",
    )
    agent_option(undo, required=False)
    undo.add_argument("checkpoint", nargs="?", type=text, metavar="K", help="where to go back to")
    undo.add_argument(
        "--outside",
        choices=("refuse", "keep", "overwrite"),
        help="paths changed outside the agent's turns; you are asked when it matters",
    )
    boolean(undo, "--keep-head", "leave HEAD, the branch and the index where they are")
    undo.set_defaults(run=_undo)


def _undo(args: argparse.Namespace, session: Session) -> None:
    agent = session.choose(args.agent)
    if not session.as_json:
        session.terminal.say(cut_off_lines(agent.show().to_dict(), session.command))
    choice = argparse.Namespace(
        agent=agent.id,
        checkpoint=args.checkpoint or points.before_last_turn(session.workspace, agent),
        restore="all" if agent.harness is not None and agent.harness.can_rewind else "files",
        outside=args.outside,
        keep_head=args.keep_head,
    )
    while True:
        plan = _agreed_choices(agent, choice, session)
        told = plan.to_dict()
        if not session.as_json:
            session.terminal.say(plan_lines(told, session.terminal))
        if is_empty(told):
            session.show(plan, ["There is nothing to undo."])
            return
        _confirm(choice, session, told)
        try:
            with undisturbed():
                done = agent.rollback(choice.checkpoint, plan=plan.plan, **_members(choice))
        except Conflict as error:
            # Outside edits made while the question stood are refused before the plan is compared.
            if not session.interactive or error.code not in (
                "conflict.rollback_stale",
                "conflict.outside_edits",
            ):
                raise
            session.terminal.say("The files have changed since that plan was made. This is the new one:")
            continue
        session.show(done, done_lines(done.to_dict(), session.terminal))
        return


def _agreed_choices(agent: Agent, choice: argparse.Namespace, session: Session) -> Any:
    """A dry run; where it is refused for want of a choice, the choice is asked for and made. Gives the plan."""
    while True:
        try:
            return agent.rollback(choice.checkpoint, dry_run=True, **_members(choice))
        except Unsupported as error:
            if error.code != "unsupported.harness_capability" or not session.interactive:
                raise
            choice.restore = "files"
            session.terminal.say(
                "The conversation can't be taken back, so only the files are; the agent will be told."
            )
        except Conflict as error:
            if error.code == "conflict.checkpoint_files_only" and session.interactive:
                choice.restore = "files"
                session.terminal.say(
                    "This checkpoint has no conversation, so only the files go back; the agent will be told."
                )
            elif error.code == "conflict.outside_edits" and session.interactive:
                choice.outside = _ask_outside(error, session)
            else:
                raise


def _ask_outside(error: Conflict, session: Session) -> str:
    session.terminal.say("Somebody changed these paths outside the agent's turns:")
    session.terminal.say(list(error_lines(error))[1:])
    answer = session.terminal.choose(
        "Keep them as they are (default), overwrite them, or quit? [K/o/q] ", _OUTSIDE, "keep"
    )
    if answer == "quit":
        raise _not_confirmed("nothing was changed") from None
    return answer


def _confirm(choice: argparse.Namespace, session: Session, plan: dict[str, Any]) -> None:
    """Return when a person has agreed to the plan that is on the screen.

    Raises:
        Conflict: ``conflict.not_confirmed``: they did not, or there is no terminal to ask at.
    """
    if session.interactive:
        if session.terminal.choose("Do this? [y/N] ", points.YES_NO, "no") != "yes":
            raise _not_confirmed("nothing was changed")
        return
    command = real_call(choice, session, plan["plan"])
    why = "nothing was changed, since there is no terminal to confirm the plan at; to do exactly this:"
    raise _not_confirmed("\n".join((why, visible(command))), plan=plan, command=command)


def _not_confirmed(message: str, **data: Any) -> Conflict:
    return Conflict("not_confirmed", message, **data)


def _members(choice: argparse.Namespace) -> dict[str, Any]:
    return {"restore": choice.restore, "outside": choice.outside, "keep_head": choice.keep_head}
