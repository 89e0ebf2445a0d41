"""What a turn costs: begin, one file changed, end, beside git's own recipe for the same two captures and beside ``git status``.

Run with ``scripts/bench -k test_turns``; README.md in this folder says how to read and compare the numbers.
"""

from __future__ import annotations

import os
import shutil
import sys
from itertools import count
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.trees import git, name_of, plant, seal

if TYPE_CHECKING:
    from collections.abc import Callable

    from pytest_benchmark.fixture import BenchmarkFixture

SIZES = (100, 10_000)


class Change:
    """One file of a tree gets new content each time; the tree never goes back to what it was."""

    def __init__(self, tree: Path) -> None:
        self.tree = tree
        self.numbers = count()

    def __call__(self) -> None:
        (self.tree / name_of(7)).write_text(f"changed {next(self.numbers)}\n" * 40)


@pytest.fixture(scope="module")
def trees(tmp_path_factory: pytest.TempPathFactory) -> dict[int, Path]:
    """One planted tree of each size, and a home of this run's own."""
    top = tmp_path_factory.mktemp("trees")
    seal(top / "home")
    return {size: plant(top / f"files-{size}", size) for size in SIZES}


def recipe(tree: Path, scratch: Path, number: int) -> None:
    """One capture as a shell script would take it: copied index, ``add -A``, ``write-tree``, ``commit-tree``, ``update-ref``."""
    index = scratch / "index"
    shutil.copy2(tree / ".git" / "index", index)
    os.environ["GIT_INDEX_FILE"] = str(index)
    try:
        git(tree, "add", "-A")
        stored = git(tree, "write-tree")
    finally:
        del os.environ["GIT_INDEX_FILE"]
    commit = git(tree, "commit-tree", "-p", "HEAD", "-m", "a checkpoint", stored)
    git(tree, "update-ref", f"refs/recipe/{number}", commit, "")


@pytest.mark.parametrize("size", SIZES)
def test_turn(size: int, trees: dict[int, Path], tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """A turn of ours: the capture at its start (reused), one changed file, the capture at its end."""
    from turnback import Workspace

    benchmark.group = f"a turn with one change, {size} files"
    change = Change(trees[size])
    agent = Workspace.open(trees[size], state_dir=tmp_path / "state").add_agent("a1")

    def turn() -> None:
        running = agent.begin_turn()
        change()
        ended = running.end()
        assert (running.capture_failed, ended.capture_failed, ended.reused) == (None, None, False)

    _measure(benchmark, turn)


@pytest.mark.parametrize("size", SIZES)
def test_recipe(size: int, trees: dict[int, Path], tmp_path: Path, benchmark: BenchmarkFixture) -> None:
    """The same two captures by git's commands."""
    benchmark.group = f"a turn with one change, {size} files"
    change = Change(trees[size])
    numbers = count(1)

    def turn() -> None:
        recipe(trees[size], tmp_path, next(numbers))
        change()
        recipe(trees[size], tmp_path, next(numbers))

    _measure(benchmark, turn)
    for row in git(trees[size], "for-each-ref", "--format=%(refname)", "refs/recipe").splitlines():
        git(trees[size], "update-ref", "-d", row)


@pytest.mark.parametrize("size", SIZES)
def test_status(size: int, trees: dict[int, Path], benchmark: BenchmarkFixture) -> None:
    """The yardstick: one ``git status`` of the same tree."""
    benchmark.group = f"a turn with one change, {size} files"
    Change(trees[size])()
    _measure(benchmark, lambda: git(trees[size], "--no-optional-locks", "status", "--porcelain"))


def _measure(benchmark: BenchmarkFixture, call: Callable[[], object]) -> None:
    benchmark.pedantic(call, rounds=15, warmup_rounds=2)  # type: ignore[no-untyped-call]
