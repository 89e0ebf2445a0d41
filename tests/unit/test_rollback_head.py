"""HEAD, the branch and the index: moved back in an unguarded tree and only where nothing is lost by it, never in a guarded one (7.5)."""

import subprocess
from pathlib import Path
from typing import Any

import pytest

from support.git_repo import GitRepo
from support.rollbacks import Scene, steps
from turnback.errors import Conflict
from turnback.native import moves


@pytest.fixture
def scene(tmp_path: Path) -> Scene:
    """An agent in a worktree; k1 is before its first turn, in which it commits twice and changes one more file."""
    made = Scene.worktree(tmp_path, {"a": "1\n", "b": "1\n", "c": "1\n"})
    with made.turn():
        made.put({"a": "2\n"})
        made.tree.commit("second")
        made.put({"b": "2\n"})
        made.tree.commit("third")
        made.put({"c": "2\n", "new": "new\n"})
    return made


def status(tree: GitRepo) -> list[str]:
    return tree.text("status", "--porcelain").splitlines()


def refused(scene: Scene, **choices: Any) -> Conflict:
    """The conflict that a dry run of k1 ends with; nothing has changed then."""
    before = scene.tree.snapshot_everything(), scene.log()
    with pytest.raises(Conflict) as error:
        scene.plan("k1", **choices)
    assert (scene.tree.snapshot_everything(), scene.log()) == before
    return error.value


# --- it moves --------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-190", "V-193", "V-194", "V-257", "V-281", "V-282", "V-284", "V-292")
def test_the_branch_and_the_index_go_back_with_the_files(scene: Scene) -> None:
    """Two commits are dropped: the branch stands where it stood, git status is clean, and the commits stay reachable."""
    tip, base = scene.tree.text("rev-parse", "HEAD"), scene.tree.text("rev-parse", "HEAD~2")
    plan = scene.plan("k1")
    assert plan.guarded is False
    assert plan.repos[0].head.to_dict() == {"moves": True, "from": tip, "to": base, "commits": 2}
    done = scene.back("k1")
    assert done.exact
    assert done.repos[0].head.to_dict() == {"moves": True, "from": tip, "to": base, "commits": 2}
    assert scene.tree.text("symbolic-ref", "HEAD") == "refs/heads/work"
    assert scene.tree.text("rev-parse", "HEAD", "work") == f"{base}\n{base}"
    assert status(scene.tree) == []
    assert scene.tree.text("diff-files") == "", "no entry of the index is stale"
    assert scene.tree.text("reflog", "-1", "--format=%gs", "work") == "venom rollback a2"
    assert scene.tree.text("reflog", "-1", "--format=%gs", "HEAD") == "venom rollback a2"
    assert {name: scene.tree.read(name) for name in "abc"} == dict.fromkeys("abc", b"1\n")
    assert not scene.tree.exists("new")
    scene.tree.git("reflog", "expire", "--expire=now", "--all")
    unreachable = scene.tree.text("fsck", "--unreachable", "--no-reflogs")
    assert tip not in unreachable, "the safety checkpoint holds the dropped commits"
    assert scene.tree.text("rev-parse", f"refs/venom/checkpoints/a2/{done.safety[1:]}^") == tip


@pytest.mark.contract("V-282")
def test_the_new_index_is_valid_to_its_last_byte(scene: Scene) -> None:
    """git's own checks find nothing, a commit on top of it holds exactly the tree, and its folders are cached."""
    scene.back("k1")
    scene.tree.git("fsck", "--strict")
    assert scene.tree.text("write-tree") == scene.tree.text("rev-parse", "HEAD^{tree}")
    scene.tree.write("a", "5\n")
    assert status(scene.tree) == [" M a"]
    scene.tree.commit("after")
    assert scene.tree.text("diff", "--name-only", "HEAD~1") == "a"


@pytest.mark.contract("V-283")
def test_a_detached_head_moves_and_no_branch_does(tmp_path: Path) -> None:
    """Detached at the checkpoint and now: HEAD itself goes back."""
    scene = Scene.worktree(tmp_path)
    scene.tree.git("checkout", "-q", "--detach")
    base = scene.tree.text("rev-parse", "HEAD")
    with scene.turn():
        scene.put({"README.md": "2\n"})
        scene.tree.commit("second")
    branches = scene.tree.text("for-each-ref", "refs/heads")
    done = scene.back("k1")
    assert done.repos[0].head.moves
    assert scene.tree.text("rev-parse", "HEAD") == base
    assert scene.tree.git("symbolic-ref", "-q", "HEAD", check=False) == b""
    assert scene.tree.text("for-each-ref", "refs/heads") == branches
    assert status(scene.tree) == []


@pytest.mark.contract("V-285")
def test_nothing_moves_when_head_is_where_it_was(tmp_path: Path) -> None:
    """Only files differ: HEAD, the reflog and the index stay untouched, on any branch that has the same commit."""
    scene = Scene.worktree(tmp_path)
    with scene.turn():
        scene.put({"README.md": "2\n"})
        scene.tree.git("add", "README.md")
        scene.tree.git("switch", "-q", "-c", "other")
    index = (scene.tree.git_dir / "index").read_bytes()
    reflog = scene.tree.text("reflog")
    done = scene.back("k1")
    head = scene.tree.text("rev-parse", "HEAD")
    assert done.repos[0].head.to_dict() == {"moves": False, "from": head, "to": head, "commits": 0}
    assert (scene.tree.git_dir / "index").read_bytes() == index
    assert scene.tree.text("reflog") == reflog
    assert scene.tree.text("symbolic-ref", "HEAD") == "refs/heads/other"


# --- it may not move -------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-211", "V-280", "V-287", "V-433")
@pytest.mark.parametrize("how", ["amended", "rebased"])
def test_a_rewritten_history_refuses(scene: Scene, how: str) -> None:
    """The checkpoint's commit is no ancestor any more: ``head_moved`` with both commits and the branch."""
    if how == "amended":
        scene.tree.git("reset", "-q", "--soft", "HEAD~2")
        scene.tree.git("commit", "-q", "--amend", "-m", "amended")
    else:
        scene.tree.git("stash", "-q", "-u")
        scene.tree.git(
            "rebase",
            "-q",
            "--root",
            "--force-rebase",
            "HEAD",
            extra={"GIT_COMMITTER_DATE": "2027-01-01T00:00:00Z"},
        )
        scene.tree.git("branch", "-f", "work-copy")
        scene.tree.git("switch", "-q", "-C", "work")
        scene.tree.git("stash", "pop", "-q")
    row = scene.agent.checkpoints().checkpoints[-1].repos[0]
    error = refused(scene)
    assert error.code == "conflict.head_moved"
    assert error.data == {
        "repo": ".",
        "expected": row["head"],
        "actual": scene.tree.text("rev-parse", "HEAD"),
        "branch": "work",
    }


@pytest.mark.contract("V-286", "V-290")
def test_another_branch_refuses_and_keep_head_gets_past_it(scene: Scene) -> None:
    """With --keep-head the files go back, HEAD stays, and the dropped changes show as uncommitted reversals."""
    scene.tree.git("switch", "-q", "-c", "elsewhere")
    tip = scene.tree.text("rev-parse", "HEAD")
    error = refused(scene)
    assert (error.code, error.data["branch"]) == ("conflict.head_moved", "elsewhere")
    index = (scene.tree.git_dir / "index").read_bytes()
    done = scene.back("k1", keep_head=True)
    assert done.repos[0].head.to_dict() == {"moves": False, "from": tip, "to": tip, "commits": 0}
    assert scene.tree.text("rev-parse", "HEAD") == tip
    assert (scene.tree.git_dir / "index").read_bytes() == index
    assert status(scene.tree) == [" M a", " M b"]


@pytest.mark.contract("V-289", "V-290", "V-434")
def test_a_pushed_commit_refuses(scene: Scene, tmp_path: Path) -> None:
    """One of two dropped commits is on a remote: ``commits_pushed`` names it and the ref, offline; --keep-head gets past it."""
    GitRepo.init(tmp_path / "remote", "--bare")
    scene.tree.git("remote", "add", "origin", str(tmp_path / "remote"))
    pushed = scene.tree.text("rev-parse", "HEAD~1")
    scene.tree.git("push", "-q", "origin", f"{pushed}:refs/heads/work")
    (tmp_path / "remote").rename(tmp_path / "offline")
    error = refused(scene)
    assert error.code == "conflict.commits_pushed"
    assert error.data == {"repo": ".", "commits": [pushed], "refs": ["refs/remotes/origin/work"]}
    assert scene.back("k1", keep_head=True).exact


@pytest.mark.contract("V-288")
def test_a_checkpoint_without_a_commit_refuses(tmp_path: Path) -> None:
    """The repository had no commit at the checkpoint and has one now: ``head_moved`` with ``expected`` null."""
    source = GitRepo.init(tmp_path / "app")
    GitRepo.init(tmp_path / "copy")
    copy = GitRepo(tmp_path / "copy")
    copy.write("a", "1\n")
    scene = Scene(tmp_path, source, copy, "a2", None)
    scene.agent = scene.ws.add_agent("a2", repos=["."], isolation="copy", path=str(copy.path))
    with scene.turn():
        copy.commit("first")
        scene.put({"a": "2\n"})
    error = refused(scene)
    assert error.code == "conflict.head_moved"
    assert error.data["expected"] is None
    assert error.data["actual"] == copy.text("rev-parse", "HEAD")
    done = scene.back("k1", keep_head=True)
    assert done.exact
    assert copy.read("a") == b"1\n"


def test_an_unborn_repository_goes_back_and_stays_unborn(tmp_path: Path) -> None:
    """No commit then, none now: files go back, HEAD is null on both sides, and there is still no index."""
    source = GitRepo.init(tmp_path / "app")
    source.write("a", "1\n")
    scene = Scene(tmp_path, source, source, "a5", None)
    scene.agent = scene.ws.add_agent("a5")
    scene.changes({"a": "2\n", "b": "new\n"})
    done = scene.back("k1")
    assert done.exact
    assert done.repos[0].head.to_dict() == {"moves": False, "from": None, "to": None, "commits": 0}
    assert scene.contents().keys() == {b"a"}
    assert not (source.git_dir / "index").exists()


# --- guarded ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-042", "V-193", "V-194", "V-261", "V-291")
def test_a_guarded_tree_keeps_head_branch_and_index(tmp_path: Path) -> None:
    """In place the files go back past two commits, an amend and a push, and git's own files aren't touched."""
    scene = Scene.in_place(tmp_path, {"a": "1\n", "b": "1\n"})
    with scene.turn():
        scene.put({"a": "2\n"})
        scene.tree.commit("second")
        scene.tree.git("commit", "-q", "--amend", "-m", "amended")
        scene.put({"b": "2\n"})
        scene.tree.git("add", "b")
    without = [b".git/turnback"]
    before = scene.tree.snapshot_everything(without)
    done = scene.back("k1")
    assert done.exact
    after = scene.tree.snapshot_everything(without)
    assert [
        change
        for change in before.changes(after)
        if ".git" in change and not change.startswith("ref refs/venom")
    ] == []
    assert {name: scene.tree.read(name) for name in "ab"} == {"a": b"1\n", "b": b"1\n"}
    assert not (scene.tree.git_dir / "turnback").exists()


# --- the index is somebody's work ------------------------------------------------------------------------------------


def test_flags_of_entries_that_survive_are_kept(tmp_path: Path) -> None:
    """skip-worktree and assume-unchanged marks stay over a move; an intent to add a file that isn't there any more goes."""
    scene = Scene.worktree(tmp_path, {"a": "1\n", "skipped": "1\n", "assumed": "1\n", "plain": "1\n"})
    scene.tree.git("update-index", "--skip-worktree", "skipped")
    scene.tree.git("update-index", "--assume-unchanged", "assumed")
    with scene.turn():
        scene.put({"a": "2\n", "fresh": "new\n"})
        scene.tree.commit("second")
        scene.put({"later": "new\n"})
        scene.tree.git("add", "-N", "later")
    done = scene.back("k1")
    assert done.exact
    assert scene.tree.text("ls-files", "-v").splitlines() == ["H a", "h assumed", "H plain", "S skipped"]
    assert status(scene.tree) == []


def test_permission_bits_of_the_index_are_kept(scene: Scene) -> None:
    """An index that only its owner may read stays so."""
    place = scene.tree.git_dir / "index"
    place.chmod(0o600)
    scene.back("k1")
    assert place.stat().st_mode & 0o777 == 0o600


def test_what_only_the_index_held_is_kept(scene: Scene) -> None:
    """Staged, and then changed again in the file: no checkpoint has that content, so it is kept, and plan and result say so."""
    scene.put({"c": "only staged\n"})
    scene.tree.git("add", "c")
    scene.put({"c": "2\n"})
    index = (scene.tree.git_dir / "index").read_bytes()
    plan = scene.plan("k1")
    assert plan.repos[0].warnings is not None
    assert "c is staged" in plan.repos[0].warnings[0]
    done = scene.back("k1")
    started = [record for record in scene.ws._context.log.records() if record.type == "rollback.started"][-1]
    kept = started.data["repos"][0]["index"]
    assert scene.pool(kept["sha256"]) == index
    assert [row["path"] for row in kept["staged"]] == ["c"]
    assert scene.pool(kept["staged"][0]["sha256"]) == b"only staged\n"
    assert done.repos[0].warnings is not None
    assert kept["staged"][0]["sha256"] in done.repos[0].warnings[0]


def test_a_git_command_at_work_refuses_the_rollback(scene: Scene) -> None:
    """Somebody holds the index's lock: ``conflict.index_locked``, nothing has changed, and the lock is still theirs."""
    plan = scene.plan("k1").plan
    lock = scene.tree.git_dir / "index.lock"
    lock.write_bytes(b"")
    before = scene.tree.snapshot_everything(), scene.log()
    with pytest.raises(Conflict) as error:
        scene.agent.rollback("k1", restore="files", plan=plan)
    assert error.value.code == "conflict.index_locked"
    assert (scene.tree.snapshot_everything(), scene.log()) == before
    lock.unlink()
    assert scene.agent.rollback("k1", restore="files", plan=plan).exact


def test_a_locked_branch_refuses_the_rollback(scene: Scene) -> None:
    """Somebody holds the branch's lock: ``conflict.branch_locked``, nothing has changed, and the index isn't locked any more."""
    plan = scene.plan("k1").plan
    lock = scene.source.git_dir / "refs/heads/work.lock"
    lock.write_bytes(b"")
    before = scene.tree.snapshot_everything(), scene.log()
    with pytest.raises(Conflict) as error:
        scene.agent.rollback("k1", restore="files", plan=plan)
    assert error.value.code == "conflict.branch_locked"
    assert (scene.tree.snapshot_everything(), scene.log()) == before
    assert not (scene.tree.git_dir / "index.lock").exists()
    lock.unlink()
    assert scene.agent.rollback("k1", restore="files", plan=plan).exact


def test_git_can_change_neither_branch_nor_index_while_files_are_written(
    scene: Scene, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Both locks are held from before the first write: a commit, an add, a switch and a branch move by somebody else fail, and the rollback goes on."""
    said = []
    real = moves.exchange

    def meddle(*arguments: Any) -> bool:
        for command in (
            ["add", "c"],
            ["commit", "-q", "-m", "x", "--allow-empty"],
            ["branch", "-f", "work", "HEAD~1"],
            ["symbolic-ref", "HEAD", "refs/heads/main"],
        ):
            done = subprocess.run(
                ["git", "-C", str(scene.tree.path), *command], capture_output=True, text=True
            )
            said.append(done.returncode)
        moved = subprocess.run(
            ["git", "-C", str(scene.source.path), "update-ref", "refs/heads/work", "HEAD"],
            capture_output=True,
        )
        said.append(moved.returncode)
        return real(*arguments)

    monkeypatch.setattr("turnback.operations.apply.exchange", meddle)
    done = scene.back("k1")
    assert done.exact
    assert said
    assert 0 not in said
    assert status(scene.tree) == []


@pytest.mark.contract("V-225", "V-281")
def test_a_commit_after_the_dry_run_makes_the_plan_stale(scene: Scene) -> None:
    """The branch moved on between the calls: ``rollback_stale``, and it stays where it is."""
    plan = scene.plan("k1").plan
    tip = scene.tree.commit("another", add=False)
    with pytest.raises(Conflict) as error:
        scene.agent.rollback("k1", restore="files", plan=plan)
    assert error.value.code == "conflict.rollback_stale"
    assert scene.tree.text("rev-parse", "HEAD") == tip


@pytest.mark.contract("V-209", "V-370", "V-431")
@pytest.mark.parametrize("operation", ["merge", "rebase", "cherry-pick", "revert", "bisect", "unmerged"])
def test_an_operation_under_way_refuses(scene: Scene, operation: str) -> None:
    """A half-done merge, rebase, cherry-pick, revert, bisect or stash pop: ``git_operation`` names it, in a linked worktree too."""
    tree = scene.tree
    tree.git("stash", "-q", "-u")
    tree.git("switch", "-q", "-c", "theirs", "HEAD~2")
    tree.write("a", "theirs\n")
    tree.commit("theirs")
    tree.git("switch", "-q", "work")
    if operation == "unmerged":
        tree.write("a", "stashed\n")
        tree.git("stash", "-q")
        tree.write("a", "mine\n")
        tree.commit("mine")
        tree.git("stash", "pop", "-q", check=False)
    elif operation == "bisect":
        tree.git("bisect", "start", "-q", "HEAD", "HEAD~2")
    elif operation == "revert":
        tree.write("a", "mine\n")
        tree.commit("mine")
        tree.git("revert", "--no-edit", "HEAD~2", check=False)
    else:
        tree.git(operation, "theirs", check=False)
    expected = refused(scene)
    assert expected.code == "conflict.git_operation"
    assert expected.data == {"repo": ".", "operation": operation}


def test_two_repositories_move_together_or_not_at_all(tmp_path: Path) -> None:
    """One of two repositories has a pushed commit to drop: neither moves; with --keep-head both get their files back."""
    for name in ("one", "two"):
        made = GitRepo.init(tmp_path / "ws" / name)
        made.write("a", "1\n")
        made.commit("first")
    source = GitRepo(tmp_path / "ws")
    scene = Scene(tmp_path, source, source, "a2", None)
    scene.agent = scene.ws.add_agent("a2", repos=["one", "two"], isolation="worktree")
    trees = [GitRepo(Path(row["path"])) for row in scene.agent.show().trees]
    for tree in trees:
        tree.git("switch", "-q", "-c", "work")
    with scene.turn():
        for tree in trees:
            tree.write("a", "2\n")
            tree.commit("second")
    trees[1].git("update-ref", "refs/remotes/origin/work", "HEAD")
    assert refused_of(scene).data["repo"] == "two"
    trees[1].git("update-ref", "-d", "refs/remotes/origin/work")
    done = scene.back("k1")
    assert done.exact
    assert [row.repo for row in done.repos] == ["one", "two"]
    assert [row.head.commits for row in done.repos] == [1, 1]
    for tree, row in zip(trees, done.repos, strict=True):
        assert tree.read("a") == b"1\n"
        assert tree.text("rev-parse", "HEAD") == row.head.to
        assert status(tree) == []
        assert steps(row.files) == {"a": ("modify", "turn")}


def refused_of(scene: Scene) -> Conflict:
    with pytest.raises(Conflict) as error:
        scene.plan("k1")
    return error.value
