"""Text for people: names that can't harm a terminal, ages, tables, and errors as sentences.

A file's name comes from somebody else and is never written raw: bytes that aren't UTF-8 and control characters (an escape
sequence, a line feed, a sign that turns the reading direction) are shown as escapes. Functions here give lines; nothing is printed.
"""

from __future__ import annotations

import base64
import unicodedata
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence

    from turnback.errors import TurnbackError

_SECOND, _MINUTE, _HOUR, _DAY = 1000, 60_000, 3_600_000, 86_400_000


def visible(text: str) -> str:
    """Text from outside, safe for a terminal and on one line; a backslash is doubled when anything had to be escaped.

    Escaped is what ``str.isprintable`` refuses: controls, format signs, lone surrogates, and every space but the plain one.
    """
    if text.isprintable():
        return text
    return "".join(_escaped(sign) for sign in text)


def _escaped(sign: str) -> str:
    if sign == "\\":
        return "\\\\"
    if sign.isprintable():
        return sign
    code = ord(sign)
    if 0xDC80 <= code <= 0xDCFF:  # a byte that was no UTF-8, as os.fsdecode keeps it
        return f"\\x{code - 0xDC00:02x}"
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def path_text(item: str | dict[str, Any]) -> str:
    """A path in either JSON form (``turnback.paths.item``), or any object with its members, as a person may see it."""
    if isinstance(item, str):
        return visible(item)
    encoded = item.get("path_b64")
    if encoded is None:
        return visible(item["path"])
    return visible(base64.b64decode(encoded).decode("utf-8", "surrogateescape"))


def age(milliseconds: int) -> str:
    """How long ago, in the largest unit that fits: ``12s``, ``5m``, ``3h``, ``2d``."""
    for size, unit in ((_DAY, "d"), (_HOUR, "h"), (_MINUTE, "m")):
        if milliseconds >= size:
            return f"{milliseconds // size}{unit}"
    return f"{max(milliseconds, 0) // _SECOND}s"


def count(number: int, one: str, many: str | None = None) -> str:
    """``1 file``, ``2 files``."""
    return f"{number} {one if number == 1 else many or one + 's'}"


def width(text: str) -> int:
    """Columns that the text takes: wide signs take two, combining ones none."""
    return sum(
        0 if unicodedata.combining(sign) else 2 if unicodedata.east_asian_width(sign) in "WF" else 1
        for sign in text
    )


def table(heads: Sequence[str], rows: Sequence[Sequence[str]]) -> Iterator[str]:
    """A table with its columns aligned; the last one may be as long as it likes."""
    widths = [max(width(cell) for cell in column) for column in zip(heads, *rows, strict=True)]
    for row in (heads, *rows):
        cells = [cell + " " * (size - width(cell)) for cell, size in zip(row, widths, strict=True)]
        yield "  ".join(cells).rstrip()


def error_lines(error: TurnbackError) -> Iterator[str]:
    """An error as a person reads it: the sentence with its code, then the paths, commits or agents that it is about."""
    first, *more = error.message.splitlines() or [""]
    yield f"turnback: {visible(first)} [{error.code}]"
    yield from (f"  {visible(line)}" for line in more)
    data = error.data
    if error.code == "conflict.outside_edits":
        for repo in data.get("repos", ()):
            where = "" if repo["repo"] == "." else f"{visible(repo['repo'])}: "
            yield from (f"  {where}{path_text(path)}" for path in repo["paths"])
    elif error.code == "failed.checkpoint_too_large":
        for item in data.get("largest", ()):
            size = f"  ({item['bytes']:,} bytes)" if isinstance(item, dict) and "bytes" in item else ""
            yield f"  {path_text(item)}{size}"
    elif error.code == "conflict.commits_pushed":
        yield from (f"  {visible(str(ref))}" for ref in data.get("refs", ()))
    elif error.code == "unsupported.harness_capability" and "fix" in data:
        yield f"  {visible(str(data['fix']))}"
    elif error.code == "failed.rollback_partial":
        for repo in data.get("repos", ()):
            told = ", ".join(f"{name} {value}" for name, value in repo.items() if name != "repo")
            yield f"  {visible(str(repo.get('repo')))}: {visible(told)}"
