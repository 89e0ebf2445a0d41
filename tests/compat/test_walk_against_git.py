"""The walk of the core and git itself, asked about the same random trees: what is untracked, what differs, what is left out."""

from __future__ import annotations

import os
import random
from pathlib import Path

import pytest

from support.git_repo import GitRepo
from turnback.native.index import IndexView
from turnback.native.lib import CoreError, ErrorCode
from turnback.native.walk import EntryState, Kind, Walk, Walker

NAMES = [
    b"a",
    b"b",
    b"a.b",
    b"a-b",
    b"ab",
    b"build",
    b"x.o",
    b"keep.o",
    b"Z",
    b"caf\xc3\xa9",
    b"\xff",
    b"sub",
    b"a b",
    b"log",
]
RULES = [
    b"*.o",
    b"!keep.o",
    b"build/",
    b"/a",
    b"a/b",
    b"**/log",
    b"sub/*",
    b"!sub/a",
    b"*",
    b"!*/",
    b"x.*",
    b"/sub/**",
    b"# no",
    b"b/",
]


def look(repo: GitRepo, walker: Walker | None = None, **options: object) -> tuple[Walk, IndexView]:
    """One walk of a repository's tree."""
    index = repo.path / ".git" / "index"
    view = IndexView.parse(index.read_bytes()) if index.exists() else IndexView.empty()
    fd = os.open(repo.path, os.O_RDONLY | os.O_DIRECTORY)
    exclude = repo.path / ".git" / "info" / "exclude"
    try:
        found = (walker or Walker()).walk(
            view,
            fd,
            index.stat().st_mtime_ns if index.exists() else 0,
            info_exclude=exclude.read_bytes() if exclude.exists() else None,
            **options,  # type: ignore[arg-type]
        )
    finally:
        os.close(fd)
    return found, view


def untracked(walk: Walk) -> list[bytes]:
    """The paths that git's ``ls-files -o`` prints, in its form: a nested repository ends in a slash."""
    found = [item.path for item in walk.items if item.kind is Kind.UNTRACKED]
    found += [item.path + b"/" for item in walk.items if item.kind is Kind.NESTED]
    return sorted(found)


def by_state(walk: Walk, view: IndexView, *states: EntryState) -> set[bytes]:
    """The tracked paths in some states."""
    return {
        view.path(item.position) for item in walk.items if item.kind in states and item.position is not None
    }


def others(repo: GitRepo) -> list[bytes]:
    """What git says is untracked and not ignored."""
    return sorted(repo.git("ls-files", "-o", "-z", "--exclude-standard").split(b"\0")[:-1])


def _age(repo: GitRepo) -> None:
    """Make every file, and the index after it, old enough that no stamp is doubtful."""
    for folder, _, names in os.walk(repo.path):
        if ".git" not in Path(folder).parts:
            for name in names:
                os.utime(os.path.join(folder, name), ns=(10**18, 10**18))
    repo.git("update-index", "-q", "--refresh")
    os.utime(repo.path / ".git" / "index", ns=(2 * 10**18, 2 * 10**18))


def populate(folder: bytes, rnd: random.Random, depth: int) -> None:
    """A random folder: files, links, folders, ignore files, now and then a nested repository's .git."""
    for name in rnd.sample(NAMES, rnd.randint(1, 6)):
        path = os.path.join(folder, name)
        kind = rnd.random()
        if kind < 0.35 and depth < 4:
            os.mkdir(path)
            populate(path, rnd, depth + 1)
        elif kind < 0.42:
            os.symlink(rnd.choice([b"a", b"..", b"/nowhere"]), path)
        elif kind < 0.45:
            os.mkfifo(path)
        else:
            with open(path, "wb") as file:
                file.write(rnd.choice([b"", b"one\n", b"two\n"]))
    if rnd.random() < 0.4:
        with open(os.path.join(folder, b".gitignore"), "wb") as file:
            file.write(b"\n".join(rnd.sample(RULES, rnd.randint(1, 5))) + b"\n")


def disturb(root: bytes, rnd: random.Random) -> None:
    """Random edits after the commit: changes, deletions, type changes, new files."""
    places = [
        (folder, name) for folder, _, names in os.walk(root) if b"/.git" not in folder for name in names
    ]
    for folder, name in rnd.sample(places, min(len(places), 6)):
        path = os.path.join(folder, name)
        what = rnd.random()
        if not os.path.lexists(path) or name == b".git":
            continue
        if what < 0.3 and os.path.isfile(path) and not os.path.islink(path):
            with open(path, "ab") as file:
                file.write(b"more\n")
        elif what < 0.6:
            os.unlink(path)
        elif what < 0.75:
            os.unlink(path)
            os.mkdir(path)
            populate(path, rnd, 3)
        elif what < 0.9:
            os.unlink(path)
            os.symlink(b"elsewhere", path)


def compare(repo: GitRepo, threads: int) -> None:
    """Put both to the same tree."""
    walk, view = look(repo, threads=threads)
    assert untracked(walk) == others(repo), "untracked paths are git's"
    deleted = set(repo.git("ls-files", "-d", "-z").split(b"\0")[:-1])
    assert by_state(walk, view, EntryState.DELETED) == deleted, "deleted paths are git's"
    modified = set(repo.git("ls-files", "-m", "-z").split(b"\0")[:-1]) - deleted
    doubtful = by_state(walk, view, EntryState.CHANGED, EntryState.RACY, EntryState.FOLDER)
    assert modified <= doubtful, "what git finds modified is never vouched for"


@pytest.mark.contract("V-108", "V-109", "V-111", "V-136")
@pytest.mark.parametrize("seed", range(60))
def test_random_trees_look_the_same_to_git_and_to_the_walk(tmp_path: Path, seed: int) -> None:
    """Sixty random trees, committed in part and then disturbed, have git's untracked, deleted and modified paths."""
    rnd = random.Random(seed)
    repo = GitRepo.init(tmp_path / "repo")
    root = os.fsencode(repo.path)
    populate(root, rnd, 0)
    if rnd.random() < 0.3:
        (repo.path / ".git" / "info" / "exclude").write_bytes(b"\n".join(rnd.sample(RULES, 2)) + b"\n")
    tracked = [
        os.path.join(folder, name)
        for folder, _, names in os.walk(root)
        if b"/.git" not in folder
        for name in names
    ]
    tracked = [path for path in tracked if os.path.isfile(path) or os.path.islink(path)]
    chosen = [os.path.relpath(path, root) for path in rnd.sample(tracked, len(tracked) * 2 // 3)]
    repo.git("update-index", "--add", "-z", "--stdin", data=b"".join(path + b"\0" for path in chosen))
    disturb(root, rnd)
    compare(repo, threads=1 + seed % 2)


@pytest.mark.parametrize("seed", range(20))
def test_random_trees_look_the_same_where_case_is_ignored(tmp_path: Path, seed: int) -> None:
    """With core.ignoreCase a name that the index has in another case is no untracked one, as in git."""
    rnd = random.Random(seed)
    repo = GitRepo.init(tmp_path / "repo")
    repo.git("config", "core.ignoreCase", "true")
    for name in rnd.sample(["a", "b/c", "x.O", "Sub/f", "Sub/deep/f", "log", "b/d/e"], 4):
        repo.write(name, "one\n")
    repo.git("add", "-A")
    for name in rnd.sample(["a", "A", "B", "b/c", "b/C", "X.o", "sub/f", "SUB/g", "SUB/deep/h", "Log"], 5):
        if os.path.isfile(os.path.join(repo.path, name)):
            repo.delete(name)
        elif not os.path.lexists(os.path.join(repo.path, name)):
            repo.write(name, "two\n")
    repo.write(".gitignore", rnd.choice(["*.o\n", "LOG\n", "sub/\n"]))
    walk, _ = look(repo, ignore_case=True)
    assert untracked(walk) == others(repo)


@pytest.mark.explore
@pytest.mark.parametrize("seed", range(1000, 3000))
def test_many_more_random_trees(tmp_path: Path, seed: int) -> None:
    """Two thousand more."""
    test_random_trees_look_the_same_to_git_and_to_the_walk(tmp_path, seed)


@pytest.mark.contract("V-113")
def test_a_nested_repository_is_a_boundary_and_nothing_inside_is_listed(repo: GitRepo) -> None:
    """An untracked repository is one item; a folder with a junk .git is walked as a plain one when it is asked for."""
    inner = GitRepo.init(repo.path / "lib" / "inner")
    inner.write("deep/file.txt", "x\n")
    inner.commit("inner")
    repo.write("junk/.git", "not a repository\n")
    repo.write("junk/file.txt", "x\n")
    walk, _ = look(repo)
    assert {item.path for item in walk.items if item.kind is Kind.NESTED} == {b"lib/inner", b"junk"}
    again, _ = look(repo, start=b"junk")
    assert untracked(again) == [b"junk/file.txt"]


def test_the_work_is_one_stat_a_file_and_one_listing_a_folder(tmp_path: Path) -> None:
    """A clean tree costs one stat a tracked file, one listing a folder that isn't ignored, and no item."""
    repo = GitRepo.init(tmp_path / "repo")
    for folder in range(20):
        for name in range(10):
            repo.write(f"d{folder}/f{name}", "x\n")
    repo.write(".gitignore", "junk/\n")
    repo.commit("base")
    for name in range(300):
        repo.write(f"junk/f{name}", "x\n")
    _age(repo)
    walker = Walker()
    first, _ = look(repo, walker)
    second, _ = look(repo, walker)
    assert second.items == []
    assert second.stat_calls == 201 + 1, "one stat a file, and one for the ignore file"
    assert second.folders_listed == 21, "the ignored folder is not entered"
    assert first.ignore_reads == 1
    # A file that was just written may change within one tick of its clock, so it is read until it has an age.
    assert any(look(repo, walker)[0].ignore_reads == 0 for _ in range(10_000)), "rules are parsed once"


def test_a_changed_ignore_file_is_read_again(repo: GitRepo) -> None:
    """The rules that a walker keeps follow their file, also when its size and times are put back."""
    walker = Walker()
    repo.write(".gitignore", "aaa\n")
    repo.write("aaa", "x")
    repo.write("bbb", "x")
    ignore = repo.path / ".gitignore"
    os.utime(ignore, ns=(10**18, 10**18))
    assert untracked(look(repo, walker)[0]) == [b".gitignore", b"bbb"]
    ignore.write_text("bbb\n")
    os.utime(ignore, ns=(10**18, 10**18))
    assert untracked(look(repo, walker)[0]) == [b".gitignore", b"aaa"]


@pytest.mark.contract("V-119")
def test_a_sparse_folder_that_is_not_there_is_one_item(tmp_path: Path) -> None:
    """Folders outside a sparse checkout come out as one item each, however many files they have."""
    repo = GitRepo.init(tmp_path / "repo")
    for name in range(50):
        repo.write(f"out/deep/f{name}", "x\n")
    repo.write("in/f", "x\n")
    repo.commit("base")
    repo.git("sparse-checkout", "set", "--cone", "in")
    walk, view = look(repo)
    (item,) = (item for item in walk.items if item.kind is Kind.SKIP_FOLDER)
    assert not by_state(walk, view, EntryState.SKIP_WORKTREE)
    assert item.position is not None
    assert (view.path(item.position), item.size) == (b"out/deep/f0", 50)


def test_a_deadline_in_the_past_stops_the_walk(repo: GitRepo) -> None:
    """A walk checks its deadline before it looks at anything."""
    with pytest.raises(CoreError) as caught:
        look(repo, deadline=0.0)
    assert caught.value.code is ErrorCode.TIMEOUT
