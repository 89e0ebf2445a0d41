"""Waking the threads of this process that wait for a log to grow, at the moment it does."""

from __future__ import annotations

import os
import threading
import weakref

__all__ = ["Signal", "signal_of"]


class Signal:
    """One log's. ``count`` goes up with each ``wake``, so that none is missed between a look at the log and the wait."""

    def __init__(self) -> None:
        self.count = 0
        self._condition = threading.Condition()

    def wake(self) -> None:
        """End every ``wait`` of this process for this log."""
        with self._condition:
            self.count += 1
            self._condition.notify_all()

    def wait(self, count: int, seconds: float) -> None:
        """Return once ``wake`` was called after the count was ``count``, or after ``seconds``."""
        with self._condition:
            if self.count == count:
                self._condition.wait(seconds)


_signals: weakref.WeakValueDictionary[str, Signal] = weakref.WeakValueDictionary()
_lock = threading.Lock()


def signal_of(folder: str) -> Signal:
    """The signal of the log in this folder: the same one for every object in this process that has it open."""
    with _lock:
        return _signals.setdefault(os.path.realpath(folder), Signal())
