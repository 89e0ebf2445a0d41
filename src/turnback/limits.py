"""The limits that one capture keeps, and the reasons for which it leaves a path out.

Values only: the defaults live in ``turnback.config``, and whoever scans is handed a ``CaptureLimits``.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum

from turnback import paths


class SkipReason(StrEnum):
    """Why a path isn't captured (4.2, and DESIGN part 4 for the ones beyond the seed)."""

    TOO_BIG = "too_big"
    SKIP_WORKTREE = "skip_worktree"
    UNREADABLE = "unreadable"
    NOT_REGULAR = "not_regular"
    NESTED_UNBORN = "nested_unborn"
    INVALID_PATH = "invalid_path"
    FILTER = "filter"


@dataclass(frozen=True, slots=True)
class Skipped:
    """One path that a capture left out: the tree keeps what the index had for it, and a rollback leaves it alone.

    A path that ends in ``/`` stands for a folder and everything beneath it (DESIGN part 4, compact form).
    """

    path: bytes
    bytes: int
    reason: SkipReason

    def to_dict(self) -> dict[str, str | int]:
        """``{path, bytes, reason}``, with ``path_b64`` where the name isn't UTF-8."""
        return {**paths.members(self.path), "bytes": self.bytes, "reason": str(self.reason)}


@dataclass(frozen=True, slots=True)
class CaptureLimits:
    """What one capture may take.

    Attributes:
        max_file_bytes: a new or changed file above this is skipped (``too_big``).
        max_total_bytes: new and changed files above this together fail the capture (``failed.checkpoint_too_large``).
        deadline: a value of ``Clock.monotonic`` after which it fails with ``timeout.checkpoint``; None for no limit.
    """

    max_file_bytes: int
    max_total_bytes: int
    deadline: float | None = None
