"""What a checkpoint costs, side by side in one run: ours, git's own recipe for the same, and the bare walk that nothing can beat.

    python bench/capture.py [--sizes 100 10000 100000] [--runs 7] [--keep FOLDER]

Ours is a whole ``checkpoint()`` call: look, objects, commit, ref, log. *Again* is a capture in a process that has made one before; *cold* is the first one
in a fresh process without the caches (its interpreter's start not counted). The recipe is six git processes (contract 4.1); the floor lists every folder
that isn't ignored and looks at every file with the same number of threads (bench/floor.c). Each number is the median of the runs, in milliseconds;
the three are taken in turn, so that a busy machine slows all of them.
"""

from __future__ import annotations

import argparse
import os
import shutil
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path
from typing import TYPE_CHECKING

sys.path.insert(0, str(Path(__file__).resolve().parents[1]))

from bench.trees import git, name_of, plant, seal

if TYPE_CHECKING:
    from collections.abc import Callable

IGNORED = 30_000

_COLD = """
import sys, time
from turnback import Workspace
agent = Workspace.open(sys.argv[1], state_dir=sys.argv[2]).agent("bench")
start = time.perf_counter()
agent.checkpoint()
print((time.perf_counter() - start) * 1000)
"""


class State:
    """One row: how the tree differs from its index when the captures are taken."""

    def __init__(self, name: str, sizes: tuple[int, ...], change: Callable[[Path, int], None]) -> None:
        self.name = name
        self.sizes = sizes
        self.change = change


def nothing(_tree: Path, _run: int) -> None:
    """Clean."""


def edited(files: int) -> Callable[[Path, int], None]:
    """So many files get new content before each capture."""

    def change(tree: Path, run: int) -> None:
        for number in range(files):
            (tree / name_of(number)).write_text(f"# edit {run} of {number} in {time.time_ns()}\n" * 100)

    return change


def dirty(files: int) -> Callable[[Path, int], None]:
    """So many files were changed once and stay as they are."""

    def change(tree: Path, run: int) -> None:
        if run == 0:
            edited(files)(tree, run)

    return change


def added(files: int) -> Callable[[Path, int], None]:
    """So many new files appear before each capture, and the last ones go."""

    def change(tree: Path, run: int) -> None:
        shutil.rmtree(tree / f"new{run - 1}", ignore_errors=True)
        for number in range(files):
            place = tree / f"new{run}" / f"part{number // 50}" / f"file{number}.py"
            place.parent.mkdir(parents=True, exist_ok=True)
            place.write_text(f"# new {run} {number} {time.time_ns()}\n" * 100)

    return change


STATES = (
    State("clean", (100, 10_000, 100_000, 400_000), nothing),
    State("1 changed", (100, 10_000, 100_000), edited(1)),
    State("1,000 changed", (100_000,), edited(1000)),
    State("1,000 left dirty", (100_000,), dirty(1000)),
    State("5,000 new", (10_000,), added(5000)),
)


def recipe(tree: Path, scratch: Path, number: int) -> None:
    """The contract's recipe: copied index, assume-unchanged cleared, status for the limit, add, write-tree, commit-tree, update-ref."""
    index = scratch / "index"
    shutil.copy2(tree / ".git" / "index", index)
    os.environ["GIT_INDEX_FILE"] = str(index)
    try:
        git(tree, "ls-files", "-v", "-z")
        git(tree, "status", "--porcelain=v1", "-z", "--no-renames", "--untracked-files=all")
        git(tree, "add", "-A")
        stored = git(tree, "write-tree")
    finally:
        del os.environ["GIT_INDEX_FILE"]
    commit = git(tree, "commit-tree", "-p", "HEAD", "-m", "a checkpoint", stored)
    git(tree, "update-ref", f"refs/recipe/{number}", commit, "")


def took(call: Callable[[], object]) -> float:
    """Milliseconds of one call."""
    start = time.perf_counter()
    call()
    return (time.perf_counter() - start) * 1000


def measure(tree: Path, state: State, runs: int, place: Path, floor: Path) -> dict[str, float]:
    """The medians of one row."""
    from turnback import Workspace

    state_dir = Path(tempfile.mkdtemp(prefix="state-", dir=place))
    agent = Workspace.open(tree, state_dir=state_dir).add_agent("bench")
    agent.checkpoint()
    found: dict[str, list[float]] = {"again": [], "cold": [], "recipe": [], "floor": []}
    numbers = iter(range(10**6))
    for run in range(runs + 1):
        state.change(tree, run)
        again = took(agent.checkpoint)
        state.change(tree, run)
        theirs = took(lambda: recipe(tree, place, next(numbers)))
        state.change(tree, run)
        shutil.rmtree(state_dir / "cache", ignore_errors=True)
        cold = subprocess.run(
            [sys.executable, "-c", _COLD, tree, state_dir], check=True, capture_output=True, text=True
        )
        bare = subprocess.run([floor, "2", "1", tree, "build"], check=True, capture_output=True, text=True)
        if run:  # the first one warms the disk's cache for all of them
            found["again"].append(again)
            found["recipe"].append(theirs)
            found["cold"].append(float(cold.stdout))
            found["floor"].append(float(bare.stdout.split()[0]))
    for ref in git(tree, "for-each-ref", "--format=%(refname)", "refs/recipe", "refs/venom").split():
        git(tree, "update-ref", "-d", ref)
    git(tree, "checkout", "-q", "-f", "--", ".")
    git(tree, "clean", "-q", "-f", "-d")
    git(tree, "gc", "-q", "--prune=now")
    return {name: statistics.median(values) for name, values in found.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(
        description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", type=int, default=[100, 10_000, 100_000])
    parser.add_argument("--runs", type=int, default=7)
    parser.add_argument("--keep", type=Path, help="make the repositories here, or use the ones that are")
    options = parser.parse_args()
    place = options.keep or Path(tempfile.mkdtemp(prefix="bench-capture-"))
    place.mkdir(parents=True, exist_ok=True)
    seal(place / "home")
    floor = place / "floor"
    subprocess.run(["cc", "-O2", "-pthread", "-o", floor, Path(__file__).with_name("floor.c")], check=True)
    print(
        "| state | files | again | cold | recipe | floor | recipe / again | recipe / cold | again / floor |"
    )
    print("|---|---|---|---|---|---|---|---|---|")
    for size in options.sizes:
        tree = place / f"files-{size}"
        if not tree.exists():
            plant(tree, size, IGNORED)
        for state in STATES:
            if size in state.sizes:
                row = measure(tree, state, options.runs, place, floor)
                print(
                    f"| {state.name} | {size:,} | {row['again']:.1f} | {row['cold']:.1f} | {row['recipe']:.1f} "
                    f"| {row['floor']:.1f} | {row['recipe'] / row['again']:.1f} | {row['recipe'] / row['cold']:.1f} "
                    f"| {row['again'] / row['floor']:.2f} |",
                    flush=True,
                )
    if options.keep is None:
        shutil.rmtree(place, ignore_errors=True)


if __name__ == "__main__":
    main()
