"""Trees as a whole: the difference of two, a look-up of some paths, and a new tree made from an old one and some changes.

Only folders that differ are read, and only folders with a change are written: equal folder ids are never opened. Paths and
names are bytes throughout, since a name in a tree needs not be UTF-8.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

from turnback.changes import FOLDER, GITLINK, Change, Entry
from turnback.errors import Failed
from turnback.gitstore import objects

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping

    from turnback.gitstore.repo import Repository

EMPTY = "4b825dc642cb6eb9a060e54bf8d69288fbee4904"
_DEPTH = 2048  # folders deeper than any filesystem gives; a hand-made tree can't exhaust the stack


def changes(repository: Repository, old: str | None, new: str | None) -> list[Change]:
    """Every path that differs between two trees, in git's order of the paths' bytes; None stands for the empty tree.

    Raises:
        MissingObject: a tree that must be read isn't there.
    """
    found = list(_changes(repository, b"", old, new, 0))
    found.sort(key=lambda change: change.path)
    return found


def _changes(
    repository: Repository, prefix: bytes, old: str | None, new: str | None, depth: int
) -> Iterator[Change]:
    if old == new:
        return
    before = _read(repository, old, depth)
    after = _read(repository, new, depth)
    for name in before.keys() | after.keys():
        one, two = before.get(name), after.get(name)
        if one == two:
            continue
        path = prefix + name
        folder_before = one.oid if one is not None and one.mode == FOLDER else None
        folder_after = two.oid if two is not None and two.mode == FOLDER else None
        if folder_before is not None or folder_after is not None:
            yield from _changes(repository, path + b"/", folder_before, folder_after, depth + 1)
        file_before = one if folder_before is None else None
        file_after = two if folder_after is None else None
        if file_before is not None or file_after is not None:
            yield Change(path, file_before, file_after)


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

    def folder(path: bytes) -> dict[bytes, Entry]:
        known = read.get(path)
        if known is None:
            above, _, name = path.rpartition(b"/")
            entry = folder(above).get(name)
            known = read[path] = (
                {} if entry is None or entry.mode != FOLDER else objects.read_tree(repository, entry.oid)
            )
        return known

    found: dict[bytes, Entry] = {}
    for path in paths:
        above, _, name = path.rpartition(b"/")
        entry = folder(above).get(name)
        if entry is not None:
            found[path] = entry
    return found


def walk(repository: Repository, tree: str | None) -> dict[bytes, Entry]:
    """Every file, link and gitlink of a tree, by path."""
    return {change.path: change.new for change in changes(repository, None, tree) if change.new is not None}


def gitlinks(repository: Repository, tree: str) -> dict[bytes, str]:
    """The gitlinks of a tree: path to commit."""
    return {path: entry.oid for path, entry in walk(repository, tree).items() if entry.mode == GITLINK}


def edited(repository: Repository, base: str | None, edits: Mapping[bytes, Entry | None]) -> str:
    """Write the tree that is ``base`` with some paths set to an entry, or removed (None), and give its id.

    A path that becomes a file replaces a folder of that name, and the other way round; folders that become empty are left out.
    """
    grouped = Edits.of(edits)
    return _edited(repository, base, grouped, 0) or objects.write_tree(repository, {})


class Edits:
    """Some paths' new entries, as a tree: what happens to the names of one folder, and to the folders in it."""

    __slots__ = ("folders", "names")

    def __init__(self) -> None:
        self.names: dict[bytes, Entry | None] = {}
        self.folders: dict[bytes, Edits] = {}

    @classmethod
    def of(cls, edits: Mapping[bytes, Entry | None]) -> Edits:
        """Group edits by folder."""
        top = cls()
        for path, entry in edits.items():
            here = top
            *above, name = path.split(b"/")
            for folder in above:
                here = here.folders.setdefault(folder, cls())
            here.names[name] = entry
        return top


def _edited(repository: Repository, base: str | None, edits: Edits, depth: int) -> str | None:
    entries = dict(_read(repository, base, depth))
    return merged(
        repository,
        entries,
        edits,
        lambda name, below: _edited(
            repository,
            entries[name].oid if name in entries and entries[name].mode == FOLDER else None,
            below,
            depth + 1,
        ),
    )


def merged(
    repository: Repository,
    entries: dict[bytes, Entry],
    edits: Edits,
    folder: Callable[[bytes, Edits], str | None],
) -> str | None:
    """One folder's entries with its edits, written; None when nothing is left in it.

    Removals go first: a file ``a`` that is removed and a folder ``a`` that appears are one name.
    """
    for name, entry in edits.names.items():
        if entry is None and (name not in entries or entries[name].mode != FOLDER):
            entries.pop(name, None)
    for name, below in edits.folders.items():
        oid = folder(name, below)
        if oid is not None:
            entries[name] = Entry(FOLDER, oid)
        elif name in entries and entries[name].mode == FOLDER:
            del entries[name]
    entries.update({name: entry for name, entry in edits.names.items() if entry is not None})
    return objects.write_tree(repository, entries) if entries else None
