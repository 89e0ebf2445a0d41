"""How long new objects take: ours, loose and packed, beside git and libgit2 in the same run; and what a big one costs other threads.

Run with ``pytest bench/test_objects.py``. Every round stores blobs of 4 KB, source text of the standard library made new, in a repository
of its own. ``--benchmark-group-by=param:count`` shows them side by side. Times depend on the machine and on what else it does: only
ratios are asserted. Which library deflates stands in the name of the row.
"""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import threading
import time
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Protocol

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.git_repo import GitRepo
from turnback.gitstore import deflate, writer
from turnback.gitstore.fold import fold
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import ObjectWriter

if TYPE_CHECKING:
    from collections.abc import Callable

_ROUNDS = 5
_number = itertools.count()


class Benchmark(Protocol):
    def pedantic(
        self, target: Callable[..., object], *, setup: Callable[[], object], rounds: int
    ) -> object: ...


COUNTS = pytest.mark.parametrize("count", [10, 40, 100, 1000, 5000])


def contents(count: int) -> list[bytes]:
    """Blobs of 4 KB that nobody has stored yet."""
    text = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    made = next(_number)
    rows = []
    for number in range(count):
        at = number * 4096 % (len(text) - 4096)
        rows.append((b"# %d %d\n" % (made, number) + text[at : at + 4096])[:4096])
    return rows


@pytest.fixture
def new_repo(tmp_path: Path) -> Callable[[], GitRepo]:
    return lambda: GitRepo.init(tmp_path / f"repo {next(_number)}")


def ours(repository: Repository, blobs: list[bytes]) -> None:
    with ObjectWriter(repository) as one:
        for blob in blobs:
            one.blob(blob)
        one.flush()


@COUNTS
def test_ours_packed(
    benchmark: Benchmark, new_repo: Callable[[], GitRepo], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOSE", 0)
    benchmark.pedantic(
        ours, setup=lambda: ((Repository(str(new_repo().path)), contents(count)), {}), rounds=_ROUNDS
    )


@COUNTS
def test_ours_loose(
    benchmark: Benchmark, new_repo: Callable[[], GitRepo], count: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(writer, "LOOSE", 1 << 30)
    monkeypatch.setattr(writer, "_HELD", 1 << 40)
    benchmark.pedantic(
        ours, setup=lambda: ((Repository(str(new_repo().path)), contents(count)), {}), rounds=_ROUNDS
    )


@COUNTS
def test_libgit2(benchmark: Benchmark, new_repo: Callable[[], GitRepo], count: int) -> None:
    def store(repository: Repository, blobs: list[bytes]) -> None:
        for blob in blobs:
            repository.libgit2.create_blob(blob)

    benchmark.pedantic(
        store, setup=lambda: ((Repository(str(new_repo().path)), contents(count)), {}), rounds=_ROUNDS
    )


@COUNTS
def test_git(benchmark: Benchmark, new_repo: Callable[[], GitRepo], count: int) -> None:
    def setup() -> tuple[tuple[GitRepo, bytes], dict[str, object]]:
        repo = new_repo()
        for number, blob in enumerate(contents(count)):
            repo.write(f"{number}", blob)
        return (repo, b"".join(b"%d\n" % number for number in range(count))), {}

    def store(repo: GitRepo, names: bytes) -> None:
        repo.git("hash-object", "-w", "--no-filters", "--stdin-paths", data=names)

    benchmark.pedantic(store, setup=setup, rounds=_ROUNDS)


def processor_time(work: Callable[[], object]) -> float:
    """The time of this process and its children, of the best of three: what else the machine does doesn't count."""
    best = float("inf")
    for _ in range(3):
        before = sum(os.times()[:4])
        work()
        best = min(best, sum(os.times()[:4]) - before)
    return best


def test_a_pack_is_many_times_cheaper(new_repo: Callable[[], GitRepo]) -> None:
    """Processor time for 5,000 new blobs: a fraction of what libgit2 takes in the same run."""
    runs = [(Repository(str(new_repo().path)), contents(5000)) for _ in range(6)]
    mine, theirs = iter(runs[:3]), iter(runs[3:])

    def libgit2() -> None:
        repository, blobs = next(theirs)
        for blob in blobs:
            repository.libgit2.create_blob(blob)

    packed, loose = processor_time(lambda: ours(*next(mine))), processor_time(libgit2)
    print(f"\n{deflate.LIBRARY}: packed {packed * 1000:.0f} ms, libgit2 loose {loose * 1000:.0f} ms")
    assert packed < loose / (1.5 if deflate.LIBRARY == "zlib" else 2.5)


def stalls(work: Callable[[], object]) -> tuple[float, list[float]]:
    """How long some work takes, and the longest times that a thread beside it, which wants to run twice a millisecond, had to wait."""
    waits: list[float] = []
    stop = threading.Event()

    def beat() -> None:
        last = time.perf_counter()
        while not stop.is_set():
            time.sleep(0.0005)
            now = time.perf_counter()
            waits.append(now - last)
            last = now

    thread = threading.Thread(target=beat)
    thread.start()
    began = time.perf_counter()
    work()
    took = time.perf_counter() - began
    stop.set()
    thread.join()
    return took, sorted(waits)[-5:]


def by_path(repository: Repository, path: str) -> None:
    with ObjectWriter(repository) as one:
        one.blob_from(path, os.path.getsize(path))
        one.flush()


@pytest.mark.parametrize("kind", ["path", "bytes"])
def test_a_big_blob_stalls_nobody(new_repo: Callable[[], GitRepo], tmp_path: Path, kind: str) -> None:
    """While 200 MB are stored, another thread never waits for 10 ms (longer only where it would beside another process too)."""
    source = b"".join(path.read_bytes() for path in sorted(Path(os.__file__).parent.glob("*.py")))
    data = (source * (200_000_000 // len(source) + 1))[:200_000_000]
    path = tmp_path / "big"
    path.write_bytes(data)
    seen = []
    for _ in range(3):
        repository = Repository(str(new_repo().path))
        repository.libgit2  # noqa: B018 - opened before the clock runs
        elsewhere = ["git", "-C", str(new_repo().path), "hash-object", "-w", str(path)]
        _, alone = stalls(partial(subprocess.run, elsewhere, check=True, stdout=subprocess.DEVNULL))
        if kind == "bytes":
            took, beside = stalls(partial(ours, repository, [data]))
        else:
            took, beside = stalls(partial(by_path, repository, str(path)))
        shown = [f"{wait * 1000:.1f}" for wait in beside]
        print(
            f"\n{deflate.LIBRARY} {kind}: {took:.2f} s, longest stalls {shown} ms; beside git {alone[-1] * 1000:.1f} ms"
        )
        seen.append((beside[-1], alone[-1]))
    assert any(wait < 0.010 for wait, _ in seen) or all(wait < 2 * alone for wait, alone in seen)


def test_folding_hundreds_of_turns(new_repo: Callable[[], GitRepo]) -> None:
    """What a fold costs a turn on average: 200 turns of 100 new blobs, folded after each."""
    repository = Repository(str(new_repo().path))
    storing = folding = 0.0
    longest = 0.0
    for _ in range(200):
        blobs = contents(100)
        began = time.perf_counter()
        ours(repository, blobs)
        stored = time.perf_counter()
        fold(repository)
        ended = time.perf_counter()
        storing += stored - began
        folding += ended - stored
        longest = max(longest, ended - stored)
    print(
        f"\na turn: stored {storing * 5:.1f} ms, folded {folding * 5:.1f} ms, longest fold {longest * 1000:.0f} ms"
    )
    subprocess.run(["git", "-C", repository.path, "fsck", "--strict", "--no-dangling"], check=True)
