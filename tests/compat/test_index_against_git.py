"""The same question to git and to the index reader: what is tracked, with which flags, and which trees are known."""

from __future__ import annotations

import os
import random
from typing import TYPE_CHECKING

import pytest

from support.index_oracle import Repo, agree, sample, trees_agree
from turnback.native.index import IndexView
from turnback.native.lib import CoreError, ErrorCode

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return sample(tmp_path / "repo")


@pytest.mark.parametrize("version", [2, 3, 4])
def test_every_field_of_every_version(repo: Repo, version: int) -> None:
    repo.git("update-index", "--index-version", str(version))
    if version == 3:  # git writes it only when it has to
        repo.git("update-index", "--skip-worktree", "a")
    view = agree(repo)
    assert view.version == version
    trees_agree(repo, view)
    assert {b"", b"src", b"src/lib", b"docs"} == set(view.tree_nodes.folders())


@pytest.mark.parametrize("version", [2, 4])
def test_flags(repo: Repo, version: int) -> None:
    repo.git("update-index", "--index-version", str(version))
    repo.git("update-index", "--assume-unchanged", "a", "src/x.c")
    repo.git("update-index", "--skip-worktree", "docs/one", "src/x.c")
    repo.write("new/file")
    repo.git("add", "-N", "new/file")
    view = agree(repo)
    entry = view.entry(view.find(b"src/x.c") or 0)
    assert (entry.assume_unchanged, entry.skip_worktree) == (True, True)
    trees_agree(repo, view)


@pytest.mark.parametrize("version", [2, 4])
def test_conflicts(repo: Repo, version: int) -> None:
    repo.git("update-index", "--index-version", str(version))
    repo.git("checkout", "-qb", "other")
    repo.write("a", "theirs")
    repo.write("src/lib/y.c", "theirs")
    repo.git("commit", "-qam", "theirs")
    repo.git("checkout", "-q", "-")
    repo.write("a", "ours")
    repo.git("rm", "-q", "src/lib/y.c")
    repo.git("commit", "-qam", "ours")
    repo.git("merge", "other", check=False)
    view = agree(repo)
    assert [entry.stage for entry in view if entry.path == b"a"] == [1, 2, 3]
    assert [entry.stage for entry in view if entry.path == b"src/lib/y.c"] == [1, 3]
    assert view.find(b"a", 0) is None
    assert view.has_conflicts
    repo.git("add", "a")
    agree(repo)


def test_the_cache_tree_after_all_kinds_of_operations(repo: Repo) -> None:
    def step(what: Callable[[], object], invalid: set[bytes]) -> None:
        what()
        view = agree(repo)
        trees_agree(repo, view)
        nodes = {folder: view.tree_nodes.get(folder) for folder in view.tree_nodes.folders()}
        assert {folder for folder, node in nodes.items() if node is None or node.oid is None} == invalid

    repo.write("src/lib/z.c", "changed")
    step(lambda: repo.git("add", "-A"), {b"", b"src", b"src/lib"})
    step(lambda: repo.git("write-tree"), set())
    step(lambda: repo.git("rm", "-q", "docs/one"), {b"", b"docs"})
    step(lambda: repo.git("commit", "-qm", "y"), set())
    repo.write("deep/er/and/deeper", "x")
    step(lambda: repo.git("add", "deep"), {b""})
    step(lambda: repo.git("reset", "-q", "--hard"), set())
    # git keeps the nodes of folders that are gone
    step(lambda: repo.git("mv", "src", "moved"), {b"", b"src", b"src/lib"})
    repo.git("commit", "-qm", "z")
    step(lambda: repo.git("checkout", "-q", "HEAD^"), set())
    step(lambda: repo.git("read-tree", "--empty"), set())


def test_ten_thousand_entries_with_any_bytes(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo")
    chance = random.Random(1)
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x").strip()
    alphabet = [bytes([b]) for b in range(1, 256) if b not in b"/."]
    paths: set[bytes] = set()
    while len(paths) < 10_000:
        folders = [f"d{chance.randrange(6)}".encode() for _ in range(chance.randrange(5))]
        name = b"f" + b"".join(chance.choice(alphabet) for _ in range(chance.randrange(1, 30)))
        paths.add(b"/".join([*folders, name]))
    paths.add(b"long/" + b"n" * 4090)
    paths.add(b"long/" + b"n" * 4091)
    paths.add(b"long/" + b"n" * 5000)
    lines = b"".join(b"100644 %s\t%s\0" % (blob, path) for path in paths)
    repo.git("update-index", "-z", "--index-info", stdin=lines)
    for version in ("2", "4"):
        repo.git("update-index", "--index-version", version)
        view = agree(repo)
        assert len(view) == len(paths)
        for folder in (b"d1", b"d1/d2", b"long", b"nothing"):
            assert [view.path(i) for i in view.prefix(folder)] == sorted(
                path for path in paths if path.startswith(folder + b"/")
            )
    repo.git("write-tree")
    trees_agree(repo, agree(repo))


def test_blocks_with_an_offset_table(repo: Repo) -> None:
    """With many threads git writes EOIE and IEOT, and in version 4 each block begins with a name in full."""
    repo.git("config", "index.threads", "4")
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x").strip()
    lines = b"".join(b"100644 %s\tmany/f%05d\0" % (blob, i) for i in range(45_000))
    repo.git("update-index", "-z", "--index-info", stdin=lines)
    repo.git("update-index", "--index-version", "4")
    data = repo.index.read_bytes()
    assert b"IEOT" in data
    assert b"EOIE" in data
    agree(repo)


def test_other_extensions_are_passed_over(repo: Repo) -> None:
    repo.git("update-index", "--force-untracked-cache")
    repo.write("untracked")
    repo.git("status")
    assert b"UNTR" in repo.index.read_bytes()
    agree(repo)


@pytest.mark.parametrize("version", [2, 4])
def test_a_split_index_is_read_as_one(repo: Repo, version: int) -> None:
    repo.git("config", "splitIndex.maxPercentChange", "100")
    for i in range(150):
        repo.write(f"many/{i:03}")
    repo.git("add", "-A")
    repo.git("update-index", "--index-version", str(version))
    repo.git("update-index", "--split-index")
    chance = random.Random(version)
    view = agree(repo)
    assert view.is_split
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    for step in range(12):
        for i in chance.sample(range(150), 12):
            path = f"many/{i:03}"
            match chance.randrange(4):
                case 0:
                    repo.git("rm", "-q", "--cached", "--ignore-unmatch", path)
                case 1:
                    repo.write(path, f"{step} {chance.random()}")
                    repo.git("add", path)
                case 2:
                    stages = "".join(f"100644 {blob} {stage}\t{path}\n" for stage in (1, 2, 3))
                    repo.git("update-index", "--index-info", stdin=f"0 {'0' * 40}\t{path}\n{stages}".encode())
                case _:
                    repo.write(f"{path}.new{step}")
                    repo.git("add", f"{path}.new{step}")
        assert b"link" in repo.index.read_bytes()
        view = agree(repo)
        assert view.is_split
    for entry in list(view):
        if entry.stage:
            repo.git("add", os.fsdecode(entry.path))
    trees_agree(repo, agree(repo))


def test_the_shared_file_must_be_the_right_one(repo: Repo) -> None:
    repo.git("update-index", "--split-index")
    repo.write("more")
    repo.git("add", "more")
    data = repo.index.read_bytes()
    shared = IndexView.shared_oid(data)
    assert shared is not None
    (file,) = (repo.root / ".git").glob("sharedindex.*")
    assert file.name == f"sharedindex.{shared.hex()}"
    for wrong in (None, data, file.read_bytes()[:-1], b""):
        with pytest.raises(CoreError) as caught:
            IndexView.parse(data, wrong)
        assert caught.value.code in (ErrorCode.SHARED_INDEX, ErrorCode.FORMAT)


def test_a_sparse_index_has_folders_as_entries(repo: Repo) -> None:
    for folder in ("in", "out", "out/deep"):
        repo.write(f"{folder}/file")
    repo.git("add", "-A")
    repo.git("commit", "-qm", "y")
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "in")
    view = agree(repo)
    assert view.is_sparse
    folders = [entry for entry in view if entry.mode == 0o040000]
    assert {entry.path for entry in folders} == {b"docs/", b"out/", b"src/"}
    for entry in folders:
        assert entry.skip_worktree
        assert entry.oid.hex().encode() == repo.git("rev-parse", b"HEAD:" + entry.path).strip()
        assert view.prefix(entry.path) == range(view.find(entry.path) or 0, (view.find(entry.path) or 0) + 1)
    trees_agree(repo, view)
    repo.git("update-index", "--index-version", "4")
    agree(repo)


def test_sha256(tmp_path: Path) -> None:
    repo = Repo(tmp_path / "repo", "--object-format=sha256")
    for path in ("a", "b/c", "b/d/e"):
        repo.write(path)
    repo.git("add", "-A")
    repo.git("commit", "-qm", "x")
    for version in ("2", "4"):
        repo.git("update-index", "--index-version", version)
        trees_agree(repo, agree(repo, 32))
    with pytest.raises(CoreError):
        IndexView.parse(repo.index.read_bytes(), oid_size=20)
