"""What the contract asks of the project as a whole, and not of any one behaviour."""

from __future__ import annotations

import inspect
import re
from pathlib import Path

import pytest

from turnback import Agent

TESTS = Path(__file__).parent.parent


def marked() -> set[str]:
    """Every id that some test bears."""
    found: set[str] = set()
    for path in TESTS.rglob("test_*.py"):
        for arguments in re.findall(r"mark\.contract\(([^)]*)\)", path.read_text(encoding="utf-8")):
            found.update(re.findall(r"[AVX]-\d{2,3}", arguments))
    return found


@pytest.mark.contract("V-045")
def test_every_invariant_has_a_test() -> None:
    """The six invariants of section 2 (V-038 to V-044) are each shown by a test that bears the id."""
    assert {f"V-{number:03d}" for number in range(38, 45)} <= marked()


@pytest.mark.contract("V-226", "V-499", "V-500", "V-503")
def test_no_call_rolls_back_without_a_plan_that_was_quoted() -> None:
    """There is one way to roll back, it takes a plan, and nothing retries, forces, says yes or interrupts a turn by itself."""
    names = set(inspect.signature(Agent.rollback).parameters)
    assert {"dry_run", "plan"} <= names
    assert not {"yes", "force", "retry", "interrupt"} & names
    assert [name for name in dir(Agent) if "roll" in name] == ["rollback"]
