"""A capture changes nothing that anybody can see: not a file, not the index, not a ref but its own, and it runs nobody's programs."""

import os
import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, populated
from support.git_repo import GitRepo

Scene = Callable[[GitRepo], None]

SCENES: list[Scene] = []


def scene(make: Scene) -> Scene:
    """Put a scene into the catalogue."""
    SCENES.append(make)
    return make


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


def edit(repo: GitRepo) -> None:
    """What every scene has: something staged, something edited, something new, something gone."""
    repo.write("staged.txt", "staged\n")
    repo.git("add", "staged.txt")
    repo.write("src/main.py", "print('two')\n")
    repo.write("new/file.txt", "new\n")
    if repo.exists("empty"):
        repo.delete("empty")


@scene
def clean(repo: GitRepo) -> None:
    pass


@scene
def edited(repo: GitRepo) -> None:
    edit(repo)


@scene
def with_a_stash_a_tag_and_reflogs(repo: GitRepo) -> None:
    repo.write("README.md", "stashed\n")
    repo.git("stash", "-q")
    repo.git("tag", "-a", "v1", "-m", "v1")
    repo.git("branch", "other")
    repo.git("notes", "add", "-m", "a note")
    edit(repo)


@scene
def in_the_middle_of_a_merge(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "-b", "side")
    repo.write("README.md", "theirs\n")
    repo.commit("theirs")
    repo.git("checkout", "-q", "main")
    repo.write("README.md", "ours\n")
    repo.commit("ours")
    repo.git("merge", "-q", "side", check=False)
    repo.write("new/file.txt", "new\n")


@scene
def split_index(repo: GitRepo) -> None:
    repo.git("update-index", "--split-index")
    edit(repo)
    for shared in repo.git_dir.glob("sharedindex.*"):
        os.utime(shared, ns=(10**18, 10**18))


@scene
def untracked_cache(repo: GitRepo) -> None:
    repo.git("config", "core.untrackedCache", "true")
    repo.git("update-index", "--force-untracked-cache")
    repo.git("status")
    edit(repo)


@scene
def sparse_index(repo: GitRepo) -> None:
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "src")
    edit(repo)


@scene
def stat_data_that_a_refresh_would_change(repo: GitRepo) -> None:
    for name in ("README.md", "run.sh"):
        os.utime(repo.at(name), ns=(10**18, 10**18))


@scene
def converted_files(repo: GitRepo) -> None:
    repo.write(".gitattributes", "* text=auto\n*.rot filter=rot\n*.bad filter=bad\n")
    repo.git("config", "filter.rot.clean", "tr a-z n-za-m")
    repo.git("config", "filter.rot.smudge", "tr a-z n-za-m")
    repo.git("config", "filter.bad.clean", "false")
    repo.git("config", "filter.bad.required", "true")
    repo.write("a.rot", "hello\n")
    repo.write("b.bad", "hello\n")
    repo.write("c.txt", "one\r\ntwo\n")
    edit(repo)


@scene
def submodule_and_nested_repository(repo: GitRepo) -> None:
    library = GitRepo.init(repo.path.parent / "library")
    library.write("lib.py", "x\n")
    library.commit("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(library.path), "sub")
    repo.git("clone", "-q", str(library.path), "nested")
    GitRepo(repo.path / "sub").write("lib.py", "changed\n")
    os.utime(repo.at("nested/lib.py"), ns=(10**18, 10**18))
    edit(repo)


@scene
def packed(repo: GitRepo) -> None:
    repo.git("gc", "-q")
    repo.git("pack-refs", "--all")
    edit(repo)


@scene
def without_a_commit(repo: GitRepo) -> None:
    repo.delete(".git")
    repo.git("init", "-q")
    repo.git("add", "src")


@pytest.mark.contract("V-038", "V-003", "V-121", "V-131", "V-133", "V-135")
@pytest.mark.parametrize("make", SCENES, ids=lambda make: make.__name__)
def test_nothing_changes_but_one_ref(make: Scene, repo: GitRepo, tmp_path: Path) -> None:
    """Bytes, modes, times and inodes of every file and folder, in the tree and in ``.git``, and every ref: only the new one differs."""
    make(repo)
    before = repo.snapshot_everything(folders=True)
    status = (
        repo.git("--no-optional-locks", "status", "--porcelain=v2", "-z") if make is not split_index else b""
    )
    shot = Captures(repo.path, tmp_path / "state").take()
    changes = before.changes(repo.snapshot_everything(folders=True))
    assert changes == [f"ref refs/venom/checkpoints/a1/1: None -> {shot.commit}"]
    if make is not split_index:
        assert repo.git("--no-optional-locks", "status", "--porcelain=v2", "-z") == status
    # A sparse index names trees that git itself never wrote.
    assert not faults(repo) or make is sparse_index
    assert not half_written(repo)


def faults(repo: GitRepo) -> list[str]:
    """What git finds wrong with a repository and its objects."""
    said = subprocess.run(
        ["git", "fsck", "--strict", "--no-dangling"],
        cwd=repo.path,
        capture_output=True,
        text=True,
        check=False,
    )
    return [line for line in (said.stdout + said.stderr).splitlines() if not line.startswith("notice: ")]


def half_written(repo: GitRepo) -> list[Path]:
    """Temporary files among the objects."""
    objects = repo.git_dir / "objects"
    return [path for path in objects.rglob("*") if "tmp" in path.name or path.name.endswith(".lock")]


@pytest.mark.contract("V-133")
def test_nothing_is_left_behind_by_a_failure_either(repo: GitRepo, tmp_path: Path) -> None:
    """A capture that fails half way leaves the tree, the git folder and the scratch folder as they were."""
    converted_files(repo)
    repo.write("big.txt", "x" * 5000)
    captures = Captures(repo.path, tmp_path / "state", max_total_bytes=4000)
    before = repo.snapshot_everything(folders=True)
    with pytest.raises(Exception, match="more than the limit"):
        captures.take()
    assert before.changes(repo.snapshot_everything(folders=True)) == []
    assert not [path for path in (tmp_path / "state" / "scratch").rglob("*") if not path.is_dir()]


def test_scratch_folder_is_empty_afterwards(repo: GitRepo, tmp_path: Path) -> None:
    """No temporary index and no temporary file outlives a capture."""
    converted_files(repo)
    Captures(repo.path, tmp_path / "state").take()
    assert not [path for path in (tmp_path / "state" / "scratch").rglob("*") if not path.is_dir()]
