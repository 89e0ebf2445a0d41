"""The README is true: its session is what the command prints, its Python runs, its links lead somewhere, its scripts are there."""

from __future__ import annotations

import re
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from support.command import Command

if TYPE_CHECKING:
    from support.git_repo import GitRepo

ROOT = Path(__file__).resolve().parents[2]
README = (ROOT / "README.md").read_text(encoding="utf-8")


def blocks(kind: str) -> list[str]:
    """The fenced blocks of one kind."""
    return re.findall(rf"```{kind}\n(.*?)```", README, re.DOTALL)


def normal(line: str) -> str:
    """A line without what differs from run to run: ages, plans, commits."""
    line = re.sub(r"p1-[0-9a-f]{16}", "PLAN", line)
    line = re.sub(r"\b[0-9a-f]{12}\b", "COMMIT", line)
    return re.sub(r"\b\d+[smhd]\b", "AGE", line)


def test_the_session_is_what_the_command_prints(tmp_path: Path) -> None:
    """Every line of it stands in the demonstration's output, in the same order."""
    (session,) = blocks("console")
    printed = iter(map(normal, Command(tmp_path, {})("demo").out.splitlines()))
    for line in session.splitlines():
        assert normal(line) in printed, f"the command doesn't print this (any more): {line}"


def test_the_python_runs(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """As it stands, in a folder with a repository."""
    (code,) = blocks("python")
    assert len(code.splitlines()) <= 14
    monkeypatch.chdir(repo.path)
    exec(compile(code, "README.md", "exec"), {})
    assert capsys.readouterr().out == "k3\n"
    assert not repo.exists("greet.py")


@pytest.mark.contract("V-491")
def test_it_says_how_a_rollback_goes_and_who_may_do_it() -> None:
    """Two calls, and a person where a person may work."""
    words = " ".join(README.split())
    assert (
        "A rollback is always two calls: a dry run that gives a plan, and a real call that quotes it."
        in words
    )
    assert "a person must run the real call" in words


@pytest.mark.parametrize("page", ["README.md", "CONTRIBUTING.md", "SECURITY.md", "docs/cli.md"])
def test_links_lead_somewhere(page: str) -> None:
    """Every relative link of the pages that people begin with."""
    text = (ROOT / page).read_text(encoding="utf-8")
    for target in re.findall(r"\]\(([^)#:]+)\)", text):
        assert (ROOT / page).parent.joinpath(target).exists(), f"{page} links to {target}"


def test_every_script_that_is_named_is_there() -> None:
    """And can be run."""
    named = set(re.findall(r"`(scripts/[a-z]+|\.ci/run)", README + (ROOT / "CONTRIBUTING.md").read_text()))
    assert {"scripts/demo", "scripts/test", ".ci/run"} <= named
    for name in named:
        assert (ROOT / name).stat().st_mode & 0o100, f"{name} can't be run"
