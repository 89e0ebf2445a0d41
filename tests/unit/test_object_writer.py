"""New objects: what is used instead of being written, what can be seen when, and what an error leaves."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from support.packs import absent, blobs, check, loose, oid_of, packs, store
from turnback.gitstore import writer
from turnback.gitstore.objects import MissingObject
from turnback.gitstore.pack import SourceChanged
from turnback.gitstore.packentry import BLOCK
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import ObjectWriter

if TYPE_CHECKING:
    from pathlib import Path

    from support.git_repo import GitRepo


LONG_AGO = 1_000_000_000


def age(path: Path) -> None:
    """Make a file look old, as one that a prune would take."""
    os.utime(path, (LONG_AGO, LONG_AGO))


def test_nothing_is_seen_before_it_is_flushed(repo: GitRepo) -> None:
    """Only the writer itself knows its objects until they are flushed, loose or packed; then a repository that is open for long does."""
    repository = Repository(str(repo.path))
    looker = repository.libgit2
    for count in (3, 300):
        contents = blobs(count, f"of {count}")
        with ObjectWriter(repository) as new:
            oids = [new.blob(content) for content in contents]
            tree = new.tree(b"100644 a\0" + bytes.fromhex(oids[0]))
            assert all(oid not in looker for oid in oids)
            assert all(new.has(oid) for oid in [*oids, tree])
            assert [new.get(oid) for oid in oids] == [(3, content) for content in contents]
            assert new.get(tree) == (2, b"100644 a\0" + bytes.fromhex(oids[0]))
            new.flush()
            assert new.get(tree)[0] == 2
        assert [looker[oid].read_raw() for oid in oids] == contents


def test_what_is_given_up_leaves_nothing(repo: GitRepo) -> None:
    """A writer that is left before it was flushed leaves no object and no file."""
    before = loose(repo)
    with ObjectWriter(Repository(str(repo.path))) as new:
        for content in blobs(500):
            new.blob(content)
    assert loose(repo) == before
    assert list((repo.git_dir / "objects" / "pack").iterdir()) == []
    assert not new.has(oid_of(blobs(1)[0]))


def test_the_same_object_is_written_once(repo: GitRepo) -> None:
    """Content that comes again and again is one object, whether it waits, is in the pack already, or was flushed before."""
    with ObjectWriter(Repository(str(repo.path))) as new:
        for content in blobs(100) * 3:
            new.blob(content)
        new.flush()
        for content in blobs(100):
            new.blob(content)
        new.flush()
    assert (new.objects_written, new.objects_reused) == (100, 0)
    assert new.bytes_written == sum(path.stat().st_size for path in packs(repo)[0].parent.iterdir())


def test_a_loose_object_is_used_and_freshened(repo: GitRepo) -> None:
    """What is there as a loose object isn't written again; its time stamp is renewed, so that a prune spares it."""
    oid = repo.git("hash-object", "-w", "--stdin", data=b"there already").decode().strip()
    path = repo.git_dir / "objects" / oid[:2] / oid[2:]
    age(path)
    inode = path.stat().st_ino
    with ObjectWriter(Repository(str(repo.path))) as new:
        assert new.blob(b"there already") == oid
        new.flush()
    assert (new.objects_written, new.objects_reused, new.bytes_written) == (0, 1, 0)
    assert path.stat().st_ino == inode
    assert path.stat().st_mtime > LONG_AGO


def test_a_packed_object_is_used_and_its_pack_freshened(repo: GitRepo) -> None:
    """What a pack has isn't written again; the pack's time stamp is renewed, once a writer."""
    repo.git("repack", "-adq")
    (pack,) = packs(repo)
    age(pack)
    with ObjectWriter(Repository(str(repo.path))) as new:
        assert new.blob(b"# a project\n") == oid_of(b"# a project\n")
        new.blob(b"print('one')\n")
        new.flush()
    assert (new.objects_written, new.objects_reused) == (0, 2)
    assert pack.stat().st_mtime > LONG_AGO
    assert pack.with_suffix(".idx").stat().st_mtime < pack.stat().st_mtime + 1


def test_an_object_of_an_alternate_is_written_again(repo: GitRepo, tmp_path: Path) -> None:
    """What only an alternate has can be read, but it is stored here all the same: its owner may prune it."""
    from support.git_repo import GitRepo

    repo.git("clone", "-q", "--shared", ".", str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    with ObjectWriter(Repository(str(clone.path))) as new:
        oid = oid_of(b"# a project\n")
        assert new.has(oid)
        assert new.get(oid) == (3, b"# a project\n")
        assert new.blob(b"# a project\n") == oid
        new.flush()
    assert (new.objects_written, loose(clone)) == (1, [oid])


def test_a_linked_worktree_stores_in_the_common_folder(repo: GitRepo, tmp_path: Path) -> None:
    """A linked worktree has no objects of its own: new ones go where the main tree finds them, and so does the note of a pack."""
    repo.git("worktree", "add", "-q", str(tmp_path / "linked"))
    oids = store(Repository(str(tmp_path / "linked")), blobs(100))
    assert absent(repo, oids) == []
    assert len(packs(repo)) == 1
    assert [path.name for path in (repo.git_dir / "turnback" / "packs").iterdir()] == [
        packs(repo)[0].stem[5:]
    ]


def test_a_pack_that_went_away_is_noticed(repo: GitRepo) -> None:
    """Objects that a pack had when it was last looked at are written again when it is gone, and found in another that has them now."""
    repository = Repository(str(repo.path))
    store(repository, blobs(100))
    with ObjectWriter(repository) as new:
        assert new.objects_reused == 0
        oid = oid_of(blobs(1)[0])
        repo.git("update-ref", "refs/keep", oid)
        repo.git("repack", "-adq")
        assert new.blob(blobs(1)[0]) == oid
        assert new.objects_reused == 1
        lost = new.blob(blobs(2)[1])
        new.flush()
    assert (new.objects_written, absent(repo, [oid, lost])) == (1, [])


def test_what_a_prune_took_is_told(repo: GitRepo) -> None:
    """Objects that no ref held when somebody pruned without grace are told as lost, those flushed and those used; the others aren't."""
    repository = Repository(str(repo.path))
    used = repo.git("hash-object", "-w", "--stdin", data=b"used").decode().strip()
    with ObjectWriter(repository) as new:
        oids = [new.blob(content) for content in [b"# a project\n", b"used", b"flushed"]]
        new.flush()
        assert new.lost() == []
        repo.git("prune", "--expire=now")
        assert new.lost() == sorted([used, oids[2]])


def test_a_file_comes_in_blocks(repo: GitRepo, tmp_path: Path) -> None:
    """A file of any size is stored by its path or by a descriptor, whose position stays; git gives it the same id."""
    for size in (0, 5, BLOCK, BLOCK + 1, 3 * BLOCK):
        path = tmp_path / f"of {size}"
        path.write_bytes(b"0123456789" * (size // 10) + b"x" * (size % 10))
        with ObjectWriter(Repository(str(repo.path))) as new, path.open("rb") as file:
            file.seek(3)
            oid = new.blob_from(str(path), size)
            assert new.blob_from(file.fileno(), size) == oid
            assert new.blob_from(os.fsencode(path), size) == oid
            assert file.tell() == 3
            assert new.get(oid) == (3, path.read_bytes())
            new.flush()
            assert new.blob_from(str(path), size) == oid
        assert oid == repo.text("hash-object", str(path))
        assert repo.git("cat-file", "blob", oid) == path.read_bytes()
        assert (new.objects_written, new.objects_reused) == (1, 0)
    check(repo)


def test_a_big_blob_of_bytes(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Bytes above the limit go through in blocks, and end in the same pack as the rest."""
    monkeypatch.setattr(writer, "_WHOLE", 100_000)
    contents = [*blobs(60), *blobs(2, "big", 1_000_000)]
    oids = store(Repository(str(repo.path)), contents)
    assert oids == [oid_of(content) for content in contents]
    assert len(packs(repo)) == 1
    check(repo)


def test_a_file_that_changes_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    """A file that is longer or shorter than was said, or no file, is refused, and what was stored before it is whole."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 * BLOCK))
    link = tmp_path / "link"
    link.symlink_to(path)
    os.mkfifo(tmp_path / "fifo")
    with ObjectWriter(Repository(str(repo.path))) as new:
        before = [new.blob(content) for content in blobs(100)]
        for size in (10, 2 * BLOCK - 1, 2 * BLOCK + 1, 3 * BLOCK):
            with pytest.raises(SourceChanged):
                new.blob_from(str(path), size)
        with pytest.raises(SourceChanged):
            new.blob_from(str(tmp_path / "fifo"), 0)
        with pytest.raises(OSError, match="symbolic"):
            new.blob_from(str(link), 2 * BLOCK)
        oid = new.blob_from(str(path), 2 * BLOCK)
        new.flush()
    assert absent(repo, [*before, oid]) == []
    assert new.objects_written == 101
    check(repo)


def test_a_file_that_changes_between_its_readings(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that is written to after it was hashed is refused; the pack is as it was before it."""
    path = tmp_path / "file"
    path.write_bytes(os.urandom(2 * BLOCK))
    hashed = writer._hashed

    def then_written(*arguments: object) -> str:
        oid = hashed(*arguments)  # type: ignore[arg-type]
        path.write_bytes(os.urandom(2 * BLOCK))
        return oid

    with ObjectWriter(Repository(str(repo.path))) as new:
        before = [new.blob(content) for content in blobs(100)]
        with monkeypatch.context() as patched:
            patched.setattr(writer, "_hashed", then_written)
            with pytest.raises(SourceChanged):
                new.blob_from(str(path), 2 * BLOCK)
        new.flush()
    assert absent(repo, before) == []
    check(repo)


def test_a_missing_object_is_told_as_such(repo: GitRepo) -> None:
    """Asking for what isn't there says which object it is."""
    with ObjectWriter(Repository(str(repo.path))) as new:
        assert not new.has("1" * 40)
        with pytest.raises(MissingObject, match="1111"):
            new.get("1" * 40)


def test_nothing_to_store_makes_no_pack(repo: GitRepo, tmp_path: Path) -> None:
    """Without objects, or when the only file was refused, there is no pack: not even an empty one."""
    (tmp_path / "file").write_bytes(bytes(2 * BLOCK))
    with ObjectWriter(Repository(str(repo.path))) as new:
        new.flush()
        with pytest.raises(SourceChanged):
            new.blob_from(str(tmp_path / "file"), 3 * BLOCK)
        new.flush()
        new.flush(durable=True)
    assert (new.objects_written, new.bytes_written) == (0, 0)
    assert list((repo.git_dir / "objects" / "pack").iterdir()) == []


def test_work_is_counted(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two thousand new objects take three files and three listings, and not a look at the disk for each of them."""
    calls: dict[str, int] = {}
    for name in ("open", "link", "listdir", "stat", "utime", "write"):

        def counted(
            *arguments: object, _real: object = getattr(os, name), _name: str = name, **more: object
        ) -> object:
            calls[_name] = calls.get(_name, 0) + 1
            return _real(*arguments, **more)  # type: ignore[operator]

        monkeypatch.setattr(os, name, counted)
    repository = Repository(str(repo.path))
    calls.clear()
    with ObjectWriter(repository) as new:
        for content in blobs(2000):
            new.blob(content)
        new.flush()
    assert calls.pop("write") < 50
    assert calls.pop("utime", 0) < 50, "only loose objects in a folder that is there are asked for"
    assert calls["link"] == 2
    assert calls["listdir"] <= 2
    assert sum(calls.values()) < 20, calls


def test_what_cannot_be_freshened_is_written_again(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """An object whose file belongs to somebody else may be pruned under us: a pack of our own has it too, even a single one."""
    repo.write("loose", "loose\n")
    repo.git("repack", "-adq")
    repo.git("hash-object", "-w", "loose")

    def refused(path: str, *_: object) -> None:
        os.stat(path)
        raise PermissionError(1, "not yours", path)

    before = packs(repo)
    with monkeypatch.context() as foreign, ObjectWriter(Repository(str(repo.path))) as new:
        foreign.setattr(os, "utime", refused)
        oids = [new.blob(b"# a project\n"), new.blob(b"loose\n")]
        new.flush()
    assert (new.objects_written, new.objects_reused) == (2, 0)
    (own,) = set(packs(repo)) - set(before)
    assert all(oid in repo.text("verify-pack", "-v", str(own)) for oid in oids)
    check(repo)
