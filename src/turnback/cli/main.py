"""The command: parse, run one verb, tell the result, and end with the exit code of the error's class.

Results go to the output; an error is JSON on the output with ``--json`` and a sentence on the error stream without. No traceback reaches a person:
what nobody foresaw is ``failed.internal``, and ``TURNBACK_DEBUG=1`` shows where it came from. A reader who goes away (141) and Ctrl-C
(130) end the command without a word, as they end any other.
"""

from __future__ import annotations

import argparse
import os
import sys
import traceback
from typing import TYPE_CHECKING, TextIO

from turnback import __version__
from turnback.cli import (
    cmd_agent,
    cmd_checkpoints,
    cmd_demo,
    cmd_events,
    cmd_rollback,
    cmd_turn,
    cmd_undo,
    env,
    options,
)
from turnback.cli.options import Parser
from turnback.cli.render import error_lines
from turnback.cli.session import Session
from turnback.cli.terminal import OutputError, Terminal
from turnback.errors import Failed, InvalidParams, TurnbackError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.cli.env import Environment

_INTERRUPTED, _NO_READER = 130, 141

_EPILOG = """\
For a person in a hurry: log, diff, save and undo choose the only agent by themselves.
Exit codes: 0 done, 1 failed, 2 wrong parameters, 3 not found, 4 denied, 5 a conflict, 7 timed out, 10 unsupported.
Environment: TURNBACK_STATE, TURNBACK_PRINCIPAL, TURNBACK_CONFIG, TURNBACK_DEBUG, NO_COLOR.
"""


def parser() -> Parser:
    """The whole command line."""
    top = Parser(
        prog="turnback",
        description="Go back to any turn of a coding agent: checkpoints of its files around every turn, and a rollback by a plan you have seen.",
        epilog=_EPILOG,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    top.add_argument("--version", action="version", version=f"turnback {__version__}")
    top.add_argument(
        "--workspace", metavar="DIR", help="the folder that the agents work in (default: the current one)"
    )
    top.add_argument(
        "--state-dir", metavar="DIR", help="where the log of this workspace is (default: a folder of yours)"
    )
    top.add_argument("--config", metavar="FILE|JSON", help="settings (default: your own file)")
    # Taken out before parsing, wherever it stands; it is here for the help.
    top.add_argument("--json", action="store_true", help="results and errors as one line of JSON")
    verbs = top.add_subparsers(dest="verb", metavar="VERB", required=True)

    agent = verbs.add_parser("agent", help="agents, their checkpoints and rollbacks")
    below = agent.add_subparsers(dest="action", metavar="ACTION", required=True)
    cmd_agent.register(below)
    cmd_checkpoints.register(below)
    cmd_rollback.register(below)

    turn = verbs.add_parser("turn", help="begin and end turns, for harnesses")
    cmd_turn.register(turn.add_subparsers(dest="action", metavar="ACTION", required=True))

    cmd_events.register(verbs)
    cmd_checkpoints.register_short(verbs)
    cmd_undo.register(verbs)
    cmd_demo.register(verbs, execute)
    return top


def execute(arguments: Sequence[str], environment: Environment, terminal: Terminal) -> int:
    """Run one command line and give its exit code. Everything that is wrong has been told when this returns."""
    words, as_json = options.normal(arguments)
    try:
        args = parser().parse_args(words)
        session = Session(
            environment,
            terminal,
            as_json,
            folder=args.workspace,
            state_dir=args.state_dir,
            config=args.config,
        )
        args.run(args, session)
    except TurnbackError as error:
        return _tell(error, terminal, as_json=as_json)
    except (BrokenPipeError, OutputError):
        raise
    except Exception as error:  # noqa: BLE001  # whatever it is, a person gets a sentence
        if environment.debug:
            terminal.warn(traceback.format_exc().splitlines())
        return _tell(_unforeseen(error), terminal, as_json=as_json)
    return 0


def _unforeseen(error: Exception) -> TurnbackError:
    if isinstance(error, OSError) and error.strerror:
        where = f": {os.fsdecode(error.filename)}" if isinstance(error.filename, str | bytes) else ""
        return Failed("internal", f"{error.strerror}{where}", kind=type(error).__name__)
    return Failed(
        "internal",
        f"something went wrong inside turnback ({type(error).__name__}: {error}); run it again with TURNBACK_DEBUG=1 and report what that "
        "shows to the project's issue tracker",
        kind=type(error).__name__,
    )


def _tell(error: TurnbackError, terminal: Terminal, *, as_json: bool) -> int:
    if as_json:
        terminal.data(error.to_json())
    else:
        terminal.warn(error_lines(error))
    return error.exit_code


def run() -> None:
    """The entry point of the process."""
    sys.exit(_guarded(sys.argv[1:]))


def _guarded(arguments: Sequence[str]) -> int:
    try:
        code = _in_process(arguments)
        if sys.stdout is not None:
            sys.stdout.flush()
    except KeyboardInterrupt:
        return _silenced(_INTERRUPTED)
    except BrokenPipeError:
        return _silenced(_NO_READER)
    except OSError as error:  # a full disk under the output: only the error stream is left
        _silenced(1, sys.stdout)
        if sys.stderr is not None:
            sys.stderr.write(f"turnback: the output can't be written: {error.strerror} [failed.internal]\n")
        return 1
    return code


def _in_process(arguments: Sequence[str]) -> int:
    try:
        environment = env.read()
    except InvalidParams as error:
        return _tell(error, Terminal.of_process(), as_json=options.normal(arguments)[1])
    terminal = Terminal.of_process(
        tty=environment.tty, interactive=environment.interactive, color=environment.color
    )
    if not arguments:
        terminal.warn(parser().format_help().rstrip("\n"))
        return 2
    try:
        return execute(arguments, environment, terminal)
    except SystemExit as end:  # argparse after --help and --version
        return end.code if isinstance(end.code, int) else 0


def _silenced(code: int, *streams: TextIO | None) -> int:
    """Point the output at nothing, so that the interpreter's last flush finds no closed pipe to complain about."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    for stream in streams or (sys.stdout, sys.stderr):
        if stream is not None:
            os.dup2(nowhere, stream.fileno())
    return code
