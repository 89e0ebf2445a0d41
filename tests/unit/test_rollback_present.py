"""Names on a filesystem that doesn't tell ``Notes`` from ``NOTES``; and other logs that work in the same repository."""

import os
from pathlib import Path

import pytest

from support.git_repo import GitRepo
from support.rollbacks import Scene, steps
from turnback.changes import FILE, Change, Entry
from turnback.native.files import Beneath
from turnback.operations.present import Names, Present, folded
from turnback.policy.cases import Found

OLD, NEW = Entry(FILE, "1" * 40), Entry(FILE, "2" * 40)


class Folding(Beneath):
    """A tree in which letter case counts for nothing, as far as looks go."""

    def lstat(self, path: bytes) -> os.stat_result | None:
        there = {folded(os.fsencode(name)): name for name in os.listdir(self.root)}
        found = there.get(folded(path))
        return None if found is None else super().lstat(os.fsencode(found))


def test_a_name_that_differs_in_case_alone_is_taken_away_first(tmp_path: Path) -> None:
    """What stands under the other spelling is the very file that goes: nothing is in the way. Any other file is."""
    scene = Scene.in_place(tmp_path)
    scene.put({"NOTES": "now\n", "Other": "now\n"})
    scene.tree.git("config", "core.ignoreCase", "true")
    repository = scene.ws._context.repository(scene.ws._context.state().agents["a5"].trees[0])
    settings = repository.kept.configuration.read()
    assert settings.ignore_case
    changed = [Change(b"NOTES", OLD, None), Change(b"Notes", None, NEW), Change(b"other", None, NEW)]
    tree = scene.tree.tree_of_add_all()
    with Folding(repository.path) as root:
        present = Present(repository, settings, root, tree, changed)
        assert present.at(b"Notes", None) is Found.ABSENT
        assert present.at(b"NOTES", OLD) is Found.FILE
        assert present.at(b"other", None) is Found.FILE


def test_names_are_folded_as_such_filesystems_do() -> None:
    """Letter case and the two ways to write an accent; bytes that aren't UTF-8 stay what they are."""
    names = Names(
        [Change("ÜBER".encode(), None, NEW), Change("über".encode(), None, NEW), Change(b"\xff", None, NEW)]
    )
    assert names.collides("ÜBER".encode())
    assert not names.collides(b"\xff")
    assert not names.taken_away(b"\xff")


@pytest.mark.contract("V-033")
def test_a_copy_that_another_log_uses_is_guarded(tmp_path: Path) -> None:
    """Refs that no record of ours names, made since: somebody else's work may lie in that very tree, so HEAD stays and a choice is needed."""
    source = GitRepo.init(tmp_path / "app")
    source.write("a", "1\n")
    source.commit("first")
    copy = GitRepo(tmp_path / "copy")
    source.git("clone", "-q", ".", str(copy.path))
    scene = Scene(tmp_path, source, copy, "a2", None)
    scene.agent = scene.ws.add_agent("a2", isolation="copy", path=str(copy.path))
    with scene.turn():
        scene.put({"a": "2\n"})
        copy.commit("second")
    plan = scene.plan("k1")
    assert (plan.guarded, plan.repos[0].head.moves) == (False, True)
    later = copy.text(
        "commit-tree", "HEAD^{tree}", "-m", "x", extra={"GIT_COMMITTER_DATE": "2099-01-01T00:00:00Z"}
    )
    copy.git("update-ref", "refs/venom/checkpoints/other/1", later)
    plan = scene.plan("k1", outside="overwrite")
    assert (plan.guarded, plan.repos[0].head.moves) == (True, False)
    assert steps(plan.repos[0].files) == {"a": ("modify", "outside")}
