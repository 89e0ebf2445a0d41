"""Trees made, changed and compared, against git's own index: any names, any depth, files and folders in each other's place."""

import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from support.git_repo import GitRepo
from turnback.changes import Entry
from turnback.gitstore import trees
from turnback.gitstore.repo import Repository

NAMES = [b"a", b"b", b"a.b", b"a-b", b"a0", b"A", b"\xff", b" ", b"new\nline"]
MODES = [0o100644, 0o100755, 0o120000, 0o160000]

paths = st.lists(st.sampled_from(NAMES), min_size=1, max_size=4).map(b"/".join)
entries = st.tuples(st.sampled_from(MODES), st.integers(0, 3))
worlds = st.dictionaries(paths, entries, max_size=12)
edits = st.dictionaries(paths, st.none() | entries, max_size=8)

World = dict[bytes, tuple[int, int]]


class Git:
    """A repository with four blobs, and git's index as the oracle."""

    def __init__(self, place: Path) -> None:
        self.repo = GitRepo.init(place)
        self.repository = Repository(str(place))
        self.blobs = [
            self.repo.git("hash-object", "-w", "--stdin", data=b"%d\n" % number).decode().strip()
            for number in range(4)
        ]

    def entry(self, row: tuple[int, int]) -> Entry:
        return Entry(row[0], self.blobs[row[1]])

    def tree(self, world: World) -> str:
        """What git's index and write-tree make of it."""
        rows = b"".join(
            b"%o %s\t%s\0" % (mode, self.blobs[number].encode(), path)
            for path, (mode, number) in world.items()
        )
        self.repo.git("read-tree", "--empty")
        self.repo.git("update-index", "-z", "--index-info", data=rows)
        return self.repo.text("write-tree")


@pytest.fixture(scope="module")
def git() -> Iterator[Git]:
    with tempfile.TemporaryDirectory(prefix="turnback-trees-") as place:
        yield Git(Path(place, "repo"))


def possible(world: World) -> World:
    """Without the paths that lie beneath another one."""
    return {
        path: row
        for path, row in world.items()
        if not any(path.startswith(other + b"/") for other in world if other != path)
    }


def put(world: World, changes: dict[bytes, tuple[int, int] | None]) -> World:
    """A world with changes: removals first, then what is set replaces whatever is in its way."""
    found = {path: row for path, row in world.items() if path not in changes}
    for path, row in changes.items():
        if row is not None:
            found = {
                other: kept
                for other, kept in found.items()
                if not other.startswith(path + b"/") and not path.startswith(other + b"/")
            }
            found[path] = row
    return found


@settings(max_examples=150, deadline=None)
@given(world=worlds, changes=edits)
def test_edited_is_what_git_writes(
    git: Git, world: World, changes: dict[bytes, tuple[int, int] | None]
) -> None:
    """Setting and removing paths of a tree gives the tree that git's index would."""
    world = possible(world)
    set_to = possible({path: row for path, row in changes.items() if row is not None})
    changes = {**{path: None for path, row in changes.items() if row is None}, **set_to}
    base = git.tree(world)
    made = trees.edited(
        git.repository,
        base,
        {path: None if row is None else git.entry(row) for path, row in changes.items()},
    )
    assert made == git.tree(put(world, changes))


@settings(max_examples=150, deadline=None)
@given(one=worlds, two=worlds, asked=st.lists(paths, max_size=6))
def test_changes_and_lookups_are_gits(git: Git, one: World, two: World, asked: list[bytes]) -> None:
    """What differs between two trees, in git's order, and what stands at a path."""
    one, two = possible(one), possible(two)
    before, after = git.tree(one), git.tree(two)
    found = {change.path: (change.old, change.new) for change in trees.changes(git.repository, before, after)}
    differing = {
        path: (
            None if path not in one else git.entry(one[path]),
            None if path not in two else git.entry(two[path]),
        )
        for path in one.keys() | two.keys()
        if one.get(path) != two.get(path)
    }
    assert found == differing
    assert list(found) == sorted(found)
    said = git.repo.git("diff-tree", "-r", "--no-renames", "--name-only", "-z", before, after)
    assert found.keys() == set(said.split(b"\0")[:-1])
    assert trees.walk(git.repository, after) == {path: git.entry(row) for path, row in two.items()}
    held = trees.lookup(git.repository, after, asked)
    assert {path: entry for path, entry in held.items() if entry.mode != 0o040000} == {
        path: git.entry(two[path]) for path in asked if path in two
    }
