"""``turnback agent checkpoints|checkpoint|checkpoint-diff``, and ``log``, ``save`` and ``diff`` for a person in a hurry."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from turnback.cli import points
from turnback.cli.options import agent_option, count, text
from turnback.cli.render import path_text, visible
from turnback.cli.render_diff import file_lines, patch_lines
from turnback.cli.render_list import checkpoint_table, cut_off_lines
from turnback.clock import Clock
from turnback.errors import NotFound

if TYPE_CHECKING:
    import argparse
    from collections.abc import Iterator

    from turnback.cli.options import Verbs
    from turnback.cli.session import Session
    from turnback.workspace import Agent

# Each patch of `diff` is a call of its own; beyond so many only the names are shown.
_PATCHES = 100


def register(verbs: Verbs) -> None:
    """Add the verbs below ``agent``."""
    listed = verbs.add_parser("checkpoints", help="list an agent's checkpoints, newest first")
    agent_option(listed)
    _list_options(listed)
    listed.set_defaults(run=_checkpoints)

    taken = verbs.add_parser(
        "checkpoint",
        help="take a checkpoint now",
        description="Take a checkpoint now, or reuse the latest one when nothing differs (the label is then set on that one).",
    )
    agent_option(taken)
    taken.add_argument("--label", type=text, metavar="TEXT", help="a name for people")
    taken.set_defaults(run=_checkpoint)

    diff = verbs.add_parser(
        "checkpoint-diff",
        help="what changed from one checkpoint to another, or to the current files",
    )
    agent_option(diff)
    diff.add_argument("--from", dest="start", required=True, type=text, metavar="K", help="the earlier one")
    diff.add_argument(
        "--to", dest="end", type=text, metavar="K", help="the later one (default: the files now)"
    )
    diff.add_argument("--repo", type=text, metavar="PATH", help="only this repository")
    diff.add_argument(
        "--path", type=os.fsencode, metavar="PATH", help="only this path, with its unified diff; any bytes"
    )
    diff.set_defaults(run=_diff)


def register_short(verbs: Verbs) -> None:
    """Add ``log``, ``diff`` and ``save``."""
    log = verbs.add_parser(
        "log",
        help="the checkpoints of the only agent",
        description="List the agent's checkpoints, newest first.",
    )
    agent_option(log, required=False)
    _list_options(log)
    log.set_defaults(run=_checkpoints)

    diff = verbs.add_parser(
        "diff",
        help="what changed since a checkpoint, as a unified diff",
        description="Show what changed since a checkpoint; without one, since before the agent's last turn (what undo would take back).",
    )
    agent_option(diff, required=False)
    diff.add_argument("checkpoint", nargs="?", type=text, metavar="K", help="the earlier checkpoint")
    diff.add_argument(
        "end", nargs="?", type=text, metavar="TO", help="the later one (default: the files now)"
    )
    diff.set_defaults(run=_short_diff)

    save = verbs.add_parser("save", help="take a checkpoint now, with a label if you like")
    agent_option(save, required=False)
    save.add_argument("label", nargs="?", type=text, metavar="LABEL", help="a name for people")
    save.set_defaults(run=_save)


def _list_options(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("--turn", type=text, metavar="T", help="only those of this turn")
    parser.add_argument("--before", type=text, metavar="K", help="only those older than this checkpoint")
    parser.add_argument("--limit", type=count, default=50, metavar="N", help="at most so many (default: 50)")


def _checkpoints(args: argparse.Namespace, session: Session) -> None:
    agent = session.choose(args.agent)
    page = agent.checkpoints(turn=args.turn, before=args.before, limit=args.limit)
    session.show(page, _list_lines(page.to_dict(), agent, session))


def _list_lines(page: dict[str, Any], agent: Agent, session: Session) -> Iterator[str]:
    yield from cut_off_lines(agent.show().to_dict(), session.command)
    if not page["checkpoints"]:
        yield f"No checkpoint of {agent.id} here yet."
    else:
        changed = points.changed_files(agent, page["checkpoints"])
        yield from checkpoint_table(page["checkpoints"], changed, Clock().now())
    if page["pending"]:
        yield "Another one is being taken."


def _checkpoint(args: argparse.Namespace, session: Session) -> None:
    _take(session, session.agent(args.agent), args.label)


def _save(args: argparse.Namespace, session: Session) -> None:
    try:
        agent = session.choose(args.agent)
    except NotFound as error:
        if args.agent is not None or not _may_add(session):
            raise
        session.terminal.say(f"There is no agent in {visible(session.workspace.folder)} yet.")
        answer = session.terminal.choose(
            "Add one named main for this repository? [y/N] ", points.YES_NO, "no"
        )
        if answer != "yes":
            raise error from None
        agent = session.workspace.add_agent("main")
    _take(session, agent, args.label)


def _may_add(session: Session) -> bool:
    """Whether the workspace is a repository, nobody is in it yet, and a person can be asked."""
    workspace = session.workspace
    return (
        session.interactive
        and not workspace.agents()
        and os.path.lexists(os.path.join(workspace.folder, ".git"))
    )


def _take(session: Session, agent: Agent, label: str | None) -> None:
    taken = agent.checkpoint(label)
    same = f"{taken.checkpoint} of {agent.id} already holds these files"
    session.show(taken, [same if taken.reused else f"saved as {taken.checkpoint} of {agent.id}"])


def _diff(args: argparse.Namespace, session: Session) -> None:
    agent = session.agent(args.agent)
    found = agent.checkpoint_diff(args.start, args.end, repo=args.repo, path=args.path)
    session.show(found, _diff_lines(found.to_dict(), session))


def _diff_lines(found: dict[str, Any], session: Session) -> Iterator[str]:
    yield from file_lines(found["files"])
    if found.get("patch") and found["patch"]["text"]:
        yield from patch_lines(found["patch"], session.terminal)


def _short_diff(args: argparse.Namespace, session: Session) -> None:
    agent = session.choose(args.agent)
    start = args.checkpoint or points.before_last_turn(session.workspace, agent)
    found = agent.checkpoint_diff(start, args.end)
    session.show(found, _patches(agent, start, args.end, found.to_dict()["files"], session))


def _patches(
    agent: Agent, start: str, end: str | None, files: list[dict[str, Any]], session: Session
) -> Iterator[str]:
    if not files:
        yield f"No difference between {start} and {end or 'the files now'}."
    for item in files[:_PATCHES]:
        one = agent.checkpoint_diff(start, end, repo=item["repo"], path=points.exact_path(item)).to_dict()
        if one.get("patch") and one["patch"]["text"]:
            yield from patch_lines(one["patch"], session.terminal)
        else:
            yield f"{path_text(item)}: {item['change']}"
    if len(files) > _PATCHES:
        yield f"And {len(files) - _PATCHES} more:"
        yield from file_lines(files[_PATCHES:])
