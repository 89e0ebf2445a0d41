"""A program of a user's, as mypy sees it: it is never run, only checked (tests/typing/test_typing.py)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, assert_type

from turnback import Agent, Config, Conflict, Harness, Principal, Turn, TurnbackError, Workspace

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


class MyHarness:
    """An adapter: nothing to inherit from, and one operation."""

    name = "mine"
    can_rewind = True
    needs: str | None = "harness_end"

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        return f"{session}-{through_turn}-{harness_turn}-{harness_end}"


def drive(folder: Path) -> None:
    """The way through the library that its documentation shows."""
    harness: Harness = MyHarness()
    workspace = Workspace.open(folder, state_dir=folder / ".state", config={"checkpoints": {"keep": 5}})
    assert_type(workspace, Workspace)
    agent = workspace.add_agent("a2", repos=["."], isolation="in_place", parent=None, harness=harness)
    assert_type(agent, Agent)
    with agent.turn(prompt="rename the flag") as turn:
        assert_type(turn, Turn)
        turn.edited("src/main.py", b"caf\xe9", folder / "x", repo=".")
        assert_type(turn.prompt, str | None)
        assert_type(turn.checkpoint, str | None)
    assert_type(agent.checkpoint(label="before the migration").checkpoint, str)
    page = agent.checkpoints(limit=50, before="k9", turn="t1")
    for item in page.checkpoints:
        assert_type(item.checkpoint, str)
        assert_type(item.conversation, bool)
    patch = agent.checkpoint_diff("k1", "k2", path="src/main.py").patch
    if patch is not None:
        assert_type(patch.text, str)


def go_back(agent: Agent) -> bool:
    """The two calls: the dry run gives a plan, the real call what was done."""
    plan = agent.rollback("k1", restore="files", outside="keep", dry_run=True)
    assert_type(plan.plan, str)
    assert_type(plan.guarded, bool)
    for repo in plan.repos:
        for file in repo.files:
            assert_type((file.path, file.change, file.class_), tuple[str, str, str])
    try:
        done = agent.rollback("k1", restore="files", outside="keep", plan=plan.plan)
    except Conflict as refused:
        assert_type((refused.code, refused.message, refused.exit_code), tuple[str, str, int])
        return False
    assert_type(done.safety, str)
    return done.exact


def mistakes(agent: Agent, workspace: Workspace) -> None:
    """What a type checker must not let through: strict mode would complain of an ignore that isn't needed."""
    agent.rollback("k1")  # type: ignore[call-overload]
    agent.rollback("k1", dry_run=True, plan="p1-0123456789abcdef")  # type: ignore[call-overload]
    agent.rollback("k1", "files", dry_run=True)  # type: ignore[call-overload]
    assert agent.rollback("k1", dry_run=True).safety  # type: ignore[attr-defined]
    agent.checkpoints(limit="50")  # type: ignore[arg-type]
    workspace.acting_as("agent:a2")  # type: ignore[arg-type]
    workspace.add_agent("a3", harness=object())  # type: ignore[arg-type]


def watch(workspace: Workspace) -> Iterator[dict[str, Any]]:
    """Events of one agent, seen by somebody who may not do much."""
    seen = workspace.acting_as(Principal.agent("a2"))
    assert_type(seen.agents(), list[Agent])
    yield from seen.events(["agent.*"], ["agent:a2"], after=3, follow=True, stop=lambda: False)


def fail() -> TurnbackError:
    """Errors are values too."""
    Config.of({"checkpoints": {"timeout": "10s"}})
    return Conflict("turn_running", "Stop it first.", agent="a2")
