"""Two processes drive two agents in one repository at once, and threads several of them: nothing is lost, and nobody's work is called another's."""

from __future__ import annotations

import json
import os
import threading
from collections import Counter
from typing import TYPE_CHECKING

import pytest

from support.children import Child
from support.driver import Driver
from support.git_repo import GitRepo
from support.replay import Log, differing
from turnback import Workspace
from turnback.disk.lock import FileLock

if TYPE_CHECKING:
    from pathlib import Path

PROGRAM = """
import json
from support.driver import Driver
from turnback import Workspace

folder, state, agent, root, seed, seconds, commits = sys.argv[1:]
workspace = Workspace.open(folder, state_dir=state)
driver = Driver(workspace.agent(agent), root, int(seed), commits == "commits")
say("ready")
assert hear() == "go"
driver.work(float(seconds))
say(json.dumps(driver.did))
"""


def at_once(
    workspace: Workspace, roots: dict[str, str], seconds: float, *, commits: bool = False
) -> Counter[str]:
    """Let one process for each agent work for a while, all from the same moment on; what they did, together."""
    mode = "commits" if commits else "files"
    children = [
        Child(PROGRAM, workspace.folder, workspace.state_dir, agent, root, str(seed), str(seconds), mode)
        for seed, (agent, root) in enumerate(roots.items())
    ]
    try:
        for child in children:
            assert child.hear() == "ready"
        for child in children:
            child.say("go")
        did: Counter[str] = Counter()
        for child in children:
            did.update(json.loads(child.finish()))
        return did
    finally:
        for child in children:
            child.__exit__(None, None, None)


def nothing_is_left_over(workspace: Workspace, repo: GitRepo) -> None:
    """No lock of git's or ours is held or waited for, and no temporary file or holding folder is there."""
    state = workspace.state_dir
    locks = [os.path.join(state, "log.lock")]
    for folder in (os.path.join(state, "locks"), os.path.expanduser("~/.local/state/turnback/locks")):
        locks += [os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".lock")]
    for lock in locks:
        assert FileLock(lock).held_by_other() is None
        if os.path.isdir(f"{lock}.queue"):
            assert os.listdir(f"{lock}.queue") == []
    left = [name for _, _, files in os.walk(os.path.join(state, "scratch")) for name in files]
    assert left == [], "scratch folders may wait to be used again, but nothing is in them"
    common = repo.text("rev-parse", "--path-format=absolute", "--git-common-dir")
    leftovers = [
        os.path.join(folder, name)
        for top in (str(repo.path), common)
        for folder, folders, names in os.walk(top)
        for name in [*folders, *names]
        if name.endswith(".lock") or name.startswith(".turnback-tmp-") or name == "turnback"
    ]
    assert leftovers == []
    assert repo.text("fsck", "--no-dangling") == ""


def nobodys_work_is_called_anothers(workspace: Workspace, log: Log, repo: GitRepo, agent_id: str) -> int:
    """The classes in a dry run to each of the last checkpoints, held against the log judged a second time; how many paths were compared."""
    agent = workspace.agent(agent_id)
    key = next(row["trees"][0]["key"] for row in log.of("agent.added") if row["agent"] == agent_id)
    now = repo.tree_of_add_all()
    last_rollback = max((row["seq"] for row in log.of("rollback.ended")), default=0)
    foreign = (
        f"person-of-{agent_id}/".encode(),
        *(b"of-%b/" % other for other in (b"a1", b"a2") if other != agent_id.encode()),
    )
    compared = 0
    for row in agent.checkpoints(limit=25).checkpoints:
        plan = agent.rollback(
            row.checkpoint, restore="files", outside="overwrite", keep_head=True, dry_run=True
        )
        classes = {file.path.encode(): file.class_ for file in plan.repos[0].files}
        assert plan.repos[0].left == ()
        since, target = next(
            (taken["seq"], part["tree"])
            for taken in log.of("checkpoint.taken")
            if (taken["agent"], taken["checkpoint"]) == (agent_id, row.checkpoint)
            for part in taken["repos"]
        )
        assert classes.keys() == differing(repo, now, target)
        outside = log.outside(repo, key, agent_id, row.checkpoint, now)
        for path, given in classes.items():
            assert (given == "outside") == (path in outside), (row.checkpoint, path, given)
            # Without a rollback since then the names alone tell: these paths are never written in a turn of this agent.
            if since > last_rollback and path.startswith(foreign):
                assert given == "outside", (row.checkpoint, path)
            compared += 1
    return compared


def shared_tree(repo: GitRepo, tmp_path: Path, seconds: float) -> None:
    workspace = Workspace.open(repo.path, state_dir=tmp_path / "state")
    for name in ("a1", "a2"):
        workspace.add_agent(name)
    did = at_once(workspace, {"a1": str(repo.path), "a2": str(repo.path)}, seconds)
    assert did["turn"] > 4
    assert did["exact"] > 0
    log = Log(workspace.state_dir)
    assert log.is_gapless()
    assert log.of("checkpoint.failed") == []
    assert log.lost_refs(repo) == []
    assert log.turns_during_rollbacks({"a1", "a2"}) == []
    # The objects of the oracle go to a folder of its own, so the present tree is stored once more where git can compare it.
    repo.git("add", "-A")
    repo.git("write-tree")
    repo.git("reset", "-q")
    compared = [nobodys_work_is_called_anothers(workspace, log, repo, name) for name in ("a1", "a2")]
    assert all(compared)
    nothing_is_left_over(workspace, repo)


def trees_of_their_own(repo: GitRepo, tmp_path: Path, seconds: float) -> None:
    repo.git("config", "user.name", "An Agent")
    repo.git("config", "user.email", "agent@example.org")
    # Else the agents' own `git commit` starts a gc sooner or later, which packs the refs that are compared below.
    repo.git("config", "gc.auto", "0")
    workspace = Workspace.open(repo.path, state_dir=tmp_path / "state")
    roots = {}
    for name in ("a1", "a2"):
        agent = workspace.add_agent(name, isolation="worktree")
        roots[name] = str(agent.show().trees[0]["path"])
    before = repo.snapshot_everything(without=(b".git/worktrees/",))
    did = at_once(workspace, roots, seconds, commits=True)
    assert did["turn"] > 4
    assert did["exact"] > 0
    # Alone in its tree, each rollback comes out as the plan said.
    assert did["inexact"] == 0
    assert did["conflict.tree_shared"] == 0
    log = Log(workspace.state_dir)
    assert log.is_gapless()
    assert log.of("checkpoint.failed") == []
    assert log.lost_refs(repo) == []
    changes = before.changes(repo.snapshot_everything(without=(b".git/worktrees/",)))
    assert [change for change in changes if "refs/venom/" not in change] == []
    for name, root in roots.items():
        tree = GitRepo(type(tmp_path)(root))
        tree.git("add", "-A")
        tree.git("write-tree")
        assert nobodys_work_is_called_anothers(workspace, log, tree, name)
        nothing_is_left_over(workspace, tree)


@pytest.mark.contract("V-063", "V-064", "V-232", "V-239", "V-368")
def test_two_processes_in_one_tree(repo: GitRepo, tmp_path: Path) -> None:
    """Two agents that share a tree, five seconds: every record and checkpoint is there, and only work of exclusive turns is an agent's."""
    shared_tree(repo, tmp_path, 5)


@pytest.mark.contract("V-032", "V-162")
def test_two_processes_in_two_worktrees(repo: GitRepo, tmp_path: Path) -> None:
    """Two agents in worktrees of one repository, five seconds: they don't notice each other, and the person's tree notices neither."""
    trees_of_their_own(repo, tmp_path, 5)


@pytest.mark.explore
def test_two_processes_in_one_tree_for_a_minute(repo: GitRepo, tmp_path: Path) -> None:
    """The same for a minute."""
    shared_tree(repo, tmp_path, 60)


@pytest.mark.explore
def test_two_processes_in_two_worktrees_for_a_minute(repo: GitRepo, tmp_path: Path) -> None:
    """The same for a minute."""
    trees_of_their_own(repo, tmp_path, 60)


def test_eight_threads_in_four_repositories(tmp_path: Path) -> None:
    """Eight threads with an agent each, on one workspace object, two of them in each of four repositories: the same holds."""
    repos = [GitRepo.init(tmp_path / "all" / f"repo{number}") for number in range(4)]
    for repo in repos:
        repo.write("README.md", "# one of four\n")
        repo.commit()
    workspace = Workspace.open(tmp_path / "all", state_dir=tmp_path / "state")
    drivers = [
        Driver(
            workspace.add_agent(f"a{number}", repos=[f"repo{number % 4}"]),
            str(repos[number % 4].path),
            number,
        )
        for number in range(8)
    ]
    failures: list[BaseException] = []
    begin = threading.Barrier(8)

    def work(driver: Driver) -> None:
        begin.wait()
        try:
            for _ in range(12):
                driver.once()
        except BaseException as failure:  # noqa: BLE001 - told by the main thread
            failures.append(failure)

    threads = [threading.Thread(target=work, args=[driver]) for driver in drivers]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert failures == []
    log = Log(workspace.state_dir)
    assert log.is_gapless()
    assert log.of("checkpoint.failed") == []
    lost = []
    for number, repo in enumerate(repos):
        mine = Log(workspace.state_dir)
        mine.records = [
            row for row in mine.records if row["data"].get("agent") in (f"a{number}", f"a{number + 4}", None)
        ]
        lost += mine.lost_refs(repo)
        assert log.turns_during_rollbacks({f"a{number}", f"a{number + 4}"}) == []
        nothing_is_left_over(workspace, repo)
    assert lost == []
