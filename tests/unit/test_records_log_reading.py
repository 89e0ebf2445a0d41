"""Reading the event log: in step with its writers, from any place, and as it grows."""

import os
import threading
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.children import Child
from support.histories import added, long_history, reused, started, taken
from support.logs import APPEND, note, open_log, path_of, same
from turnback.errors import Failed
from turnback.records import folded
from turnback.records import log as log_module
from turnback.records.events import Record, StoredRecord
from turnback.records.log import EventLog
from turnback.records.state import State


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "app")


@pytest.fixture
def log(folder: str) -> EventLog:
    return open_log(folder)


# --- reading in step -----------------------------------------------------------------------------------------------


def test_a_look_at_nothing_new_is_one_stat(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Refreshing when nobody wrote reads nothing: one stat and no more, whoever wrote last."""
    log.append([added("a2")])
    other = open_log(log.folder)
    calls: list[str] = []

    def counting(name: str) -> Callable[..., Any]:
        real = getattr(os, name)

        def call(*args: Any, **named: Any) -> Any:
            calls.append(name)
            return real(*args, **named)

        return call

    for name in ("stat", "fstat", "open", "pread", "listdir", "scandir"):
        monkeypatch.setattr(os, name, counting(name))
    log.refresh()
    assert calls == ["stat"]
    other.refresh()
    assert calls == ["stat", "stat"]


def test_a_reader_keeps_up_with_a_writer(log: EventLog, folder: str) -> None:
    """After every commit a reader's refresh has exactly the writer's state."""
    reader = open_log(folder)
    for commit in long_history(2, 10):
        log.append(commit)
        assert reader.refresh().seq == log.state.seq
        assert reader.state.dump() == log.state.dump()


def test_readers_see_whole_commits_only(log: EventLog, folder: str) -> None:
    """However much of a commit's bytes has arrived, a reader sees all of its records or none."""
    log.append([added("a2")])
    log.append([started("a2", "t1"), note("one"), note("two")])
    data = path_of(log).read_bytes()
    before = len(b"".join(data.splitlines(keepends=True)[:2]))
    path_of(log).write_bytes(data[:before])
    reader = open_log(folder)
    for end in range(before, len(data) + 1):
        path_of(log).write_bytes(data[:end])
        assert reader.refresh().seq == (5 if end == len(data) else 2)
        assert len(list(reader.records())) == reader.state.seq
    assert reader.torn == []


def test_records_are_streamed_from_any_place(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Reading behind any number gives exactly the records behind it, in pieces, from a log that was written or only opened."""
    monkeypatch.setattr(folded, "_MARK_EVERY", 7)
    monkeypatch.setattr("turnback.records.reader.CHUNK", 300)
    for commit in long_history(3, 12):
        log.append(commit)
    every = list(log.records())
    assert [record.seq for record in every] == list(range(1, log.state.seq + 1))
    for reader in (log, open_log(log.folder)):
        assert len(reader._folded._marks) > 5
        for number in range(log.state.seq + 3):
            assert list(reader.records(number)) == every[number:]


def test_a_replaced_log_is_read_from_its_beginning(log: EventLog, tmp_path: Path) -> None:
    """Another file in the log's place, even one of the same size, is another log."""
    log.append([added("a1"), note("1")])
    other = open_log(str(tmp_path / "other"))
    other.append([added("a2"), note("2")])
    assert path_of(log).stat().st_size == path_of(other).stat().st_size
    os.replace(path_of(other), path_of(log))
    assert list(log.refresh().agents) == ["a2"]
    log.append([added("a3")])
    assert same(log)


def test_a_log_that_was_cut_is_read_from_its_beginning(log: EventLog) -> None:
    """A log that lost its last commit is what is left of it, and goes on from there."""
    log.append([added("a1")])
    size = path_of(log).stat().st_size
    log.append([added("a2")])
    os.truncate(path_of(log), size)
    assert list(log.refresh().agents) == ["a1"]
    log.append([added("a3")])
    assert same(log)


@pytest.mark.parametrize("more", [0, 1])
def test_a_log_that_was_cut_and_grew_again_is_noticed(log: EventLog, folder: str, more: int) -> None:
    """A commit that was taken back and replaced by another one of the same length is not believed by those who saw the first."""
    log.append([added("a1")])
    size = path_of(log).stat().st_size
    log.append([added("a2")])
    reader = open_log(folder)
    os.truncate(path_of(log), size)
    writer = open_log(folder)
    writer.append([added("a3")])
    if more:
        writer.append([added("a4")])
    os.utime(path_of(log), ns=(0, reader._folded._changed or 0) if more else (0, 5))
    expected = ["a1", "a3", "a4"][: 2 + more]
    assert list(reader.refresh().agents) == expected
    assert list(log.refresh().agents) == expected


# --- following -----------------------------------------------------------------------------------------------------


def test_a_follower_sees_what_this_process_commits(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A follower that began before there was a log gets every record in order, and wakes for each without polling."""
    monkeypatch.setattr(log_module, "_FIRST_PAUSE", 3600.0)
    seen: list[StoredRecord] = []
    done = threading.Event()
    got = threading.Semaphore(0)

    def work() -> None:
        for record in log.follow(0, done.is_set, poll=3600.0):
            seen.append(record)
            got.release()

    thread = threading.Thread(target=work)
    thread.start()
    other = open_log(log.folder)
    log.append([added("a2")])
    assert got.acquire(timeout=30)
    assert got.acquire(timeout=30)
    for number in range(5):
        (log if number % 2 else other).append([note(str(number))])
        assert got.acquire(timeout=30)
    done.set()
    log.wake()
    thread.join(30)
    assert not thread.is_alive()
    assert seen == list(log.records())


def test_a_follower_sees_what_another_process_commits(log: EventLog, folder: str) -> None:
    """A follower gets another process's commits behind the number it has, whole and in order."""
    log.append([added("a2")])
    program = APPEND + "for n in range(20): hear(); log.append([note(f'{n}.a'), note(f'{n}.b')])"
    with Child(program, folder) as child:
        seen: list[str] = []
        child.say("go")
        for record in log.follow(2, lambda: len(seen) == 40):
            seen.append(record.data["text"])
            if record.data["text"].endswith("b"):
                child.say("go")
        child.finish()
    assert seen == [f"{number}.{half}" for number in range(20) for half in "ab"]


def test_a_follower_stops_when_the_log_is_replaced(log: EventLog, tmp_path: Path) -> None:
    """When the log is replaced or cut, a follower's number means nothing any more, and it is told so."""
    other = open_log(str(tmp_path / "other"))
    other.append([added("a9"), note("longer than the first one")])
    for harm in ("replaced", "cut", "cut and grown"):
        log.append([note(harm)])
        records = log.follow(0, lambda: False)
        assert next(records).type == "log.created"
        while next(records).seq < log.state.seq:
            pass
        if harm == "replaced":
            os.replace(path_of(other), path_of(log))
        elif harm == "cut":
            os.truncate(path_of(log), 10)
        else:
            path_of(log).write_bytes(path_of(log).read_bytes()[:-30] + b"0" * 40)
        with pytest.raises(Failed, match="begin again at its start"):
            next(records)


def test_a_follower_that_is_let_go_lets_the_file_go(log: EventLog) -> None:
    """Leaving the loop early closes what the follower had open, and a record is never followed twice."""
    log.append([added("a2"), note("x")])
    for record in log.follow(1, lambda: False):
        assert record.seq == 2
        break
    assert [record.seq for record in log.follow(2, lambda: True)] == [3]


# --- handles -------------------------------------------------------------------------------------------------------


def test_a_closed_log_opens_what_it_needs(log: EventLog) -> None:
    """Closing gives the descriptor back; the object can be used on."""
    with log:
        log.append([added("a2")])
    assert log.refresh().seq == 2
    log.append([note("x")])
    assert same(log)


def test_nobody_folds_while_a_thread_reads(log: EventLog) -> None:
    """Inside ``reading`` the state stands still: a commit of another thread is folded when it ends."""
    log.append([added("a2")])
    begun, finished = threading.Event(), threading.Event()

    def make(state: State) -> list[Record]:
        begun.set()
        return [added("a3")]

    def work() -> None:
        other.build(make)
        log.refresh()
        finished.set()

    other = open_log(log.folder)
    with log.reading() as state:
        thread = threading.Thread(target=work)
        thread.start()
        assert begun.wait(30)
        assert list(state.agents) == ["a2"]
    assert finished.wait(30)
    thread.join()
    assert list(log.state.agents) == ["a2", "a3"]


def test_the_order_is_the_logs_and_not_the_clocks(log: EventLog, folder: str) -> None:
    """A clock that goes back changes no order: records are numbered as they were committed."""
    log.append([added("a2"), taken("a2", "k1")])
    log._clock.time -= 10_000_000  # type: ignore[attr-defined]
    log.append([reused("a2", "k1")])
    assert [row.seq for row in log.state.captures] == [3, 4]
    stamps = [record.ts for record in log.records()]
    assert stamps != sorted(stamps)
    assert same(log)
