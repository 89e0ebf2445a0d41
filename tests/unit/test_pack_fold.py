"""Folding: few packs of ours stand, what isn't ours is never touched, and readers and git itself may do anything meanwhile."""

from __future__ import annotations

import os
import stat
import subprocess
import tempfile
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.children import Child
from support.git_repo import GitRepo
from support.packs import absent, blobs, check, oid_of, packs, store
from turnback.gitstore import fold as folding
from turnback.gitstore import multipack, ourpacks
from turnback.gitstore.fold import MOST, choose, fold
from turnback.gitstore.repo import Repository


@pytest.fixture
def repository(repo: GitRepo) -> Repository:
    return Repository(str(repo.path))


def noted(repo: GitRepo) -> list[str]:
    """The names of the packs that are noted as ours."""
    return [f"pack-{path.name}.pack" for path in sorted((repo.git_dir / "turnback" / "packs").glob("*"))]


def names(paths: list[Path]) -> list[str]:
    return [path.name for path in paths]


def fill(repository: Repository, count: int, name: str = "turn", size: int = 10) -> list[str]:
    """So many packs of ours, of 60 blobs each; the ids."""
    return [oid for turn in range(count) for oid in store(repository, blobs(60, f"{name} {turn}", size))]


def test_three_hundred_turns(repo: GitRepo, repository: Repository) -> None:
    """A pack and a fold for each of 300 turns: never more than ten packs of ours, nothing lost, and little copied twice."""
    oids, copied = [], 0
    for turn in range(300):
        oids += store(repository, blobs(60, f"turn {turn}", 10))
        copied += fold(repository).objects
        assert len(packs(repo)) <= MOST
    assert noted(repo) == names(packs(repo))
    assert absent(repo, oids) == []
    assert copied < 4 * len(oids), "what is stored is copied again and again"
    check(repo)


@given(st.lists(st.integers(1, 1000), max_size=40), st.integers(1, 12))
def test_what_is_chosen(sizes: list[int], most: int) -> None:
    """Nothing while few stand; else the smallest, so many that few remain, and each that remains is large beside all smaller ones."""
    by_name = {f"{number:040x}": size for number, size in enumerate(sizes)}
    chosen = choose(by_name, most)
    assert len(set(chosen)) == len(chosen)
    if len(sizes) <= most:
        assert chosen == []
        return
    stay = sorted(size for name, size in by_name.items() if name not in chosen)
    total = sum(by_name[name] for name in chosen)
    assert len(chosen) >= 2
    assert len(stay) + 1 <= most
    for size in stay[:1]:
        assert size >= max(by_name[name] for name in chosen)
        assert size >= 2 * total


def test_few_packs_are_left_alone(repo: GitRepo, repository: Repository) -> None:
    """Up to the limit nothing is folded; one more, and the smallest go together."""
    oids = fill(repository, MOST)
    before = packs(repo)
    assert fold(repository).pack is None
    assert packs(repo) == before
    oids += fill(repository, 1, "one more")
    done = fold(repository)
    assert done.pack in {path.stem[5:] for path in packs(repo)}
    assert done.objects == 60 * len(done.folded)
    assert done.bytes == next(path.stat().st_size for path in packs(repo) if done.pack in path.name)
    assert not {f"pack-{name}.pack" for name in done.folded} & set(names(packs(repo)))
    assert absent(repo, oids) == []
    check(repo)


def test_git_would_make_the_same_index(repo: GitRepo, repository: Repository) -> None:
    """A folded pack is sound, and its index is the one that git makes for it."""
    fill(repository, MOST + 1)
    done = fold(repository)
    path = repo.git_dir / "objects" / "pack" / f"pack-{done.pack}.pack"
    repo.git("verify-pack", str(path))
    repo.git("index-pack", "--strict", "-o", "made.idx", str(path))
    assert repo.read("made.idx") == path.with_suffix(".idx").read_bytes()


def test_an_object_in_several_packs_is_copied_once(
    repo: GitRepo, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Writers that didn't know of each other stored the same objects: folded, each is there once."""
    shared = blobs(40, "shared")
    with monkeypatch.context() as blind:
        blind.setattr("turnback.gitstore.packlist.PackList.find", lambda _self, _oid: None)
        for turn in range(MOST + 1):
            own = blobs(30, f"turn {turn}")
            store(repository, [*own[:15], *shared, *own[15:]])
    done = fold(repository, most=1)
    assert done.objects == 40 + 30 * (MOST + 1)
    assert (len(packs(repo)), noted(repo)) == (1, names(packs(repo)))
    check(repo)


def test_a_pack_that_has_everything_already(
    repo: GitRepo, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When the fold of several is byte for byte one of them, that one stays."""
    contents = blobs(60, size=10)
    store(repository, contents)
    with monkeypatch.context() as blind:
        blind.setattr("turnback.gitstore.packlist.PackList.find", lambda _self, _oid: None)
        store(repository, contents[:50])
    (small, large) = sorted(packs(repo), key=lambda path: path.stat().st_size)
    monkeypatch.setattr(folding, "choose", lambda sizes, most: sorted(sizes, key=sizes.__getitem__)[::-1])
    done = fold(repository, most=1)
    assert f"pack-{done.pack}.pack" == large.name
    assert packs(repo) == [large]
    assert not small.exists()
    assert absent(repo, map(oid_of, contents)) == []
    check(repo)


def test_what_is_not_ours_stays(repo: GitRepo, repository: Repository) -> None:
    """Packs of git's and packs that are pinned are never touched, however many there are."""
    for turn in range(12):
        content = f"theirs {turn}\n".encode()
        repo.git("hash-object", "-w", "--stdin", data=content)
        repo.git("pack-objects", "-q", ".git/objects/pack/pack", data=oid_of(content).encode() + b"\n")
    theirs = packs(repo)
    fill(repository, MOST + 4)
    pinned = [path for path in packs(repo) if path not in theirs][:4]
    for path, end in zip(pinned, (".keep", ".promisor", ".bitmap", ".mtimes"), strict=True):
        path.with_suffix(end).touch()
    assert fold(repository).pack is None
    fill(repository, 1, "one more")
    assert fold(repository).pack is not None
    assert [path for path in [*theirs, *pinned] if not path.exists()] == []


def test_packs_of_a_multi_pack_index_stay(repo: GitRepo, repository: Repository) -> None:
    """What a multi-pack-index names is git's business; when it is gone, those packs are folded like others."""
    oids = fill(repository, MOST + 1)
    repo.git("multi-pack-index", "write")
    index = repo.git_dir / "objects" / "pack" / "multi-pack-index"
    assert multipack.named(str(index.parent)) == frozenset(path.stem[5:] for path in packs(repo))
    assert fold(repository).pack is None
    index.chmod(0o644)
    index.write_bytes(b"MIDX" + bytes(100))
    assert multipack.named(str(index.parent)) is None
    assert fold(repository).pack is None
    index.unlink()
    assert fold(repository).pack is not None
    assert absent(repo, oids) == []


def test_a_chain_of_multi_pack_indexes(repo: GitRepo, repository: Repository) -> None:
    """A chain names packs in each of its files."""
    fill(repository, 2)
    repo.git("multi-pack-index", "write")
    folder = repo.git_dir / "objects" / "pack"
    chain = folder / "multi-pack-index.d"
    chain.mkdir()
    (folder / "multi-pack-index").rename(chain / f"multi-pack-index-{'a' * 40}.midx")
    (chain / "multi-pack-index-chain").write_text("a" * 40 + "\n")
    assert multipack.named(str(folder)) == frozenset(path.stem[5:] for path in packs(repo))


@pytest.mark.parametrize("part", [".pack", ".idx"])
def test_a_damaged_pack_is_told_and_left_alone(repo: GitRepo, repository: Repository, part: str) -> None:
    """A pack of ours that isn't what it should be doesn't replace anything and isn't removed; the others are folded without it."""
    fill(repository, 1, "damaged")
    (wrong,) = packs(repo)
    file = wrong.with_suffix(part)
    data = bytearray(file.read_bytes())
    data[len(data) // 2] ^= 1
    file.chmod(0o644)
    file.write_bytes(data)
    oids = fill(repository, MOST + 1, size=40)
    done = fold(repository)
    assert done.damaged == (wrong.stem[5:],)
    assert done.pack is not None
    assert done.damaged[0] not in done.folded
    assert file.read_bytes() == data
    assert absent(repo, oids) == []


def test_git_collected_ours_before(repo: GitRepo, repository: Repository) -> None:
    """Somebody's gc has removed our packs already: their notes are forgotten, and folding goes on with what there is."""
    oids = fill(repository, MOST)
    for oid in oids[::100]:
        repo.git("update-ref", f"refs/keep/{oid}", oid)
    repo.git("gc", "-q", "--prune=now")
    assert fold(repository).pack is None
    assert noted(repo) == []
    more = fill(repository, MOST + 1, "more")
    assert fold(repository).pack is not None
    assert absent(repo, oids[::100] + more) == []
    assert set(noted(repo)) < set(names(packs(repo)))
    check(repo)


def test_readers_that_knew_the_old_packs(repo: GitRepo, repository: Repository) -> None:
    """A git process and a libgit2 repository that know only the old packs, open or not, find every object after a fold."""
    oids = fill(repository, MOST + 1)
    looker = repository.libgit2
    for oid in oids[:60]:
        assert oid_of(looker[oid].read_raw()) == oid
    with subprocess.Popen(
        ["git", "cat-file", "--batch-check"], cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as reader:
        assert reader.stdin is not None
        assert reader.stdout is not None

        def asked(oid: str) -> bytes:
            reader.stdin.write(oid.encode() + b"\n")  # type: ignore[union-attr]
            reader.stdin.flush()  # type: ignore[union-attr]
            return reader.stdout.readline()  # type: ignore[union-attr]

        assert b" blob " in asked(oids[0])
        before = packs(repo)
        assert fold(repository, most=1).folded
        assert not [path for path in before if path.exists()]
        assert [oid for oid in oids if b" blob " not in asked(oid)] == []
        reader.stdin.close()
    assert [oid_of(looker[oid].read_raw()) for oid in oids] == oids


# Reads every object again and again through libgit2 until it is told to stop, and fails if one is missing.
READS = """
import select
from turnback.gitstore.repo import Repository
looker = Repository(sys.argv[1]).libgit2
oids = open(sys.argv[2]).read().split()
say("ready")
rounds = 0
while not select.select([sys.stdin], [], [], 0)[0] or not rounds:
    for oid in oids:
        looker.odb.read(oid)
    rounds += 1
say("read")
"""


def test_readers_while_packs_are_folded(repo: GitRepo, repository: Repository, tmp_path: Path) -> None:
    """Another process reads all the time while packs come and are folded: it never misses an object."""
    oids = fill(repository, MOST)
    (tmp_path / "oids").write_text("\n".join(oids))
    with Child(READS, str(repo.path), str(tmp_path / "oids")) as reader:
        assert reader.hear() == "ready"
        for turn in range(30):
            oids += fill(repository, 1, f"while {turn}")
            fold(repository, most=2)
        assert reader.finish().split() == ["read"]
    assert absent(repo, oids) == []


def test_git_repacks_while_packs_are_folded(repo: GitRepo, repository: Repository) -> None:
    """Somebody's repack drops what no ref holds, just while packs are folded: what refs held when it began is there afterwards."""
    held: list[str] = []
    loop = "while read line; do git repack -adq && echo done; done"
    with subprocess.Popen(
        ["bash", "-c", loop], cwd=repo.path, stdin=subprocess.PIPE, stdout=subprocess.PIPE
    ) as person:
        assert person.stdin is not None
        assert person.stdout is not None
        for turn in range(20):
            fill(repository, 3, f"nobody's {turn}")
            new = fill(repository, 1, f"turn {turn}")[::20]
            repo.git(
                "update-ref", "--stdin", data="".join(f"create refs/{oid} {oid}\n" for oid in new).encode()
            )
            held += new
            person.stdin.write(b"again\n")
            person.stdin.flush()
            fold(repository, most=2)
            assert person.stdout.readline() == b"done\n"
            assert absent(repo, held) == []
        person.stdin.close()
    check(repo)


def test_old_packs_go_when_the_new_one_is_on_the_disk(
    repo: GitRepo, repository: Repository, monkeypatch: pytest.MonkeyPatch
) -> None:
    """What was synced once must survive a power cut at any time: the new pack is synced, with its name, before the first old one goes."""
    fill(repository, MOST + 1)
    steps: list[str] = []
    sync, link, unlink = os.fsync, os.link, os.unlink

    def noted_sync(descriptor: int) -> None:
        steps.append("sync folder" if stat.S_ISDIR(os.fstat(descriptor).st_mode) else "sync")
        sync(descriptor)

    def noted_link(source: str, target: str, **options: object) -> None:
        steps.append(f"make {target[-4:]}")
        link(source, target, **options)  # type: ignore[arg-type]

    def noted_unlink(path: str) -> None:
        unlink(path)
        steps.append(f"remove {path[-4:]}")

    with monkeypatch.context() as watched:
        watched.setattr(os, "fsync", noted_sync)
        watched.setattr(os, "link", noted_link)
        watched.setattr(os, "unlink", noted_unlink)
        fold(repository)
    steps = [step for step in steps if not step.startswith("remove") or step[-4:] in (".idx", "pack")]
    assert steps[:6] == ["sync", "make pack", "sync", "make .idx", "sync folder", "remove .idx"]
    assert steps[6:8] == ["remove pack", "remove .idx"]


STEPS = st.one_of(
    st.tuples(st.just("store"), st.integers(30, 90)),
    st.tuples(st.just("fold"), st.integers(1, 4)),
    st.tuples(st.sampled_from(["keep", "repack", "gc", "index", "lose", "leave"]), st.just(0)),
)


@settings(max_examples=25, deadline=None)
@given(st.lists(STEPS, min_size=3, max_size=20))
def test_any_order_of_things(steps: list[tuple[str, int]]) -> None:
    """Turns, folds, git's own repacking, pinned packs, lost indexes and leftovers in any order: what a ref holds is always there."""
    with tempfile.TemporaryDirectory(prefix="turnback-fold-") as place:
        repo = GitRepo.init(Path(place, "repo"))
        repository = Repository(str(repo.path))
        held: list[str] = []
        for number, (step, count) in enumerate(steps):
            ours = [path for path in packs(repo) if path.name in noted(repo)]
            if step == "store":
                oids = store(repository, [*blobs(count, f"{number}", 10), *blobs(30, "again", 10)])
                ref = "".join(f"update refs/{oid} {oid}\n" for oid in oids[::7])
                repo.git("update-ref", "--stdin", data=ref.encode())
                held += oids[::7]
            elif step == "fold":
                fold(repository, most=count)
                assert ourpacks.leftovers(repository) == []
            elif step == "keep" and ours:
                ours[0].with_suffix(".keep").touch()
            elif step == "lose" and ours:
                ours[-1].with_suffix(".idx").unlink()
                fold(repository)
            elif step == "leave":
                (repo.git_dir / "objects" / "pack" / f"tmp_pack_turnback_{number}").touch()
            elif step in ("repack", "gc"):
                repo.git(*{"repack": ["repack", "-adq"], "gc": ["gc", "-q", "--prune=now"]}[step])
            elif step == "index" and packs(repo):
                repo.git("multi-pack-index", "write")
            assert absent(repo, held) == [], f"lost by {step}"
        fold(repository)
        check(repo)
