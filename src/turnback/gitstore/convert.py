"""What git does to a file's bytes on the way in (clean) and out (smudge), asked of git itself in one batch.

libgit2 runs no external filter, has no encodings and gets ``ident`` wrong, so none of it is done there: a small index with just the paths
in question is given to ``git update-index`` or ``git checkout-index``. Most files need none of this: ``conversions`` says which ones do.

Nothing here writes into the tree, and the user's index is never used: the small index is a file in a scratch folder.
"""

from __future__ import annotations

import contextlib
import os
from typing import TYPE_CHECKING

from turnback.gitstore import process

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Mapping, Sequence

    from turnback.changes import Entry
    from turnback.gitstore.repo import Repository

_PATIENCE = 8  # files that fail alone before a whole batch is given up


def clean(
    repository: Repository,
    paths: Sequence[bytes],
    index: Mapping[bytes, Entry],
    scratch: str,
    external: Collection[bytes],
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
        external: those of the paths that a filter or an encoding applies to.
        deadline: for the processes.
    """
    found: dict[bytes, str] = {}
    in_halves(
        paths, lambda batch: found.update(_clean(repository, batch, index, scratch, deadline)), external
    )
    return found


def in_halves(
    paths: Sequence[bytes], work: Callable[[Sequence[bytes]], object], external: Collection[bytes]
) -> list[bytes]:
    """Do something with many paths in one go; where one of them makes git fail, halve until it stands alone. Gives those that failed.

    A driver that isn't installed fails every one of its files: after some, a half that fails is not taken apart any more. So the paths
    that something external converts go by themselves, and the others never suffer from them.

    Args:
        paths: the paths.
        work: does it, and raises ``GitFailed``.
        external: those of them that a filter or an encoding applies to.
    """
    with_filter = [path for path in paths if path in external]
    without = [path for path in paths if path not in external]
    return _in_halves(with_filter, work, _PATIENCE) + _in_halves(without, work, len(without))


def _in_halves(
    paths: Sequence[bytes], work: Callable[[Sequence[bytes]], object], patience: int
) -> list[bytes]:
    failed: list[bytes] = []
    waiting = [paths] if paths else []
    while waiting:
        batch = waiting.pop()
        try:
            work(batch)
        except process.GitFailed:
            if len(batch) == 1 or len(failed) >= patience:
                failed += batch
            else:
                half = len(batch) // 2
                waiting += [batch[half:], batch[:half]]
    return failed


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
        fill(repository, index, extra, deadline)
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
        remove_index(index_file)


def changed(
    repository: Repository,
    index: Mapping[bytes, Entry],
    attributes: Mapping[bytes, Entry],
    scratch: str,
    deadline: float | None,
) -> set[bytes]:
    """Those of some tracked paths whose content, converted as git would, or mode isn't the index's; nothing is stored.

    Args:
        repository: the tree.
        index: path to what the user's index has for it.
        attributes: ``.gitattributes`` entries that rule although the tree has no such file.
        scratch: a folder for the small index; the file is removed again.
        deadline: for the processes.
    """
    index_file = os.path.join(scratch, "changed.index")
    extra = {"GIT_INDEX_FILE": index_file}
    try:
        fill(repository, {**attributes, **index}, extra, deadline)
        # Status 1 only says that some differ.
        process.run(
            repository.path,
            ["update-index", "-q", "--refresh"],
            extra=extra,
            deadline=deadline,
            accept=(0, 1),
        )
        output = process.run(
            repository.path, ["diff-files", "--name-only", "-z"], extra=extra, deadline=deadline
        )
        return index.keys() & set(process.split(output))
    finally:
        remove_index(index_file)


def sizes(repository: Repository, oids: Collection[str], deadline: float | None = None) -> dict[str, int]:
    """The sizes of many objects in one go; one that isn't there (a partial clone) is left out."""
    output = process.run(
        repository.path,
        ["cat-file", "--batch-check=%(objectname) %(objectsize)", "--buffer"],
        stdin="".join(oid + "\n" for oid in oids).encode(),
        deadline=deadline,
    )
    rows = (row.split(" ") for row in output.decode().splitlines())
    return {oid: int(size) for oid, size in rows if size != "missing"}


def fill(
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


def remove_index(index_file: str) -> None:
    """Remove a small index, and the lock that a killed git left."""
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
    extra = {
        "GIT_DIR": repository.git_dir,
        "GIT_WORK_TREE": work_tree or empty,
        "GIT_INDEX_FILE": index_file,
    }
    fill(repository, {**attributes, **files}, extra, deadline)
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
