"""A log that ends anywhere: every whole commit is there, the rest is kept aside, and the log goes on."""

from pathlib import Path

import pytest

from support.histories import WORKSPACE, FixedClock, added, ended, started
from turnback.records.events import Record
from turnback.records.log import EventLog

COMMITS = [
    [added("a2")],
    [started("a2", "t1", prompt="grüße\n")],
    [
        ended("a2", "t1"),
        Record("agent.state", {"agent": "a2", "state": "archived"}),
        Record("note.pending", {"agents": ["a2"], "text": "x"}),
    ],
]


def open_log(folder: Path) -> EventLog:
    return EventLog.open(str(folder), WORKSPACE, FixedClock())


@pytest.fixture
def whole(tmp_path: Path) -> tuple[bytes, list[int]]:
    """The bytes of a log, and where its commits end."""
    log = open_log(tmp_path / "whole")
    ends = [0]
    path = tmp_path / "whole" / "log.ndjson"
    for commit in COMMITS:
        log.append(commit)
        ends.append(path.stat().st_size)
    return path.read_bytes(), ends


def check_cut(folder: Path, data: bytes, cut: int, ends: list[int]) -> None:
    """A log of which only ``cut`` bytes were written opens with the commits that are whole, and goes on."""
    folder.mkdir(mode=0o700)
    path = folder / "log.ndjson"
    path.write_bytes(data[:cut])
    path.chmod(0o600)
    whole = max(end for end in ends if end <= cut)

    reader = open_log(folder)
    assert reader.state.seq == data[:whole].count(b"\n")
    assert len(list(reader.records())) == reader.state.seq
    assert path.read_bytes() == data[:cut], "a reader changed the log"
    assert reader.torn == [], "a reader set something aside"

    writer = open_log(folder)
    stored = writer.append([added("a3")])
    assert path.read_bytes()[:whole] == data[:whole], "a whole commit was lost"
    assert stored[-1].seq == max(reader.state.seq, 1) + 1
    assert [Path(torn).read_bytes() for torn in writer.torn] == ([data[whole:cut]] if cut > whole else [])
    assert reader.refresh().dump() == writer.state.dump() == open_log(folder).state.dump()
    assert len(list(writer.records())) == writer.state.seq
    assert set(writer.state.agents) == ({"a2", "a3"} if whole else {"a3"})


def test_cut_at_every_byte_of_the_last_commit(tmp_path: Path, whole: tuple[bytes, list[int]]) -> None:
    """A writer is killed after any number of bytes of its commit: the commits before it are there exactly, and the next one works."""
    data, ends = whole
    for cut in range(ends[-2], len(data) + 1):
        check_cut(tmp_path / str(cut), data, cut, ends)


def test_cut_at_every_byte_of_the_first_commit(tmp_path: Path, whole: tuple[bytes, list[int]]) -> None:
    """A writer is killed in its very first commit: there is no log yet, and the next writer begins one."""
    data, ends = whole
    for cut in range(ends[1] + 1):
        check_cut(tmp_path / str(cut), data, cut, ends)


def test_a_lost_block_in_the_last_commit(tmp_path: Path, whole: tuple[bytes, list[int]]) -> None:
    """A power cut leaves zeros where a block of the last commit should be: wherever they are, that commit is not there."""
    data, ends = whole
    start = ends[-2]
    for index, at in enumerate(range(start, len(data), 13)):
        folder = tmp_path / str(index)
        folder.mkdir(mode=0o700)
        torn = data[:at] + bytes(min(40, len(data) - at)) + data[at + 40 :]
        (folder / "log.ndjson").write_bytes(torn)
        (folder / "log.ndjson").chmod(0o600)
        log = open_log(folder)
        assert log.state.seq == data[:start].count(b"\n")
        log.append([added("a3")])
        assert [Path(kept).read_bytes() for kept in log.torn] == [torn[start:]]
        assert open_log(folder).state.dump() == log.state.dump()


def test_one_torn_tail_after_another(tmp_path: Path) -> None:
    """Writers that are killed again and again leave a tail each; all are kept, and no commit is lost."""
    folder = tmp_path / "state"
    open_log(folder).append([added("a0")])
    tails = []
    for number in range(1, 6):
        tail = b'{"seq":%d,"ts":' % number
        with (folder / "log.ndjson").open("ab") as file:
            file.write(tail)
        tails.append(tail)
        open_log(folder).append([added(f"a{number}")])
    log = open_log(folder)
    assert list(log.state.agents) == [f"a{number}" for number in range(6)]
    assert [Path(torn).read_bytes() for torn in log.torn] == tails
