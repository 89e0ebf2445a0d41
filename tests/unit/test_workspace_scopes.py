"""The trees that agents get: the three isolations, several repositories, and what is no scope."""

from __future__ import annotations

import os
import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from support.git_repo import GitRepo
from support.replay import Log
from turnback import InvalidParams, NotFound, TurnbackError, Unsupported, Workspace

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
