"""Writers and folds that are killed at every step: what was stored before is all there, and the next one goes on as if nothing had been."""

from __future__ import annotations

import shutil
from typing import TYPE_CHECKING

import pytest

from support.git_repo import GitRepo
from support.mortal import Mortal
from support.packs import absent, blobs, oid_of, packs, store
from turnback.gitstore.fold import MOST, fold
from turnback.gitstore.ourpacks import leftovers
from turnback.gitstore.repo import Repository
from turnback.gitstore.writer import LOOSE

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

SETUP = """
from support.packs import blobs, store
from turnback.gitstore import newfile
from turnback.gitstore.fold import fold
from turnback.gitstore.repo import Repository
import pygit2
"""
NAMED = "newfile.NAMELESS = 0"
NAMINGS = pytest.mark.parametrize("naming", ["", NAMED], ids=["nameless", "named"])

FOLDS = "fold(Repository(folder))"
STORES = "store(Repository(folder), blobs({count}, 'new'), durable={durable})"


def filled(path: Path) -> list[str]:
    """A repository with a commit, and one pack of ours more than may stand; the ids of what is in them."""
    repo = GitRepo.init(path)
    repo.write("README.md", "# a project\n")
    repo.commit("first")
    repository = Repository(str(path))
    return [oid for turn in range(MOST + 1) for oid in store(repository, blobs(50, f"turn {turn}", 10))]


def sound(repo: GitRepo, oids: list[str], when: str) -> None:
    """Every object is there and every file is whole."""
    assert absent(repo, oids) == [], f"objects are missing {when}"
    said = repo.git("fsck", "--strict", "--full", "--no-dangling", "--no-progress")
    assert said == b"", f"git fsck complains {when}: {said!r}"


def deaths(mortal: Mortal, template: Path, place: Path) -> Iterator[tuple[int, GitRepo]]:
    """Copies of a repository in which the work was killed at its first step, its second, and so on until it got through."""
    step = 1
    while True:
        case = place / f"killed at {step}"
        shutil.copytree(template, case, symlinks=True)
        killed = mortal.killed_at(step, str(case))
        yield step, GitRepo(case)
        if not killed:
            return
        shutil.rmtree(case)
        step += 1


@NAMINGS
def test_a_fold_killed_at_every_step(tmp_path: Path, naming: str) -> None:
    """Killed at any step, a fold has lost nothing; the next one clears what it left and finishes."""
    oids = filled(tmp_path / "template")
    steps = []
    with Mortal(SETUP + naming, FOLDS) as mortal:
        for step, repo in deaths(mortal, tmp_path / "template", tmp_path):
            sound(repo, oids, f"after a kill at step {step}")
            repository = Repository(str(repo.path))
            left = leftovers(repository)
            fold(repository)
            sound(repo, oids, f"after the fold that followed a kill at step {step}")
            assert leftovers(repository) == []
            assert len(packs(repo)) <= MOST
            assert not list(repo.git_dir.glob("objects/pack/tmp_*"))
            names = {path.name for path in (repo.git_dir / "turnback" / "packs").iterdir()}
            assert {f"pack-{name}.pack" for name in names} == {path.name for path in packs(repo)}
            steps.append(bool(left))
    assert len(steps) > 20, "hardly a step was found to die at"
    assert any(steps), "no kill ever left anything"


@NAMINGS
@pytest.mark.parametrize(
    ("count", "durable"), [(2, False), (2, True), (100, False), (100, True), (400, False)]
)
def test_a_writer_killed_at_every_step(tmp_path: Path, naming: str, count: int, durable: bool) -> None:
    """Killed at any step, a writer has damaged nothing and no part of a pack is seen; the same objects are stored by the next one."""
    oids = filled(tmp_path / "template")
    new = [oid_of(content) for content in blobs(count, "new")]
    steps = 0
    with Mortal(SETUP + naming, STORES.format(count=count, durable=durable)) as mortal:
        for step, repo in deaths(mortal, tmp_path / "template", tmp_path):
            sound(repo, oids, f"after a kill at step {step}")
            if count > LOOSE:
                assert len(absent(repo, new)) in (0, count), (
                    f"a part of a pack is seen after a kill at step {step}"
                )
            repository = Repository(str(repo.path))
            assert store(repository, blobs(count, "new")) == new
            fold(repository)
            sound(repo, oids + new, f"after a kill at step {step} and another try")
            assert leftovers(repository) == []
            assert not list(repo.git_dir.glob("objects/**/tmp_*"))
            steps += 1
    assert 8 < steps < 40, "a writer takes a few steps, however many objects it packs"


def test_a_mended_pack_holds_what_only_it_had(tmp_path: Path) -> None:
    """A pack that was killed before its index came is completed: its objects are there although nobody stored them again."""
    template = tmp_path / "template"
    filled(template)
    new = [oid_of(content) for content in blobs(100, "new")]
    mended = 0
    with Mortal(SETUP, STORES.format(count=100, durable=False)) as mortal:
        for _, repo in deaths(mortal, template, tmp_path):
            repository = Repository(str(repo.path))
            without_index = [path for path in leftovers(repository) if path.endswith(".pack")]
            if without_index:
                assert absent(repo, new) == new
                fold(repository)
                assert absent(repo, new) == []
                mended += 1
    assert mended > 0
