"""Logs in a test: opened with a fixed clock, written to by other processes, compared with what the disk says."""

from collections.abc import Iterator, Sequence
from pathlib import Path

from support.histories import WORKSPACE, FixedClock
from turnback.records.events import Record, StoredRecord
from turnback.records.log import EventLog

APPEND = f"""
from turnback.clock import Clock
from turnback.records.events import Record
from turnback.records.log import EventLog
log = EventLog.open(sys.argv[1], {WORKSPACE!r}, Clock())
def note(text): return Record("note.pending", {{"agents": [], "text": text}})
"""
"""How the program of a ``Child`` that appends begins; its first argument is the state folder."""


def open_log(folder: str | Path, workspace: str = WORKSPACE) -> EventLog:
    return EventLog.open(str(folder), workspace, FixedClock())


def path_of(log: EventLog) -> Path:
    return Path(log.folder) / "log.ndjson"


def note(text: str) -> Record:
    """A record that can always follow."""
    return Record("note.pending", {"agents": [], "text": text})


def texts(records: Sequence[StoredRecord] | Iterator[StoredRecord]) -> list[str]:
    """The texts of the notes."""
    return [record.data["text"] for record in records if record.type == "note.pending"]


def same(log: EventLog) -> bool:
    """Whether a log that is opened now, and one that is opened without a snapshot, have this one's state."""
    dump = log.state.dump()
    fresh = open_log(log.folder).state.dump()
    Path(log.folder, "snapshot.ndjson").unlink(missing_ok=True)
    return dump == fresh == open_log(log.folder).state.dump()
