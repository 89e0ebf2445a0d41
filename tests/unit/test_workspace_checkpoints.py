"""Checkpoints as a caller sees them: the list and its members, what is reused, differences and patches, and refs that went away."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

import pytest

from support.git_repo import GitRepo
from support.replay import Log
from turnback import NotFound, TurnbackError, Workspace

if TYPE_CHECKING:
    from pathlib import Path

    from turnback import Agent

HIDDEN = "refs/venom/checkpoints/a1/"


@pytest.fixture
def workspace(repo: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(repo.path, state_dir=tmp_path / "state")


@pytest.fixture
def agent(workspace: Workspace) -> Agent:
    return workspace.add_agent("a1")


def code_of(call: Any) -> str:
    with pytest.raises(TurnbackError) as caught:
        call()
    return caught.value.code


# --- the list -----------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-010", "V-011", "V-012", "V-013", "V-154", "V-156", "V-157", "V-391", "V-402")
def test_the_list_in_json(repo: GitRepo, agent: Agent) -> None:
    """The list as JSON has exactly the members of the contract, in its order, newest first."""
    with agent.turn():
        repo.write("src/main.py", "print('two')\n")
    agent.checkpoint("a label")
    found = json.loads(agent.checkpoints().to_json())
    assert list(found) == ["agent", "pending", "checkpoints"]
    assert (found["agent"], found["pending"]) == ("a1", False)
    assert [item["checkpoint"] for item in found["checkpoints"]] == ["k2", "k1"]
    newest, oldest = found["checkpoints"]
    members = ["checkpoint", "reason", "turn", "through_turn", "at", "mid_turn", "overlap", "conversation"]
    assert list(newest) == [*members, "label", "repos"]
    assert list(oldest) == [*members, "repos"]
    assert (newest["turn"], newest["through_turn"], newest["label"]) == ("t1", "t1", "a label")
    assert (oldest["turn"], oldest["through_turn"]) == ("t1", None)
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}Z", newest["at"])
    (row,) = newest["repos"]
    assert row == {
        "repo": ".",
        "path": str(repo.path),
        "commit": repo.text("rev-parse", f"{HIDDEN}2"),
        "head": repo.text("rev-parse", "HEAD"),
        "branch": "main",
        "skipped": [],
        "submodules": [],
    }


@pytest.mark.contract("V-146", "V-156")
def test_head_in_its_other_states(repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """A detached HEAD has no branch; a repository without a commit has no head, and HEAD stays unborn."""
    repo.git("switch", "-q", "--detach")
    agent.checkpoint()
    row = agent.checkpoints().checkpoints[0].repos[0]
    assert "branch" not in row
    assert row["head"] == repo.text("rev-parse", "HEAD")
    fresh = GitRepo.init(tmp_path / "fresh")
    fresh.write("file", "one")
    unborn = Workspace.open(fresh.path, state_dir=tmp_path / "state2").add_agent("a1")
    unborn.checkpoint()
    row = unborn.checkpoints().checkpoints[0].repos[0]
    assert (row["head"], row["branch"]) == (None, "main")
    assert fresh.text("rev-list", "--parents", f"{HIDDEN}1").split() == [row["commit"]]
    assert fresh.git("rev-parse", "-q", "--verify", "HEAD", check=False) == b""


@pytest.mark.contract("V-390")
def test_paging_and_filtering(repo: GitRepo, agent: Agent) -> None:
    """``limit`` and ``before`` page through the list from the newest on; ``turn`` chooses by the checkpoint's turn."""
    for number in range(1, 4):
        with agent.turn():
            repo.write("file", f"{number}")
    names = [row.checkpoint for row in agent.checkpoints().checkpoints]
    assert names == ["k4", "k3", "k2", "k1"]
    pages, before = [], None
    while page := agent.checkpoints(before=before, limit=3).checkpoints:
        pages.append([row.checkpoint for row in page])
        before = page[-1].checkpoint
    assert pages == [["k4", "k3", "k2"], ["k1"]]
    assert [row.checkpoint for row in agent.checkpoints(turn="t1").checkpoints] == ["k2", "k1"]
    assert [row.checkpoint for row in agent.checkpoints(turn="t2", before="k4").checkpoints] == ["k3"]
    assert agent.checkpoints(turn="t9").checkpoints == ()


@pytest.mark.parametrize(
    ("parameters", "code"),
    [
        ({"limit": 0}, "invalid_params.limit"),
        ({"limit": -1}, "invalid_params.limit"),
        ({"turn": "k1"}, "invalid_params.turn"),
        ({"turn": "t0"}, "invalid_params.turn"),
        ({"before": "t1"}, "invalid_params.before"),
        ({"before": ""}, "invalid_params.before"),
        ({"before": "k99"}, "not_found.checkpoint"),
    ],
)
def test_parameters_of_the_list(parameters: dict[str, Any], code: str, agent: Agent) -> None:
    """Each parameter that can't be is refused under its own name."""
    agent.checkpoint()
    assert code_of(lambda: agent.checkpoints(**parameters)) == code


@pytest.mark.contract("V-392")
def test_taking_one(repo: GitRepo, agent: Agent) -> None:
    """Asking for a checkpoint gives its id, and whether it is an earlier one."""
    assert json.loads(agent.checkpoint().to_json()) == {"agent": "a1", "checkpoint": "k1", "reused": False}
    assert json.loads(agent.checkpoint().to_json()) == {"agent": "a1", "checkpoint": "k1", "reused": True}


@pytest.mark.contract("V-080", "V-081", "V-083", "V-087")
def test_what_is_reused(workspace: Workspace, repo: GitRepo, agent: Agent) -> None:
    """Nothing changed: no ref, no id, and a label goes to the one there is. A commit without changes, or another branch, is a change."""
    agent.checkpoint()
    assert agent.checkpoint("now with a label").reused
    assert agent.checkpoint().reused
    assert agent.checkpoints().checkpoints[0].label == "now with a label"
    assert [name for name in repo.refs() if "venom" in name] == [f"{HIDDEN}1"]
    repo.commit("empty", add=False)
    assert agent.checkpoint().checkpoint == "k2"
    repo.git("switch", "-q", "-c", "other")
    assert agent.checkpoint().checkpoint == "k3"
    again = Workspace.open(repo.path, state_dir=workspace.state_dir)
    assert [row.label for row in again.agent("a1").checkpoints().checkpoints] == [
        None,
        None,
        "now with a label",
    ]


@pytest.mark.parametrize("label", ["", "  ", "x" * 201])
def test_labels_that_can_not_be(label: str, agent: Agent) -> None:
    """A label is a line in a list."""
    assert code_of(lambda: agent.checkpoint(label)) == "invalid_params.label"
    assert agent.checkpoints().checkpoints == ()


# --- refs and the log -----------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-044", "V-151", "V-152", "V-420", "V-480")
def test_a_ref_that_went_away(repo: GitRepo, agent: Agent) -> None:
    """The log says what there is: a checkpoint whose ref was deleted or moved is still listed, and not found when it is needed."""
    with agent.turn():
        repo.write("file", "one")
    repo.git("update-ref", "-d", f"{HIDDEN}1")
    repo.git("update-ref", f"{HIDDEN}2", "HEAD")
    assert [row.checkpoint for row in agent.checkpoints().checkpoints] == ["k2", "k1"]
    for checkpoint in ("k1", "k2"):
        for call in (
            lambda one=checkpoint: agent.rollback(one, restore="files", dry_run=True),
            lambda one=checkpoint: agent.checkpoint_diff(one),
        ):
            with pytest.raises(NotFound) as caught:
                call()
            assert (caught.value.code, caught.value.exit_code) == ("not_found.checkpoint", 3)
            assert caught.value.data == {"checkpoint": checkpoint, "repo": "."}
    # What the latest ref holds isn't that state any more, so it can't be reused for it.
    assert agent.checkpoint().checkpoint == "k3"


@pytest.mark.contract("V-142", "V-153", "V-159")
def test_a_ref_that_nobody_logged(repo: GitRepo, agent: Agent) -> None:
    """A stray ref is not listed and never overwritten; the next checkpoint takes the next free number."""
    stray = repo.text("rev-parse", "HEAD")
    repo.git("update-ref", f"{HIDDEN}1", stray)
    assert agent.checkpoints().checkpoints == ()
    assert agent.checkpoint().checkpoint == "k2"
    assert repo.refs()[f"{HIDDEN}1"] == stray
    assert code_of(lambda: agent.rollback("k1", restore="files", dry_run=True)) == "not_found.checkpoint"


@pytest.mark.contract("V-420")
@pytest.mark.parametrize("checkpoint", ["k2", "k999999999999999999"])
def test_a_checkpoint_that_never_was(checkpoint: str, agent: Agent) -> None:
    """A checkpoint that was never taken is not found, by every verb that takes one."""
    agent.checkpoint()
    for call in (
        lambda: agent.rollback(checkpoint, restore="files", dry_run=True),
        lambda: agent.checkpoint_diff(checkpoint),
        lambda: agent.checkpoint_diff("k1", checkpoint),
    ):
        with pytest.raises(NotFound) as caught:
            call()
        assert (caught.value.code, caught.value.data) == ("not_found.checkpoint", {"checkpoint": checkpoint})


@pytest.mark.parametrize(
    "checkpoint", ["", "1", "k", "k0", "k01", "k-1", "t1", "K1", "k1 ", "k1\n", "k" + "9" * 19, None, 1]
)
def test_what_is_no_checkpoint_id(checkpoint: Any, agent: Agent) -> None:
    """What isn't ``k`` and a number is refused before anything is looked up."""
    agent.checkpoint()
    assert code_of(lambda: agent.rollback(checkpoint, dry_run=True)) == "invalid_params.checkpoint"
    assert code_of(lambda: agent.checkpoint_diff(checkpoint)) == "invalid_params.from"
    if checkpoint is not None:
        assert code_of(lambda: agent.checkpoint_diff("k1", checkpoint)) == "invalid_params.to"


@pytest.mark.contract("V-001", "V-003", "V-038", "V-166", "V-167", "V-495")
def test_nobody_notices(repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """A capture changes nothing that git or a person shows but one hidden ref, which neither clone nor push takes along."""
    repo.write("staged", "one")
    repo.git("add", "staged")
    repo.write("staged", "two")
    repo.write("new", "untracked")
    repo.git("stash", "push", "-q", "--", "README.md", check=False)
    before = repo.snapshot_everything()
    agent.checkpoint()
    commit = repo.text("rev-parse", f"{HIDDEN}1")
    assert before.changes(repo.snapshot_everything()) == [f"ref {HIDDEN}1: None -> {commit}"]
    assert repo.text("branch", "--all", "--contains", commit) == ""
    assert commit in repo.text("log", "--all", "--format=%H").splitlines()
    assert commit not in repo.text("log", "--branches", "--tags", "--format=%H").splitlines()
    bare = GitRepo(tmp_path / "bare")
    repo.git("clone", "-q", "--bare", ".", str(bare.path))
    repo.git("push", "-q", "--all", str(bare.path))
    assert not any("venom" in name for name in bare.refs())
    repo.git("push", "-q", "--mirror", str(bare.path))
    assert bare.refs()[f"{HIDDEN}1"] == commit


@pytest.mark.contract("V-138", "V-139", "V-140", "V-141", "V-130")
def test_the_commit(repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """The commit is by the tool's own identity, unsigned, on top of HEAD, with trailers; no hook runs and no identity is needed."""
    repo.git("config", "commit.gpgsign", "true")
    repo.git("config", "user.useConfigOnly", "true")
    marker = tmp_path / "ran"
    for hook in ("reference-transaction", "post-commit", "pre-commit", "post-index-change"):
        repo.write(f".git/hooks/{hook}", f"#!/bin/sh\ntouch {marker}\n", mode=0o755)
    with agent.turn("go"):
        repo.write("file", "one")
    assert not marker.exists()
    shown = repo.text("log", "-1", "--format=%an <%ae>|%cn <%ce>|%P|%s|%(trailers:unfold)", f"{HIDDEN}2")
    who = "venom <venom@localhost>"
    trailers = "Venom-Agent: a1\nVenom-Checkpoint: k2\nVenom-Reason: turn_end\nVenom-Turn: t1"
    assert shown.rstrip() == f"{who}|{who}|{repo.text('rev-parse', 'HEAD')}|venom checkpoint a1/k2|{trailers}"


# --- differences ------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-393", "V-394", "V-402")
def test_a_difference_in_json(repo: GitRepo, agent: Agent) -> None:
    """Between two checkpoints each path has its change and its lines; binary files have none; equal ones aren't there."""
    repo.write("binary", b"\0one")
    repo.write("link-to-be", "a file")
    agent.checkpoint()
    repo.write("src/main.py", "print('one')\nprint('two')\n")
    repo.delete("README.md")
    repo.write("new/file", "1\n2\n3\n")
    repo.write("binary", b"\0two")
    repo.delete("link-to-be")
    repo.link("link-to-be", "README.md")
    repo.write(b"caf\xe9", "x\n")
    agent.checkpoint()
    found = json.loads(agent.checkpoint_diff("k1", "k2").to_json())
    assert list(found) == ["files"]
    rows = {row["path"]: row for row in found["files"]}
    assert {
        name: (row["change"], row["added"], row["removed"], row["binary"]) for name, row in rows.items()
    } == {
        "src/main.py": ("modify", 1, 0, False),
        "README.md": ("delete", 0, 1, False),
        "new/file": ("create", 3, 0, False),
        "binary": ("modify", 0, 0, True),
        "link-to-be": ("modify", 1, 1, False),
        "caf\ufffd": ("create", 1, 0, False),
    }
    assert set(rows["binary"]) == {"repo", "path", "change", "added", "removed", "binary"}
    assert rows["caf\ufffd"]["path_b64"] == "Y2Fm6Q=="
    backwards = agent.checkpoint_diff("k2", "k1").files
    assert {(row.path, row.added, row.removed) for row in backwards} >= {("src/main.py", 0, 1)}
    assert agent.checkpoint_diff("k1", "k1").files == ()


@pytest.mark.contract("V-393")
def test_a_difference_to_the_files_of_now(repo: GitRepo, agent: Agent) -> None:
    """Without a second checkpoint the files are compared as they are, and that leaves no ref and no record."""
    agent.checkpoint()
    repo.write("src/main.py", "print('two')\n")
    repo.write("new", "x\n")
    refs = repo.refs()
    assert [(row.path, row.change) for row in agent.checkpoint_diff("k1").files] == [
        ("new", "create"),
        ("src/main.py", "modify"),
    ]
    assert repo.refs() == refs


@pytest.mark.contract("V-395")
def test_the_patch_of_one_path(repo: GitRepo, agent: Agent, tmp_path: Path) -> None:
    """With a path there is its patch as git prints it, cut at ``harness.body_max`` with its whole length told."""
    agent.checkpoint()
    repo.write("src/main.py", "print('two')\n")
    repo.write("other", "x\n")
    agent.checkpoint()
    theirs = repo.text("diff", "--no-renames", f"{HIDDEN}1", f"{HIDDEN}2", "--", "src/main.py") + "\n"
    for spelled in ("src/main.py", b"src/main.py", "./src/../src/main.py"):
        found = agent.checkpoint_diff("k1", "k2", path=spelled)
        assert [row.path for row in found.files] == ["src/main.py"]
        assert found.patch is not None
        assert json.loads(found.to_json())["patch"] == {
            "text": theirs, "truncated": False, "bytes": len(theirs)
        }  # fmt: skip
    small = Workspace.open(repo.path, state_dir=tmp_path / "state", config={"harness": {"body_max": 10}})
    patch = small.agent("a1").checkpoint_diff("k1", "k2", path="src/main.py").patch
    assert patch is not None
    assert (patch.text, patch.truncated, patch.bytes) == (theirs[:10], True, len(theirs))
    nothing = agent.checkpoint_diff("k1", "k2", path="README.md")
    assert (nothing.files, nothing.patch is not None and nothing.patch.text) == ((), "")


@pytest.mark.parametrize("path", ["", ".", "/etc/passwd", "../x", "src/../../x", "a\0b"])
def test_paths_of_a_difference(path: str, agent: Agent) -> None:
    """A path outside the tree is refused, as everywhere."""
    agent.checkpoint()
    assert code_of(lambda: agent.checkpoint_diff("k1", path=path)) == "invalid_params.path"


def test_a_difference_in_several_repositories(tmp_path: Path) -> None:
    """Every file says which repository it is in; one of them may be chosen, and must be for a patch."""
    repos = {name: GitRepo.init(tmp_path / "work" / name) for name in ("app", "lib")}
    agent = Workspace.open(tmp_path / "work", state_dir=tmp_path / "state").add_agent(
        "a1", repos=["app", "lib"]
    )
    agent.checkpoint()
    for repo in repos.values():
        repo.write("file", "x\n")
    assert [(row.repo, row.path) for row in agent.checkpoint_diff("k1").files] == [
        ("app", "file"),
        ("lib", "file"),
    ]
    assert [row.repo for row in agent.checkpoint_diff("k1", repo="lib").files] == ["lib"]
    assert code_of(lambda: agent.checkpoint_diff("k1", path="file")) == "invalid_params.repo"
    patch = agent.checkpoint_diff("k1", repo="lib", path="file").patch
    assert patch is not None
    assert "+x" in patch.text
    with pytest.raises(NotFound) as caught:
        agent.checkpoint_diff("k1", repo="other")
    assert caught.value.code == "not_found.repo"


# --- limits -------------------------------------------------------------------------------------------------------------------


@pytest.mark.contract("V-115", "V-117", "V-125", "V-126", "V-127", "V-440", "V-484")
def test_limits(repo: GitRepo, tmp_path: Path) -> None:
    """A file over the limit is left out and listed; too much together fails, with the five largest named, and leaves nothing."""
    workspace = Workspace.open(
        repo.path,
        state_dir=tmp_path / "state",
        config={"checkpoints": {"max_file_bytes": 1000, "max_total_bytes": 2000}},
    )
    agent = workspace.add_agent("a1")
    repo.write("core.dump", "x" * 1001)
    agent.checkpoint()
    row = agent.checkpoints().checkpoints[0].repos[0]
    assert row["skipped"] == [{"path": "core.dump", "bytes": 1001, "reason": "too_big"}]
    assert b"core.dump" not in repo.ls_tree(f"{HIDDEN}1")
    for number in range(7):
        repo.write(f"file-{number}", "x" * (400 + number))
    refs = repo.refs()
    with pytest.raises(TurnbackError) as caught:
        agent.checkpoint()
    assert (caught.value.code, caught.value.exit_code) == ("failed.checkpoint_too_large", 1)
    assert caught.value.data["repo"] == "."
    assert [item["path"] for item in caught.value.data["largest"]] == [f"file-{n}" for n in (6, 5, 4, 3, 2)]
    assert repo.refs() == refs
    assert Log(workspace.state_dir).of("checkpoint.failed")[0]["code"] == "failed.checkpoint_too_large"


def test_each_agent_has_its_own(workspace: Workspace, agent: Agent) -> None:
    """The checkpoints of one agent are not another's, although both have a k1 in one repository."""
    agent.checkpoint()
    other = workspace.add_agent("a2")
    assert other.checkpoints().checkpoints == ()
    assert code_of(lambda: other.rollback("k1", restore="files", dry_run=True)) == "not_found.checkpoint"
    assert code_of(lambda: other.checkpoints(before="k1")) == "not_found.checkpoint"
    assert other.checkpoint().checkpoint == "k1"
