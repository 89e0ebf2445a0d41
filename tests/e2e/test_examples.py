"""The examples run, and end where they say."""

from __future__ import annotations

import importlib.util
from pathlib import Path

import pytest

EXAMPLES = Path(__file__).parent.parent.parent / "examples"


@pytest.mark.contract("V-004", "V-005", "V-008", "V-317", "V-320")
def test_the_tool_loop_goes_back_with_files_and_conversation(tmp_path: Path) -> None:
    """After two turns the first one is there again: its file, its messages, and nothing of the second."""
    spec = importlib.util.spec_from_file_location("tool_loop", EXAMPLES / "tool_loop.py")
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    assert module.main([str(tmp_path)]) == {
        "files": {"greet.py": "print('hello')\n"},
        "messages": ["user: greet the user", "tool: wrote greet.py"],
        "dropped": ("t2",),
    }
