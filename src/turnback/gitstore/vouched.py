"""Files that the index vouches for, and that git would not write out again as they are (DESIGN 10.8).

Their content is stored, so a capture doesn't open them; but where a conversion applies (mixed line endings under ``autocrlf``, a lossy filter), or
did when they were stored, the stored content doesn't bring the bytes on the disk back. Each such file is read once, compared with what git
would make of its blob, and its bytes are kept beside the tree when they differ. Where no conversion can apply to any file and none ever did,
nothing is done at all. A file of git-lfs needs no reading: its blob says the size and the hash of what it stands for.

What has been proven is remembered: as long as the index and everything that conversions depend on stay the same, nothing is looked at again; when the
index changes, only the entries that are new in it are. It is a hint, kept in one file a tree: lose it and files are read again. The
work has a share of the capture's time; what there was no time for is taken up by the next capture, and until then nothing is proven about it.

Not seen: a file that is staged again with another mixture of line endings, but the same size and the same modification time, to the nanosecond.
Not kept: files above ``max_file_bytes``, which no capture takes.
"""

from __future__ import annotations

import hashlib
import json
import os
from array import array
from base64 import b64decode, b64encode
from contextlib import suppress
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from turnback.changes import EXECUTABLE, FILE
from turnback.errors import TimedOut
from turnback.gitstore.roundtrip import Comparison
from turnback.gitstore.storing import Raw
from turnback.native.files import Beneath

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from turnback.changes import Entry
    from turnback.gitstore.repo import Repository
    from turnback.gitstore.settings import Settings
    from turnback.gitstore.storing import Kept
    from turnback.limits import CaptureLimits
    from turnback.native.index import IndexEntry, IndexView


@dataclass(slots=True)
class _Known:
    """What has been proven, for one state of the index and of the conversions.

    Attributes:
        key: of that state.
        rules: of the conversions alone.
        proven: a digest of every entry that was compared.
        inexact: path to the bytes that are kept for it: digest of the entry, sha256, size.
        unknown: paths that the index didn't vouch for, or that there was no time for.
    """

    key: str = ""
    rules: str = ""
    proven: array[int] = field(default_factory=lambda: array("Q"))
    inexact: dict[bytes, tuple[int, str, int]] = field(default_factory=dict)
    unknown: set[bytes] = field(default_factory=set)


class Vouched:
    """The proofs of one tree. Not for several threads at once: whoever holds the tree's lock uses it.

    Attributes:
        files_read: how many files the last look opened.
    """

    def __init__(self, path: str) -> None:
        self.path = path
        self.files_read = 0
        self._known: _Known | None = None
        self._wanted_key = ""

    @property
    def has_history(self) -> bool:
        """Whether anything was ever compared here: conversions that apply no more may have left their traces."""
        return self._known is not None or os.path.exists(self.path)

    def inexact(
        self,
        repository: Repository,
        settings: Settings,
        view: IndexView,
        rules: str,
        changed: Collection[bytes],
        attributes: Mapping[bytes, Entry],
        scratch: str,
        pool: Kept,
        limits: CaptureLimits,
    ) -> list[Raw]:
        """The vouched files whose bytes are kept beside the tree.

        Args:
            repository: the tree.
            settings: its configuration.
            view: the index.
            rules: the same string means the same conversions (``conversions.fingerprint``).
            changed: the paths that the index does not vouch for.
            attributes: ``.gitattributes`` entries that rule although the tree has no such file.
            scratch: a private folder.
            pool: where bytes are kept.
            limits: of the capture; a part of the time that is left is used.
        """
        self.files_read = 0
        known = self._recall(repository.kept.index_key(), rules)
        todo = self._unproven(view, known, changed, pool)
        if todo:
            with Beneath(repository.path) as tree, suppress(TimedOut):  # the rest is for the next capture
                look = Comparison(repository, settings, attributes, tree, scratch, pool, limits)
                look.at(todo)
            self.files_read = look.files_read
            known.proven.extend(_digest(entry) for entry in look.exact)
            known.inexact.update(
                {entry.path: (_digest(entry), sha256, size) for entry, sha256, size in look.inexact}
            )
            known.unknown |= {entry.path for entry in todo} - look.done
            self._write(known)
        return [
            Raw(path, sha256, size)
            for path, (_, sha256, size) in sorted(known.inexact.items())
            if path not in changed
        ]

    def _recall(self, index_key: str, rules: str) -> _Known:
        """What is known, fit for this index and these conversions; its ``key`` is another one when entries must be compared."""
        if self._known is None:
            self._known = _read(self.path)
        known = self._known
        rules = hashlib.sha256(rules.encode("utf-8", "surrogateescape")).hexdigest()
        if known.rules != rules:
            known = self._known = _Known(rules=rules)
        key = hashlib.sha256(f"{index_key}\0{rules}".encode("utf-8", "surrogateescape")).hexdigest()
        if known.key != key:
            known.key = ""
        self._wanted_key = key
        return known

    def _unproven(
        self, view: IndexView, known: _Known, changed: Collection[bytes], pool: Kept
    ) -> list[IndexEntry]:
        """The entries that must be looked at."""
        lost = [path for path, (_, sha256, _) in known.inexact.items() if not pool.has(sha256)]
        for path in lost:
            del known.inexact[path]
        if known.key == self._wanted_key:
            again = [path for path in {*known.unknown, *lost} if path not in changed]
            known.unknown.difference_update(again)
            positions = (view.find(path, 0) for path in again)
            return [entry for at in positions if at is not None and _counts(entry := view.entry(at))]
        known.key = self._wanted_key
        proven = set(known.proven)
        kept, fresh = array("Q"), []
        inexact, known.unknown = {}, set()
        for entry in filter(_counts, view):
            digest = _digest(entry)
            if entry.path in changed:
                known.unknown.add(entry.path)
            elif (was := known.inexact.get(entry.path)) is not None and was[0] == digest:
                inexact[entry.path] = was
            elif digest in proven:
                kept.append(digest)
            else:
                fresh.append(entry)
        known.proven, known.inexact = kept, inexact
        if not fresh:
            self._write(known)
        return fresh

    def _write(self, known: _Known) -> None:
        """Keep it for other processes; a failure costs time only."""
        document = {
            "key": known.key,
            "rules": known.rules,
            "proven": b64encode(known.proven.tobytes()).decode(),
            "inexact": [[_text(path), *row] for path, row in known.inexact.items()],
            "unknown": [_text(path) for path in known.unknown],
        }
        body = json.dumps(document, separators=(",", ":")).encode()
        temporary = f"{self.path}.{os.getpid()}.tmp"
        try:
            os.makedirs(os.path.dirname(self.path), mode=0o700, exist_ok=True)
            descriptor = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_CLOEXEC, 0o600)
            with open(descriptor, "wb") as file:
                file.write(hashlib.sha256(body).hexdigest().encode() + b"\n" + body)
            os.replace(temporary, self.path)
        except OSError:
            return


def _read(path: str) -> _Known:
    """What another process left; nothing when it is damaged."""
    try:
        with open(path, "rb") as file:
            digest, _, body = file.read().partition(b"\n")
        if hashlib.sha256(body).hexdigest().encode() != digest:
            return _Known()
        document = json.loads(body)
        proven = array("Q")
        proven.frombytes(b64decode(document["proven"]))
        return _Known(
            document["key"],
            document["rules"],
            proven,
            {_bytes(name): (digest, sha256, size) for name, digest, sha256, size in document["inexact"]},
            {_bytes(name) for name in document["unknown"]},
        )
    except (OSError, ValueError, KeyError, TypeError):
        return _Known()


def _text(path: bytes) -> str:
    return b64encode(path).decode()


def _bytes(text: str) -> bytes:
    return b64decode(text)


def _counts(entry: IndexEntry) -> bool:
    """Whether an entry is a file of the tree whose bytes may be converted."""
    return entry.mode in (FILE, EXECUTABLE) and entry.stage == 0 and not entry.skip_worktree


def _digest(entry: IndexEntry) -> int:
    said = b"%s\0%s%d %d" % (entry.path, entry.oid, entry.size, entry.mtime_ns)
    return int.from_bytes(hashlib.blake2b(said, digest_size=8).digest(), "little")
