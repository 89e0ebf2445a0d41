"""The public face: every name is there, in order, with words; and importing it costs and does nothing."""

from __future__ import annotations

import inspect
import json
import os
import subprocess
import sys
from typing import TYPE_CHECKING, Any

import pytest

import turnback

if TYPE_CHECKING:
    from pathlib import Path

PUBLIC = [name for name in turnback.__all__ if not name.startswith("__")]


def test_all_is_sorted_and_importable() -> None:
    """``__all__`` is sorted, without repetition, and each name in it exists; nothing else of ours is beside them."""
    assert turnback.__all__ == sorted(set(turnback.__all__))
    for name in turnback.__all__:
        assert hasattr(turnback, name), name
    beside = {
        name
        for name, value in vars(turnback).items()
        if not name.startswith("_") and not inspect.ismodule(value) and name not in turnback.__all__
    }
    assert beside == set()


@pytest.mark.parametrize("name", PUBLIC)
def test_every_public_name_has_words(name: str) -> None:
    """Each class, and each method and property that a caller may use, says in a sentence what it is."""
    found: Any = getattr(turnback, name)
    assert _words(found), name
    for member, value in vars(found).items():
        if member.startswith("_"):
            continue
        plain = value.fget if isinstance(value, property) else getattr(value, "__func__", value)
        if inspect.isfunction(plain):
            assert _words(plain), f"{name}.{member}"


def _words(value: object) -> bool:
    text = inspect.getdoc(value) or ""
    first = text.partition("\n\n")[0]
    return len(first.split()) > 1 and first.rstrip().endswith((".", "``", ":"))


def test_importing_costs_and_does_nothing(tmp_path: Path) -> None:
    """An import loads no libgit2, starts no thread, makes no file, and asks for none of our variables."""
    program = """
import json, os, sys, threading
asked = []
class Watched(type(os.environ)):
    def __getitem__(self, key):
        asked.append(key)
        return super().__getitem__(key)
os.environ.__class__ = Watched
import turnback
print(json.dumps({
    "modules": [name for name in sys.modules if name.partition(".")[0] in ("pygit2", "asyncio", "textual")],
    "asked": asked,
    "threads": threading.active_count(),
    "made": os.listdir("."),
}))
"""
    done = subprocess.run(
        [sys.executable, "-c", program],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": os.pathsep.join(sys.path), "PYTHONDONTWRITEBYTECODE": "1"},
        capture_output=True,
        check=True,
    )
    found = json.loads(done.stdout)
    assert found["modules"] == []
    assert not [name for name in found["asked"] if name.startswith(("TURNBACK", "GIT_"))]
    assert (found["threads"], found["made"]) == (1, [])


def test_the_version_is_the_packages() -> None:
    """``__version__`` is what the installed package says."""
    from importlib.metadata import version

    assert turnback.__version__ == version("turnback")
