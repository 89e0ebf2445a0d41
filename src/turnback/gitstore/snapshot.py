"""Store the present state of one tree as objects: what the scan found is read, converted as git would, and written with its folders.

No ref, no commit and no file of the user's is made or changed here. The limits are known to hold before the first object is written.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback import paths
from turnback.changes import GITLINK, Entry
from turnback.errors import Failed
from turnback.gitstore import conversions, convert, ignore, indextree
from turnback.gitstore import scan as scanning
from turnback.gitstore.storing import Storing
from turnback.gitstore.writer import ObjectWriter
from turnback.limits import CaptureLimits, Skipped, SkipReason

if TYPE_CHECKING:
    from collections.abc import Sequence

    from turnback.gitstore.repo import Head, Repository
    from turnback.gitstore.scan import Candidate, Nested
    from turnback.gitstore.storing import Kept, Raw

_LARGEST = 5


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
        cleaned: blobs that git stored.
        writer: stored the rest; it tells what a prune took meanwhile (``lost``).
    """

    tree: str
    head: Head
    skipped: tuple[Skipped, ...]
    nested: tuple[Nested, ...]
    raw: tuple[Raw, ...]
    modes: dict[bytes, int]
    rules: ignore.Rules
    files_read: int
    cleaned: frozenset[str]
    writer: ObjectWriter


def take(
    repository: Repository,
    limits: CaptureLimits,
    *,
    usual: int,
    scratch: str,
    pool: Kept,
    cache_file: str | None = None,
) -> Snapshot:
    """Store the present state of a tree.

    Args:
        repository: the tree.
        limits: what may be taken.
        usual: the permission bits that a plain new file gets.
        scratch: an empty private folder for the moment.
        pool: where bytes are kept beside the tree.
        cache_file: what earlier captures learned about files that the index doesn't vouch for; None for no such cache.

    Raises:
        Failed: ``failed.checkpoint_git``, ``failed.checkpoint_too_large``.
        TimedOut: ``timeout.checkpoint``.
    """
    with repository.kept.lock:
        return _take(repository, limits, usual, scratch, pool, cache_file)


def _take(
    repository: Repository,
    limits: CaptureLimits,
    usual: int,
    scratch: str,
    pool: Kept,
    cache_file: str | None,
) -> Snapshot:
    # libgit2 goes on finding objects in a pack that it has open, also when a gc has replaced the pack by one without them.
    repository.reopen()
    settings = repository.kept.configuration.read(limits.deadline)
    head = repository.head()
    rules = ignore.rules_now(repository, settings)
    found = scanning.scan(repository, settings, rules, usual=usual, deadline=limits.deadline)
    attributes = conversions.attributes_of_index(found.view)
    wanted, too_big = _within_limits(repository, limits, found.candidates, attributes, scratch)
    cache = None if cache_file is None else repository.kept.dirty(cache_file)
    fingerprint = conversions.fingerprint(repository, settings, found.attributes, attributes)
    if cache is not None:
        cache.begin(fingerprint)
    writer = ObjectWriter(repository)
    store = Storing(repository, settings, limits, attributes, usual, scratch, pool, cache, writer)
    store.store(wanted)
    if cache is not None:
        cache.end()
    edits: dict[bytes, Entry | None] = dict.fromkeys(found.deleted)
    edits.update({repo.path: Entry(GITLINK, repo.commit) for repo in found.nested if repo.commit is not None})
    edits.update(store.edits)
    absent: list[bytes] = []
    tree = indextree.write(repository, found.view, edits, writer, absent)
    if absent:
        store.store(scanning.unvouched(repository, found.view, absent))
        edits.update(store.edits)
        tree = indextree.write(repository, found.view, edits, writer, [])
    writer.flush()
    raw = list(store.raw)
    vouched = None if cache_file is None else repository.kept.vouched(cache_file)
    if vouched is not None and (
        vouched.has_history or conversions.any_apply(repository, settings, found.attributes, attributes)
    ):
        changed = {*edits, *(one.path for one in found.candidates), *(item.path for item in found.skipped)}
        raw += vouched.inexact(
            repository, settings, found.view, fingerprint, changed, attributes, scratch, pool, limits
        )
    return Snapshot(
        tree=tree,
        head=head,
        skipped=tuple(sorted([*found.skipped, *too_big, *store.skipped], key=lambda item: item.path)),
        nested=tuple(sorted(found.nested, key=lambda item: item.path)),
        raw=tuple(sorted(raw, key=lambda item: item.path)),
        modes=found.narrow | store.modes,
        rules=rules,
        files_read=store.files_read,
        cleaned=frozenset(
            entry.oid for entry in store.edits.values() if entry is not None and not writer.knows(entry.oid)
        ),
        writer=writer,
    )


def _within_limits(
    repository: Repository,
    limits: CaptureLimits,
    candidates: Sequence[Candidate],
    attributes: dict[bytes, Entry],
    scratch: str,
) -> tuple[list[Candidate], list[Skipped]]:
    """What may be taken under the limits, and what is too big; all of it is known before anything is stored."""
    if sum(candidate.size for candidate in candidates) > limits.max_total_bytes or any(
        candidate.size > limits.max_file_bytes for candidate in candidates
    ):
        # The limits are about what is new or changed. In a fresh clone or copy every file may only look so.
        settled = {one.path: one.index for one in candidates if one.settled and one.index is not None}
        changed = convert.changed(repository, settled, attributes, scratch, limits.deadline)
        candidates = [one for one in candidates if one.path not in settled or one.path in changed]
    wanted = [candidate for candidate in candidates if candidate.size <= limits.max_file_bytes]
    too_big = [
        Skipped(candidate.path, candidate.size, SkipReason.TOO_BIG)
        for candidate in candidates
        if candidate.size > limits.max_file_bytes
    ]
    total = sum(candidate.size for candidate in wanted)
    if total > limits.max_total_bytes:
        largest = sorted(wanted, key=lambda item: (-item.size, item.path))[:_LARGEST]
        raise Failed(
            "checkpoint_too_large",
            f"new and changed files in {repository.path} take {total} bytes, more than the limit of "
            f"{limits.max_total_bytes}; ignore the largest ones or raise checkpoints.max_total_bytes",
            bytes=total,
            largest=[{**paths.members(item.path), "bytes": item.size} for item in largest],
        )
    return wanted, too_big
