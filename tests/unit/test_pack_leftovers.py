"""What a killed process leaves in the object folder: told from what is in use, removed or completed."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.children import Child
from support.packs import absent, blobs, check, oid_of, packs, store
from turnback.gitstore import ourpacks
from turnback.gitstore.fold import fold
from turnback.gitstore.objectfolder import ObjectFolder
from turnback.gitstore.repo import Repository

if TYPE_CHECKING:
    from support.git_repo import GitRepo


@pytest.fixture
def repository(repo: GitRepo) -> Repository:
    return Repository(str(repo.path))


def fill(repository: Repository, count: int, name: str = "turn", size: int = 10) -> list[str]:
    """So many packs of ours, of 60 blobs each; the ids."""
    return [oid for turn in range(count) for oid in store(repository, blobs(60, f"{name} {turn}", size))]


# Starts a pack under a temporary name and holds it.
HOLDS = """
from turnback.gitstore import newfile
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import ObjectWriter
from support.packs import blobs
newfile.NAMELESS = 0
writer = ObjectWriter(Repository(sys.argv[1]))
for content in blobs(100):
    writer.blob(content)
say("holds")
hear()
writer.flush()
say("flushed")
"""


def test_what_a_living_process_holds_is_no_leftover(repo: GitRepo, repository: Repository) -> None:
    """A temporary pack is left alone while its writer lives, and removed once it was killed."""
    with Child(HOLDS, str(repo.path)) as writer, Child(HOLDS, str(repo.path)) as dying:
        assert (writer.hear(), dying.hear()) == ("holds", "holds")
        assert ourpacks.leftovers(repository) == []
        assert ourpacks.clear_leftovers(repository) == []
        dying.kill()
        (left,) = ourpacks.leftovers(repository)
        assert fold(repository).pack is None
        assert ourpacks.leftovers(repository) == []
        assert not os.path.exists(left)
        assert writer.finish().split() == ["flushed"]
    assert absent(repo, map(oid_of, blobs(100))) == []
    check(repo)


def test_a_pack_without_its_index_gets_one(repo: GitRepo, repository: Repository) -> None:
    """A pack of ours without an index may be the only copy of something: it is completed, not removed; a damaged one stays as it is."""
    oids = fill(repository, 2)
    whole, damaged = packs(repo)
    kept = whole.with_suffix(".idx").read_bytes()
    for path in (whole, damaged):
        path.with_suffix(".idx").unlink()
    damaged.chmod(0o644)
    damaged.write_bytes(damaged.read_bytes()[:-30])
    assert ourpacks.leftovers(repository) == [str(whole), str(damaged)]
    assert ourpacks.clear_leftovers(repository) == [str(whole)]
    assert whole.with_suffix(".idx").read_bytes() == kept
    assert whole.with_suffix(".idx").stat().st_mode & 0o777 == 0o444
    assert ourpacks.leftovers(repository) == [str(damaged)]
    assert len(absent(repo, oids)) == 60
    assert sorted(path.name for path in damaged.parent.iterdir()) == sorted(
        [damaged.name, whole.name, whole.with_suffix(".idx").name]
    )


def test_a_note_is_kept_while_its_pack_is_made(repository: Repository) -> None:
    """A note whose pack isn't there yet isn't forgotten as long as its maker holds it."""
    folder = ObjectFolder.of(repository)
    with ourpacks.noting(folder, "a" * 40):
        assert not ourpacks.forget(folder, "a" * 40)
        assert ourpacks.recorded(folder) == ["a" * 40]
    assert ourpacks.forget(folder, "a" * 40)
    assert ourpacks.recorded(folder) == []
