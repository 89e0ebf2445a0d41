"""Damage in the event log: what is a torn tail, what is not, and that no byte is lost over it."""

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.histories import WORKSPACE, FixedClock, added, ended, started
from support.logs import note, open_log, path_of, same, texts
from turnback.disk.lock import FileLock
from turnback.disk.ndjson import LineFile
from turnback.errors import Failed, TurnbackError
from turnback.records import folded
from turnback.records.codec import encode_group
from turnback.records.events import Record, StoredRecord
from turnback.records.log import EventLog
from turnback.records.state import State


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "app")


@pytest.fixture
def log(folder: str) -> EventLog:
    return open_log(folder)


# --- damage --------------------------------------------------------------------------------------------------------


def damaged(log: EventLog, line: int) -> int:
    """Change one byte in the middle of a line; returns the line's offset."""
    lines = path_of(log).read_bytes().splitlines(keepends=True)
    offset = len(b"".join(lines[:line]))
    with path_of(log).open("r+b") as file:
        file.seek(offset + 30)
        byte = file.read(1)
        file.seek(offset + 30)
        file.write(bytes([byte[0] ^ 1]))
    return offset


def test_damage_in_the_middle_is_said_and_nothing_is_lost(log: EventLog, folder: str) -> None:
    """A bad line with good commits behind it stops opening, reading and writing; the bytes stay, and the way out works."""
    log.append([added("a2")])
    for number in range(4):
        log.append([note(str(number))])
    offset = damaged(log, 3)
    before = path_of(log).read_bytes()
    fresh = EventLog(folder, WORKSPACE, FixedClock())
    for attempt in (lambda: open_log(folder), fresh.refresh, lambda: fresh.append([note("x")])):
        with pytest.raises(Failed, match=f"damaged at byte {offset}, where record 4 begins") as caught:
            attempt()
        assert caught.value.code == "failed.log_corrupt"
        assert caught.value.data == {"path": str(path_of(log)), "offset": offset, "seq": 4}
    assert path_of(log).read_bytes() == before
    assert log.torn == []
    os.truncate(path_of(log), offset)
    again = open_log(folder)
    assert again.state.seq == 3
    again.append([note("on we go")])
    assert texts(again.records()) == ["0", "on we go"]


def test_damage_is_found_behind_a_snapshot_too(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """A snapshot does not hide that the part of the log before it has gone bad: with it and without it the log is refused."""
    monkeypatch.setattr(folded, "SNAPSHOT_EVERY", 5)
    log.append([added("a2")])
    for number in range(8):
        log.append([note(str(number))])
    assert Path(log.folder, "snapshot.ndjson").exists()
    damaged(log, 3)
    with pytest.raises(Failed, match="damaged at byte"):
        open_log(log.folder)


def test_damage_that_comes_while_the_log_is_open_is_found_by_streams(log: EventLog) -> None:
    """Reading records from the disk stops at damage with an error, after the good records before it."""
    log.append([added("a2")])
    for number in range(4):
        log.append([note(str(number))])
    offset = damaged(log, 3)
    seen: list[int] = []

    def read(records: Iterator[StoredRecord]) -> None:
        seen.extend(record.seq for record in records)

    with pytest.raises(Failed, match=f"byte {offset}"):
        read(log.records())
    with pytest.raises(Failed, match=f"byte {offset}"):
        read(log.follow(0, lambda: False))
    assert seen == [1, 2, 3, 1, 2, 3]


def test_damage_that_a_condition_meets_is_said(log: EventLog) -> None:
    """A condition that looks at the log while it holds the lock is told of damage, and waits for nobody."""
    log.append([added("a2")])
    log.append([note("0")])
    log.append([note("1")])

    def check(state: State) -> None:
        damaged(log, 1)
        with pytest.raises(Failed, match="damaged at byte"):
            list(log.records())
        damaged(log, 1)

    log.append([note("2")], check=check)
    assert texts(log.records()) == ["0", "1", "2"]


@pytest.mark.parametrize("cut", [1, 2])
def test_a_bad_line_in_the_last_commit_is_a_torn_tail(log: EventLog, folder: str, cut: int) -> None:
    """When the bad line and all that is behind it belong to one commit, that commit was never finished: it goes aside."""
    log.append([added("a2")])
    log.append([note("a"), note("b"), note("c")])
    offset = len(b"".join(path_of(log).read_bytes().splitlines(keepends=True)[:2]))
    damaged(log, 1 + cut)
    tail = path_of(log).read_bytes()[offset:]
    again = open_log(folder)
    assert again.state.seq == 2
    again.append([note("d")])
    assert [Path(torn).read_bytes() for torn in again.torn] == [tail]
    assert texts(again.records()) == ["d"]


@pytest.mark.parametrize(
    "behind",
    [
        [(3, ["a"]), (3, ["b"])],
        [(4, ["a"])],
        [(2, ["a"])],
        [(3, ["a"]), (5, ["b"])],
        [(1, ["a", "b"])],
    ],
)
def test_a_repeated_or_missing_number_is_damage(
    log: EventLog, folder: str, behind: list[tuple[int, list[str]]]
) -> None:
    """Whole commits that don't follow each other were written by somebody without the lock: nobody picks one of them."""
    log.append([added("a2")])
    with path_of(log).open("ab") as file:
        for first, names in behind:
            file.write(encode_group([note(name) for name in names], first, 5))
    before = path_of(log).read_bytes()
    with pytest.raises(Failed, match=r"stands where record \d belongs") as caught:
        open_log(folder)
    assert caught.value.code == "failed.log_corrupt"
    assert path_of(log).read_bytes() == before


def test_a_whole_commit_behind_garbage_is_damage(log: EventLog, folder: str) -> None:
    """The right next commit, with garbage before it, was committed: it is not cut off as part of a tail."""
    log.append([added("a2")])
    for names in (["a"], ["a", "b"]):
        with path_of(log).open("r+b") as file:
            size = file.seek(0, os.SEEK_END)
            file.write(b"garbage\n" + encode_group([note(name) for name in names], 3, 5))
        with pytest.raises(Failed, match="damaged at byte"):
            open_log(folder)
        os.truncate(path_of(log), size)


def test_a_record_that_cannot_be_folded_is_damage(log: EventLog, folder: str) -> None:
    """A record with a right checksum that contradicts the ones before it stops the log with its number."""
    log.append([added("a2")])
    with path_of(log).open("ab") as file:
        file.write(encode_group([ended("a2", "t7")], 3, 5))
    for attempt in (lambda: open_log(folder), log.refresh, log.refresh):
        with pytest.raises(Failed, match="turn t7 of 'a2' does not run") as caught:
            attempt()
        assert caught.value.data["seq"] == 3


def test_a_record_of_a_newer_version_is_no_damage(log: EventLog, folder: str) -> None:
    """A type that this version does not know is kept, streamed, and folded over."""
    log.append([added("a2")])
    with path_of(log).open("ab") as file:
        file.write(encode_group([Record("agent.renamed", {"new": True})], 3, 5))
    log.append([note("x")])
    assert log.state.unknown == [(3, "agent.renamed")]
    assert [record.type for record in log.records(2)] == ["agent.renamed", "note.pending"]
    assert same(log)


def test_damage_seen_while_a_writer_moves_a_tail_is_looked_at_again(
    log: EventLog, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A reader that reads old tail and new commit as one looks again under the lock and finds a good log."""
    log.append([added("a2")])
    log.append([note("x")])
    reader = EventLog(folder, WORKSPACE, FixedClock())
    real = LineFile.read
    torn = [True]

    def read(file: LineFile, offset: int, limit: int) -> bytes:
        data = real(file, offset, limit)
        return data.replace(b'"agent.added"', b'"agent.addxd"') if torn[0] and limit > 100 else data

    real_acquire = FileLock.acquire

    def acquire(lock: FileLock, *more: float) -> None:
        torn[0] = False
        real_acquire(lock, *more)

    monkeypatch.setattr(LineFile, "read", read)
    monkeypatch.setattr(FileLock, "acquire", acquire)
    assert reader.refresh().seq == 3
    torn[0] = True
    assert [record.seq for record in reader.records()] == [1, 2, 3]


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(tail=st.binary(max_size=400) | st.lists(st.binary(max_size=60)).map(b"\n".join))
def test_any_bytes_behind_the_log_are_a_torn_tail(log: EventLog, folder: str, tail: bytes) -> None:
    """Whatever bytes stand behind the last commit, the log opens as it was, and the next append keeps them aside."""
    if not path_of(log).exists():
        log.append([added("a2"), note("first")])
    before = path_of(log).read_bytes()
    seq, kept = log.refresh().seq, len(log.torn)
    with path_of(log).open("ab") as file:
        file.write(tail)
    again = open_log(folder)
    assert again.state.seq == seq
    again.append([note("next")])
    assert path_of(log).read_bytes().startswith(before)
    assert again.state.seq == log.refresh().seq == seq + 1
    assert [Path(torn).read_bytes() for torn in again.torn[kept:]] == ([tail] if tail else [])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=150)
@given(data=st.data())
def test_any_damage_is_a_documented_error_or_a_torn_tail(
    log: EventLog, folder: str, data: st.DataObject
) -> None:
    """Bytes changed, cut out or put in anywhere: opening gives a beginning of the history, or one of the documented errors."""
    good = path_of(log)
    original = Path(folder, "original")
    if not original.exists():
        for commit in (
            [added("a2")],
            [started("a2", "t1"), note("a")],
            [note("b")],
            [ended("a2", "t1"), note("c")],
        ):
            log.append(commit)
        original.write_bytes(good.read_bytes())
    bytes_ = original.read_bytes()
    at = data.draw(st.integers(0, len(bytes_)))
    end = data.draw(st.integers(at, min(len(bytes_), at + 40)))
    good.write_bytes(bytes_[:at] + data.draw(st.binary(max_size=20)) + bytes_[end:])
    code = None
    try:
        state = open_log(folder).state
    except TurnbackError as error:
        code = error.code
    else:
        assert state.seq in (0, 2, 4, 5, 7)
    assert code in (None, "failed.log_corrupt")
