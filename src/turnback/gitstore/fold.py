"""Few packs instead of many: the small packs that captures leave are copied into one.

Every git command opens every pack, so a pack for each turn would make the user's own git slow. When there are more than a few of ours, the
smallest are folded: as many as it takes for each of those that stay to be twice as large as all the smaller ones together. So what is stored
is copied five times in two thousand captures, and not a hundred times. What is deflated is copied as it is; an object that several of them
have is copied once.

What a fold never touches: a pack that isn't noted as ours; one with a file beside it that says that git has plans for it (``.keep``,
``.promisor``, ``.mtimes``, ``.bitmap``); one that a multi-pack-index names; another user's; one that can't be read or isn't what its checksum
says; and a really big one.

The caller holds a lock, so that two folds never run at once. Anybody else may do anything meanwhile: the new pack is whole, synced and noted
before an old one goes, so a reader that misses an object looks at the folder again and finds it, as with git's own repacking; and what
a ``git gc`` has removed is simply gone. Killed at any moment, a fold leaves objects twice or a temporary file, and the next one goes on.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
from dataclasses import dataclass
from typing import TYPE_CHECKING

from turnback.gitstore import multipack, ourpacks, packindex
from turnback.gitstore.newfile import NewFile
from turnback.gitstore.objectfolder import ObjectFolder
from turnback.gitstore.pack import pack_header, publish
from turnback.gitstore.packentry import BLOCK, COMMIT, TAG, kind_of

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping, Sequence

    from turnback.gitstore.packindex import Place
    from turnback.gitstore.repo import Repository

MOST = 8  # packs of ours that may stand
_STAY = 5  # of them, at most so many aren't folded when the time has come
_RATIO = 2  # each of those is at least so many times as large as all smaller ones together
_BIG = 1 << 29  # bytes; a pack of this size costs more to copy than it costs git to open
_BIG_INDEX = 1 << 23  # bytes, a quarter of a million objects
_CHECKSUM = 20
_PINS = (".keep", ".promisor", ".mtimes", ".bitmap")
_OWN = (".idx", ".rev", ".pack")  # in this order: git looks for indexes, and never finds one without its pack


@dataclass(frozen=True, slots=True)
class Folded:
    """What a fold did.

    Attributes:
        pack: the checksum of the new pack; None when there was nothing to fold.
        folded: the checksums of the packs that are in it.
        objects: how many objects it has.
        bytes: its size.
        damaged: the checksums of packs of ours that can't be read or aren't what they should be; they were left alone.
    """

    pack: str | None = None
    folded: tuple[str, ...] = ()
    objects: int = 0
    bytes: int = 0
    damaged: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class _Source:
    """A pack to be folded, open and checked: each object's id, place, and the end of its bytes, in the pack's order."""

    descriptor: int
    rows: list[tuple[bytes, Place, int]]


class _Damaged(OSError):
    """A pack isn't what it should be."""

    def __init__(self) -> None:
        super().__init__("a pack is damaged")


def fold(repository: Repository, most: int = MOST) -> Folded:
    """Fold small packs of ours if there are more than ``most``, after clearing what a killed process left.

    The caller holds the lock under which folds of this repository happen.

    Raises:
        Failed: ``failed.checkpoint_git``: the disk is full, or the folder can't be written; nothing is lost.
    """
    ourpacks.clear_leftovers(repository)
    folder = ObjectFolder.of(repository)
    damaged: set[str] = set()
    with folder.failing("folding packs"):
        while len(ourpacks.recorded(folder)) > most:
            sizes = _ours(folder)
            chosen = choose({name: size for name, size in sizes.items() if name not in damaged}, most)
            if not chosen:
                break
            with contextlib.ExitStack() as stack:
                sources = []
                for checksum in chosen:
                    try:
                        sources.append(stack.enter_context(_opened(folder, checksum)))
                    except FileNotFoundError:
                        break  # somebody's gc was faster: look again
                    except OSError:
                        damaged.add(checksum)
                if len(sources) == len(chosen):
                    return _copied(folder, chosen, sources, damaged)
    return Folded(damaged=tuple(sorted(damaged)))


def choose(sizes: Mapping[str, int], most: int = MOST) -> list[str]:
    """The packs to fold, smallest first; none while there are no more than ``most``.

    Args:
        sizes: checksum to size in bytes.
        most: how many may stand.
    """
    if len(sizes) <= most:
        return []
    order = sorted(sizes, key=lambda checksum: (sizes[checksum], checksum))
    count = max(2, len(order) - min(_STAY, most - 1))
    total = sum(sizes[checksum] for checksum in order[:count])
    for checksum in order[count:]:
        if sizes[checksum] >= _RATIO * total:
            break
        total += sizes[checksum]
        count += 1
    return order[:count]


def _ours(folder: ObjectFolder) -> dict[str, int]:
    """The packs that may be folded, with their sizes."""
    named = multipack.named(folder.packs)
    found = {}
    for checksum in ourpacks.recorded(folder):
        try:
            pack = os.stat(ourpacks.pack_path(folder, checksum))
            index = os.stat(ourpacks.index_path(folder, checksum)).st_size
        except FileNotFoundError:  # gone, or not whole: clear_leftovers has seen to it, or will
            continue
        small = pack.st_size < _BIG and index < _BIG_INDEX
        if small and pack.st_uid == os.geteuid() and _is_free(folder, checksum, named):
            found[checksum] = pack.st_size
    return found


def _is_free(folder: ObjectFolder, checksum: str, named: frozenset[str] | None) -> bool:
    stem = ourpacks.pack_path(folder, checksum).removesuffix(".pack")
    return (
        named is not None and checksum not in named and not any(os.path.lexists(stem + pin) for pin in _PINS)
    )


@contextlib.contextmanager
def _opened(folder: ObjectFolder, checksum: str) -> Iterator[_Source]:
    """Open a pack and check all of it against its checksum: what is damaged must not replace what may be whole elsewhere.

    Raises:
        FileNotFoundError: it is gone.
        _Damaged: it isn't what it should be.
    """
    with open(ourpacks.pack_path(folder, checksum), "rb", buffering=0) as pack:
        with open(ourpacks.index_path(folder, checksum), "rb") as file:
            data = file.read()
        try:
            places, named = packindex.decode(data)
        except ValueError as error:
            raise _Damaged from error
        end = os.fstat(pack.fileno()).st_size - _CHECKSUM
        order = sorted(places.items(), key=lambda row: row[1])
        ends = [place[0] for _, place in order[1:]] + [end]
        rows = [(oid, place, until) for (oid, place), until in zip(order, ends, strict=True)]
        if named.hex() != checksum or not order or order[-1][1][0] >= end:
            raise _Damaged
        _check(pack.fileno(), named, end, rows)
        yield _Source(pack.fileno(), rows)


def _check(descriptor: int, checksum: bytes, end: int, rows: list[tuple[bytes, Place, int]]) -> None:
    digest = hashlib.sha1(usedforsecurity=False)
    next_row = 0
    for at, block in _read(descriptor, 0, end):
        digest.update(block)
        while next_row < len(rows) and rows[next_row][1][0] < at + len(block):
            if not COMMIT <= kind_of(block[rows[next_row][1][0] - at]) <= TAG:
                raise _Damaged  # a delta would lose its base: we write none
            next_row += 1
    if digest.digest() != checksum or os.pread(descriptor, _CHECKSUM + 1, end) != checksum:
        raise _Damaged


def _copied(
    folder: ObjectFolder, chosen: Sequence[str], sources: Sequence[_Source], damaged: set[str]
) -> Folded:
    """Make one pack of several, and then remove those."""
    places, runs = _laid_out(sources)
    digest = hashlib.sha1(usedforsecurity=False)
    with NewFile(folder.packs, ourpacks.PACK_PREFIX, folder.sharing) as pack:
        header = pack_header(len(places))
        pack.write(header)
        digest.update(header)
        for source, start, end in runs:
            for _, block in _read(source.descriptor, start, end):
                pack.write(block)
                digest.update(block)
        checksum = digest.digest()
        pack.write(checksum)
        publish(folder, pack, checksum, packindex.encode(places, checksum), durable=True)
        size = os.fstat(pack.fd).st_size
    named = multipack.named(folder.packs)
    for old in chosen:
        # When one of them has everything that the others have, it may be the very pack that was just made.
        if old != checksum.hex() and _is_free(folder, old, named):
            _remove(folder, old)
    return Folded(checksum.hex(), tuple(sorted(chosen)), len(places), size, tuple(sorted(damaged)))


def _laid_out(sources: Sequence[_Source]) -> tuple[dict[bytes, Place], list[tuple[_Source, int, int]]]:
    """Where each object will be in the new pack, and the stretches of bytes to copy for that."""
    places: dict[bytes, Place] = {}
    runs: list[tuple[_Source, int, int]] = []
    at = len(pack_header(0))
    for source in sources:
        start = stop = 0
        for oid, (offset, crc), end in source.rows:
            if oid in places:
                continue
            if offset != stop:
                runs.append((source, start, stop))
                start = offset
            stop = end
            places[oid] = at, crc
            at += end - offset
        runs.append((source, start, stop))
    return places, [run for run in runs if run[1] < run[2]]


def _read(descriptor: int, start: int, end: int) -> Iterator[tuple[int, bytes]]:
    while start < end:
        block = os.pread(descriptor, min(BLOCK, end - start), start)
        if not block:
            raise _Damaged
        yield start, block
        start += len(block)


def _remove(folder: ObjectFolder, checksum: str) -> None:
    stem = ourpacks.pack_path(folder, checksum).removesuffix(".pack")
    for end in _OWN:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(stem + end)
    ourpacks.forget(folder, checksum)
