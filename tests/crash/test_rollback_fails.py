"""Every write of a rollback fails once, and from there on; each time the tree, HEAD and the index are as before, or it says what isn't."""

import errno
import os
from collections.abc import Callable, Iterator
from itertools import count
from pathlib import Path

import pytest

from support.faults import Faults
from support.git_repo import GitRepo
from support.rollbacks import Scene, files_of
from support.stands import Before, Stand, in_place, lost, worktree
from turnback.errors import TurnbackError
from turnback.native import moves
from turnback.operations.results import RollbackDone

ERRORS = (errno.ENOSPC, errno.EIO, errno.EACCES)


@pytest.fixture(params=[in_place, worktree], ids=["in_place", "worktree"])
def stand(request: pytest.FixtureRequest, tmp_path: Path) -> Stand:
    build: Callable[[Path], Scene] = request.param
    return Stand(build(tmp_path / "all"))


# Every write in CI; a plain run takes every fifth.
STEPS = [pytest.param(5, id="every fifth"), pytest.param(1, id="every one", marks=pytest.mark.explore)]


def sweep(
    stand: Stand, breaking: Callable[[int], Faults], step: int = 1
) -> Iterator[tuple[str, Before, RollbackDone | TurnbackError]]:
    """Break the first write, the second, and so on until there is none left; each time where, what was there before, and the outcome."""
    for number in count(1, step):
        before = stand.begin()
        faults = breaking(number)
        outcome = stand.roll(faults)
        if not faults.fired:
            assert isinstance(outcome, RollbackDone)
            assert number > 60, "the faults were not where the writes are"
            return
        yield f"write {number}, {faults.calls[number - 1]}, gave {code_of(outcome)}", before, outcome


def code_of(outcome: RollbackDone | TurnbackError) -> str:
    return outcome.code if isinstance(outcome, TurnbackError) else "done"


def works_now(stand: Stand, where: str) -> None:
    """Whatever happened, somebody who opens the workspace again can go back, and nothing of ours lies about afterwards."""
    stand.scene.reopen()
    assert stand.scene.back("k1", outside="overwrite").exact, where
    assert not (stand.git_dir / "turnback").exists(), where
    assert not [name for name in os.listdir(stand.git_dir) if "lock" in name or "turnback" in name], where
    assert os.listdir(stand.scene.state_dir / "holding") == [], where


@pytest.mark.contract("V-254", "V-300", "V-441")
@pytest.mark.parametrize("step", [pytest.param(2, id="every second"), STEPS[1]])
def test_each_write_fails_once(stand: Stand, step: int) -> None:
    """The n-th write fails, for every n: before the first file nothing has happened, after it everything is taken back, inodes and all."""
    codes = set()
    for where, before, outcome in sweep(
        stand, lambda number: Faults.at(number, ERRORS[number % len(ERRORS)]), step
    ):
        codes.add(code_of(outcome))
        if isinstance(outcome, RollbackDone):
            assert stand.ends() == [None], where
            continue
        assert Before.of(stand) == before, where
        assert outcome.code in ("failed.rollback_undone", "failed.checkpoint_git", "failed.state_folder"), (
            where
        )
        if outcome.code == "failed.rollback_undone":
            assert outcome.data.keys() >= {"repo", "reason"}
        assert stand.ends() in ([], [outcome.code]), where
    assert "failed.rollback_undone" in codes


@pytest.mark.contract("V-300")
@pytest.mark.parametrize("step", STEPS)
def test_the_disk_is_full_from_one_write_on(stand: Stand, step: int) -> None:
    """No room from the n-th write on, for every n: the way back needs none, so all is as before; what the log can't take, it gets later."""
    codes = set()
    for where, before, outcome in sweep(stand, Faults.full_since, step):
        codes.add(code_of(outcome))
        if isinstance(outcome, TurnbackError):
            assert Before.of(stand) == before, where
            assert outcome.code != "failed.rollback_partial", where
        works_now(stand, where)
        assert len(stand.ends()) == len(stand.scene.events("agent.rollback_started")), where
    assert "failed.rollback_undone" in codes


@pytest.mark.contract("V-301", "V-442")
@pytest.mark.parametrize("step", STEPS)
def test_nothing_works_any_more_from_one_write_on(stand: Stand, step: int) -> None:
    """Even the way back fails: it says so, names what isn't as it was, and every byte is in the tree, the safety checkpoint or the holding folder."""
    codes = set()
    for where, before, outcome in sweep(stand, Faults.broken_since, step):
        codes.add(code_of(outcome))
        if isinstance(outcome, RollbackDone):
            continue
        after = Before.of(stand)
        if outcome.code != "failed.rollback_partial":
            assert after == before, where
            continue
        (row,) = outcome.data["repos"]
        assert row["state"] == "mixed", where
        moved = {os.fsdecode(path) for path in before.files if before.files[path] != after.files.get(path)}
        made = {os.fsdecode(path) for path in after.files.keys() - before.files.keys()}
        assert moved | made <= set(row.get("paths", [])), where
        assert lost(stand, before) == set(), where
        stand.scene.reopen()
        back = stand.scene.back(outcome.data["safety"], outside="overwrite", keep_head=True)
        assert back.exact, where
        assert stand.scene.contents() == before.contents(), where
    assert "failed.rollback_partial" in codes


@pytest.mark.contract("V-251", "V-300")
def test_the_second_of_two_repositories_fails(tmp_path: Path) -> None:
    """The first one is written when the second fails: both are taken back, and the error names the second."""
    for name in ("one", "two"):
        made = GitRepo.init(tmp_path / "app" / name)
        made.write("a", "then\n")
        made.commit("first")
    source = GitRepo(tmp_path / "app")
    scene = Scene(tmp_path, source, source, "a5", None)
    scene.agent = scene.ws.add_agent("a5", repos=["two", "one"])
    scene.changes({"one/a": "now\n", "two/a": "now\n", "two/b": "new\n"})
    before = [files_of(tmp_path / "app" / name) for name in ("one", "two")]
    written: list[bytes] = []
    real = moves.exchange

    def failing(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> bool:
        if written:
            raise OSError(errno.EIO, "broken")
        written.append(to_name)
        return real(from_folder, from_name, to_folder, to_name)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnback.operations.apply.exchange", failing)
        plan = scene.plan("k1").plan
        with pytest.raises(TurnbackError) as error:
            scene.agent.rollback("k1", restore="files", plan=plan)
    assert error.value.code == "failed.rollback_partial", "the way back needs the exchange too"
    assert error.value.data["repos"] == [
        {"repo": "one", "state": "mixed", "paths": ["a"]},
        {"repo": "two", "state": "undone"},
    ]
    assert (tmp_path / "app/two/b").exists()
    assert scene.back(error.value.data["safety"], outside="overwrite").exact
    assert [{path: row.content for path, row in found.items()} for found in before] == [
        {path: row.content for path, row in files_of(tmp_path / "app" / name).items()}
        for name in ("one", "two")
    ]
    broken: list[bytes] = []

    def failing_once(from_folder: int, from_name: bytes, to_folder: int, to_name: bytes) -> bool:
        broken.append(to_name)
        if len(broken) == 2:
            raise OSError(errno.EIO, "broken")
        return real(from_folder, from_name, to_folder, to_name)

    before = [files_of(tmp_path / "app" / name) for name in ("one", "two")]
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr("turnback.operations.apply.exchange", failing_once)
        plan = scene.plan("k1", outside="overwrite").plan
        with pytest.raises(TurnbackError) as error:
            scene.agent.rollback("k1", restore="files", outside="overwrite", plan=plan)
    assert error.value.code == "failed.rollback_undone"
    assert error.value.data["repo"] == "two"
    assert [files_of(tmp_path / "app" / name) for name in ("one", "two")] == before
