"""Our packs and indexes put to git: the same bytes where git has only one answer, and no complaint where it has none."""

from __future__ import annotations

import os
import stat
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from support.git_repo import GitRepo
from support.packs import absent, blobs, check, loose, oid_of, packs, store
from turnback.gitstore import deflate, packindex
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import LOOSE, ObjectWriter

if TYPE_CHECKING:
    from collections.abc import Iterator

# Sizes around where the header of an entry grows by a byte, and contents that deflate well or not at all.
SIZES = st.sampled_from([0, 1, 15, 16, 17, 2047, 2048, 2049, 70_000, 262_144, 262_145])
CONTENTS = st.one_of(
    st.binary(max_size=300),
    st.builds(lambda size, byte: byte * size, SIZES, st.binary(min_size=1, max_size=1)),
    st.builds(lambda size, seed: blobs(1, str(seed), size)[0], SIZES, st.integers(0, 9)),
)


@pytest.fixture(scope="module")
def kept() -> Iterator[GitRepo]:
    """One repository for many random cases."""
    with tempfile.TemporaryDirectory(prefix="turnback-packs-") as place:
        yield GitRepo.init(Path(place, "repo"))


def same_index(repo: GitRepo, pack: Path, *options: str) -> bytes:
    """The index that git makes for a pack, which it has to accept in strict mode."""
    made = repo.path / "made.idx"
    said = repo.text("index-pack", "--strict", *options, "-o", str(made), str(pack))
    assert said == pack.stem.removeprefix("pack-"), "git names the pack otherwise"
    data = made.read_bytes()
    made.unlink()
    return data


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(st.lists(CONTENTS, min_size=1, max_size=30), st.binary(max_size=200))
def test_random_objects(kept: GitRepo, contents: list[bytes], message: bytes) -> None:
    """Any set of blobs with a tree and a commit: git verifies the pack, makes the very same index of it, and reads all of it back."""
    repository = Repository(str(kept.path))
    before = set(packs(kept))
    with ObjectWriter(repository) as writer:
        fillers = [writer.blob(content) for content in blobs(LOOSE, message.hex())]
        oids = [writer.blob(content) for content in contents]
        names = dict(enumerate([*oids, *fillers]))
        rows = sorted((b"%d" % name, oid) for name, oid in names.items())
        tree = writer.tree(b"".join(b"100644 %s\0%s" % (name, bytes.fromhex(oid)) for name, oid in rows))
        who = b"A Person <person@example.org> 1767225600 +0000"
        text = b"a message " + message.hex().encode()
        commit = writer.commit(b"tree %s\nauthor %s\ncommitter %s\n\n%s\n" % (tree.encode(), who, who, text))
        writer.flush()
    for pack in set(packs(kept)) - before:
        kept.git("verify-pack", "-v", str(pack))
        assert same_index(kept, pack) == pack.with_suffix(".idx").read_bytes()
    assert [oid_of(content) for content in contents] == oids
    for oid, content in zip(oids, contents, strict=True):
        assert kept.git("cat-file", "blob", oid) == content
        assert repository.libgit2[oid].read_raw() == content
    assert kept.text("rev-parse", f"{commit}^{{tree}}") == tree
    assert absent(kept, [*names.values(), commit, tree]) == []


def test_many_objects(repo: GitRepo) -> None:
    """Thousands of objects, deflated on threads: nothing is mixed up, and git finds no fault."""
    contents = blobs(3000, size=700) + blobs(3, "large", 400_000)
    oids = store(Repository(str(repo.path)), contents)
    (pack,) = packs(repo)
    assert oids == [oid_of(content) for content in contents]
    assert same_index(repo, pack) == pack.with_suffix(".idx").read_bytes()
    for oid, content in list(zip(oids, contents, strict=True))[::100]:
        assert repo.git("cat-file", "blob", oid) == content
    check(repo)


def test_the_same_objects_make_the_same_pack(repo: GitRepo, tmp_path: Path) -> None:
    """Threads don't change what a pack holds: the same objects in the same order give the same bytes, and so the same name."""
    other = GitRepo.init(tmp_path / "other")
    for one in (repo, other):
        store(Repository(str(one.path)), blobs(2000))
    assert packs(repo)[0].name == packs(other)[0].name


@pytest.mark.parametrize("limit", [12, 1000, 40_000])
def test_offsets_of_64_bits(repo: GitRepo, limit: int) -> None:
    """Offsets above the limit go into a table of their own, just as git lays it out; read back they are the same."""
    store(Repository(str(repo.path)), blobs(600))
    (pack,) = packs(repo)
    places, checksum = packindex.decode(pack.with_suffix(".idx").read_bytes())
    ours = packindex.encode(places, checksum, largest_short=limit)
    assert ours == same_index(repo, pack, f"--index-version=2,{limit}")
    assert packindex.decode(ours) == (places, checksum)
    assert len(ours) > len(pack.with_suffix(".idx").read_bytes())


@pytest.mark.parametrize("version", [1, 2])
def test_asking_the_indexes_of_git(repo: GitRepo, version: int) -> None:
    """In git's own packs of either version every object is found, and none that isn't there."""
    contents = blobs(9000)
    store(Repository(str(repo.path)), contents)
    (pack,) = packs(repo)
    made = repo.path / "made.idx"
    repo.git("index-pack", f"--index-version={version}", "-o", str(made), str(pack))
    index = packindex.PackIndex(str(made))
    oids = [bytes.fromhex(oid_of(content)) for content in contents]
    assert (index.count, sorted(oids)) == (9000, list(index.oids()))
    assert all(oid in index for oid in oids)
    assert not any(bytes.fromhex(oid_of(content)) in index for content in blobs(9000, "others"))
    assert not any(bytes(20 * [byte]) in index for byte in range(256))


def test_a_damaged_index_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    """An index that is cut short, out of order or of another version is refused, and nothing beyond its end is read."""
    store(Repository(str(repo.path)), blobs(600))
    data = packs(repo)[0].with_suffix(".idx").read_bytes()
    falling = data[:8] + b"\xff" * 4 + data[12:]
    for number, wrong in enumerate([b"x", data[:1000], data[:-100], data[:7] + b"\3" + data[8:], falling]):
        path = tmp_path / f"{number}.idx"
        path.write_bytes(wrong)
        with pytest.raises(ValueError, match="index"):
            packindex.PackIndex(str(path))
        with pytest.raises(ValueError, match="index"):
            packindex.decode(wrong)


def test_git_repacks_ours(repo: GitRepo) -> None:
    """Garbage collection by git takes what is in use out of our packs, drops them, and doesn't mind our note of them."""
    repository = Repository(str(repo.path))
    oids = store(repository, blobs(100))
    repo.git("update-ref", "refs/keep", oids[0])
    (pack,) = packs(repo)
    repo.git("gc", "-q", "--prune=now")
    assert pack not in packs(repo)
    assert absent(repo, oids) == oids[1:]
    with ObjectWriter(repository) as writer:
        writer.blob(blobs(1)[0])
        writer.flush()
    assert (writer.objects_reused, writer.objects_written) == (1, 0)
    check(repo)


def test_writing_with_every_library(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whichever of the libraries is installed, git reads what it wrote; zlib is always there."""
    tried = set()
    for row in deflate.KNOWN:
        name, library, level = deflate.choose((row, deflate.KNOWN[-1]))
        monkeypatch.setattr(deflate, "_library", library)
        monkeypatch.setattr(deflate, "_level", level)
        contents = [*blobs(10, f"few {name}"), b"", bytes(300_000)]
        more = [*blobs(100, f"many {name}", 5000), bytes(300_001)]
        for part in (contents, more):
            oids = store(Repository(str(repo.path)), part)
            for oid, content in zip(oids, part, strict=True):
                assert repo.git("cat-file", "blob", oid) == content
        tried.add(name)
    assert "zlib" in tried
    check(repo)


@pytest.mark.parametrize("umask", [0o022, 0o077])
@pytest.mark.parametrize("value", ["umask", "group", "all", "0640", "0660", "true", "2", "0"])
def test_permissions_in_a_shared_repository(tmp_path: Path, value: str, umask: int) -> None:
    """With core.sharedRepository files and new folders get the very bits that git gives them."""
    before = os.umask(umask)
    try:
        theirs, ours = GitRepo.init(tmp_path / "theirs"), GitRepo.init(tmp_path / "ours")
        for repo in (theirs, ours):
            repo.git("config", "core.sharedRepository", value)
        oid = theirs.git("hash-object", "-w", "--stdin", data=b"loose").decode().strip()
        assert store(Repository(str(ours.path)), [b"loose"]) == [oid]
        rows = "".join(f"{oid_of(content)}\n" for content in blobs(100))
        store(Repository(str(ours.path)), blobs(100))
        for content in blobs(100):
            theirs.git("hash-object", "-w", "--stdin", data=content)
        theirs.git("pack-objects", "-q", ".git/objects/pack/pack", data=rows.encode())
    finally:
        os.umask(before)

    def bits(repo: GitRepo, pattern: str) -> set[str]:
        return {stat.filemode(path.stat().st_mode) for path in (repo.git_dir / "objects").glob(pattern)}

    for pattern in (oid[:2], f"{oid[:2]}/*", "pack/*.pack", "pack/*.idx"):
        assert bits(ours, pattern) == bits(theirs, pattern), pattern


def test_loose_objects_are_the_same_files(repo: GitRepo) -> None:
    """Git and libgit2 read our loose objects of every type and size."""
    repository = Repository(str(repo.path))
    contents = [b"", b"x", b"\0" * 100_000, *blobs(5, size=3000)]
    before = loose(repo)
    with ObjectWriter(repository) as writer:
        oids = [writer.blob(content) for content in contents]
        tree = writer.tree(b"40000 d\0" + bytes.fromhex(writer.tree(b"")))
        writer.flush()
    assert len(loose(repo)) - len(before) == len(contents) + 2
    assert [repo.git("cat-file", "blob", oid) for oid in oids] == contents
    assert [repository.libgit2[oid].read_raw() for oid in oids] == contents
    assert repo.git("ls-tree", "-r", "-t", tree).decode().startswith("040000 tree 4b825dc642cb")
    check(repo)
