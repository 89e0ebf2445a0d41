"""Agents and their trees: the three isolations, several repositories, what is refused, and which states follow which."""

from __future__ import annotations

import os
import shutil
import threading
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.git_repo import GitRepo
from support.replay import Log
from turnback import Conflict, InvalidParams, NotFound, Principal, TurnbackError, Unsupported, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def several(tmp_path: Path) -> tuple[Workspace, dict[str, GitRepo]]:
    """A workspace that is no repository itself and has three: ``app``, ``libs/core``, and ``libs/core/inner`` inside that."""
    repos = {}
    for name in ("app", "libs/core", "libs/core/inner"):
        repos[name] = GitRepo.init(tmp_path / "work" / name)
        repos[name].write("README.md", f"# {name}\n")
        repos[name].commit()
    return Workspace.open(tmp_path / "work", state_dir=tmp_path / "state"), repos


def code_of(call: Callable[[], object]) -> str:
    with pytest.raises(TurnbackError) as caught:
        call()
    return caught.value.code


# --- isolations ---------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-030", "V-032", "V-026", "V-155", "V-160", "V-163")
def test_in_place(workspace: Workspace, repo: GitRepo) -> None:
    """In place the tree is the repository itself, called ``.``; ids count from k1, and the refs are in the repository."""
    agent = workspace.add_agent("a1")
    for number in (1, 2, 3):
        repo.write("file", f"{number}")
        assert agent.checkpoint().checkpoint == f"k{number}"
    other = workspace.add_agent("a2")
    assert other.checkpoint().checkpoint == "k1"
    (row,) = agent.checkpoints(limit=1).checkpoints[0].repos
    assert (row["repo"], row["path"]) == (".", str(repo.path))
    names = {f"refs/venom/checkpoints/{name}" for name in ("a1/1", "a1/2", "a1/3", "a2/1")}
    assert names < repo.refs().keys()
    assert agent.show().guarded


@pytest.mark.contract("V-032", "V-162", "V-190")
def test_a_worktree_that_is_made(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A worktree is made below the state folder at a detached HEAD; its refs are the source's, and stay when it is removed."""
    repo.write("README.md", "uncommitted\n")
    agent = workspace.add_agent("a1", isolation="worktree")
    (tree,) = agent.show().trees
    assert tree["path"] == str(tmp_path / "state" / "trees" / "a1" / "repo")
    assert Path(tree["path"], "README.md").read_text() == "# a project\n"
    assert repo.text("-C", tree["path"], "rev-parse", "--abbrev-ref", "HEAD") == "HEAD"
    assert not agent.show().guarded
    Path(tree["path"], "new.txt").write_text("new")
    taken = agent.checkpoint()
    commit = agent.checkpoints().checkpoints[0].repos[0]["commit"]
    repo.git("worktree", "remove", "--force", tree["path"])
    assert repo.refs()[f"refs/venom/checkpoints/a1/{taken.checkpoint[1:]}"] == commit
    assert repo.read("README.md") == b"uncommitted\n"


def test_a_worktree_that_is_given(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A linked worktree that a person made is used as it is, with its branch."""
    repo.git("worktree", "add", "-q", "-b", "agent", str(tmp_path / "tree"))
    agent = workspace.add_agent("a1", isolation="worktree", path=tmp_path / "tree")
    agent.checkpoint()
    row = agent.checkpoints().checkpoints[0].repos[0]
    assert (row["path"], row["branch"]) == (str(tmp_path / "tree"), "agent")
    relative = workspace.add_agent("a2", isolation="worktree", path="../tree")
    assert relative.show().shared_with == ("a1",)
    assert relative.show().guarded


@pytest.mark.contract("V-032", "V-164", "V-183")
def test_a_copy_that_is_made(workspace: Workspace, repo: GitRepo) -> None:
    """A copy has its own repository: its checkpoints are there and nowhere else, and go with the folder."""
    agent = workspace.add_agent("a1", isolation="copy")
    folder = agent.show().trees[0]["path"]
    Path(folder, "new.txt").write_text("new")
    agent.checkpoint()
    assert "refs/venom/checkpoints/a1/1" in GitRepo(Path(folder)).refs()
    assert not any("venom" in name for name in repo.refs())
    shutil.rmtree(folder)
    assert code_of(agent.checkpoint) == "failed.checkpoint_git"


def test_a_copy_that_is_given(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A clone that a person made is used as it is."""
    repo.git("clone", "-q", str(repo.path), str(tmp_path / "clone"))
    agent = workspace.add_agent("a1", isolation="copy", path=str(tmp_path / "clone"))
    assert agent.checkpoint().checkpoint == "k1"
    assert not agent.show().guarded


@pytest.mark.contract("V-190", "V-193")
@pytest.mark.parametrize("isolation", ["worktree", "copy"])
def test_a_persons_own_tree_is_never_taken_for_the_agents(
    isolation: str, workspace: Workspace, repo: GitRepo, tmp_path: Path
) -> None:
    """Naming the person's own tree as a worktree or copy is refused: it would be rolled back, HEAD and all, without a guard."""
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "linked"))
    other = GitRepo.init(tmp_path / "other")
    worktrees = [repo.path, other.path, tmp_path, Path("missing")]
    for path in worktrees if isolation == "worktree" else [repo.path, tmp_path / "linked", Path("missing")]:
        with pytest.raises(InvalidParams) as caught:
            workspace.add_agent("a1", isolation=isolation, path=path)
        assert caught.value.code == "invalid_params.path"
    assert workspace.agents() == []


# --- several repositories -----------------------------------------------------------------------------------------------


@pytest.mark.contract("V-031", "V-086", "V-155", "V-161")
def test_a_checkpoint_covers_every_repository(several: tuple[Workspace, dict[str, GitRepo]]) -> None:
    """One id, one ref in each repository of the scope; the one that didn't change keeps its commit."""
    workspace, repos = several
    agent = workspace.add_agent("a1", repos=["libs/core", "app"])
    agent.checkpoint()
    repos["app"].write("README.md", "changed\n")
    agent.checkpoint()
    rows = [
        {row["repo"]: row["commit"] for row in checkpoint.repos}
        for checkpoint in agent.checkpoints().checkpoints
    ]
    assert [list(row) for row in rows] == [["app", "libs/core"]] * 2
    assert rows[0]["libs/core"] == rows[1]["libs/core"]
    assert rows[0]["app"] != rows[1]["app"]
    for name, row in (("app", rows[0]), ("libs/core", rows[0])):
        assert repos[name].refs()["refs/venom/checkpoints/a1/2"] == row[name]


def test_worktrees_of_several_repositories(
    several: tuple[Workspace, dict[str, GitRepo]], tmp_path: Path
) -> None:
    """Each repository gets a worktree of its own, also when two names come out alike."""
    workspace, _ = several
    twin = GitRepo.init(tmp_path / "work" / "libs-core")
    twin.commit()
    agent = workspace.add_agent("a1", repos=["libs/core", "libs-core"], isolation="worktree")
    folders = [tree["path"] for tree in agent.show().trees]
    assert [os.path.basename(folder) for folder in folders] == ["libs-core", "libs-core-2"]
    assert agent.checkpoint().checkpoint == "k1"


def test_a_repository_inside_another(several: tuple[Workspace, dict[str, GitRepo]]) -> None:
    """Of two repositories in one scope, one inside the other, each has its own files; an absolute path finds the inner one."""
    workspace, repos = several
    agent = workspace.add_agent("a1", repos=["libs/core", "libs/core/inner"])
    with agent.turn() as turn:
        turn.edited(str(repos["libs/core/inner"].at("README.md")), str(repos["libs/core"].at("README.md")))
        repos["libs/core/inner"].write("README.md", "inner\n")
    edits = [(row["repo"], row["paths"]) for row in Log(workspace.state_dir).of("turn.edited")]
    assert edits == [("libs/core/inner", ["README.md"]), ("libs/core", ["README.md"])]


@pytest.mark.contract("V-122", "V-483")
@pytest.mark.parametrize(
    "name", ["..", "../elsewhere", "missing", "", "a\0b", "\ud800", "link", "app/../app", "plain"]
)
def test_repositories_that_are_no_scope(
    name: str, several: tuple[Workspace, dict[str, GitRepo]], tmp_path: Path
) -> None:
    """A repository outside the workspace, a folder that is none, a name twice: refused, and nothing is added or made."""
    workspace, _ = several
    GitRepo.init(tmp_path / "elsewhere").commit()
    (tmp_path / "work" / "link").symlink_to(tmp_path / "elsewhere")
    (tmp_path / "work" / "plain").mkdir()
    for isolation in ("in_place", "worktree", "copy"):
        with pytest.raises(InvalidParams) as caught:
            workspace.add_agent("a1", repos=["app", name], isolation=isolation)
        assert caught.value.code == "invalid_params.repo"
    assert workspace.agents() == []
    # The worktree of ``app`` would have been made first: it wasn't.
    assert not (tmp_path / "state" / "trees" / "a1").exists()


def test_one_name_is_no_list(workspace: Workspace) -> None:
    """A text where a list belongs isn't taken apart into letters."""
    given: Any = "src"
    assert code_of(lambda: workspace.add_agent("a1", repos=given)) == "invalid_params.repo"


@pytest.mark.contract("V-143")
def test_never_walks_up(workspace: Workspace, repo: GitRepo) -> None:
    """A folder inside a repository is no repository: the enclosing one is not taken instead."""
    with pytest.raises(InvalidParams) as caught:
        workspace.add_agent("a1", repos=["src"])
    assert caught.value.code == "invalid_params.repo"
    assert "git init" in caught.value.message


def test_a_bare_repository(several: tuple[Workspace, dict[str, GitRepo]], tmp_path: Path) -> None:
    """A bare repository has no files to save, and is told so; so has one whose configuration says that it is bare."""
    workspace, repos = several
    repos["app"].git("clone", "-q", "--bare", ".", str(tmp_path / "work" / "bare.git"))
    repos["libs/core"].git("config", "core.bare", "true")
    for name in ("bare.git", "libs/core"):
        with pytest.raises(InvalidParams, match="bare repository") as caught:
            workspace.add_agent("a1", repos=[name])
        assert caught.value.code == "invalid_params.repo"


def test_a_repository_of_another_name(several: tuple[Workspace, dict[str, GitRepo]]) -> None:
    """Naming a repository that isn't in the agent's scope gives the ones that are."""
    workspace, _ = several
    agent = workspace.add_agent("a1", repos=["app"])
    agent.checkpoint()
    with agent.turn() as turn, pytest.raises(NotFound, match="it has app") as caught:
        turn.edited("README.md", repo="libs/core")
    assert caught.value.code == "not_found.repo"


@pytest.mark.contract("V-165", "V-438")
def test_a_workspace_without_git(tmp_path: Path) -> None:
    """Without a repository turns work and save nothing; asking for a checkpoint or a rollback says what is missing."""
    (tmp_path / "plain").mkdir()
    workspace = Workspace.open(tmp_path / "plain", state_dir=tmp_path / "state")
    agent = workspace.add_agent("a1")
    with agent.turn() as turn:
        assert (turn.checkpoint, turn.capture_failed) == (None, None)
    for call in (agent.checkpoint, lambda: agent.rollback("k1", restore="files", dry_run=True)):
        with pytest.raises(Unsupported, match="git init") as caught:
            call()
        assert (caught.value.code, caught.value.exit_code) == ("unsupported.checkpoint_no_repo", 10)
    assert list(workspace.events()) == []
    assert list((tmp_path / "plain").iterdir()) == []


# --- broad roots ----------------------------------------------------------------------------------------------------------


def test_broad_roots_are_refused(home: Path, tmp_path: Path) -> None:
    """The home folder, and a folder that holds the state folder, are no project unless somebody insists."""
    GitRepo.init(home).commit()
    around = GitRepo.init(tmp_path / "around")
    around.commit()
    for folder, state in ((home, tmp_path / "state1"), (around.path, around.path / "deep" / "state")):
        workspace = Workspace.open(folder, state_dir=state)
        with pytest.raises(InvalidParams, match="--force") as caught:
            workspace.add_agent("a1")
        assert caught.value.code == "invalid_params.repo"
        assert not state.exists()
        assert workspace.add_agent("a1", force=True).checkpoint().checkpoint == "k1"


def test_the_state_folder_itself_is_no_tree(tmp_path: Path) -> None:
    """A tree that is the state folder is refused whatever is insisted on: its own ignore file would hide everything."""
    both = GitRepo.init(tmp_path / "both")
    both.commit()
    both.path.chmod(0o700)
    workspace = Workspace.open(both.path, state_dir=both.path)
    assert code_of(lambda: workspace.add_agent("a1", force=True)) == "invalid_params.repo"
    assert {name.name for name in both.path.iterdir()} == {".git"}


def test_a_path_that_no_record_can_hold(tmp_path: Path) -> None:
    """A repository whose own path isn't UTF-8 is refused in words, before the log holds a path that isn't there."""
    odd = GitRepo.init(Path(os.fsdecode(os.fsencode(tmp_path) + b"/caf\xe9")))
    odd.commit()
    workspace = Workspace.open(odd.path, state_dir=tmp_path / "state")
    for isolation in ("in_place", "worktree"):
        with pytest.raises(InvalidParams, match="UTF-8"):
            Workspace.open(odd.path, state_dir=odd.path / "s").add_agent(
                "a1", isolation=isolation, force=True
            )
    assert workspace.agents() == []


# --- guarded, sharers, live -------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-033", "V-034", "V-196")
def test_who_shares_a_tree(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A tree is shared by the agents that aren't archived, however its path was spelled; a worktree is guarded while it is."""
    repo.git("worktree", "add", "-q", "--detach", str(tmp_path / "tree"))
    (tmp_path / "link").symlink_to(tmp_path / "tree")
    one = workspace.add_agent("a1", isolation="worktree", path=str(tmp_path / "tree"))
    assert (one.show().guarded, one.show().shared_with) == (False, ())
    two = workspace.add_agent("a2", isolation="worktree", path=str(tmp_path / "link"))
    assert (one.show().guarded, one.show().shared_with) == (True, ("a2",))
    assert (two.show().guarded, two.show().shared_with) == (True, ("a1",))
    two.archive()
    assert (one.show().guarded, one.show().shared_with) == (False, ())


@pytest.mark.contract("V-034")
def test_a_tree_that_was_put_back(workspace: Workspace, repo: GitRepo) -> None:
    """A folder that is restored from a backup has another inode and is the same tree: it is rolled back and shared as before."""
    agent = workspace.add_agent("a1")
    with agent.turn():
        repo.write("src/main.py", "print('two')\n")
    backup = repo.path.with_name("backup")
    shutil.copytree(repo.path, backup, symlinks=True)
    shutil.rmtree(repo.path)
    backup.rename(repo.path)
    assert agent.checkpoint().reused
    plan = agent.rollback("k1", restore="files", dry_run=True)
    assert [(row.path, row.class_) for row in plan.repos[0].files] == [("src/main.py", "turn")]
    assert agent.rollback("k1", restore="files", plan=plan.plan).exact
    assert workspace.add_agent("a2").show().shared_with == ("a1",)


@pytest.mark.contract("V-035")
@pytest.mark.parametrize(
    ("state", "live"),
    [
        ("queued", True),
        ("needs_you", True),
        ("running", True),
        ("handed_over", True),
        ("settled", False),
        ("failed", False),
    ],
)
def test_which_states_are_live(state: str, live: bool, workspace: Workspace, repo: GitRepo) -> None:
    """A sharer in one of the four live states keeps a rollback out; in any other it doesn't."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    other = workspace.add_agent("a2")
    other.set_state(state)
    if live:
        with pytest.raises(Conflict) as caught:
            agent.rollback("k1", restore="files", dry_run=True)
        assert (caught.value.code, caught.value.data) == ("conflict.tree_shared", {"agents": ["a2"]})
    else:
        assert agent.rollback("k1", restore="files", dry_run=True).shared_with == ("a2",)


# --- states ---------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-425", "V-373")
def test_archived_is_final(workspace: Workspace, repo: GitRepo) -> None:
    """An archived agent does nothing more and changes no more; what it saved stays listed."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    agent.archive()
    calls: list[Callable[[], object]] = [
        agent.begin_turn,
        agent.checkpoint,
        agent.archive,
        lambda: agent.set_state("settled"),
        lambda: agent.rollback("k1", restore="files", dry_run=True),
    ]
    for call in calls:
        with pytest.raises(Conflict) as caught:
            call()
        assert (caught.value.code, caught.value.exit_code) == ("conflict.invalid_transition", 5)
    assert [row.checkpoint for row in agent.checkpoints().checkpoints] == ["k1"]
    assert agent.show().state == "archived"


def test_states_while_a_turn_runs(workspace: Workspace) -> None:
    """While a turn runs the agent waits for a person or runs, and nothing else: a rollback must not think that it has settled."""
    agent = workspace.add_agent("a1")
    with agent.turn():
        for state in ("settled", "failed", "queued", "handed_over", "archived"):
            with pytest.raises(Conflict, match="end the turn first") as caught:
                agent.set_state(state)
            assert caught.value.code == "conflict.turn_running"
        agent.set_state("needs_you")
        assert agent.show().state == "needs_you"
        agent.set_state("running")
    assert agent.show().state == "settled"


def test_states_that_do_not_exist(workspace: Workspace) -> None:
    """A word that is no state is refused, with the ones that are; telling the same state twice logs it once."""
    agent = workspace.add_agent("a1")
    with pytest.raises(InvalidParams, match="queued, running") as caught:
        agent.set_state("asleep")
    assert caught.value.code == "invalid_params.state"
    agent.set_state("queued")
    agent.set_state("queued")
    assert len(Log(workspace.state_dir).of("agent.state")) == 1


@pytest.mark.contract("V-428", "V-365")
def test_stale_requests(workspace: Workspace) -> None:
    """Stale requests keep a rollback out until the list is empty again; a text is no list."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    agent.set_stale_requests(["r1", "r2"])
    with pytest.raises(Conflict) as caught:
        agent.rollback("k1", restore="files", dry_run=True)
    assert (caught.value.code, caught.value.data) == ("conflict.stale_requests", {"requests": ["r1", "r2"]})
    given: Any = "r1"
    assert code_of(lambda: agent.set_stale_requests(given)) == "invalid_params.requests"
    agent.set_stale_requests([])
    assert agent.rollback("k1", restore="files", dry_run=True).plan


# --- ids, parents, handles --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "name", ["", "A1", "a/b", "a.lock", "..", "-a", "a b", "é", "a" * 65, "a\n", None, 7]
)
def test_ids_that_can_not_be(name: Any, workspace: Workspace, repo: GitRepo) -> None:
    """What could be no part of a ref or a file name is no agent id, in any verb that takes one."""
    before = repo.refs()
    for call in (
        lambda: workspace.add_agent(name),
        lambda: workspace.agent(name),
        lambda: Principal.agent(name),
        lambda: workspace.add_agent("a1", parent=name or ""),
    ):
        assert code_of(call) == "invalid_params.agent"
    assert repo.refs() == before


@pytest.mark.parametrize("name", ["a", "0", "a" * 64, "a-b_c", "9-"])
def test_ids_that_can_be(name: str, workspace: Workspace, repo: GitRepo) -> None:
    """The whole range of ids makes refs that git takes."""
    workspace.add_agent(name).checkpoint()
    assert f"refs/venom/checkpoints/{name}/1" in repo.refs()


def test_an_id_that_is_taken(workspace: Workspace, repo: GitRepo, tmp_path: Path) -> None:
    """A second agent of the same id is refused, also when its worktree would have been made already: that is taken away again."""
    agent = workspace.add_agent("a1")
    with pytest.raises(Conflict) as caught:
        workspace.add_agent("a1")
    assert (caught.value.code, caught.value.data) == ("conflict.agent_exists", {"agent": "a1"})
    # Two processes at the same moment: both find the id free, one of them gets it.
    before = repo.text("worktree", "list")
    begin = threading.Barrier(4)
    outcomes = []

    def add() -> None:
        mine = Workspace.open(repo.path, state_dir=workspace.state_dir)
        begin.wait()
        try:
            mine.add_agent("a2", isolation="worktree")
            outcomes.append("added")
        except TurnbackError as error:
            outcomes.append(error.code)

    threads = [threading.Thread(target=add) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert outcomes.count("added") == 1
    assert set(outcomes) <= {"added", "conflict.agent_exists", "failed.worktree"}
    assert len(repo.text("worktree", "list").splitlines()) == len(before.splitlines()) + 1
    assert len(list((tmp_path / "state" / "trees" / "a2").iterdir())) == 1
    assert agent.show().agent == "a1"


@pytest.mark.contract("V-399")
def test_parents_and_children(workspace: Workspace) -> None:
    """A parent must exist; its children are listed, and shown in what a rollback doesn't touch."""
    with pytest.raises(NotFound) as caught:
        workspace.add_agent("a2", parent="a1")
    assert (caught.value.code, caught.value.exit_code) == ("not_found.agent", 3)
    parent = workspace.add_agent("a1")
    workspace.add_agent("a2", parent="a1", isolation="worktree")
    assert parent.show().children == ("a2",)
    parent.checkpoint()
    assert parent.rollback("k1", restore="files", dry_run=True).children == ("a2",)


def test_an_unknown_agent(workspace: Workspace) -> None:
    """An agent that was never added is not found, by a sentence that says how to list them; nothing is made for asking."""
    with pytest.raises(NotFound, match="turnback agent list") as caught:
        workspace.agent("a9")
    assert (caught.value.code, caught.value.exit_code) == ("not_found.agent", 3)
    assert not os.path.lexists(workspace.state_dir)


def test_another_process_sees_the_same_agents(workspace: Workspace, repo: GitRepo) -> None:
    """Whoever opens the workspace finds the agents, in the order they were added, with everything about them."""
    for name in ("b", "a", "c"):
        workspace.add_agent(name)
    again = Workspace.open(repo.path, state_dir=workspace.state_dir)
    assert [agent.id for agent in again.agents()] == ["b", "a", "c"]
    assert again.agent("a").show() == workspace.agent("a").show()
    again.add_agent("d")
    assert [agent.id for agent in workspace.agents()] == ["b", "a", "c", "d"]


def test_what_a_caller_is_given_is_its_own(workspace: Workspace, repo: GitRepo) -> None:
    """Changing a result changes nothing but the result: the log's state is not in the caller's hands."""
    agent = workspace.add_agent("a1")
    agent.checkpoint()
    row = agent.checkpoints().checkpoints[0].repos[0]
    row["commit"] = "0" * 40
    row["skipped"].append("x")
    again = agent.checkpoints().checkpoints[0].repos[0]
    assert again["commit"] == repo.refs()["refs/venom/checkpoints/a1/1"]
    assert again["skipped"] == []
