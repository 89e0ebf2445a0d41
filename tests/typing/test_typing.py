"""The library as a type checker sees it: a user's program is right under the strictest settings, and its mistakes are found."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

pytest.importorskip("mypy", reason="mypy is a developer's tool")

HERE = Path(__file__).parent


def test_a_users_program_is_strictly_right(tmp_path: Path) -> None:
    """mypy --strict finds nothing in a program that uses the whole public face, and each deliberate mistake is one."""
    done = subprocess.run(
        [
            sys.executable, "-m", "mypy", "--strict", "--config-file=", f"--cache-dir={tmp_path / 'cache'}",
str(HERE / "user_program.py"),
        ],
        cwd=tmp_path,
        env={**os.environ, "MYPYPATH": str(HERE.parents[1] / "src")},
        capture_output=True,
        check=False,
        text=True,
    )  # fmt: skip
    assert done.returncode == 0, done.stdout + done.stderr


def test_the_package_says_that_it_is_typed() -> None:
    """``py.typed`` is in the package, so that a user's checker looks at it at all."""
    import turnback

    assert turnback.__file__ is not None
    assert (Path(turnback.__file__).parent / "py.typed").is_file()
