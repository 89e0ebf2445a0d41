"""The files that new objects make: where they go, how they get their names, and what others and a full disk do to that."""

from __future__ import annotations

import os
import stat
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from typing import TYPE_CHECKING

import pytest

from support.children import Child
from support.packs import absent, blobs, check, loose, oid_of, packs, store
from turnback.gitstore import newfile, writer
from turnback.gitstore.objectfolder import Sharing
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import ObjectWriter

if TYPE_CHECKING:
    from pathlib import Path

    from support.git_repo import GitRepo


@pytest.fixture(params=["nameless", "named"])
def naming(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """With files that have no name until they are whole, and on a system that has none such."""
    if request.param == "named":
        monkeypatch.setattr(newfile, "NAMELESS", 0)


@pytest.mark.usefixtures("naming")
@pytest.mark.parametrize(("count", "packed"), [(1, 0), (writer.LOOSE, 0), (writer.LOOSE + 1, 1), (1000, 1)])
def test_a_handful_stays_loose_and_more_make_one_pack(repo: GitRepo, count: int, packed: int) -> None:
    """Up to the limit each new object is a loose one; one more, and all of them are in a single pack."""
    before = len(loose(repo))
    oids = store(Repository(str(repo.path)), blobs(count))
    assert (len(packs(repo)), len(loose(repo)) - before) == (packed, 0 if packed else count)
    assert absent(repo, oids) == []
    assert list(repo.git_dir.glob("objects/**/tmp_*")) == []
    check(repo)


def test_durable_objects_are_packed_sooner(repo: GitRepo) -> None:
    """Synced, three objects are cheaper in a pack; one stays loose."""
    before = len(loose(repo))
    store(Repository(str(repo.path)), blobs(1, "one"), durable=True)
    assert (len(loose(repo)) - before, len(packs(repo))) == (1, 0)
    store(Repository(str(repo.path)), blobs(3, "three"), durable=True)
    assert (len(loose(repo)) - before, len(packs(repo))) == (1, 1)
    check(repo)


def test_objects_are_read_only_files(repo: GitRepo) -> None:
    """Loose objects, packs and indexes are made 0444 under the umask, as git makes them."""
    umask = os.umask(0o027)
    try:
        (oid,) = store(Repository(str(repo.path)), [b"loose"])
        store(Repository(str(repo.path)), blobs(100))
    finally:
        os.umask(umask)
    files = [repo.git_dir / "objects" / oid[:2] / oid[2:], *packs(repo)[0].parent.iterdir()]
    assert {stat.S_IMODE(path.stat().st_mode) for path in files} == {0o440}


# Stores blobs and says when it begins and when it has ended.
STORES = """
from support.packs import blobs, store
from turnback.gitstore.repo import Repository
repository = Repository(sys.argv[1])
say("ready")
hear()
store(repository, blobs(int(sys.argv[2])))
say("done")
"""


@pytest.mark.parametrize("count", [writer.LOOSE, 400])
def test_writers_of_the_same_objects(repo: GitRepo, count: int) -> None:
    """Four processes store the same objects at the same time: nobody is disturbed, and nothing is there twice under one name."""
    with ExitStack() as stack:
        children = [stack.enter_context(Child(STORES, str(repo.path), str(count))) for _ in range(4)]
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say("go")
        for child in children:
            assert child.finish().split() == ["done"]
    assert absent(repo, [oid_of(content) for content in blobs(count)]) == []
    assert len(packs(repo)) == (1 if count > writer.LOOSE else 0)
    check(repo)


# Stores blobs where no file may be longer than so many bytes, which is how a full disk looks to a program.
SHORT_OF_ROOM = """
import resource
from support.packs import blobs, store
from turnback.errors import Failed
from turnback.gitstore.repo import Repository
repository = Repository(sys.argv[1])
resource.setrlimit(resource.RLIMIT_FSIZE, (int(sys.argv[3]), resource.RLIM_INFINITY))
try:
    store(repository, blobs(int(sys.argv[2]), size=4000))
except Failed as error:
    say(error.code)
"""


@pytest.mark.parametrize(("count", "room"), [(1, 1000), (600, 100), (600, 100_000)])
def test_a_full_disk(repo: GitRepo, count: int, room: int) -> None:
    """When there is no room, the error says so, and the object folder is as it was."""
    before = sorted(path for path in repo.git_dir.glob("objects/**/*") if path.is_file())
    with Child(SHORT_OF_ROOM, str(repo.path), str(count), str(room)) as child:
        assert child.finish().split() == ["failed.checkpoint_git"]
    assert sorted(path for path in repo.git_dir.glob("objects/**/*") if path.is_file()) == before


def test_a_system_without_proc(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where descriptors can't be named, a file without a name is copied into one that has a temporary one."""
    monkeypatch.setattr(newfile, "DESCRIPTORS", "/nowhere")
    oids = store(Repository(str(repo.path)), blobs(3)) + store(Repository(str(repo.path)), blobs(100))
    assert absent(repo, oids) == []
    check(repo)


def test_a_prune_that_takes_temporary_names(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Somebody's prune without grace removes a pack's temporary name while it is written: it is published all the same."""
    monkeypatch.setattr(newfile, "NAMELESS", 0)
    with ObjectWriter(Repository(str(repo.path))) as new:
        oids = [new.blob(content) for content in blobs(400)]
        assert list(repo.git_dir.glob("objects/pack/tmp_*"))
        repo.git("prune", "--expire=now")
        assert not list(repo.git_dir.glob("objects/pack/tmp_*"))
        new.flush()
    assert absent(repo, oids) == []
    check(repo)


@pytest.mark.usefixtures("naming")
@pytest.mark.parametrize("count", [1, 100])
def test_durable_means_synced_before_it_is_named(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch, count: int
) -> None:
    """Asked for, each file is synced before it gets its name, and its folder after that; unasked, nothing is synced at all."""
    steps: list[str] = []
    sync, link = os.fsync, os.link

    def noted_sync(descriptor: int) -> None:
        path = os.readlink(f"/proc/self/fd/{descriptor}")
        steps.append(f"folder {os.path.basename(path)[:4]}" if os.path.isdir(path) else "file")
        sync(descriptor)

    def noted_link(source: str, target: str, **options: object) -> None:
        steps.append(f"name {os.path.basename(os.path.dirname(target))}")
        link(source, target, **options)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "fsync", noted_sync)
    monkeypatch.setattr(os, "link", noted_link)
    repository = Repository(str(repo.path))
    oids = store(repository, blobs(count), durable=True)
    if count == 1:
        (fan,) = {oid[:2] for oid in oids}
        assert [step for step in steps if step != f"name {fan}"][-2:] == [f"folder {fan}", "folder obje"]
        assert set(steps[:-3]) <= {"file", f"name {fan}"}
        assert steps[-3] == f"name {fan}"
    else:
        assert steps == ["file", "name pack", "file", "name pack", "folder pack"]
    steps.clear()
    store(repository, blobs(count, "unasked"))
    assert steps
    assert {step.split()[0] for step in steps} == {"name"}


# Stores a file by its path and says by how many kilobytes its process grew meanwhile.
GROWS = """
import resource
from support.packs import store
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import ObjectWriter
repository = Repository(sys.argv[1])
store(repository, [b"so that everything is imported"])
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
with ObjectWriter(repository) as writer:
    oid = writer.blob_from(sys.argv[2], int(sys.argv[3]))
    writer.flush()
say(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before)
say(oid)
"""


def test_a_big_file_is_never_whole_in_memory(repo: GitRepo, tmp_path: Path) -> None:
    """Storing 100 MB takes a few megabytes of memory."""
    path = tmp_path / "big"
    with path.open("wb") as file:
        file.truncate(100_000_000)
    with Child(GROWS, str(repo.path), str(path), "100000000") as child:
        grown, oid = child.finish().split()
    assert int(grown) < 20_000
    assert repo.text("cat-file", "-s", oid) == "100000000"
    assert oid == repo.text("hash-object", str(path))


def test_threads_with_writers_of_their_own(repo: GitRepo) -> None:
    """Four threads store overlapping objects in one repository, each by its own writer, while packs come: all of it is there."""
    repository = Repository(str(repo.path))

    def work(number: int) -> list[str]:
        return [
            oid
            for turn in range(5)
            for oid in store(repository, [*blobs(100, f"turn {turn}"), *blobs(50, f"own {number} {turn}")])
        ]

    with ThreadPoolExecutor(4) as pool:
        oids = [oid for found in pool.map(work, range(4)) for oid in found]
    assert absent(repo, oids) == []
    check(repo)


@pytest.mark.parametrize(
    ("value", "folder", "file"),
    [
        ("umask", 0o755, 0o444),
        ("nonsense", 0o755, 0o444),
        ("0440", 0o755, 0o444),  # git dies of this one: the owner must be able to write
        ("Group", 0o2775, 0o444),
        ("", 0o2775, 0o444),
        ("0640", 0o2750, 0o440),
        ("0600", 0o700, 0o400),
    ],
)
def test_what_shared_repository_means(value: str, folder: int, file: int) -> None:
    """Words in any case, numbers in octal, and nothing at all for what makes no sense."""
    sharing = Sharing.parse(value)
    assert oct(sharing.mode(stat.S_IFDIR | 0o755)) == oct(folder)
    assert oct(sharing.mode(stat.S_IFREG | 0o444)) == oct(file)
