"""Store the present state of one tree as objects: what the scan found is read, converted as git would, and written with its folders.

No ref, no commit and no file of the user's is made or changed here. The limits are known to hold before the first object is written.
Where git's own conversion would not bring a file's bytes back, those bytes are handed to ``keep`` as well (DESIGN part 4, Byte-exact).
"""

from __future__ import annotations

import contextlib
import os
import time
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, LINK, Entry
from turnback.errors import Failed, TimedOut
from turnback.gitstore import convert, ignore, indextree, objects
from turnback.gitstore import scan as scanning
from turnback.gitstore import settings as configuration
from turnback.gitstore.process import GitFailed
from turnback.limits import CaptureLimits, Skipped, SkipReason
from turnback.native.files import Beneath, Blocked, NotRegular

if TYPE_CHECKING:
    from collections.abc import Callable

    from turnback.gitstore.repo import Head, Repository
    from turnback.gitstore.scan import Candidate, Nested, Scan
    from turnback.gitstore.settings import Settings

_LARGEST = 5


@dataclass(frozen=True, slots=True)
class Raw:
    """A file whose exact bytes are kept beside the tree."""

    path: bytes
    sha256: str
    bytes: int


@dataclass(frozen=True, slots=True)
class Snapshot:
    """The stored state of one tree.

    Attributes:
        tree: the tree object's id.
        head: where HEAD was just before.
        skipped: what was left out, each with its reason.
        nested: submodules and nested repositories.
        raw: files whose bytes are kept by ``keep``.
        modes: path to permission bits, where they are narrower than usual.
        rules: the ignore rules of this moment that the tree doesn't hold.
        files_read: how many files were opened.
    """

    tree: str
    head: Head
    skipped: tuple[Skipped, ...]
    nested: tuple[Nested, ...]
    raw: tuple[Raw, ...]
    modes: dict[bytes, int]
    rules: ignore.Rules
    files_read: int


@dataclass(slots=True)
class _Store:
    """The state of one run: what each candidate became."""

    repository: Repository
    settings: Settings
    limits: CaptureLimits
    scratch: str
    keep: Callable[[bytes], str]
    edits: dict[bytes, Entry | None] = field(default_factory=dict)
    skipped: list[Skipped] = field(default_factory=list)
    raw: list[Raw] = field(default_factory=list)
    modes: dict[bytes, int] = field(default_factory=dict)
    files_read: int = 0


def take(
    repository: Repository,
    limits: CaptureLimits,
    *,
    usual: int,
    scratch: str,
    keep: Callable[[bytes], str],
) -> Snapshot:
    """Store the present state of a tree.

    Args:
        repository: the tree.
        limits: what may be taken.
        usual: the permission bits that a plain new file gets.
        scratch: an empty private folder for the moment.
        keep: called with bytes to keep beside the tree; gives their sha256.

    Raises:
        Failed: ``failed.checkpoint_git``, ``failed.checkpoint_too_large``.
        TimedOut: ``timeout.checkpoint``.
    """
    settings = configuration.read(repository, limits.deadline)
    head = repository.head()
    rules = ignore.rules_now(repository, settings)
    found = scanning.scan(repository, settings, usual, limits.deadline)
    store = _Store(
        repository, settings, limits, scratch, keep, skipped=list(found.skipped), modes=dict(found.narrow)
    )
    wanted = _within_limits(store, found)
    for path in found.deleted:
        store.edits[path] = None
    for repo in found.nested:
        if repo.commit is not None:
            store.edits[repo.path] = Entry(GITLINK, repo.commit)
    _store_files(store, found, wanted, usual)
    return Snapshot(
        tree=indextree.write(repository, found.view, store.edits),
        head=head,
        skipped=tuple(sorted(store.skipped, key=lambda item: item.path)),
        nested=tuple(sorted(found.nested, key=lambda item: item.path)),
        raw=tuple(sorted(store.raw, key=lambda item: item.path)),
        modes=store.modes,
        rules=rules,
        files_read=store.files_read,
    )


def _within_limits(store: _Store, found: Scan) -> list[Candidate]:
    """What is left of the candidates under the limits; the total is known before anything is read or written."""
    wanted = []
    for candidate in found.candidates:
        if candidate.size > store.limits.max_file_bytes:
            store.skipped.append(Skipped(candidate.path, candidate.size, SkipReason.TOO_BIG))
        else:
            wanted.append(candidate)
    total = sum(candidate.size for candidate in wanted)
    if total > store.limits.max_total_bytes:
        largest = sorted(wanted, key=lambda item: (-item.size, item.path))[:_LARGEST]
        raise Failed(
            "checkpoint_too_large",
            f"new and changed files in {store.repository.path} take {total} bytes, more than the limit of "
            f"{store.limits.max_total_bytes}; ignore the largest ones or raise checkpoints.max_total_bytes",
            bytes=total,
            largest=[{**paths.members(item.path), "bytes": item.size} for item in largest],
        )
    return wanted


def _store_files(store: _Store, found: Scan, wanted: list[Candidate], usual: int) -> None:
    """Read each candidate; store it as it is, or leave it to git when its bytes may be converted."""
    repository = store.repository
    files = [candidate.path for candidate in wanted if candidate.mode != LINK]
    known = convert.conversions(
        repository,
        store.settings,
        files,
        has_attributes=_has_attributes(store, found, files),
        deadline=store.limits.deadline,
    )
    cleaned: dict[bytes, tuple[Candidate, bytes]] = {}
    smudged: dict[bytes, bytes] = {}
    with Beneath(repository.path) as tree:
        for candidate in wanted:
            if store.limits.deadline is not None and time.monotonic() > store.limits.deadline:
                raise TimedOut(
                    "checkpoint", f"the capture of {repository.path} took longer than checkpoints.timeout"
                )
            data = _read(store, tree, candidate)
            if data is None:
                continue
            conversion = known.of(candidate.path)
            if candidate.mode != LINK and conversion.may_clean(data):
                cleaned[candidate.path] = (candidate, data)
            else:
                store.edits[candidate.path] = Entry(candidate.mode, objects.write_blob(repository, data))
                if candidate.mode != LINK and conversion.may_smudge(data):
                    smudged[candidate.path] = data
            _note_mode(store, candidate, usual)
    if cleaned:
        _clean(store, found, cleaned)
        smudged.update({path: data for path, (_, data) in cleaned.items() if path in store.edits})
    if smudged:
        _keep_inexact(store, smudged)


def _read(store: _Store, tree: Beneath, candidate: Candidate) -> bytes | None:
    """The bytes of a candidate, or None when there are none to store (which is noted)."""
    try:
        store.files_read += 1
        if candidate.mode == LINK and store.settings.symlinks:
            return tree.readlink(candidate.path)
        return tree.read(candidate.path)[0]
    except (FileNotFoundError, Blocked):
        store.edits[candidate.path] = None  # it went since it was listed: as if it had been gone then
    except NotRegular:
        store.skipped.append(Skipped(candidate.path, 0, SkipReason.NOT_REGULAR))
    except OSError:
        store.skipped.append(Skipped(candidate.path, candidate.size, SkipReason.UNREADABLE))
    return None


def _note_mode(store: _Store, candidate: Candidate, usual: int) -> None:
    expected = usual | (0o111 & usual >> 2) if candidate.permissions & 0o100 else usual
    if candidate.mode != LINK and expected & ~candidate.permissions:
        store.modes[candidate.path] = candidate.permissions & 0o777


def _clean(store: _Store, found: Scan, cleaned: dict[bytes, tuple[Candidate, bytes]]) -> None:
    """Let git convert and store these; one whose required filter can't run keeps the index's content, and its raw bytes."""
    index = {path: candidate.index for path, (candidate, _) in cleaned.items() if candidate.index is not None}
    index.update(_indexed(found, convert.attribute_paths(cleaned)))
    stored = convert.clean(store.repository, list(cleaned), index, store.scratch, store.limits.deadline)
    for path, (candidate, data) in cleaned.items():
        if path in stored:
            store.edits[path] = Entry(candidate.mode, stored[path])
        else:
            store.skipped.append(Skipped(path, candidate.size, SkipReason.FILTER))
            store.raw.append(Raw(path, store.keep(data), len(data)))


def _keep_inexact(store: _Store, written: dict[bytes, bytes]) -> None:
    """Let git write these files out again, and keep the bytes of each that doesn't come back as it was."""
    entries = {path: entry for path in written if (entry := store.edits.get(path)) is not None}
    folder = None
    with contextlib.suppress(GitFailed):  # a filter that can't write: every one of them is kept
        folder = convert.smudge(
            store.repository,
            entries,
            {},
            store.scratch,
            work_tree=store.repository.path,
            deadline=store.limits.deadline,
        )
    for path, data in written.items():
        if folder is None or _content(os.path.join(os.fsencode(folder), path)) != data:
            store.raw.append(Raw(path, store.keep(data), len(data)))


def _content(path: bytes) -> bytes | None:
    try:
        with open(path, "rb") as file:
            return file.read()
    except OSError:
        return None


def _indexed(found: Scan, wanted: set[bytes]) -> dict[bytes, Entry]:
    entries = {}
    for path in wanted:
        position = found.view.find(path)
        if position is not None:
            entry = found.view.entry(position)
            entries[path] = Entry(entry.mode, entry.oid.hex())
    return entries


def _has_attributes(store: _Store, found: Scan, files: list[bytes]) -> bool:
    """Whether any attributes file may rule these paths: in the tree, in the index, in the repository or of the user."""
    repository = store.repository
    if os.path.exists(os.path.join(repository.common_dir, "info", "attributes")):
        return True
    if os.path.exists(store.settings.attributes_file) or os.path.exists("/etc/gitattributes"):
        return True
    root = os.fsencode(repository.path)
    wanted = convert.attribute_paths(files)
    return bool(_indexed(found, wanted)) or any(os.path.lexists(os.path.join(root, path)) for path in wanted)
