"""What a change looks like: counts of lines, whether it is binary, and the unified patch of one path.

Hunks are git's: the indent heuristic is on and nothing is taken for a rename. ``diff.external`` and textconv never run. Content is
what the trees hold, bytes throughout; a patch is text only at the very end.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, Change, ChangeKind, Entry
from turnback.gitstore import objects

if TYPE_CHECKING:
    import pygit2

    from turnback.gitstore.repo import Repository

_SNIFFED = 8000  # git looks for a NUL in this many bytes


@dataclass(frozen=True, slots=True)
class Counts:
    """Lines added and removed; both 0 for a binary change (A-25)."""

    added: int
    removed: int
    binary: bool


def counts(repository: Repository, change: Change, attributes: bool | None = None) -> Counts:
    """Count the lines of one change.

    Args:
        repository: where the blobs are.
        change: the path and its entries.
        attributes: what the ``diff`` attribute says: True text, False binary, None to look at the content.

    Raises:
        MissingObject: a blob is gone.
    """
    old, new = _content(repository, change.old), _content(repository, change.new)
    if _binary(change, old, new, attributes):
        return Counts(0, 0, binary=True)
    if (change.old is None) != (change.new is None):
        lines = _lines(new if change.old is None else old)
        return Counts(lines, 0, binary=False) if change.old is None else Counts(0, lines, binary=False)
    _, added, removed = _patch(old, new).line_stats
    return Counts(added, removed, binary=False)


def patch(repository: Repository, change: Change, attributes: bool | None = None) -> bytes:
    """The unified diff of one path, as ``git diff`` prints it with renames off.

    Raises:
        MissingObject: a blob is gone.
    """
    if change.old is not None and change.new is not None and _type(change.old) != _type(change.new):
        # A file that became a link, say: git shows it as one thing gone and another made.
        gone, made = Change(change.path, change.old, None), Change(change.path, None, change.new)
        return patch(repository, gone, attributes) + patch(repository, made, attributes)
    old, new = _content(repository, change.old), _content(repository, change.new)
    head = _header(change)
    if _binary(change, old, new, attributes):
        one = b"/dev/null" if change.old is None else _quoted(b"a/", change.path)
        two = b"/dev/null" if change.new is None else _quoted(b"b/", change.path)
        return head + b"Binary files %s and %s differ\n" % (one, two)
    if old == new:
        return head
    # libgit2 is asked for the hunks alone: its headers differ from git's for empty files and for names with a blank.
    body = bytes(_patch(old, new).data)
    at = body.find(b"\n@@ ")
    if at < 0:
        return head
    tab_old = b"\t" if b" " in change.path else b""
    one = b"/dev/null" if change.old is None else _quoted(b"a/", change.path) + tab_old
    two = b"/dev/null" if change.new is None else _quoted(b"b/", change.path) + tab_old
    return head + b"--- %s\n+++ %s\n" % (one, two) + body[at + 1 :]


def _patch(old: bytes, new: bytes) -> pygit2.Patch:
    import pygit2
    from pygit2.enums import DiffOption

    return pygit2.Patch.create_from(old, new, flag=DiffOption.INDENT_HEURISTIC | DiffOption.FORCE_TEXT)


def _content(repository: Repository, entry: Entry | None) -> bytes:
    if entry is None:
        return b""
    if entry.mode == GITLINK:
        return b"Subproject commit %s\n" % entry.oid.encode()
    return objects.read_blob(repository, entry.oid)


def _binary(change: Change, old: bytes, new: bytes, attributes: bool | None) -> bool:
    if attributes is not None:
        return not attributes
    for entry, data in ((change.old, old), (change.new, new)):
        if entry is not None and entry.mode != GITLINK and b"\0" in data[:_SNIFFED]:
            return True
    return False


def _type(entry: Entry) -> int:
    return entry.mode & 0o170000


def _lines(data: bytes) -> int:
    return data.count(b"\n") + (1 if data and not data.endswith(b"\n") else 0)


def _header(change: Change) -> bytes:
    lines = [b"diff --git %s %s\n" % (_quoted(b"a/", change.path), _quoted(b"b/", change.path))]
    old, new = change.old, change.new
    if change.kind is ChangeKind.CREATE and new is not None:
        lines.append(b"new file mode %o\n" % new.mode)
    elif change.kind is ChangeKind.DELETE and old is not None:
        lines.append(b"deleted file mode %o\n" % old.mode)
    elif old is not None and new is not None and old.mode != new.mode:
        lines.append(b"old mode %o\nnew mode %o\n" % (old.mode, new.mode))
    one, two = (entry.oid if entry is not None else "0" * 40 for entry in (old, new))
    if one != two:
        tail = b" %o" % new.mode if old is not None and new is not None and old.mode == new.mode else b""
        lines.append(b"index %s..%s%s\n" % (one[:7].encode(), two[:7].encode(), tail))
    return b"".join(lines)


_ESCAPES = {
    7: b"\\a",
    8: b"\\b",
    9: b"\\t",
    10: b"\\n",
    11: b"\\v",
    12: b"\\f",
    13: b"\\r",
    34: b'\\"',
    92: b"\\\\",
}


def _quoted(prefix: bytes, path: bytes) -> bytes:
    """A name as git prints it: in double quotes with escapes when it holds a control byte, a quote or a backslash, or isn't UTF-8."""
    whole = prefix + path
    if paths.is_text(path) and not any(byte < 32 or byte in (34, 92, 127) for byte in path):
        return whole
    quoted = b"".join(
        _ESCAPES.get(
            byte,
            b"\\%03o" % byte
            if byte < 32 or byte == 127 or (byte > 127 and not paths.is_text(path))
            else bytes([byte]),
        )
        for byte in whole
    )
    return b'"' + quoted + b'"'
