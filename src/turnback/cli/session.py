"""One run of the command: its global options, the workspace it opens when a verb needs it, and the agent that is meant.

Choosing an agent never guesses: the only one is taken, a person at a terminal is asked, and anybody else has to name one.
"""

from __future__ import annotations

import json
import os
import shlex
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Protocol

from turnback.cli import env
from turnback.cli.render import visible
from turnback.errors import InvalidParams, NotFound
from turnback.workspace import Principal, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.cli.env import Environment
    from turnback.cli.terminal import Terminal
    from turnback.workspace import Agent


class Jsonable(Protocol):
    """A result of the library."""

    def to_dict(self) -> dict[str, Any]:
        """Its members."""
        ...

    def to_json(self) -> bytes:
        """Its one line of JSON."""
        ...


@dataclass(slots=True)
class Session:
    """What a verb works with.

    Attributes:
        environment, terminal: where the command runs.
        as_json: results and errors are JSON, and nobody is asked anything.
        folder, state_dir, config: the global options as they were given.
    """

    environment: Environment
    terminal: Terminal
    as_json: bool = False
    folder: str | None = None
    state_dir: str | None = None
    config: str | None = None
    _opened: Workspace | None = None

    @property
    def interactive(self) -> bool:
        """Whether a person can be asked."""
        return self.terminal.interactive and not self.as_json

    @property
    def workspace(self) -> Workspace:
        """The workspace, opened at the first use.

        Raises:
            TurnbackError: as ``Workspace.open``; ``invalid_params.principal``, ``.config``.
        """
        if self._opened is None:
            named = self.environment.principal
            self._opened = Workspace.open(
                os.path.join(self.environment.folder, os.path.expanduser(self.folder or ".")),
                state_dir=self._state_dir(),
                config=env.settings(self.config or self.environment.config),
                principal=Principal.person() if named is None else Principal.parse(named),
            )
        return self._opened

    def _state_dir(self) -> str | None:
        given = self.state_dir or self.environment.state_dir
        return None if given is None else os.path.join(self.environment.folder, os.path.expanduser(given))

    def show(self, result: Jsonable | dict[str, Any], lines: Iterable[str]) -> None:
        """Tell a result: its JSON, or the lines for a person (made only when they are wanted, if they are a generator)."""
        if self.as_json:
            self.terminal.data(dumps(result) if isinstance(result, dict) else result.to_json())
        else:
            self.terminal.say(lines)

    def agent(self, agent_id: str) -> Agent:
        """The agent that was named.

        Raises:
            InvalidParams, NotFound: there is none.
        """
        return self.workspace.agent(agent_id)

    def choose(self, agent_id: str | None) -> Agent:
        """The agent that was named, or the one that must be meant.

        Raises:
            NotFound: ``not_found.agent``: there is none.
            InvalidParams: ``invalid_params.agent``: there are several and nobody to ask.
        """
        if agent_id is not None:
            return self.agent(agent_id)
        known = {agent.id: agent for agent in self.workspace.agents()}
        caller = self.workspace.principal.id
        if caller in known:
            return known[caller]
        live = [agent for agent in known.values() if agent.show().state != "archived"]
        if len(live) == 1:
            return live[0]
        if not live:
            raise NotFound("agent", _nobody(self, archived=bool(known)))
        names = ", ".join(agent.id for agent in live)
        if not self.interactive:
            raise InvalidParams("agent", f"there are {len(live)} agents ({names}); name one with --agent")
        answers = {agent.id: agent.id for agent in live}
        while (typed := self.terminal.ask(f"Which agent ({names})? ")) not in answers:
            if not typed:
                raise InvalidParams("agent", "no agent was chosen; name one with --agent")
            self.terminal.say(f"There is no agent {visible(typed)} here.")
        return known[typed]

    def command(self, *words: str) -> str:
        """A command line that does something in this very workspace: the global options of this run, then the words."""
        options = (("--workspace", self.folder), ("--state-dir", self.state_dir), ("--config", self.config))
        given = [f"{name}={value}" for name, value in options if value is not None]
        return shlex.join(["turnback", *given, *words])


def _nobody(session: Session, *, archived: bool) -> str:
    if archived:
        return "every agent here is archived; name one with --agent, or list them with: turnback agent list"
    folder = session.workspace.folder
    top = _repository_above(folder)
    if session.folder is None and top is not None:
        # Told, never taken: whoever keeps agents for a subfolder says so with --workspace.
        return (
            f"there is no agent in {visible(folder)} yet; it lies inside of the repository {visible(top)}: "
            f"if that is meant, run this there, or with: {shlex.join(['turnback', '--workspace=' + visible(top)])}"
        )
    how = session.command("agent", "add", "main", "--repo=.")
    return f"there is no agent in {visible(folder)} yet; add one with: {how}"


def _repository_above(folder: str) -> str | None:
    """The nearest folder above this one that holds a ``.git``, when this one holds none itself."""
    if os.path.lexists(os.path.join(folder, ".git")):
        return None
    while (above := os.path.dirname(folder)) != folder:
        folder = above
        if os.path.lexists(os.path.join(folder, ".git")):
            return folder
    return None


def dumps(value: dict[str, Any]) -> bytes:
    """Compact JSON of a value that the command itself put together."""
    return json.dumps(value, ensure_ascii=False, separators=(",", ":")).encode("utf-8", "backslashreplace")
