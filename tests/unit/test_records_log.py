"""The event log: commits whole or not at all, in one order for everybody."""

import errno
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from support.children import Child
from support.histories import WORKSPACE, FixedClock, added, ended, started, taken
from support.logs import APPEND, note, open_log, path_of, same, texts
from turnback.disk.lock import FileLock
from turnback.disk.ndjson import LineFile
from turnback.errors import Conflict, Failed, InvalidParams, TimedOut, Unsupported
from turnback.records.codec import dumps, encode_group
from turnback.records.events import Record, StoredRecord
from turnback.records.log import EventLog
from turnback.records.state import State


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "app")


@pytest.fixture
def log(folder: str) -> EventLog:
    return open_log(folder)


# --- opening -------------------------------------------------------------------------------------------------------


def test_opening_makes_nothing(log: EventLog, folder: str) -> None:
    """A log that nobody wrote to is empty, and looking at it leaves no trace on the disk."""
    assert log.refresh().seq == 0
    assert log.state.agents == {}
    assert list(log.records()) == []
    assert log.torn == []
    assert list(log.follow(0, lambda: True)) == []
    log.sync()
    log.close()
    assert not os.path.exists(os.path.dirname(folder))


def test_the_first_commit_makes_a_private_folder(log: EventLog, folder: str) -> None:
    """The first append makes the folder 0700 and every file in it 0600, and puts the log's own record before it."""
    stored = log.append([added("a2")])
    assert [(record.seq, record.type) for record in stored] == [(2, "agent.added")]
    first, second = log.records()
    assert (first.seq, first.type, first.ts) == (1, "log.created", second.ts)
    assert first.data == {
        "format": 1,
        "workspace": WORKSPACE,
        "id": "5b0c8d1e-2f3a-4b5c-9d6e-000000000001",
    }
    assert os.stat(folder).st_mode & 0o777 == 0o700
    assert {os.stat(os.path.join(folder, name)).st_mode & 0o777 for name in os.listdir(folder)} == {0o600}


def test_the_source_is_the_logs_own(log: EventLog, folder: str) -> None:
    """Whoever opens the log, before or after its first record, names the same source once it is there."""
    early = open_log(folder)
    assert log.source == "venom/5b0c8d1e-2f3a-4b5c-9d6e-000000000001"
    log.append([added("a2")])
    clock = FixedClock()
    clock.ids = 70
    late = EventLog.open(folder, WORKSPACE, clock)
    early.refresh()
    assert log.source == early.source == late.source == "venom/5b0c8d1e-2f3a-4b5c-9d6e-000000000001"


def test_a_log_of_another_workspace_is_refused(log: EventLog, folder: str) -> None:
    """A state folder that belongs to another workspace is refused, with both ways to say so, and is not changed."""
    log.append([added("a2")])
    before = path_of(log).read_bytes()
    with pytest.raises(InvalidParams, match="belongs to the workspace /home/u/app; choose another") as caught:
        open_log(folder, "/home/u/other")
    assert caught.value.code == "invalid_params.state_dir"
    assert caught.value.data == {"path": folder}
    assert path_of(log).read_bytes() == before


def test_a_log_that_turns_out_to_be_anothers_is_refused_every_time(folder: str) -> None:
    """Two workspaces open one empty folder; the one that comes second is refused at its first append, and again."""
    mine, theirs = open_log(folder), open_log(folder, "/home/u/other")
    mine.append([added("a2")])
    for _ in range(2):
        with pytest.raises(InvalidParams):
            theirs.append([added("a3")])
        with pytest.raises(InvalidParams):
            theirs.refresh()
    assert [record.type for record in mine.records()] == ["log.created", "agent.added"]


def test_a_workspace_that_is_not_utf8_has_its_own_log(folder: str) -> None:
    """Two workspaces whose names look alike because their bytes can't be shown are two workspaces."""
    first, second = os.fsdecode(b"/home/u/gr\xe9"), os.fsdecode(b"/home/u/gr\xe8")
    open_log(folder, first).append([added("a2")])
    assert open_log(folder, first).state.seq == 2
    with pytest.raises(InvalidParams, match="gr\ufffd"):
        open_log(folder, second)


@pytest.mark.parametrize("shape", ["our lines", "other lines"])
def test_a_newer_format_asks_for_a_newer_program(log: EventLog, folder: str, shape: str) -> None:
    """A log of format 2 is refused with the advice to upgrade, even when its lines can't be read; nothing is set aside."""
    os.makedirs(folder, 0o700)
    data = {"format": 2, "workspace": WORKSPACE, "id": "x"}
    line = encode_group([Record("log.created", data)], 1, 5)
    path_of(log).write_bytes(line if shape == "our lines" else dumps({"v": 2, "data": data}) + b"\n")
    before = path_of(log).read_bytes()
    for attempt in (lambda: open_log(folder), lambda: log.append([added("a2")]), log.refresh):
        with pytest.raises(Unsupported, match="install a newer turnback") as caught:
            attempt()
        assert caught.value.code == "unsupported.log_format"
    assert path_of(log).read_bytes() == before
    assert log.torn == []


def test_a_log_that_does_not_begin_with_itself_is_damaged(log: EventLog, folder: str) -> None:
    """A log whose first record is not its own is not taken for anybody's."""
    os.makedirs(folder, 0o700)
    path_of(log).write_bytes(encode_group([added("a2")], 1, 5))
    with pytest.raises(Failed, match=r"does not begin with log\.created") as caught:
        open_log(folder)
    assert caught.value.code == "failed.log_corrupt"


def test_a_folder_that_others_may_write_to_is_refused(log: EventLog, folder: str) -> None:
    """Neither reading nor writing goes on in a folder where somebody else could have put the log."""
    log.append([added("a2")])
    os.chmod(folder, 0o777)
    with pytest.raises(Failed, match="chmod go-w"):
        open_log(folder)
    with pytest.raises(Failed, match="chmod go-w"):
        log.append([note("x")])


# --- appending -----------------------------------------------------------------------------------------------------


def test_a_commit_is_numbered_stamped_and_folded(log: EventLog) -> None:
    """The records of a commit follow each other without a gap, have one time, and are in the state at once."""
    log.append([added("a2")])
    stored = log.append([started("a2", "t1"), taken("a2", "k1", "turn_start", turn="t1")])
    assert [record.seq for record in stored] == [3, 4]
    assert stored[0].ts == stored[1].ts
    assert log.state.agent("a2").running_turn == "t1"
    assert list(log.records(2)) == stored
    assert same(log)


def test_a_commit_is_one_write(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many records a commit has, the log is written to once."""
    log.append([added("a2")])
    real = os.write
    writes: list[bytes] = []

    def write(descriptor: int, data: bytes) -> int:
        writes.append(data)
        return real(descriptor, data)

    monkeypatch.setattr(os, "write", write)
    log.append([note(str(number)) for number in range(50)])
    assert len(writes) == 1
    assert writes[0].count(b"\n") == 50


def test_no_records_write_nothing(log: EventLog) -> None:
    """A commit of nothing makes no log, but its condition is looked at."""
    assert log.append([]) == []
    assert log.build(lambda state: []) == []
    assert not path_of(log).exists()
    with pytest.raises(Conflict):
        log.append([], check=refuse)


def refuse(state: State) -> None:
    raise Conflict("checkpoint_pending", "not now")


def test_what_a_condition_raises_stops_the_commit(log: EventLog) -> None:
    """A check that refuses leaves the log byte for byte as it was, and the next commit goes through."""
    log.append([added("a2")])
    before = path_of(log).read_bytes()
    with pytest.raises(Conflict, match="not now"):
        log.append([note("x")], check=refuse)
    assert path_of(log).read_bytes() == before
    log.append([note("y")])


def test_a_condition_sees_what_others_committed(log: EventLog, folder: str) -> None:
    """The state that a check or a maker sees has the commits of every other writer up to this moment."""
    log.append([added("a2")])
    other = open_log(folder)
    other.append([started("a2", "t1")])
    seen: list[int] = []
    log.append([note("x")], check=lambda state: seen.append(state.seq))

    def make(state: State) -> list[Record]:
        seen.append(state.seq)
        return [note("y")]

    other.build(make)
    assert seen == [3, 4]


def test_ids_are_made_under_the_lock(folder: str) -> None:
    """Eight threads with a log each take the next checkpoint number of one agent: every number comes once."""
    open_log(folder).append([added("a2")])
    begin = threading.Barrier(8)

    def make(state: State) -> list[Record]:
        return [taken("a2", f"k{state.agent('a2').next_checkpoint}")]

    def work() -> None:
        log = open_log(folder)
        begin.wait()
        for _ in range(5):
            log.build(make)

    threads = [threading.Thread(target=work) for _ in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    log = open_log(folder)
    assert list(log.state.agent("a2").checkpoints) == [f"k{number}" for number in range(1, 41)]


def test_forty_threads_with_one_log_lose_nothing(log: EventLog) -> None:
    """Forty threads commit through one object: every record is there once, in a gapless order that the state agrees with."""
    begin = threading.Barrier(40)
    stored: list[StoredRecord] = []

    def work(number: int) -> None:
        begin.wait()
        for step in range(5):
            stored.extend(log.append([note(f"{number}.{step}.a"), note(f"{number}.{step}.b")]))
            log.refresh()

    threads = [threading.Thread(target=work, args=(number,)) for number in range(40)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    records = list(log.records())
    assert [record.seq for record in records] == list(range(1, 402))
    assert sorted(stored) == records[1:]
    found = texts(records)
    assert [text[:-1] for text in found[::2]] == [text[:-1] for text in found[1::2]], "a commit was split"
    assert same(log)


def test_processes_that_append_at_once_lose_nothing(folder: str) -> None:
    """Three processes commit at once: no record is lost, none is double, numbers have no gap, and commits stay together."""
    program = (
        APPEND
        + "say('ready'); hear()\nfor n in range(60): log.append([note(f'{sys.argv[2]}.{n}.a'), note(f'{sys.argv[2]}.{n}.b')])"
    )
    children = [Child(program, folder, str(number)) for number in range(3)]
    for child in children:
        assert child.hear() == "ready"
    for child in children:
        child.say("go")
    for child in children:
        with child:
            child.finish()
    log = open_log(folder)
    records = list(log.records())
    assert [record.seq for record in records] == list(range(1, 362))
    found = texts(records)
    assert sorted(found) == sorted(f"{c}.{n}.{x}" for c in range(3) for n in range(60) for x in "ab")
    assert [text[:-1] for text in found[::2]] == [text[:-1] for text in found[1::2]], "a commit was split"
    assert same(log)


def test_what_the_caller_keeps_is_not_the_logs(log: EventLog) -> None:
    """Changing a record's data after it was appended changes neither the state nor what was returned."""
    record = taken("a2", "k1")
    stored = log.append([added("a2"), record])
    record.data["repos"].clear()
    record.data["label"] = "later"
    assert stored[1].data["repos"]
    assert log.state.agent("a2").checkpoints["k1"]["repos"]
    assert same(log)


def test_the_state_is_what_a_reader_would_read(log: EventLog) -> None:
    """Tuples and bad strings are in the state as JSON brings them back, in this process as in any other."""
    log.append([added("a2"), Record("agent.stale_requests", {"agent": "a2", "requests": ("r\udcff", "r2")})])
    assert log.state.agent("a2").stale_requests == ["r\ufffd", "r2"]
    assert same(log)


@pytest.mark.parametrize(
    "record", [started("a9", "t1"), ended("a2", "t1"), added("a2"), Record("turn.begun", {"agent": "a2"})]
)
def test_a_record_that_cannot_follow_never_gets_in(log: EventLog, record: Record) -> None:
    """A commit with a record that contradicts the log, or of no known type, is refused whole, and the state is as before."""
    log.append([added("a2")])
    before, dump = path_of(log).read_bytes(), log.state.dump()
    with pytest.raises(Failed) as caught:
        log.append([note("first"), record])
    assert caught.value.code == "failed.internal"
    assert path_of(log).read_bytes() == before
    assert log.state.dump() == dump
    log.append([note("next")])
    assert same(log)


def test_what_json_cannot_hold_changes_nothing(log: EventLog) -> None:
    """A record with bytes in it is a mistake of the program, found before anything happens."""
    with pytest.raises(TypeError):
        log.append([Record("note.pending", {"agents": [], "text": b"x"})])
    assert log.state.seq == 0
    log.append([added("a2")])
    assert same(log)


@pytest.mark.parametrize("step", ["write", "fsync"])
def test_a_full_disk_leaves_the_log_as_it_was(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """A commit that can't be written or synced is not in the log and not in the state; the next one goes through."""
    log.append([added("a2")])
    before, dump = path_of(log).read_bytes(), log.state.dump()

    def fail(*args: object) -> int:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    with monkeypatch.context() as patch:
        patch.setattr(os, step, fail)
        with pytest.raises(Failed, match="free some space"):
            log.append([started("a2", "t1")], durable=True)
    assert path_of(log).read_bytes() == before
    assert log.state.dump() == dump
    log.append([started("a2", "t1")])
    assert same(log)


def test_appending_inside_an_append_is_an_error_and_not_a_wait(log: EventLog) -> None:
    """A condition that appends is told so; looking again from inside is allowed."""

    def nested(state: State) -> None:
        assert log.refresh() is state
        log.append([note("inner")])

    with pytest.raises(RuntimeError, match="while it is being written to"):
        log.append([note("outer")], check=nested)
    log.append([note("after")])
    assert texts(log.records()) == ["after"]


def test_waiting_for_another_writer_ends(log: EventLog, folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When another program keeps the log's lock, the append gives up with its name; reading goes on."""
    log.append([added("a2")])
    log._lock.timeout = 0.01
    with FileLock(os.path.join(folder, "log.lock"), "a long story"):
        with pytest.raises(TimedOut, match="a long story"):
            log.append([note("x")])
        assert log.refresh().seq == 2


def test_a_deleted_folder_is_made_again(log: EventLog, folder: str) -> None:
    """When the user deletes the state folder, the next look is empty and the next append begins a new log."""
    log.append([added("a2")])
    first = log.source
    for name in os.listdir(folder):
        os.unlink(os.path.join(folder, name))
    os.rmdir(folder)
    assert log.refresh().seq == 0
    log.append([added("a7")])
    assert list(log.state.agents) == ["a7"]
    assert log.source == first
    assert same(log)


@pytest.mark.parametrize(
    "step", ["set_aside", "append", "look"], ids=["before the write", "in the write", "behind the write"]
)
def test_an_interrupted_commit_leaves_log_and_state_in_step(
    log: EventLog, monkeypatch: pytest.MonkeyPatch, step: str
) -> None:
    """Ctrl-C anywhere in a commit: whether it is in the log or not, the state says the same, and the next one goes through."""
    log.append([added("a2")])
    real = getattr(LineFile, step)
    armed = [False]

    def interrupted(file: LineFile, *args: Any) -> Any:
        result = real(file, *args)
        if armed[0]:
            armed[0] = False
            raise KeyboardInterrupt
        return result

    def arm(state: State) -> None:
        armed[0] = True

    monkeypatch.setattr(LineFile, step, interrupted)
    with pytest.raises(KeyboardInterrupt):
        log.append([started("a2", "t1")], check=arm)
    assert log.refresh().seq in (2, 3)
    assert same(log)
    log.append([note("next")])
    assert same(log)


def test_an_interrupted_reader_misses_nothing(log: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Ctrl-C while a reader folds what it has read: its next look has every record once."""
    log.append([added("a2")])
    reader = open_log(log.folder)
    log.append([started("a2", "t1"), note("x"), ended("a2", "t1")])
    real = State.apply

    def interrupted(state: State, record: StoredRecord) -> None:
        if record.seq == 4:
            raise KeyboardInterrupt
        real(state, record)

    with monkeypatch.context() as patch:
        patch.setattr(State, "apply", interrupted)
        with pytest.raises(KeyboardInterrupt):
            reader.refresh()
    assert reader.refresh().dump() == log.state.dump()


# --- durable -------------------------------------------------------------------------------------------------------


def test_durable_is_on_the_disk_before_the_append_returns(
    log: EventLog, folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A durable first commit syncs the log, its folder, and the folders above that were made for it; a plain one syncs nothing."""
    synced: list[str] = []
    real = os.fsync

    def fsync(descriptor: int) -> None:
        found = os.fstat(descriptor)
        places = {(os.stat(place).st_dev, os.stat(place).st_ino): place for place in every}
        synced.append(places[found.st_dev, found.st_ino])
        real(descriptor)

    top = os.path.dirname(os.path.dirname(folder))
    every = [top, os.path.dirname(folder), folder, os.path.join(folder, "log.ndjson")]
    monkeypatch.setattr(os, "fsync", fsync)
    log.append([added("a2")])
    assert synced == []
    log.append([note("x")], durable=True)
    assert sorted(synced) == sorted(every)
    synced.clear()
    log.append([note("y")], durable=True)
    assert synced == every[3:]
    synced.clear()
    log.sync()
    assert synced == every[3:]
