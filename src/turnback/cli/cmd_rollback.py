"""``turnback agent rollback``: two calls, a dry run that shows a plan and a real call that quotes it.

There is no third way: without the plan of a dry run nothing is written, and there is no option that says yes in advance. While the
real call writes, a key press for an interrupt is ignored: stopping halfway would be worse than waiting.
"""

from __future__ import annotations

import signal
from contextlib import contextmanager
from typing import TYPE_CHECKING

from turnback.cli.options import agent_option, boolean, text
from turnback.cli.render_plan import done_lines, plan_lines
from turnback.errors import InvalidParams

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from turnback.cli.options import Verbs
    from turnback.cli.session import Session


def register(verbs: Verbs) -> None:
    """Add ``agent rollback``."""
    rollback = verbs.add_parser(
        "rollback",
        help="go back to a checkpoint: first --dry-run, then --plan",
        description="Go back to a checkpoint. The dry run shows what would happen and gives a plan; the real call quotes that plan and does exactly "
        "this, or refuses when the files have changed since. In a folder that a person may work in, only a person makes the real call.",
    )
    agent_option(rollback)
    rollback.add_argument("--checkpoint", required=True, type=text, metavar="K", help="where to go back to")
    choices(rollback)
    boolean(rollback, "--dry-run", "only say what would change, and give the plan")
    rollback.add_argument("--plan", type=text, metavar="PLAN", help="the plan of the dry run")
    rollback.set_defaults(run=_rollback)


def choices(parser: argparse.ArgumentParser) -> None:
    """The choices that a plan depends on."""
    parser.add_argument(
        "--restore",
        choices=("all", "files"),
        default="all",
        help="all: files and conversation, or refuse (default); files: files only, and the agent is told",
    )
    parser.add_argument(
        "--outside",
        choices=("refuse", "keep", "overwrite"),
        help="paths changed outside the agent's turns: refuse (default where a person may work), keep them as they are, or overwrite "
        "them (default elsewhere; they stay in the safety checkpoint)",
    )
    boolean(parser, "--keep-head", "leave HEAD, the branch and the index where they are")


def _rollback(args: argparse.Namespace, session: Session) -> None:
    agent = session.agent(args.agent)
    if args.plan is None:
        if not args.dry_run:
            raise InvalidParams(
                "plan",
                "a rollback needs the plan of a dry run: call with --dry-run first, then with its --plan",
            )
        plan = agent.rollback(
            args.checkpoint,
            dry_run=True,
            restore=args.restore,
            outside=args.outside,
            keep_head=args.keep_head,
        )
        session.show(plan, plan_lines(plan.to_dict(), session.terminal))
        if not session.as_json:
            session.terminal.say(f"To do exactly this:\n  {real_call(args, session, plan.plan)}")
        return
    if args.dry_run:
        raise InvalidParams("plan", "--dry-run and --plan don't go together: the plan is for the real call")
    with undisturbed():
        done = agent.rollback(
            args.checkpoint,
            plan=args.plan,
            restore=args.restore,
            outside=args.outside,
            keep_head=args.keep_head,
        )
    session.show(done, done_lines(done.to_dict(), session.terminal))


def real_call(args: argparse.Namespace, session: Session, plan: str) -> str:
    """The command that does what a plan says, with the same choices."""
    words = ["agent", "rollback", f"--agent={args.agent}", f"--checkpoint={args.checkpoint}"]
    if args.restore != "all":
        words.append(f"--restore={args.restore}")
    if args.outside is not None:
        words.append(f"--outside={args.outside}")
    if args.keep_head:
        words.append("--keep-head")
    return session.command(*words, f"--plan={plan}")


@contextmanager
def undisturbed() -> Iterator[None]:
    """Ignore Ctrl-C and a closing terminal, here and in the programs that are started meanwhile."""
    ignored = (signal.SIGINT, signal.SIGHUP)
    kept = [signal.signal(one, signal.SIG_IGN) for one in ignored]
    try:
        yield
    finally:
        for one, handler in zip(ignored, kept, strict=True):
            signal.signal(one, handler)
