"""``turnback events``: what happened, as it happens if wanted."""

from __future__ import annotations

import argparse
import json
from typing import TYPE_CHECKING, Any

from turnback.cli.options import boolean, place
from turnback.cli.render import visible
from turnback.cli.session import dumps

if TYPE_CHECKING:
    from turnback.cli.options import Verbs
    from turnback.cli.session import Session


def register(verbs: Verbs) -> None:
    """Add ``events``."""
    events = verbs.add_parser(
        "events",
        help="the published events, oldest first",
        description="Show the events of the workspace: checkpoints taken or failed, rollbacks started and ended.",
    )
    events.add_argument(
        "--types",
        type=_names,
        metavar="JSON",
        help='exact names, or a prefix and .*, as a JSON list: \'["agent.checkpoint", "agent.*"]\'',
    )
    events.add_argument(
        "--resources", type=_names, metavar="JSON", help="only these, as a JSON list: '[\"agent:a2\"]'"
    )
    events.add_argument(
        "--after", type=place, default=0, metavar="N", help="only those with a greater number (default: 0)"
    )
    boolean(events, "--follow", "go on as more happen, until interrupted")
    events.set_defaults(run=_events)


def _names(word: str) -> list[str]:
    try:
        value = json.loads(word)
    except ValueError as error:
        what = f"{word!r} is no JSON list of names: {error}"
        raise argparse.ArgumentTypeError(what) from None
    if not isinstance(value, list) or not all(isinstance(name, str) for name in value):
        what = f"{word!r} is no JSON list of names"
        raise argparse.ArgumentTypeError(what)
    return value


def _events(args: argparse.Namespace, session: Session) -> None:
    found = session.workspace.events(args.types, args.resources, after=args.after, follow=args.follow)
    for event in found:
        if session.as_json:
            session.terminal.data(dumps(event))
        else:
            session.terminal.say(_line(event))
            session.terminal.out.flush()


def _line(event: dict[str, Any]) -> str:
    data = event["data"]
    told = [
        f"{name}={data[name]}" for name in data if name not in ("agent", "repos") and data[name] is not None
    ]
    words = [str(event["seq"]), event["ts"], event["type"], data.get("agent", "-"), *told]
    return visible("  ".join(words))
