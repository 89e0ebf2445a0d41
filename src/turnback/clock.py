"""Time and random ids through one object, so that a test can fix both.

Wall-clock times are milliseconds since the epoch (UTC). They are shown to people and used for retention; nothing is ever
ordered by them: the order of captures is the order of the log (A-09).
"""

from __future__ import annotations

import time
import uuid
from datetime import UTC, datetime


class Clock:
    """The real clock. Tests put a subclass in its place."""

    def now(self) -> int:
        """Milliseconds since the epoch."""
        return time.time_ns() // 1_000_000

    def monotonic(self) -> float:
        """Seconds of a clock that never goes back, for deadlines."""
        return time.monotonic()

    def new_uuid(self) -> str:
        """A fresh random UUID."""
        return str(uuid.uuid4())


def stamp(milliseconds: int) -> str:
    """The form of every time in a record: UTC, milliseconds, ``Z`` (V-012)."""
    moment = datetime.fromtimestamp(milliseconds / 1000, UTC)
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{milliseconds % 1000:03d}Z"


def milliseconds(text: str) -> int:
    """The inverse of ``stamp``."""
    moment = datetime.strptime(text, "%Y-%m-%dT%H:%M:%S.%fZ").replace(tzinfo=UTC)
    return int(moment.timestamp()) * 1000 + moment.microsecond // 1000
