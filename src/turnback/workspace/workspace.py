"""A workspace: a folder with one or several repositories, its agents, and the log that holds the truth about them."""

from __future__ import annotations

import hashlib
import os
from typing import TYPE_CHECKING, Any, Self

import platformdirs

from turnback import ids, paths
from turnback.clock import Clock
from turnback.config import Config
from turnback.errors import InvalidParams
from turnback.operations import agents, events, recovery
from turnback.operations.context import Context
from turnback.policy.grants import Principal
from turnback.records.log import EventLog
from turnback.workspace.agent import Agent

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from turnback.workspace.harness import Harness

# Where the locks of trees are when the user's own folder can't be written to: private, and refused when another user made it.
_TEMPORARY = "/tmp"  # noqa: S108


class Workspace:
    """A handle on a workspace. May be used from many threads and processes at once; they meet at file locks.

    Attributes:
        folder: the canonical path.
        state_dir: where the log and kept bytes are.
    """

    def __init__(self, context: Context, harnesses: dict[str, Harness] | None = None) -> None:
        self._context = context
        self._harnesses = {} if harnesses is None else harnesses
        self.folder = context.folder
        self.state_dir = context.state_dir

    @classmethod
    def open(
        cls,
        folder: str | bytes | os.PathLike[str],
        *,
        state_dir: str | bytes | os.PathLike[str] | None = None,
        config: Config | dict[str, Any] | str | bytes | None = None,
        principal: Principal | None = None,
        clock: Clock | None = None,
    ) -> Self:
        """Open a workspace. Nothing is written, except that a rollback which was cut off by a crash is recorded as such.

        Args:
            folder: the workspace; ``~`` is expanded. It need not be a repository: agents name theirs.
            state_dir: where its log goes; None for a folder of the user's own, named after the workspace.
            config: settings, or None for the defaults.
            principal: whoever the calls are made for; None for a person.
            clock: for tests.

        Raises:
            InvalidParams: ``invalid_params.workspace``: no such folder. ``.state_dir``: it belongs to another workspace, or there is no
                home folder to keep it in. ``.config``, ``.principal``.
            Failed: ``failed.state_folder``, ``failed.log_corrupt``.
            Unsupported: ``unsupported.log_format``: the log is of a newer turnback.
        """
        who = _checked(Principal.person() if principal is None else principal)
        settings = Config.of(config)
        canonical = os.path.realpath(_given("workspace", folder))
        if not os.path.isdir(canonical):
            raise InvalidParams(
                "workspace",
                f"there is no folder {paths.text(os.fsencode(canonical))}; name the folder that the agents work in",
            )
        user = _user_folder()
        if state_dir is not None:
            place = _given("state_dir", state_dir)
        elif user is not None:
            place = os.path.join(user, _name_of(canonical))
        else:
            raise InvalidParams(
                "state_dir", "there is no home folder to keep the state in; name a folder with --state-dir"
            )
        timer = clock or Clock()
        context = Context(
            folder=canonical,
            state_dir=place,
            locks_dirs=[
                *([] if user is None else [os.path.join(user, "locks")]),
                os.path.join(_TEMPORARY, f"turnback-{os.geteuid()}"),
                os.path.join(place, "locks"),
            ],
            log=EventLog.open(place, canonical, timer),
            config=settings,
            clock=timer,
            principal=who,
        )
        recovery.note_interrupted(context)
        return cls(context)

    def __repr__(self) -> str:
        return f"Workspace({self.folder!r})"

    def acting_as(self, principal: Principal) -> Workspace:
        """The same workspace for somebody else: what may be done depends on who the handle acts for, never on a parameter (V-451).

        Raises:
            InvalidParams: ``invalid_params.principal``: it is none.
        """
        return Workspace(self._context.acting_as(_checked(principal)), self._harnesses)

    @property
    def principal(self) -> Principal:
        """Whoever this handle acts for."""
        return self._context.principal

    def add_agent(
        self,
        agent_id: str,
        *,
        repos: Sequence[str | bytes | os.PathLike[str]] | None = None,
        isolation: str = "in_place",
        path: str | bytes | os.PathLike[str] | None = None,
        parent: str | None = None,
        harness: Harness | None = None,
        force: bool = False,
    ) -> Agent:
        """Add an agent and give its handle.

        Args:
            agent_id: ``[a-z0-9][a-z0-9_-]{0,63}``.
            repos: repositories relative to the workspace; None for the workspace itself where it is one.
            isolation: ``in_place`` (the repositories as they are), ``worktree`` or ``copy``.
            path: an existing worktree or copy, relative to the workspace or absolute; None to make one.
            parent: the agent that started this one.
            harness: the adapter to its conversation.
            force: accept the home folder, ``/``, or a folder that holds the state folder.

        Raises:
            InvalidParams: ``invalid_params.agent``, ``.repo``, ``.isolation``, ``.path``.
            Conflict: ``conflict.agent_exists``.
            NotFound: ``not_found.agent``: the parent.
            Failed: ``failed.worktree``: the worktree or copy can't be made.
        """
        agents.add(
            self._context,
            agent_id,
            repos=repos,
            isolation=isolation,
            path=path,
            parent=parent,
            harness=None if harness is None else harness.name,
            force=force,
        )
        return self.agent(agent_id, harness=harness)

    def agent(self, agent_id: str, *, harness: Harness | None = None) -> Agent:
        """The handle of an agent; the adapter is remembered for later handles of this workspace object.

        Raises:
            InvalidParams: ``invalid_params.agent``.
            NotFound: ``not_found.agent``.
        """
        known = self._context.state().agent(ids.agent_id(agent_id)).id
        if harness is not None:
            self._harnesses[known] = harness
        return Agent(self._context, known, self._harnesses.get(known))

    def agents(self) -> list[Agent]:
        """Every agent, in the order they were added."""
        with self._context.reading() as state:
            known = list(state.agents)
        return [Agent(self._context, one, self._harnesses.get(one)) for one in known]

    def events(
        self,
        types: Sequence[str] | None = None,
        resources: Sequence[str] | None = None,
        *,
        after: int = 0,
        follow: bool = False,
        stop: Callable[[], bool] | None = None,
    ) -> Iterator[dict[str, Any]]:
        """The published events in the envelope ``{seq, ts, source, type, data}``, oldest first.

        Args:
            types: exact names or ``prefix.*``; None for all.
            resources: such as ``agent:a2``; None for all.
            after: only those with a greater ``seq``.
            follow: go on as other threads and processes add more.
            stop: asked now and then while following; True ends it.

        Raises:
            InvalidParams: ``invalid_params.types``: a selector of another form. ``.resources``.
        """
        return events.published(self._context, types, resources, after=after, follow=follow, stop=stop)


def _checked(principal: Principal) -> Principal:
    """Refuse what only looks like a principal: a text would be found out at the first rollback, or never."""
    if not isinstance(principal, Principal):
        raise InvalidParams(
            "principal", f"{principal!r} is no principal; make one with Principal.parse or Principal.person"
        )
    return principal


def _given(parameter: str, folder: str | bytes | os.PathLike[str]) -> str:
    """A caller's folder as an absolute path; nothing and NULs are refused, since "the current folder" must be meant to be used."""
    name = os.fsdecode(folder)
    try:
        os.fsencode(name)
        if not name or "\0" in name:
            raise InvalidParams(parameter, f"{name!r} names no folder")
        return os.path.abspath(os.path.expanduser(name))
    except UnicodeEncodeError as error:
        raise InvalidParams(parameter, f"{name!r} can't be the name of a folder") from error
    except OSError as error:
        raise InvalidParams(
            parameter, f"{name!r} is relative to a folder that is gone: {error.strerror}"
        ) from error


def _user_folder() -> str | None:
    """Where the user's own state is kept; None without a home folder (a process in a container with a made-up user)."""
    found = platformdirs.user_state_dir("turnback", appauthor=False)
    return found if os.path.isabs(found) else None


def _name_of(folder: str) -> str:
    """The name of a workspace's folder among the user's state: readable, and different for every path."""
    digest = hashlib.sha256(os.fsencode(folder)).hexdigest()[:16]
    readable = "".join(
        sign if sign.isascii() and (sign.isalnum() or sign in "-_.") else "-"
        for sign in os.path.basename(folder)
    )
    return f"{readable[:40] or 'root'}-{digest}"
