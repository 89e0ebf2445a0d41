"""Typed settings: parsed and checked from bytes or values, defaults with their reasons. This module finds no files itself.

All ``checkpoints.*`` keys are the user's alone (11.5): a repository can't set them, because nothing here ever reads one.
The command finds the user's file (``turnback.cli.env``); a library caller passes a ``Config``, a dict, or nothing.
"""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field, fields, replace
from typing import Any, Self

from turnback.errors import InvalidParams

_DURATION = re.compile(r"(\d{1,12})(ms|s|m|h|d)")
_UNITS = {"ms": 1, "s": 1000, "m": 60_000, "h": 3_600_000, "d": 86_400_000}

ROLLBACK_NOTE = (
    "Note: the files were rolled back to their state {when}. Changes made after that point are gone, and what you "
    "remember of them may no longer be true. Read the files before you rely on them."
)


def duration(text: object, key: str) -> int:
    """Milliseconds of ``<int>(ms|s|m|h|d)`` (A-33).

    Raises:
        InvalidParams: ``invalid_params.config``.
    """
    match = _DURATION.fullmatch(text) if isinstance(text, str) else None
    if match is None:
        raise InvalidParams(
            "config",
            f"{key}: {text!r} is no duration; write a number and ms, s, m, h or d, such as 30s or 14d",
        )
    return int(match[1]) * _UNITS[match[2]]


def _whole(value: object) -> bool:
    return isinstance(value, int) and not isinstance(value, bool) and value >= 0


@dataclass(frozen=True, slots=True)
class CheckpointsConfig:
    """The ``checkpoints`` keys (V-460): durations as text, sizes in bytes.

    Attributes:
        enabled: False stops automatic capture only; explicit checkpoints and rollbacks still work.
        max_file_bytes: 50 MiB: above that a file is hardly source, and one stray dump must not fill the disk.
        max_total_bytes: 512 MiB for one capture: more is usually a build folder that nobody ignored.
        keep: how many of an agent's turn checkpoints stay.
        keep_for: how long any checkpoint stays; labelled ones go by this alone.
        keep_safety: how long a safety checkpoint stays, since it may hold the only copy of a person's edit.
        timeout: for one capture.
        rollback_note: put before the next prompt after a rollback of files alone; ``{when}`` is filled in.
    """

    enabled: bool = True
    max_file_bytes: int = 52_428_800
    max_total_bytes: int = 536_870_912
    keep: int = 100
    keep_for: str = "14d"
    keep_safety: str = "30d"
    timeout: str = "30s"
    rollback_note: str = ROLLBACK_NOTE

    def __post_init__(self) -> None:
        for name in ("max_file_bytes", "max_total_bytes", "keep"):
            value = getattr(self, name)
            if not _whole(value):
                raise InvalidParams(
                    "config", f"checkpoints.{name}: {value!r} is no whole number of 0 or more"
                )
        if not isinstance(self.enabled, bool):
            raise InvalidParams("config", f"checkpoints.enabled: {self.enabled!r} is neither true nor false")
        if not isinstance(self.rollback_note, str):
            raise InvalidParams("config", "checkpoints.rollback_note: it must be text")
        for name in ("keep_for", "keep_safety", "timeout"):
            duration(getattr(self, name), f"checkpoints.{name}")

    @property
    def timeout_seconds(self) -> float:
        """``timeout`` in seconds."""
        return duration(self.timeout, "checkpoints.timeout") / 1000


@dataclass(frozen=True, slots=True)
class HarnessConfig:
    """The ``harness`` keys: ``body_max`` cuts patch text (bytes; A-04), ``request_timeout`` bounds an adapter's answer."""

    body_max: int = 262_144
    request_timeout: str = "60s"

    def __post_init__(self) -> None:
        if not _whole(self.body_max):
            raise InvalidParams(
                "config", f"harness.body_max: {self.body_max!r} is no whole number of 0 or more"
            )
        duration(self.request_timeout, "harness.request_timeout")


@dataclass(frozen=True, slots=True)
class Config:
    """Every setting. Immutable; ``Config.of`` makes one from what a caller has."""

    checkpoints: CheckpointsConfig = field(default_factory=CheckpointsConfig)
    harness: HarnessConfig = field(default_factory=HarnessConfig)

    @classmethod
    def of(cls, source: Any) -> Self:
        """A config from nothing, a config, a dict or JSON text.

        Raises:
            InvalidParams: ``invalid_params.config``, naming the key.
        """
        if isinstance(source, cls):
            return source
        if source is None:
            return cls()
        if isinstance(source, str | bytes):
            try:
                source = json.loads(source)
            except ValueError as error:
                raise InvalidParams("config", f"the configuration is no JSON: {error}") from error
        if not isinstance(source, dict):
            raise InvalidParams(
                "config", "the configuration must be an object with the sections checkpoints and harness"
            )
        config = cls()
        for section, values in source.items():
            if section not in {found.name for found in fields(cls)} or not isinstance(values, dict):
                raise InvalidParams(
                    "config",
                    f"{section!r} is no section of the configuration; there are checkpoints and harness",
                )
            current = getattr(config, section)
            known = {found.name for found in fields(current)}
            for key in values:
                if key not in known:
                    raise InvalidParams(
                        "config", f"{section}.{key} is no setting; {section} has {', '.join(sorted(known))}"
                    )
            config = replace(config, **{section: replace(current, **values)})
        return config
