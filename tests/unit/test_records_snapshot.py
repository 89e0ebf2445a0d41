"""Snapshots of the state: they change nothing but time."""

import errno
import os
from pathlib import Path
from zlib import crc32

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.histories import added, long_history
from support.logs import note, open_log, path_of, same
from turnback.records import folded, snapshot
from turnback.records.events import Record, StoredRecord
from turnback.records.log import EventLog
from turnback.records.state import State


@pytest.fixture
def folder(tmp_path: Path) -> str:
    return str(tmp_path / "state" / "app")


@pytest.fixture
def log(folder: str) -> EventLog:
    return open_log(folder)


# --- snapshots -----------------------------------------------------------------------------------------------------


@pytest.fixture
def snapshotted(folder: str, monkeypatch: pytest.MonkeyPatch) -> EventLog:
    """A log of a hundred records that has a snapshot somewhere in it, not at its end."""
    monkeypatch.setattr(folded, "SNAPSHOT_EVERY", 40)
    log = open_log(folder)
    for commit in long_history(3, 20):
        log.append(commit)
    assert 0 < snapshot.stored_seq(os.path.join(folder, "snapshot.ndjson")) < log.state.seq
    return log


def snapshot_path(log: EventLog) -> Path:
    return Path(log.folder, "snapshot.ndjson")


def test_a_snapshot_changes_nothing_but_time(snapshotted: EventLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its snapshot a log is read from there on, and the state is the same as from the beginning."""
    folds: list[int] = []
    real = State.apply

    def apply(state: State, record: StoredRecord) -> None:
        folds.append(record.seq)
        real(state, record)

    monkeypatch.setattr(State, "apply", apply)
    at = snapshot.stored_seq(str(snapshot_path(snapshotted)))
    with_it = open_log(snapshotted.folder).state
    assert folds == list(range(at + 1, snapshotted.state.seq + 1))
    snapshot_path(snapshotted).unlink()
    without_it = open_log(snapshotted.folder).state
    assert with_it.dump() == without_it.dump() == snapshotted.state.dump()


def test_a_snapshot_is_private(snapshotted: EventLog) -> None:
    """A snapshot holds prompts, so it is for its owner alone."""
    assert snapshot_path(snapshotted).stat().st_mode & 0o777 == 0o600


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60)
@given(data=st.data())
def test_a_snapshot_with_any_wrong_byte_is_ignored(snapshotted: EventLog, data: st.DataObject) -> None:
    """A snapshot that is cut or changed anywhere is not used, and the log opens all the same."""
    good = snapshot_path(snapshotted).read_bytes()
    at = data.draw(st.integers(0, len(good) - 1))
    try:
        for bad in (good[:at], good[:at] + bytes([good[at] ^ 1]) + good[at + 1 :], b""):
            snapshot_path(snapshotted).write_bytes(bad)
            log = open_log(snapshotted.folder)
            assert log._folded._snapshot_seq == 0, "a bad snapshot was believed"
            assert log.state.dump() == snapshotted.state.dump()
    finally:
        snapshot_path(snapshotted).write_bytes(good)


def with_right_checksum(body: bytes) -> bytes:
    return b"%08x\n%b" % (crc32(body), body)


@pytest.mark.parametrize(
    "change",
    [
        (b'"snapshot":1', b'"snapshot":2'),
        (b'"offset":', b'"offset":1'),
        (b'"crc":', b'"crc":1'),
        (b'"anchor":"', b'"anchor":"x'),
        (b'"snapshot":1', b'"else":1'),
        (b'"marks":[[', b'"marks":[["x",'),
        (b'"created"', b'"made"'),
        (b'{"seq":', b'{"seq":1'),
    ],
)
def test_a_snapshot_of_another_place_or_version_is_ignored(
    snapshotted: EventLog, change: tuple[bytes, bytes]
) -> None:
    """A snapshot whose checksum is right but that names another version, place or log is not used."""
    body = snapshot_path(snapshotted).read_bytes().partition(b"\n")[2]
    assert change[0] in body
    snapshot_path(snapshotted).write_bytes(with_right_checksum(body.replace(*change, 1)))
    log = open_log(snapshotted.folder)
    assert log._folded._snapshot_seq == 0
    assert log.state.dump() == snapshotted.state.dump()


def test_a_snapshot_of_another_log_is_ignored(
    snapshotted: EventLog, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that belongs to another log of the same length in the same workspace is not used."""
    other = open_log(str(tmp_path / "other"))
    for commit in long_history(3, 20):
        other.append([Record(record.type, record.data) for record in commit])
    changed = path_of(other).read_bytes().replace(b"-000000000001", b"-000000000002")
    assert changed != path_of(other).read_bytes()
    other_agents = open_log(str(tmp_path / "third"))
    for commit in long_history(4, 20):
        other_agents.append(commit)
    os.replace(snapshot_path(other_agents), snapshot_path(snapshotted))
    log = open_log(snapshotted.folder)
    assert log._folded._snapshot_seq == 0
    assert log.state.dump() == snapshotted.state.dump()


def test_a_log_that_was_cut_before_its_snapshot_ignores_it(snapshotted: EventLog) -> None:
    """When the log lost the part that a snapshot stands on, the snapshot is worth nothing."""
    lines = path_of(snapshotted).read_bytes().splitlines(keepends=True)
    path_of(snapshotted).write_bytes(b"".join(lines[:20]))
    log = open_log(snapshotted.folder)
    assert log.state.seq == 20
    log.append([note("x")])
    assert same(log)


def test_processes_do_not_write_the_same_snapshot_twice(
    snapshotted: EventLog, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A writer that is due for a snapshot finds that another one has just written it, and leaves it."""
    saves: list[int] = []
    real = snapshot.save

    def save(path: str, taken: snapshot.Snapshot) -> None:
        saves.append(taken.state.seq)
        real(path, taken)

    others = [open_log(snapshotted.folder) for _ in range(4)]
    monkeypatch.setattr(snapshot, "save", save)
    for number in range(100):
        others[number % 4].append([note(str(number))])
    assert saves == [120, 160, 200]
    others[0].refresh()
    assert same(others[0])


def test_a_snapshot_that_cannot_be_written_costs_nothing(
    folder: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A full disk while the snapshot is written does not fail the commit before it, which is in the log."""
    monkeypatch.setattr(folded, "SNAPSHOT_EVERY", 2)

    def fail(*args: object) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(os, "rename", fail)
    log = open_log(folder)
    assert log.append([added("a2"), note("x"), note("y")])
    assert sorted(os.listdir(folder)) == ["log.lock", "log.ndjson"]


def test_a_long_log_pays_no_more_for_snapshots(folder: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The longer the log, the rarer its snapshots: each costs its length, and comes after a tenth of it."""
    monkeypatch.setattr(folded, "SNAPSHOT_EVERY", 10)
    saves: list[int] = []
    monkeypatch.setattr(snapshot, "save", lambda path, taken: saves.append(taken.state.seq))
    log = open_log(folder)
    for number in range(2000):
        log.append([note(str(number))])
    assert len(saves) < 80
    assert sum(saves) < 25 * 2000
