"""``turnback demo``: it works, it checks itself, and it touches nothing of the user's."""

from __future__ import annotations

import io
import os
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command import Command
from turnback.cli import main
from turnback.cli.env import Environment
from turnback.cli.terminal import Terminal

if TYPE_CHECKING:
    from collections.abc import Sequence


@pytest.fixture
def scratch(tmp_path: Path) -> Path:
    """Where the demonstration makes its folder."""
    place = tmp_path / "scratch"
    place.mkdir()
    return place


def test_the_demonstration_passes_and_leaves_nothing(tmp_path: Path, scratch: Path, home: Path) -> None:
    """Exit code 0, every step told, the folder gone, the home as it was."""
    (home / "gitconfig").write_text("[core]\n\texcludesFile = /dev/null\n[commit]\n\tgpgsign = true\n")
    before = sorted(os.listdir(home))
    ran = Command(tmp_path, {"TMPDIR": str(scratch), "TURNBACK_STATE": str(tmp_path / "state")})("demo")
    assert "[conflict.outside_edits]" in ran.out
    assert "(exit code 5)" in ran.out
    assert "--plan=p1-" in ran.out
    assert "↺ Rolled back to k2 (after t1) · 3 files · files only · undo: k4" in ran.out
    assert "↺ Rolled back to k4 (after t2) · 3 files · files only · undo: k6" in ran.out
    assert "checks passed: every byte is where it should be." in ran.out
    assert os.listdir(scratch) == []
    assert sorted(os.listdir(home)) == before
    assert not (tmp_path / "state").exists()


def test_the_folder_can_be_kept(tmp_path: Path, scratch: Path) -> None:
    """To look around in it; with JSON the story is not told."""
    result = Command(tmp_path, {"TMPDIR": str(scratch)}).json("demo", "--keep")
    assert result["ok"] is True
    assert result["checks"] > 20
    assert Path(result["folder"], "app", "README.md").read_text() == "A greeter, with my own words\n"


def test_a_demonstration_that_goes_wrong_says_so(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path, scratch: Path
) -> None:
    """It is a check and not a film: a step that does nothing is noticed."""
    real = main.execute

    def lazy(words: Sequence[str], environment: Environment, terminal: Terminal) -> int:
        if any(word.startswith("--plan=") for word in words):
            return 0
        return real(words, environment, terminal)

    monkeypatch.setenv("TMPDIR", str(scratch))
    monkeypatch.setattr("tempfile.tempdir", None)
    monkeypatch.setattr(main, "execute", lazy)
    out, err = io.StringIO(), io.StringIO()
    assert lazy(["demo"], Environment(folder=str(tmp_path)), Terminal(out, err, io.StringIO())) == 1
    assert "[failed.demo]" in err.getvalue()
    assert "src/greet.py is not as expected after the rollback" in err.getvalue()
    assert os.listdir(scratch) == []
