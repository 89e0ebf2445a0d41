"""``turnback agent add|show|list|archive``: the agents of a workspace and the folders they work in."""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.cli.options import boolean, text
from turnback.cli.render_list import agent_lines, agent_table
from turnback.errors import InvalidParams

if TYPE_CHECKING:
    import argparse

    from turnback.cli.options import Verbs
    from turnback.cli.session import Session


def register(verbs: Verbs) -> None:
    """Add the verbs below ``agent``."""
    add = verbs.add_parser(
        "add",
        help="add an agent and say which repositories it works in",
        description="Add an agent. Its checkpoints start with its first turn, or with: turnback agent checkpoint.",
    )
    add.add_argument(
        "id", metavar="ID", type=text, help="1 to 64 of a-z, 0-9, _ and -, starting with a letter or a digit"
    )
    add.add_argument(
        "--repo",
        action="append",
        type=text,
        metavar="PATH",
        help="a repository, relative to the workspace; give it again for more (default: the workspace itself)",
    )
    add.add_argument(
        "--isolation",
        choices=("in_place", "worktree", "copy"),
        default="in_place",
        help="in_place: the repository as it is, shared with you (default); worktree or copy: a folder of its own",
    )
    add.add_argument(
        "--path", type=text, metavar="FOLDER", help="an existing worktree or copy; one is made without it"
    )
    add.add_argument("--parent", type=text, metavar="ID", help="the agent that started this one")
    boolean(add, "--force", "accept the home folder, /, or a folder that holds the state folder")
    add.set_defaults(run=_add)

    show = verbs.add_parser("show", help="show one agent: state, folders, turns")
    _named(show)
    show.set_defaults(run=_show)

    listed = verbs.add_parser("list", help="list the agents of the workspace")
    listed.set_defaults(run=_list)

    archive = verbs.add_parser(
        "archive",
        help="an agent does nothing more; this is final",
        description="Archive an agent: it begins no turn and is not rolled back any more. Its checkpoints stay listed.",
    )
    _named(archive)
    archive.set_defaults(run=_archive)


def _named(parser: argparse.ArgumentParser) -> None:
    parser.add_argument("id", metavar="ID", nargs="?", type=text, help="the agent's id")
    parser.add_argument("--agent", type=text, metavar="ID", help="the same as an option")


def _id(args: argparse.Namespace) -> str:
    given = {found for found in (args.id, args.agent) if found is not None}
    if len(given) != 1:
        raise InvalidParams("agent", "name one agent, as in: turnback agent show a2")
    return str(given.pop())


def _add(args: argparse.Namespace, session: Session) -> None:
    agent = session.workspace.add_agent(
        args.id,
        repos=args.repo,
        isolation=args.isolation,
        path=args.path,
        parent=args.parent,
        force=args.force,
    )
    info = agent.show()
    session.show(info, agent_lines(info.to_dict(), session.command))


def _show(args: argparse.Namespace, session: Session) -> None:
    info = session.agent(_id(args)).show()
    session.show(info, agent_lines(info.to_dict(), session.command))


def _list(_args: argparse.Namespace, session: Session) -> None:
    found = [agent.show().to_dict() for agent in session.workspace.agents()]
    session.show({"agents": found}, agent_table(found) if found else ["No agent yet."])


def _archive(args: argparse.Namespace, session: Session) -> None:
    agent = session.agent(_id(args))
    agent.archive()
    info = agent.show()
    session.show(info, agent_lines(info.to_dict(), session.command))
