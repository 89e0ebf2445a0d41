"""How long the event log takes: opening a long one, keeping up with it, and adding to it.

Run with ``pytest bench/test_log.py``. The log has a hundred thousand records: twenty thousand turns of fifty agents, nothing pruned, which is
as bad as it gets. Targets on a quiet machine: open with a snapshot under 0.25 s, without under 1 s.
"""

import os
import sys
import time
import timeit
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

sys.path.insert(0, str(Path(__file__).resolve().parents[1] / "tests"))

from support.histories import WORKSPACE, FixedClock, long_history
from turnback.records.events import Record
from turnback.records.log import EventLog
from turnback.records.state import State

Benchmark = Callable[..., object]


def open_log(folder: str) -> EventLog:
    return EventLog.open(folder, WORKSPACE, FixedClock())


def seconds(folder: str) -> float:
    """Processor time of one opening, as ``timeit`` takes it: other programs and garbage collection do not count."""
    return min(timeit.repeat(lambda: open_log(folder), timer=time.process_time, number=1, repeat=5))


@pytest.fixture(scope="module")
def folder(tmp_path_factory: pytest.TempPathFactory) -> str:
    folder = str(tmp_path_factory.mktemp("long") / "state")
    log = open_log(folder)
    for commit in long_history(50, 20_000):
        log.append(commit)
    assert log.state.seq > 100_000
    return folder


@pytest.fixture
def without_snapshot(folder: str) -> Iterator[str]:
    path = os.path.join(folder, "snapshot.ndjson")
    os.rename(path, path + ".away")
    yield folder
    os.rename(path + ".away", path)


def test_open_with_snapshot(benchmark: Benchmark, folder: str) -> None:
    benchmark(open_log, folder)
    assert seconds(folder) < 0.25


def test_open_without_snapshot(benchmark: Benchmark, without_snapshot: str) -> None:
    benchmark(open_log, without_snapshot)
    assert seconds(without_snapshot) < 1.0


def test_refresh_with_nothing_new(benchmark: Benchmark, folder: str) -> None:
    benchmark(open_log(folder).refresh)


def test_stream_the_last_records(benchmark: Benchmark, folder: str) -> None:
    log = open_log(folder)
    benchmark(lambda: list(log.records(log.state.seq - 100)))


def test_dump_the_state(benchmark: Benchmark, folder: str) -> None:
    benchmark(open_log(folder).state.dump)


def test_load_the_state(benchmark: Benchmark, folder: str) -> None:
    dump = open_log(folder).state.dump()
    benchmark(State.load, dump)


@pytest.mark.parametrize("durable", [False, True])
def test_append_one_record(benchmark: Benchmark, tmp_path: Path, durable: bool) -> None:
    log = open_log(str(tmp_path / "state"))
    number = count()
    benchmark(
        lambda: log.append(
            [Record("note.pending", {"agents": [], "text": str(next(number))})], durable=durable
        )
    )


def test_a_reader_keeps_up(benchmark: Benchmark, tmp_path: Path) -> None:
    writer, reader = open_log(str(tmp_path / "state")), open_log(str(tmp_path / "state"))

    def step() -> None:
        writer.append([Record("note.pending", {"agents": [], "text": "x"})])
        reader.refresh()

    benchmark(step)
