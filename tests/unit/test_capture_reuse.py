"""When a checkpoint is reused, and when not: it stands for the moment only if a rollback to it would do what one to the moment would."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, populated
from support.git_repo import GitRepo
from turnback.operations import capture
from turnback.operations.capture import Moment


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def records(captures: Captures, kind: str) -> list[dict[str, object]]:
    """The records of one kind, internal ones too."""
    return [dict(record.data) for record in captures.workspace._context.log.records() if record.type == kind]


# --- reused --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-080", "V-081", "V-161")
def test_nothing_changed_so_nothing_is_made(repo: GitRepo, captures: Captures) -> None:
    """Two captures of the same state are one checkpoint: one ref, one id, and a record of the second that isn't published."""
    repo.write("README.md", "edited\n")
    first = captures.take()
    refs = repo.refs()
    second = captures.take()
    assert (second.id, second.reused, first.reused) == ("k1", True, False)
    assert repo.refs() == refs
    assert [event["data"]["checkpoint"] for event in captures.workspace.events(["agent.checkpoint"])] == [
        "k1"
    ]
    assert "checkpoint.reused" not in {event["type"] for event in captures.workspace.events()}
    (reused,) = records(captures, "checkpoint.reused")
    assert reused["checkpoint"] == "k1"
    assert reused["reason"] == "manual"


@pytest.mark.contract("V-081", "V-091", "V-082")
def test_turn_start_reuses_the_end_of_the_turn_before(repo: GitRepo, captures: Captures) -> None:
    """Most turns begin where the last one ended: the record of the reuse has the turn, and both stand for the same last turn."""
    with captures.agent.turn():
        repo.write("README.md", "one\n")
    with captures.agent.turn():
        repo.write("README.md", "two\n")
    assert [record["reason"] for record in captures.state().checkpoints.values()] == [
        "turn_start",
        "turn_end",
        "turn_end",
    ]
    (reused,) = records(captures, "checkpoint.reused")
    assert {name: reused[name] for name in ("checkpoint", "reason", "turn", "through_turn")} == {
        "checkpoint": "k2",
        "reason": "turn_start",
        "turn": "t2",
        "through_turn": "t1",
    }


@pytest.mark.contract("V-083")
def test_label_goes_to_the_checkpoint_that_is_reused(captures: Captures) -> None:
    """A label is set on whatever checkpoint stands for the moment."""
    captures.take()
    labelled = captures.take("before the migration")
    assert labelled.reused
    assert captures.agent.checkpoints().checkpoints[0].label == "before the migration"


@pytest.mark.parametrize("how", ["times", "equal_content", "staged", "stash", "ignored", "index_gone"])
def test_what_no_rollback_would_go_by_doesnt_count(repo: GitRepo, captures: Captures, how: str) -> None:
    """Times, the index, stashes and ignored files are no part of a checkpoint, so they make no new one."""
    repo.write(".gitignore", "*.log\n")
    repo.write("README.md", "edited\n")
    captures.take()
    if how == "times":
        os.utime(repo.at("src/main.py"), ns=(1, 1))
    elif how == "equal_content":
        repo.delete("run.sh")
        repo.write("run.sh", "#!/bin/sh\n", mode=0o755)
    elif how == "staged":
        repo.git("add", "-A")
    elif how == "stash":
        repo.git("update-ref", "refs/stash", repo.text("stash", "create"))
    elif how == "ignored":
        repo.write("build.log", "x\n")
    else:
        (repo.git_dir / "index").unlink()
    assert captures.take().reused


# --- not reused ----------------------------------------------------------------------------------------------------

Step = Callable[[GitRepo], object]


def edit(repo: GitRepo) -> None:
    repo.write("src/main.py", "print('two')\n")


def empty_commit(repo: GitRepo) -> None:
    repo.git("commit", "-q", "--allow-empty", "-m", "nothing")


def other_branch_at_the_same_commit(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "-b", "other")


def detached(repo: GitRepo) -> None:
    repo.git("checkout", "-q", "--detach")


def only_bytes_that_the_filter_drops(repo: GitRepo) -> None:
    repo.write("a.note", "input\noutput 2\n")


def narrower_permissions(repo: GitRepo) -> None:
    repo.at("README.md").chmod(0o600)


def another_ignore_rule_outside_the_tree(repo: GitRepo) -> None:
    repo.write(".git/info/exclude", "*.tmp\n")


def ref_deleted(repo: GitRepo) -> None:
    repo.git("update-ref", "-d", "refs/venom/checkpoints/a1/1")


def ref_moved(repo: GitRepo) -> None:
    repo.git("update-ref", "refs/venom/checkpoints/a1/1", "HEAD")


def a_file_too_big_more(repo: GitRepo) -> None:
    repo.write("core.dump", b"x" * 100_001)


@pytest.mark.contract("V-087", "V-080", "A-08")
@pytest.mark.parametrize(
    "change",
    [
        edit,
        empty_commit,
        other_branch_at_the_same_commit,
        detached,
        only_bytes_that_the_filter_drops,
        narrower_permissions,
        another_ignore_rule_outside_the_tree,
        ref_deleted,
        ref_moved,
        a_file_too_big_more,
    ],
    ids=lambda change: change.__name__,
)
def test_what_a_rollback_would_go_by_makes_a_new_one(change: Step, repo: GitRepo, tmp_path: Path) -> None:
    """Another tree or HEAD, exact bytes, permissions, rules or left-out paths; and a ref that doesn't hold it any more."""
    repo.git("config", "filter.note.clean", "grep -v output")
    repo.write(".gitattributes", "*.note filter=note\n")
    repo.write("a.note", "input\noutput 1\n")
    captures = Captures(repo.path, tmp_path / "state", max_file_bytes=100_000)
    captures.take()
    assert captures.take().reused
    change(repo)
    again = captures.take()
    assert (again.id, again.reused) == ("k2", False)
    assert captures.take().reused


@pytest.mark.contract("V-084", "V-085", "A-07")
@pytest.mark.parametrize("reason", ["rollback", "fork", "pre_rollback"])
def test_some_reasons_always_get_their_own(repo: GitRepo, captures: Captures, reason: str) -> None:
    """What a rollback or a fork leaves is a record of its own, with a commit of its own, also when nothing differs."""
    first = captures.take()
    taken = capture.take(captures.workspace._context, "a1", Moment(reason), explicit=True)
    again = captures.shot(taken.checkpoint)
    assert (again.id, taken.reused) == ("k2", False)
    assert again.tree == first.tree
    assert f"Venom-Reason: {reason}" in repo.text("show", "-s", "--format=%B", again.commit)


# --- several repositories ------------------------------------------------------------------------------------------


@pytest.fixture
def two(tmp_path: Path) -> tuple[GitRepo, GitRepo, Captures]:
    first, second = populated(tmp_path / "w/first"), populated(tmp_path / "w/second")
    return first, second, Captures(tmp_path / "w", tmp_path / "state", repos=["first", "second"])


@pytest.mark.contract("V-086", "V-161", "V-031")
def test_one_repository_of_two_changed(two: tuple[GitRepo, GitRepo, Captures]) -> None:
    """A new checkpoint has a ref in both; in the one that didn't change it holds the same commit as before."""
    first, second, captures = two
    before = captures.take(repo="first")
    first.write("README.md", "edited\n")
    after = captures.take(repo="first")
    assert after.id == "k2"
    assert after.commit != before.commit
    held = second.refs()
    assert held["refs/venom/checkpoints/a1/1"] == held["refs/venom/checkpoints/a1/2"]
    assert first.refs()["refs/venom/checkpoints/a1/2"] == after.commit


def test_reuse_needs_the_ref_in_every_repository(two: tuple[GitRepo, GitRepo, Captures]) -> None:
    """Where one repository has lost the ref, the checkpoint isn't whole any more, and a new one is made in both."""
    first, second, captures = two
    captures.take(repo="first")
    second.git("update-ref", "-d", "refs/venom/checkpoints/a1/1")
    again = captures.take(repo="first")
    assert (again.id, again.reused) == ("k2", False)
    assert "refs/venom/checkpoints/a1/2" in first.refs()
    assert "refs/venom/checkpoints/a1/2" in second.refs()


# --- turns ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-090", "V-092", "V-013", "V-056")
def test_through_turn_is_the_last_turn_that_had_ended(repo: GitRepo, captures: Captures) -> None:
    """Null before the first, the turn itself at its end, and in the middle of one the turn before, marked as such."""

    def through(checkpoint: str) -> tuple[object, object, object]:
        record = captures.shot(checkpoint).record
        return record["through_turn"], record["mid_turn"], record.get("turn")

    turn = captures.agent.begin_turn()
    repo.write("README.md", "half\n")
    middle = captures.take("half way")
    repo.write("README.md", "whole\n")
    turn.end()
    repo.write("README.md", "by hand\n")
    between = captures.take()
    second = captures.agent.begin_turn()
    repo.write("README.md", "half again\n")
    middle_of_second = captures.take()
    second.end()
    assert through("k1") == (None, False, "t1")
    assert through(middle.id) == (None, True, "t1")
    assert through("k3") == ("t1", False, "t1")
    assert through(between.id) == ("t1", False, None)
    assert through(middle_of_second.id) == ("t1", True, "t2")
    assert records(captures, "checkpoint.reused")[-1]["through_turn"] == "t2"
