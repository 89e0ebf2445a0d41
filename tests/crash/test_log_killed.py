"""Writers that are killed at any moment: afterwards the log has whole commits only, and nothing that was answered is missing."""

from pathlib import Path

from support.children import Child
from support.histories import WORKSPACE, FixedClock, added
from turnback.disk.lock import FileLock
from turnback.records.log import EventLog

# Commits of three records without end; says each number after its commit came back.
APPENDS = f"""
from turnback.clock import Clock
from turnback.records.events import Record
from turnback.records.log import EventLog
from turnback.records import folded
folded.SNAPSHOT_EVERY = 15
log = EventLog.open(sys.argv[1], {WORKSPACE!r}, Clock())
number = 0
while True:
    name = f"{{sys.argv[2]}}.{{number}}"
    log.append([Record("note.pending", {{"agents": [], "text": f"{{name}}.{{part}}" + "x" * 5000}}) for part in "abc"])
    say(name)
    number += 1
"""

# The same commit, but its process kills itself when a given part of the commit's bytes is written.
DIES = f"""
import signal
from turnback.clock import Clock
from turnback.records.events import Record
from turnback.records.log import EventLog
log = EventLog.open(sys.argv[1], {WORKSPACE!r}, Clock())
real = os.write
def write(descriptor, data):
    real(descriptor, data[: int(len(data) * float(sys.argv[2]))])
    os.kill(os.getpid(), signal.SIGKILL)
say("ready")
os.write = write
log.append([Record("note.pending", {{"agents": [], "text": f"{{part}}" + "x" * 5000}}) for part in "abc"])
"""


def open_log(folder: Path) -> EventLog:
    return EventLog.open(str(folder), WORKSPACE, FixedClock())


def commits(log: EventLog) -> list[str]:
    """Names of the commits in the log; each must be whole and in one piece."""
    records = list(log.records())
    assert [record.seq for record in records] == list(range(1, len(records) + 1)), "a gap or a repetition"
    names = [record.data["text"].rstrip("x") for record in records if record.type == "note.pending"]
    for index in range(0, len(names), 3):
        name = names[index].rpartition(".")[0]
        assert names[index : index + 3] == [f"{name}.{part}" for part in "abc"], "a commit was split"
    return [name.rpartition(".")[0] for name in names[::3]]


def test_a_writer_killed_many_times(tmp_path: Path) -> None:
    """A writer is killed after some answers, twenty times: every commit that it answered for is there, whole, once."""
    folder = tmp_path / "state"
    answered: list[str] = []
    for life in range(20):
        with Child(APPENDS, str(folder), str(life)) as child:
            answered += [child.hear() for _ in range(1 + life % 4)]
            child.process.kill()
            answered += child.process.stdout.read().split("\n")[:-1] if child.process.stdout else []
            child.process.wait()
        log = open_log(folder)
        found = commits(log)
        assert [name for name in answered if name not in found] == [], "an answered commit is missing"
        assert len(set(found)) == len(found)
    log = open_log(folder)
    (folder / "snapshot.ndjson").unlink(missing_ok=True)
    assert open_log(folder).state.dump() == log.state.dump()
    log.append([added("a2")])


def test_writers_killed_beside_one_that_lives(tmp_path: Path) -> None:
    """Two writers work at once and one is killed again and again, holding the lock or waiting for it: the other goes on."""
    folder = tmp_path / "state"
    answered: list[str] = []
    with Child(APPENDS, str(folder), "living") as living:
        for life in range(8):
            with Child(APPENDS, str(folder), f"dying{life}") as dying:
                answered += [dying.hear(), living.hear(), dying.hear()]
                dying.kill()
            answered += [living.hear() for _ in range(3)]
        living.kill()
    found = commits(open_log(folder))
    assert [name for name in answered if name not in found] == []
    assert FileLock(str(folder / "log.lock")).try_acquire()


def test_a_writer_that_dies_inside_its_write(tmp_path: Path) -> None:
    """A process dies with any part of its commit written: unless it was all of it, the commit is not there, and the tail is kept."""
    folder = tmp_path / "state"
    log = open_log(folder)
    log.append([added("a2")])
    whole = 0
    for index, part in enumerate((0.0, 0.001, 0.3, 0.34, 0.5, 0.67, 0.999, 1.0)):
        with Child(DIES, str(folder), str(part)) as child:
            assert child.hear() == "ready"
            assert child.process.wait() == -9
        whole += part == 1.0
        assert log.refresh().seq == 2 + index + 3 * whole
        log.append([added(f"b{index}")])
    assert len(log.torn) == 6
    assert open_log(folder).state.dump() == log.state.dump()
    assert [record.seq for record in log.records()] == list(range(1, log.state.seq + 1))
