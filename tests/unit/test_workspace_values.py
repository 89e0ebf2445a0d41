"""Results and errors as values: they are frozen, compare, and travel between processes."""

from __future__ import annotations

import copy
import json
import pickle
from concurrent.futures import ProcessPoolExecutor
from dataclasses import fields
from multiprocessing import get_context
from typing import TYPE_CHECKING, Any

import pytest

from turnback import (
    Conflict,
    Denied,
    Failed,
    InvalidParams,
    NotFound,
    TimedOut,
    TurnbackError,
    Unsupported,
    Workspace,
)
from turnback.gitstore.objects import MissingObject
from turnback.gitstore.process import GitFailed
from turnback.gitstore.refs import RefExists
from turnback.operations.results import AgentInfo, Checkpoint, CheckpointDiff, RollbackDone, RollbackPlan

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.git_repo import GitRepo
    from turnback import Agent

PLAN = "p1-721bd71abfebcbfe"


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def agent(workspace: Workspace, repo: GitRepo) -> Agent:
    """An agent with a turn that made a file, changed one by an edit call and one by a command, and deleted one."""
    repo.write("gone.txt", "x\n")
    agent = workspace.add_agent("a1")
    with agent.turn("go") as turn:
        turn.edited("src/main.py")
        repo.write("src/main.py", "print('two')\n")
        repo.write("README.md", "by a command\n")
        repo.write("gen/out.txt", "generated\n")
        repo.delete("gone.txt")
    return agent


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(TurnbackError) as caught:
        call()
    return caught.value.code


# --- results and errors as values ----------------------------------------------------------------------------------------------


def test_results_travel(agent: Agent) -> None:
    """Results are frozen, equal by value, and survive pickling and copying."""
    results: list[Any] = [
        agent.checkpoints(),
        agent.show(),
        agent.checkpoint_diff("k1", "k2", path="README.md"),
        agent.rollback("k1", restore="files", dry_run=True),
        agent.checkpoint(),
    ]
    for result in results:
        assert pickle.loads(pickle.dumps(result)) == result
        assert copy.deepcopy(result) == result
        assert json.loads(result.to_json()) == result.to_dict()
        with pytest.raises(AttributeError):
            setattr(result, fields(result)[0].name, "other")
    for kind in (AgentInfo, Checkpoint, CheckpointDiff, RollbackPlan, RollbackDone):
        assert kind.__doc__


@pytest.mark.contract("V-446")
@pytest.mark.parametrize(
    ("kind", "exit_code"),
    [
        (Failed, 1),
        (InvalidParams, 2),
        (NotFound, 3),
        (Denied, 4),
        (Conflict, 5),
        (TimedOut, 7),
        (Unsupported, 10),
    ],
)
def test_errors_travel(kind: type[TurnbackError], exit_code: int) -> None:
    """Every class of error comes out of a pickle as it went in, its exit code the class's."""
    error = kind("some_reason", "A sentence.", repo=".", paths=["a"])
    for again in (pickle.loads(pickle.dumps(error)), copy.copy(error)):
        assert type(again) is kind
        assert (again.code, again.message, again.data) == (error.code, error.message, error.data)
        assert (again.exit_code, str(again)) == (exit_code, "A sentence.")
        assert again.to_json() == error.to_json()


@pytest.mark.parametrize(
    "error",
    [GitFailed(["add"], 1, b"no"), MissingObject("a" * 40, "/x"), RefExists("refs/x", "a" * 40)],
    ids=lambda error: type(error).__name__,
)
def test_errors_of_the_lower_layers_travel(error: TurnbackError) -> None:
    """An error that git's layer made goes through a pickle too: a pool of processes hands it to the caller."""
    again = pickle.loads(pickle.dumps(error))
    assert (again.code, again.message, again.data) == (error.code, error.message, error.data)


def _fails(folder: str, state: str) -> None:
    Workspace.open(folder, state_dir=state).agent("a1").rollback("k9", restore="files", dry_run=True)


def test_an_error_out_of_a_pool_of_processes(workspace: Workspace, agent: Agent) -> None:
    """Raised in a worker process, an error reaches the caller as itself."""
    with ProcessPoolExecutor(1, mp_context=get_context("spawn")) as pool:
        failing = pool.submit(_fails, workspace.folder, workspace.state_dir)
        error = failing.exception()
    assert isinstance(error, NotFound)
    assert (error.code, error.data) == ("not_found.checkpoint", {"checkpoint": "k9"})
