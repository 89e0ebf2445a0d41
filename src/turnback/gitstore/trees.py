"""Trees as a whole: the difference of two, a look-up of some paths, and a new tree made from an old one and some changes.

Only folders that differ are read, and only folders with a change are written: equal folder ids are never opened. Paths and
names are bytes throughout, since a name in a tree needs not be UTF-8. Nothing here recurses: a path may have two thousand folders.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.changes import FOLDER, Change, Entry
from turnback.errors import Failed
from turnback.gitstore import objects
from turnback.gitstore.writer import ObjectWriter
from turnback.paths import parents

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from turnback.gitstore.repo import Repository

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DEPTH = 2048  # folders deeper than any filesystem gives; a hand-made tree can't exhaust the stack


def changes(repository: Repository, old: str | None, new: str | None) -> list[Change]:
    """Every path that differs between two trees, in git's order of the paths' bytes; None stands for the empty tree.

    Raises:
        MissingObject: a tree that must be read isn't there.
    """
    found: list[Change] = []
    waiting: list[tuple[bytes, str | None, str | None, int]] = [(b"", old, new, 0)]
    while waiting:
        prefix, one, two, depth = waiting.pop()
        if one == two:
            continue
        before, after = _read(repository, one, depth), _read(repository, two, depth)
        for name in before.keys() | after.keys():
            was, now = before.get(name), after.get(name)
            if was == now:
                continue
            path = prefix + name
            folder_before, file_before = _parted(was)
            folder_after, file_after = _parted(now)
            if folder_before is not None or folder_after is not None:
                waiting.append((path + b"/", folder_before, folder_after, depth + 1))
            if file_before is not None or file_after is not None:
                found.append(Change(path, file_before, file_after))
    found.sort(key=lambda change: change.path)
    return found


def _parted(entry: Entry | None) -> tuple[str | None, Entry | None]:
    """An entry as a folder's id, or as a file, link or gitlink."""
    if entry is not None and entry.mode == FOLDER:
        return entry.oid, None
    return None, entry


def _read(repository: Repository, oid: str | None, depth: int) -> dict[bytes, Entry]:
    if oid is None or oid == EMPTY:
        return {}
    if depth > _DEPTH:
        raise Failed(
            "checkpoint_git",
            f"a tree of {repository.path} is nested more than {_DEPTH} deep",
            reason="too deep",
        )
    return objects.read_tree(repository, oid)


def lookup(repository: Repository, tree: str | None, paths: Iterable[bytes]) -> dict[bytes, Entry]:
    """The entries of some paths in one tree (folders too, with mode ``FOLDER``); absent paths are left out.

    Each folder on the way is read once.
    """
    read: dict[bytes, dict[bytes, Entry]] = {b"": _read(repository, tree, 0)}
    found: dict[bytes, Entry] = {}
    for path in paths:
        here = b""
        for above in parents(path):
            if above not in read:
                entry = read[here].get(above.rpartition(b"/")[2])
                read[above] = (
                    {} if entry is None or entry.mode != FOLDER else objects.read_tree(repository, entry.oid)
                )
            here = above
        entry = read[here].get(path.rpartition(b"/")[2])
        if entry is not None:
            found[path] = entry
    return found


def walk(repository: Repository, tree: str | None) -> dict[bytes, Entry]:
    """Every file, link and gitlink of a tree, by path."""
    return {change.path: change.new for change in changes(repository, None, tree) if change.new is not None}


def edited(repository: Repository, base: str | None, edits: Mapping[bytes, Entry | None]) -> str:
    """Write the tree that is ``base`` with some paths set to an entry, or removed (None), and give its id.

    A path that becomes a file replaces a folder of that name, and the other way round; folders that become empty are left out.
    """
    grouped = by_folder(edits)
    folders: dict[bytes, dict[bytes, Entry]] = {}
    for folder in sorted(grouped, key=_depth):
        oid = base
        if folder:
            above, _, name = folder.rpartition(b"/")
            entry = folders[above].get(name)
            oid = entry.oid if entry is not None and entry.mode == FOLDER else None
        folders[folder] = dict(_read(repository, oid, _depth(folder)))
    with ObjectWriter(repository) as writer:
        root = assembled(writer, folders, grouped)
        writer.flush()
    return root


def by_folder(edits: Mapping[bytes, Entry | None]) -> dict[bytes, dict[bytes, Entry | None]]:
    """Edits by the folder that they happen in (``b""`` is the root, no ``/`` at the end); every folder above one is there too."""
    grouped: dict[bytes, dict[bytes, Entry | None]] = {b"": {}}
    for path, entry in edits.items():
        folder, _, name = path.rpartition(b"/")
        grouped.setdefault(folder, {})[name] = entry
        while folder:
            folder = folder.rpartition(b"/")[0]
            if folder in grouped:
                break
            grouped[folder] = {}
    return grouped


def assembled(
    writer: ObjectWriter,
    folders: Mapping[bytes, dict[bytes, Entry]],
    grouped: Mapping[bytes, Mapping[bytes, Entry | None]],
) -> str:
    """Write some folders anew, deepest first, and give the root's id.

    Removals go first: a file ``a`` that is removed and a folder ``a`` that appears are one name.

    Args:
        writer: where the trees go.
        folders: what each of them holds before its edits; the folder above each is there too, the root always. Changed in place.
        grouped: the edits, as ``by_folder`` has them.
    """
    below: dict[bytes, list[tuple[bytes, str | None]]] = {}
    root: str | None = None
    for folder in sorted(folders, key=_depth, reverse=True):
        entries = folders[folder]
        names = grouped.get(folder, {})
        for name, entry in names.items():
            if entry is None and (name not in entries or entries[name].mode != FOLDER):
                entries.pop(name, None)
        for name, oid in below.pop(folder, ()):
            if oid is not None:
                entries[name] = Entry(FOLDER, oid)
            elif name in entries and entries[name].mode == FOLDER:
                del entries[name]
        entries.update({name: entry for name, entry in names.items() if entry is not None})
        written = writer.tree(objects.tree_bytes(entries)) if entries else None
        if folder:
            above, _, name = folder.rpartition(b"/")
            below.setdefault(above, []).append((name, written))
        else:
            root = written
    return root or writer.tree(b"")


def _depth(folder: bytes) -> int:
    return folder.count(b"/") + 1 if folder else 0
