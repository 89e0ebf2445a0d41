"""The layers of the code: the contracts of import-linter hold, and each of them fails when it is broken."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("importlinter", reason="import-linter is a developer's tool")

ROOT = Path(__file__).parents[2]
LINT = "from importlinter.cli import lint_imports_command; lint_imports_command()"

# A module, what is planted in it, and the contract that must notice.
PLANTS = [
    ("policy/plan.py", "import os", "Decisions are pure"),
    ("policy/windows.py", "from turnback.gitstore import trees", "Decisions are pure"),
    ("operations/capture.py", "import pygit2", "Only gitstore imports pygit2"),
    ("workspace/agent.py", "import pygit2", "Only gitstore imports pygit2"),
    ("operations/events.py", "import orjson", "Only records.codec imports orjson"),
    ("cli/env.py", "from turnback.operations import turns", "Front ends use the facade only"),
    ("errors.py", "from turnback import config", "A module imports only from the layers below it"),
    (
        "records/state.py",
        "from turnback.operations import turns",
        "A module imports only from the layers below it",
    ),
]


def verdicts(folder: Path) -> dict[str, str]:
    """KEPT or BROKEN of every contract, for a copy of the project."""
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=folder,
        env={**os.environ, "PYTHONPATH": str(folder / "src"), "COLUMNS": "200"},
        capture_output=True,
        check=False,
        text=True,
    )
    found = dict(re.findall(r"^(.+?) (KEPT|BROKEN)(?: \(.*\))?$", done.stdout, re.MULTILINE))
    assert found, done.stdout + done.stderr
    assert (done.returncode == 0) == (set(found.values()) == {"KEPT"})
    return found


@pytest.fixture
def copied(tmp_path: Path) -> Path:
    shutil.copytree(ROOT / "src", tmp_path / "src", ignore=shutil.ignore_patterns("__pycache__"))
    shutil.copy(ROOT / "pyproject.toml", tmp_path)
    return tmp_path


def test_the_contracts_hold(copied: Path) -> None:
    """Nothing in the code imports against the layers."""
    assert set(verdicts(copied).values()) == {"KEPT"}


@pytest.mark.parametrize("contract", sorted({contract for _, _, contract in PLANTS}))
def test_a_contract_that_is_broken_fails(contract: str, copied: Path) -> None:
    """With the forbidden imports planted the contract is broken, so that its green light means something."""
    for module, line, planted in PLANTS:
        if planted == contract:
            place = copied / "src" / "turnback" / module
            place.write_text(f"{place.read_text()}\n\n{line}\n")
    assert verdicts(copied)[contract] == "BROKEN"


def test_every_contract_is_broken_here_once(copied: Path) -> None:
    """No contract stands in the configuration that these tests don't show to work."""
    assert verdicts(copied).keys() == {contract for _, _, contract in PLANTS}


def test_a_new_module_must_be_given_a_layer(copied: Path) -> None:
    """A module that nobody placed in a layer is noticed: it could import anything."""
    (copied / "src" / "turnback" / "stray.py").write_text('"""Nobody placed me."""\n')
    done = subprocess.run(
        [sys.executable, "-c", LINT, "--no-cache"],
        cwd=copied,
        env={**os.environ, "PYTHONPATH": str(copied / "src")},
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode != 0
    assert "stray" in done.stdout + done.stderr
