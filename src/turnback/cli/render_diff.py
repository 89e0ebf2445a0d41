"""Differences for people: which files and how many lines, and unified diffs with colour where there is a terminal for it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from turnback.cli.render import count, path_text

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.cli.terminal import Terminal

_WORDS = {"create": "new", "modify": "changed", "delete": "deleted"}


def file_lines(files: Sequence[dict[str, Any]]) -> Iterator[str]:
    """One line a file, like ``git diff --stat`` without the bars, then the sum."""
    if not files:
        yield "No difference."
        return
    several = len({item["repo"] for item in files}) > 1
    for item in files:
        size = "binary" if item["binary"] else f"+{item['added']} -{item['removed']}"
        where = f"{item['repo']}: " if several else ""
        yield f"  {_WORDS.get(item['change'], item['change']):8} {where}{path_text(item)}  {size}"
    added, removed = sum(item["added"] for item in files), sum(item["removed"] for item in files)
    yield f"{count(len(files), 'file')}, {count(added, 'line')} added, {count(removed, 'line')} removed"


def patch_lines(patch: dict[str, Any], terminal: Terminal) -> Iterator[str]:
    """A unified diff. On a terminal control characters of the content are shown as escapes; in a pipe the text is as it is."""
    for line in patch["text"].removesuffix("\n").split("\n"):
        yield _styled(line, terminal)
    if patch["truncated"]:
        yield f"(cut: the whole difference has {patch['bytes']:,} bytes)"


def _styled(line: str, terminal: Terminal) -> str:
    if not terminal.tty:
        return line
    shown = "".join(
        sign
        if sign == "\t" or sign.isprintable()
        else f"\\x{ord(sign):02x}"
        if ord(sign) < 0x100
        else "\ufffd"
        for sign in line
    )
    if line.startswith(
        ("diff ", "index ", "--- ", "+++ ", "new file", "deleted file", "old mode", "new mode")
    ):
        return terminal.style(shown, "bold")
    style = {"+": "green", "-": "red", "@": "cyan"}.get(line[:1])
    return shown if style is None else terminal.style(shown, style)
