"""Which files' bytes git may change on the way in (clean) and out (smudge), by attributes and configuration.

Line endings, ``ident``, ``working-tree-encoding`` and external filters change bytes. The answer here is rounded up: where it says that nothing
happens, nothing does; where something may, git itself is asked to do it (``convert``). Most files need no process: without CR LF a text file
cleans to itself, without ``$Id`` so does an ``ident`` one.
"""

from __future__ import annotations

import os
import shlex
import shutil
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback.changes import EXECUTABLE, FILE, Entry
from turnback.gitstore import convert, process
from turnback.gitstore.configuration import stamp_of

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from turnback.gitstore.dirty import Stamp
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.native.index import IndexView

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


def of_paths(
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
        convert.fill(repository, attributes, extra, deadline)
        output = process.run(
            repository.path,
            ["check-attr", "-z", "--stdin", *_ATTRIBUTES],
            stdin=b"".join(path + b"\0" for path in paths),
            extra=extra,
            deadline=deadline,
        )
    finally:
        convert.remove_index(index_file)
    rows = process.split(output)
    values: dict[bytes, dict[str, str]] = {}
    for at in range(0, len(rows), 3):
        values.setdefault(rows[at], {})[rows[at + 1].decode()] = os.fsdecode(rows[at + 2])
    return Conversions({path: _conversion(settings, found) for path, found in values.items()}, default)


def any_apply(
    repository: Repository,
    settings: Settings,
    found: Iterable[tuple[bytes, Stamp]],
    attributes: Mapping[bytes, Entry],
) -> bool:
    """Whether any file of the tree may be converted at all; the arguments are those of ``fingerprint``."""
    return (
        _conversion(settings, {}) != NONE
        or any(True for _ in found)
        or _may_have_attributes(repository, settings, (), attributes)
    )


def fingerprint(
    repository: Repository,
    settings: Settings,
    found: Iterable[tuple[bytes, Stamp]],
    attributes: Mapping[bytes, Entry],
) -> str:
    """Everything that the conversion of any file depends on, as one string: the same string means the same conversions.

    Where it can't be known (a file that is young may change within one tick of its clock, attributes may come from whatever tree
    a name stands for) no two strings are the same. Not seen: what a filter's program reads besides its own file and those that its
    command names.

    Args:
        repository: the tree.
        settings: its configuration.
        found: every ``.gitattributes`` of the tree, with its stat data.
        attributes: those that rule from the index.
    """
    named = (
        settings.attributes_file,
        os.path.join(repository.common_dir, "info", "attributes"),
        *_SYSTEM,
        *_programs(repository, settings),
    )
    stamps = [*sorted(found), *((os.fsencode(path), stamp_of(path)) for path in named)]
    now = time.time_ns()
    unknown = settings.attributes_tree or any(stamp is not None and stamp.young(now) for _, stamp in stamps)
    young = now if unknown else 0
    return repr((settings.conversion, stamps, sorted(attributes.items(), key=lambda row: row[0]), young))


def _programs(repository: Repository, settings: Settings) -> list[str]:
    """The files that the filters' commands are made of: their programs, and whatever other word names a file of the tree."""
    found = []
    for command in settings.commands:
        try:
            words = shlex.split(command)
        except ValueError:
            words = command.split()
        for position, word in enumerate(words):
            program = shutil.which(word) if position == 0 and "/" not in word else None
            path = program or os.path.join(repository.path, os.path.expanduser(word))
            if not os.path.isdir(path):
                found.append(path)
    return found


def attributes_of_index(view: IndexView) -> dict[bytes, Entry]:
    """The ``.gitattributes`` that rule from the index, because they aren't checked out; where there is a file all the same, git reads that first.

    One that is gone although it should be there rules nothing: git's add drops it before it comes to the files. (Not always: where it has
    to compare the content of some file first, it has read it by then. What git answers then depends on how young the files are.)
    """
    found = (view.entry(position) for position in view.skipped_named(b".gitattributes"))
    return {
        entry.path: Entry(entry.mode, entry.oid.hex()) for entry in found if entry.mode in (FILE, EXECUTABLE)
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
        or any(os.path.lexists(os.path.join(root, path)) for path in convert.attribute_paths(paths))
    )


def _conversion(settings: Settings, values: Mapping[str, str]) -> Conversion:
    """git's convert_attrs. Whether bytes may change is rounded up; what line ends are written is certain."""
    text = _line_ends(values.get("text"))
    if text == "unspecified":
        text = _line_ends(values.get("crlf"))  # the old name
    eol = values.get("eol")
    if eol not in ("lf", "crlf"):
        eol = None
    binary = text == "unset" or (text == "unspecified" and eol is None and settings.autocrlf == "false")
    to_crlf = eol == "crlf" or (
        eol is None
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


def _line_ends(value: str | None) -> str:
    """A value of ``text`` or ``crlf``; one that git doesn't know says nothing."""
    return value if value in ("set", "unset", "input", "auto") else "unspecified"
