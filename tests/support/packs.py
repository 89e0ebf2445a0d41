"""The packs of a repository as tests look at them, and objects to fill them with."""

from __future__ import annotations

import hashlib
import random
from typing import TYPE_CHECKING

from turnback.gitstore.writer import ObjectWriter

if TYPE_CHECKING:
    from collections.abc import Iterable
    from pathlib import Path

    from support.git_repo import GitRepo
    from turnback.gitstore.repo import Repository


def blobs(count: int, name: str = "blob", size: int = 60) -> list[bytes]:
    """So many different contents, the same for the same name."""
    source = random.Random(name)
    return [b"%s %d\n" % (name.encode(), number) + source.randbytes(size) for number in range(count)]


def oid_of(content: bytes) -> str:
    """The id that git gives a blob."""
    return hashlib.sha1(b"blob %d\0%s" % (len(content), content)).hexdigest()


def store(repository: Repository, contents: Iterable[bytes], *, durable: bool = False) -> list[str]:
    """Write blobs with a writer of their own; their ids."""
    with ObjectWriter(repository) as writer:
        oids = [writer.blob(content) for content in contents]
        writer.flush(durable=durable)
    return oids


def packs(repo: GitRepo) -> list[Path]:
    """The packs in a repository's own folder."""
    return sorted((repo.git_dir / "objects" / "pack").glob("*.pack"))


def loose(repo: GitRepo) -> list[str]:
    """The ids of the loose objects in a repository's own folder."""
    return sorted(path.parent.name + path.name for path in (repo.git_dir / "objects").glob("??/*"))


def absent(repo: GitRepo, oids: Iterable[str]) -> list[str]:
    """Those ids that git finds no object for."""
    wanted = "".join(f"{oid}\n" for oid in oids).encode()
    rows = repo.git("cat-file", "--batch-check", data=wanted).decode().splitlines()
    return [row.split()[0] for row in rows if row.endswith(" missing")]


def check(repo: GitRepo) -> None:
    """Git finds no fault with any object, and nothing in the object folder that it doesn't know."""
    repo.git("fsck", "--strict", "--full", "--no-dangling")
    counts = dict(row.split(": ") for row in repo.text("count-objects", "-v").splitlines())
    assert counts["garbage"] == "0", "a file that git doesn't know is in the object folder"
