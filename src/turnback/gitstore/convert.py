"""What git does to a file's bytes on the way in (clean) and out (smudge), asked of git itself in one batch.

Line endings, ``ident``, ``working-tree-encoding`` and external filters change bytes. libgit2 runs no external filter, has no encodings and
gets ``ident`` wrong, so none of it is done there: a small index with just the paths in question is given to ``git update-index`` or
``git checkout-index``. Most files need no process: without CR LF a text file cleans to itself, without ``$Id`` so does an ``ident`` one.

Nothing here writes into the tree, and the user's index is never used: the small index is a file in a scratch folder.
"""

from __future__ import annotations

import contextlib
import os
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback.changes import EXECUTABLE, Entry
from turnback.gitstore import process

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping, Sequence

    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings

_ATTRIBUTES = ("text", "crlf", "eol", "ident", "filter", "working-tree-encoding")
_UNSET = {"unspecified", "unset"}

# Where git may look for the attributes of a whole system; which one depends on how it was built.
_SYSTEM = ("/etc/gitattributes", "/usr/local/etc/gitattributes", "/opt/homebrew/etc/gitattributes")


@dataclass(frozen=True, slots=True)
class Conversion:
    """What may happen to the bytes of one path.

    Attributes:
        clean_eol: CR LF may become LF when the file is stored.
        smudge_eol: LF may become CR LF when it is written.
        ident: ``$Id$`` is expanded and collapsed.
        driver: an external filter: only it can say.
        encoding: the file is stored in another encoding than it has.
    """

    clean_eol: bool = False
    smudge_eol: bool = False
    ident: bool = False
    driver: bool = False
    encoding: bool = False

    def may_clean(self, data: bytes) -> bool:
        """Whether what git stores may differ from these bytes."""
        return (
            self.driver
            or self.encoding
            or (self.clean_eol and b"\r\n" in data)
            or (self.ident and b"$Id" in data)
        )

    def may_smudge(self, data: bytes) -> bool:
        """Whether what git writes for these bytes may differ from them."""
        return (
            self.driver
            or self.encoding
            or (self.smudge_eol and b"\n" in data)
            or (self.ident and b"$Id" in data)
        )


NONE = Conversion()


@dataclass(slots=True)
class Conversions:
    """The conversions of some paths under the attributes of one tree (and what a new path would get)."""

    by_path: dict[bytes, Conversion] = field(default_factory=dict)
    default: Conversion = NONE

    def of(self, path: bytes) -> Conversion:
        """What may happen to a path's bytes."""
        return self.by_path.get(path, self.default)


def conversions(
    repository: Repository,
    settings: Settings,
    paths: Sequence[bytes],
    attributes: Mapping[bytes, Entry],
    scratch: str,
    deadline: float | None = None,
) -> Conversions:
    """Which conversions apply to some paths of the tree.

    Args:
        repository: the tree.
        settings: its configuration.
        paths: the paths; duplicates are harmless.
        attributes: ``.gitattributes`` entries that rule although the tree has no such file (``attributes_of_index``).
        scratch: a private folder.
        deadline: for the process.
    """
    default = _conversion(settings, {})
    if not paths or not _may_have_attributes(repository, settings, paths, attributes):
        return Conversions({}, default)
    index_file = os.path.join(scratch, "attributes.index")
    extra = {"GIT_INDEX_FILE": index_file}
    try:
        _fill(repository, attributes, extra, deadline)
        output = process.run(
            repository.path,
            ["check-attr", "-z", "--stdin", *_ATTRIBUTES],
            stdin=b"".join(path + b"\0" for path in paths),
            extra=extra,
            deadline=deadline,
        )
    finally:
        _remove(index_file)
    rows = process.split(output)
    values: dict[bytes, dict[str, str]] = {}
    for at in range(0, len(rows), 3):
        values.setdefault(rows[at], {})[rows[at + 1].decode()] = os.fsdecode(rows[at + 2])
    return Conversions({path: _conversion(settings, found) for path, found in values.items()}, default)


def attributes_of_index(
    repository: Repository, paths: Iterable[bytes], index: Callable[[list[bytes]], Mapping[bytes, Entry]]
) -> dict[bytes, Entry]:
    """The ``.gitattributes`` that rule some paths from the index, because the tree has no such file to read.

    That is meant for sparse checkouts. One that is gone although it should be there rules nothing: git's add drops it before it comes
    to the files. (Not always: where it has to compare the content of some file first, it has read it by then. What git
    answers then depends on how young the files are.)

    Args:
        repository: the tree.
        paths: the paths to be ruled.
        index: gives what the index has for those of some paths that are to be taken from it alone.
    """
    root = os.fsencode(repository.path)
    absent = [
        path for path in sorted(attribute_paths(paths)) if not os.access(os.path.join(root, path), os.R_OK)
    ]
    return {
        path: entry for path, entry in index(absent).items() if entry.mode & 0o170000 == 0o100000
    }


def _may_have_attributes(
    repository: Repository, settings: Settings, paths: Sequence[bytes], attributes: Mapping[bytes, Entry]
) -> bool:
    """Whether git need be asked at all: in the tree, in the index, in the repository, of the user, of the system, in a tree object."""
    root = os.fsencode(repository.path)
    return bool(
        attributes
        or settings.attributes_tree
        or os.path.exists(settings.attributes_file)
        or os.path.exists(os.path.join(repository.common_dir, "info", "attributes"))
        or any(map(os.path.exists, _SYSTEM))
        or any(os.path.lexists(os.path.join(root, path)) for path in attribute_paths(paths))
    )


def _conversion(settings: Settings, values: Mapping[str, str]) -> Conversion:
    """git's convert_attrs, rounded up: where it isn't sure that bytes stay, it says that they may change."""
    text = values.get("text", "unspecified")
    if text == "unspecified":
        text = values.get("crlf", "unspecified")
    eol = values.get("eol", "unspecified")
    binary = text == "unset" or (text == "unspecified" and eol in _UNSET and settings.autocrlf == "false")
    to_crlf = eol == "crlf" or (
        eol != "lf"
        and text != "input"
        and (settings.autocrlf == "true" or (settings.autocrlf == "false" and settings.eol == "crlf"))
    )
    return Conversion(
        clean_eol=not binary,
        smudge_eol=not binary and to_crlf,
        ident=values.get("ident", "unspecified") == "set",
        driver=values.get("filter", "unspecified") in settings.filters,
        encoding=values.get("working-tree-encoding", "unspecified") not in {*_UNSET, "set", ""},
    )


def clean(
    repository: Repository,
    paths: Sequence[bytes],
    index: Mapping[bytes, Entry],
    scratch: str,
    deadline: float | None = None,
) -> dict[bytes, str]:
    """Store files as git would, reading them from the tree, and give their blobs' ids.

    A path whose required filter fails, or that is gone, is left out of the result; the others are stored all the same.

    Args:
        repository: the tree.
        paths: regular files of the tree.
        index: what the user's index has for these paths (git keeps CR LF where it is stored already) and for ``.gitattributes`` files
            that the tree doesn't have.
        scratch: a folder for the small index; the file is removed again.
        deadline: for the processes.
    """
    try:
        return _clean(repository, paths, index, scratch, deadline)
    except process.GitFailed:
        if len(paths) == 1:
            return {}
    # One of them failed and took the batch with it: halve until it stands alone, so that the others are stored.
    half = len(paths) // 2
    found = clean(repository, paths[:half], index, scratch, deadline)
    found.update(clean(repository, paths[half:], index, scratch, deadline))
    return found


def _clean(
    repository: Repository,
    paths: Sequence[bytes],
    index: Mapping[bytes, Entry],
    scratch: str,
    deadline: float | None,
) -> dict[bytes, str]:
    index_file = os.path.join(scratch, "clean.index")
    extra = {"GIT_INDEX_FILE": index_file}
    wanted = set(paths)
    try:
        # Without stat data every entry is read again, whatever the real index says.
        _fill(repository, index, extra, deadline)
        process.run(
            repository.path,
            ["update-index", "--add", "--remove", "-z", "--stdin"],
            stdin=[path + b"\0" for path in paths],
            extra=extra,
            deadline=deadline,
        )
        found = {}
        for row in process.split(
            process.run(repository.path, ["ls-files", "-s", "-z"], extra=extra, deadline=deadline)
        ):
            head, _, path = row.partition(b"\t")
            if path in wanted:
                found[path] = head.split(b" ")[1].decode()
        return found
    finally:
        _remove(index_file)


def changed(
    repository: Repository, index: Mapping[bytes, Entry], attributes: Mapping[bytes, Entry], scratch: str, deadline: float | None
) -> set[bytes]:
    """Those of some tracked paths whose content, converted as git would, or mode isn't the index's; nothing is stored.

    Args:
        repository: the tree.
        index: path to what the user's index has for it.
        attributes: as for ``conversions``.
        scratch: a folder for the small index; the file is removed again.
        deadline: for the processes.
    """
    index_file = os.path.join(scratch, "changed.index")
    extra = {"GIT_INDEX_FILE": index_file}
    try:
        _fill(repository, {**attributes, **index}, extra, deadline)
        # Status 1 only says that some differ.
        process.run(
            repository.path, ["update-index", "-q", "--refresh"], extra=extra, deadline=deadline, accept=(0, 1)
        )
        output = process.run(
            repository.path, ["diff-files", "--name-only", "-z"], extra=extra, deadline=deadline
        )
        return index.keys() & set(process.split(output))
    finally:
        _remove(index_file)


def _fill(
    repository: Repository, entries: Mapping[bytes, Entry], extra: Mapping[str, str], deadline: float | None
) -> None:
    """Make the small index that ``extra`` names, if there is anything to put into it."""
    if not entries:
        return
    process.run(
        repository.path,
        ["update-index", "-z", "--index-info"],
        stdin=[b"%o %s\t%s\0" % (entry.mode, entry.oid.encode(), path) for path, entry in entries.items()],
        extra=extra,
        deadline=deadline,
    )


def _remove(index_file: str) -> None:
    for name in (index_file, index_file + ".lock"):
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name)


def smudge(
    repository: Repository,
    files: Mapping[bytes, Entry],
    attributes: Mapping[bytes, Entry],
    scratch: str,
    *,
    work_tree: str | None = None,
    deadline: float | None = None,
) -> str:
    """Write files as git would, with every filter, into ``scratch/out``, and give that folder.

    Args:
        repository: where the blobs are.
        files: path to entry.
        attributes: ``.gitattributes`` entries that govern them, used where ``work_tree`` has none.
        scratch: an empty private folder.
        work_tree: read attributes from this folder first; without one from ``attributes`` alone.
        deadline: for the processes.

    Raises:
        GitFailed: a required filter failed.
    """
    index_file = os.path.join(scratch, "smudge.index")
    out = os.path.join(scratch, "out", "")
    empty = os.path.join(scratch, "empty")
    os.makedirs(out, exist_ok=True)
    os.makedirs(empty, exist_ok=True)
    extra = _redirected(repository, work_tree or empty, index_file)
    rows = [
        b"%o %s\t%s\0" % (entry.mode, entry.oid.encode(), path)
        for path, entry in {**attributes, **files}.items()
    ]
    process.run(
        work_tree or empty, ["update-index", "-z", "--index-info"], stdin=rows, extra=extra, deadline=deadline
    )
    process.run(
        work_tree or empty,
        ["checkout-index", "-f", "-q", "-z", "--stdin", f"--prefix={out}"],
        stdin=[path + b"\0" for path in files],
        extra=extra,
        deadline=deadline,
    )
    return out


def attribute_paths(paths: Iterable[bytes]) -> set[bytes]:
    """The ``.gitattributes`` files that may govern some paths: one in the root and one in each folder above each path."""
    found = {b".gitattributes"}
    for path in paths:
        above = path.rpartition(b"/")[0]
        while above:
            name = above + b"/.gitattributes"
            if name in found:
                break
            found.add(name)
            above = above.rpartition(b"/")[0]
    return found


def _redirected(repository: Repository, work_tree: str | None, index_file: str | None) -> dict[str, str]:
    extra: dict[str, str] = {}
    if work_tree is not None:
        extra.update(GIT_DIR=repository.git_dir, GIT_WORK_TREE=work_tree)
    if index_file is not None:
        extra["GIT_INDEX_FILE"] = index_file
    return extra


def plain_mode(entry: Entry) -> int:
    """The permission bits that git would give a file: 0o777 or 0o666, before the umask."""
    return 0o777 if entry.mode == EXECUTABLE else 0o666
