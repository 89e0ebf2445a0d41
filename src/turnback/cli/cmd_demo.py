"""``turnback demo``: the whole job on a small repository in a temporary folder, told step by step with real output.

It runs the same command functions that a person's command line runs, and checks the bytes of every file itself at the end. Nothing of the user's is
read or written: it has a home, an identity, a git configuration and a state folder of its own.
"""

from __future__ import annotations

import functools
import os
import shutil
import tempfile
from typing import TYPE_CHECKING

from turnback.cli import env
from turnback.cli.demo import Story, tell
from turnback.cli.options import boolean
from turnback.errors import Failed

if TYPE_CHECKING:
    import argparse

    from turnback.cli.demo import Execute
    from turnback.cli.options import Verbs
    from turnback.cli.session import Session


def register(verbs: Verbs, execute: Execute) -> None:
    """Add ``demo``; ``execute`` runs one command line."""
    demo = verbs.add_parser(
        "demo",
        help="see it work on a small repository in a temporary folder",
        description="Play two turns of an agent and an edit of yours in between, go back, and go forward again. Touches nothing of yours.",
    )
    boolean(demo, "--keep", "keep the folder, to look around in it")
    demo.set_defaults(run=functools.partial(_demo, execute))


def _demo(execute: Execute, args: argparse.Namespace, session: Session) -> None:
    folder = os.path.realpath(tempfile.mkdtemp(prefix="turnback-demo-"))
    try:
        with env.sealed(os.path.join(folder, "home")):
            story = Story(folder, execute, session.terminal, silent=session.as_json)
            tell(story)
        if story.wrong:
            raise Failed("demo", f"the demonstration went wrong: {'; '.join(story.wrong)}", folder=folder)
        kept = [f"Everything is in {folder}"] if args.keep else []
        session.show(
            {"ok": True, "checks": story.checks} | ({"folder": folder} if args.keep else {}),
            [f"All {story.checks} checks passed: every byte is where it should be.", *kept],
        )
    finally:
        if not args.keep:
            shutil.rmtree(folder, ignore_errors=True)
