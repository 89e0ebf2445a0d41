"""Driven as a new user would on the checkout of a real project: turns, a person in between, and back to every checkpoint."""

from __future__ import annotations

import subprocess
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

import pytest

from support.project import binary, digests, grow, ignored, prose
from turnback import Agent, Workspace

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from support.git_repo import GitRepo
    from support.project import FileFacts

# git that looks without writing: even `git status` refreshes the index otherwise.
LOOKING = {"GIT_OPTIONAL_LOCKS": "0"}
HIDDEN = "refs/venom/checkpoints/"


@dataclass
class Diary:
    """What a checkpoint was when it was taken, written down by the test with its own means."""

    project: GitRepo
    files: dict[str, dict[bytes, FileFacts]] = field(default_factory=dict)
    status: dict[str, str] = field(default_factory=dict)

    def note(self, checkpoint: str | None) -> None:
        """Compare the checkpoint's tree with the recipe's, and write down every file."""
        assert checkpoint is not None
        oracle = self.project.tree_of_add_all()
        ref = f"{HIDDEN}a1/{checkpoint[1:]}"
        if self.project.text("rev-parse", f"{ref}^{{tree}}") != oracle:
            assert self.project.ls_tree(ref) == self.project.ls_tree_of_add_all()
        files = digests(self.project.path, without=ignored(self.project))
        known = self.files.setdefault(checkpoint, files)
        assert known == files, f"{checkpoint} was reused for another state"
        self.status[checkpoint] = status(self.project)

    def holds(self, checkpoint: str, *, beside: dict[bytes, FileFacts]) -> None:
        """Every file is as it was then, and what is ignored is as it is now."""
        now = digests(self.project.path)
        expected = {**beside, **self.files[checkpoint]}
        assert now == expected, sorted(
            path for path in now.keys() | expected.keys() if now.get(path) != expected.get(path)
        )


def status(project: GitRepo) -> str:
    return project.text("status", "--porcelain=v2", "--branch", extra=LOOKING)


def of_the_person(project: GitRepo) -> tuple[object, ...]:
    """The index, HEAD, and every ref that isn't ours."""
    refs = {name: oid for name, oid in project.refs().items() if not name.startswith(HIDDEN)}
    return (project.at(".git/index").read_bytes(), project.read(".git/HEAD"), refs)


def ignored_files(project: GitRepo) -> dict[bytes, FileFacts]:
    paths = ignored(project)
    return {path: facts for path, facts in digests(project.path).items() if path in paths}


def go_back(agent: Agent, checkpoint: str, **choices: bool) -> str:
    """The two calls, and the safety checkpoint that they made."""
    plan = agent.rollback(checkpoint, restore="files", outside="overwrite", dry_run=True, **choices)
    done = agent.rollback(checkpoint, restore="files", outside="overwrite", plan=plan.plan, **choices)
    assert done.exact
    assert [repo.left for repo in done.repos] == [()]
    assert [repo.files for repo in done.repos] == [repo.files for repo in plan.repos]
    return done.safety


def shell(project: GitRepo, script: str) -> None:
    """A command of the agent's: no tool call names what it writes."""
    subprocess.run(["sh", "-c", script], cwd=project.path, check=True, capture_output=True)


# --- three turns of an agent, and a person beside it ----------------------------------------------------------------


def first_turn(project: GitRepo, edited: Callable[[str], None]) -> None:
    edited("src/app/accounts/models/models_0.py")
    project.write("src/app/accounts/models/models_0.py", prose("rewritten", 40))
    edited("src/app/templates/accounts/show.html")
    project.write("src/app/templates/accounts/show.html", prose("a new page", 12))
    shell(project, "sed -i 's/registry/index/g' src/app/billing/services/*.py && rm -r src/app/forum/tasks")
    shell(project, "mv docs/日本語 docs/japanese && printf 'tiny' > src/app/static/favicon.ico")
    project.write("src/app/search/__init__.py", "")
    project.write("src/app/search/engine.py", prose("engine", 30))
    project.at("scripts/lint.sh").chmod(0o644)


def persons_first_edits(project: GitRepo) -> None:
    project.write("README.md", "# A web application\n\nWith a sentence of mine.\n")
    project.write("docs/notes/to do.md", "ask about the licence\n")
    project.write("build/app.tar", "another build\n")  # ignored: never in a checkpoint
    project.write("pyproject.toml", '[project]\nname = "app"\nversion = "0.3"\n')
    project.git("add", "pyproject.toml")
    project.write("pyproject.toml", '[project]\nname = "app"\nversion = "0.3.1"\n')


def second_turn(project: GitRepo, edited: Callable[[str], None]) -> None:
    project.delete("config/settings.toml")
    edited("config/settings.yaml")
    project.write("config/settings.yaml", prose("settings", 30))
    project.delete("config/current.toml")
    project.link("config/current.toml", "settings.yaml")
    project.delete("public")  # a link to a folder becomes a folder
    project.write("public/index.html", "<html>\n")
    project.delete("docs/manual.pdf")
    project.write("docs/manual.pdf/part-1.bin", binary("part 1", 900))  # and a file becomes a folder
    project.write(b"docs/latin-\xe9t\xe9.txt", "still Latin-1, but edited\n")
    project.write("run.bat", "@echo off\r\necho changed\r\n")
    project.write("data/mixed-endings.txt", b"one\ntwo\r\nthree\n")
    shell(project, "rm -rf vendor/toolkit/part3 && chmod +x data/fixtures.json && : > LICENSE")


def persons_second_edits(project: GitRepo) -> None:
    project.write("docs/notes/to do.md", "ask about the licence: done\n")
    project.delete("CHANGELOG.md")
    project.write("src/app/forum/views/views_1.py", prose("by hand", 9))
    project.git("rm", "-q", "--cached", "docs/guide/chapter-03.md")


def third_turn(project: GitRepo, edited: Callable[[str], None]) -> None:
    edited("src/app/search/engine.py")
    project.write("src/app/search/engine.py", prose("a better engine", 35))
    project.at("src/app/search/engine.py").chmod(0o755)
    shell(
        project, "git mv src/app/gallery src/app/pictures 2>/dev/null || mv src/app/gallery src/app/pictures"
    )
    project.write("src/app/static/img/new logo.png", binary("logo", 4_000))
    project.write("config/local.key", "another one, still private\n")
    project.delete("docs/🦊.md")


def three_turns(agent: Agent, project: GitRepo, diary: Diary) -> None:
    """Three turns with a person's work in between; every checkpoint is noted."""
    steps: list[tuple[Callable[[GitRepo, Callable[[str], None]], None], Callable[[GitRepo], None] | None]] = [
        (first_turn, persons_first_edits),
        (second_turn, persons_second_edits),
        (third_turn, None),
    ]
    for work, person in steps:
        with agent.turn(prompt=work.__name__) as turn:
            diary.note(turn.checkpoint)
            work(project, turn.edited)
        assert turn.ended is not None
        diary.note(turn.ended.checkpoint)
        if person is not None:
            person(project)


@pytest.fixture
def project(tmp_path: Path) -> GitRepo:
    return grow(tmp_path / "project")


@pytest.fixture
def workspace(project: GitRepo, tmp_path: Path) -> Workspace:
    return Workspace.open(project.path, state_dir=tmp_path / "state")


@pytest.mark.contract("V-006", "V-007", "V-019", "V-038", "V-041", "V-042", "V-256")
def test_back_to_every_checkpoint_of_a_shared_tree(project: GitRepo, workspace: Workspace) -> None:
    """Each of six checkpoints brings every byte, mode and link back, the last safety checkpoint the present, and git's side never moves."""
    agent = workspace.add_agent("a1")
    diary = Diary(project)
    three_turns(agent, project, diary)
    assert list(diary.files) == ["k1", "k2", "k3", "k4", "k5", "k6"]

    project.write(
        "README.md", "# A web application\n\nThe last word is mine.\n"
    )  # the present is no checkpoint
    project.write("node_modules/left-pad/index.js", "module.exports = 2\n")
    present, beside = digests(project.path), ignored_files(project)
    persons, seen = of_the_person(project), status(project)

    safeties = []
    for checkpoint in ("k3", "k1", "k6", "k2", "k5", "k4", "k1"):
        safeties.append(go_back(agent, checkpoint))
        diary.holds(checkpoint, beside=beside)
        assert of_the_person(project) == persons
    go_back(agent, safeties[0])
    assert digests(project.path) == present
    assert status(project) == seen
    assert of_the_person(project) == persons
    assert project.text("fsck", "--no-dangling") == ""


@pytest.mark.contract("V-007", "V-024", "V-027", "V-241", "V-242", "V-243", "V-246")
def test_keeping_what_the_person_did(project: GitRepo, workspace: Workspace) -> None:
    """Back to before the second turn with the person's edits kept: theirs stay byte for byte, the agent's and its commands' go."""
    agent = workspace.add_agent("a1")
    three_turns(agent, project, Diary(project))
    before = digests(project.path)
    plan = agent.rollback("k3", restore="files", outside="keep", dry_run=True)
    classes = {row.path: row.class_ for row in plan.repos[0].files}
    left = {row.path for row in plan.repos[0].left}
    # CHANGELOG and the rest were a person's between the turns; nothing that an agent's turn alone changed is among them.
    assert left == {
        "docs/notes/to do.md",
        "CHANGELOG.md",
        "src/app/forum/views/views_1.py",
    }
    assert classes["config/settings.yaml"] == classes["src/app/search/engine.py"] == "agent"
    assert classes["LICENSE"] == classes["vendor/toolkit/part3/unit_00.js"] == "turn"
    assert set(classes.values()) == {"agent", "turn"}
    agent.rollback("k3", restore="files", outside="keep", plan=plan.plan)
    after = digests(project.path)
    for path in left:
        assert after.get(path.encode()) == before.get(path.encode())
    assert project.exists("vendor/toolkit/part3/unit_00.js")
    assert not project.exists("config/settings.yaml")
    assert not project.exists("src/app/pictures")


@pytest.mark.contract("V-014", "V-160", "V-166")
def test_git_reads_the_checkpoints(project: GitRepo, workspace: Workspace) -> None:
    """A person without the library looks at the checkpoints with git alone, and finds what the library's own difference says."""
    agent = workspace.add_agent("a1")
    three_turns(agent, project, Diary(project))
    for start, end in (("k1", "k2"), ("k2", "k5"), ("k1", "k6")):
        said = project.git(
            "diff", "--no-renames", "--name-status", "-z", f"{HIDDEN}a1/{start[1:]}", f"{HIDDEN}a1/{end[1:]}"
        ).split(b"\0")[:-1]
        theirs = dict(zip(said[1::2], said[0::2], strict=True))
        words = {"create": b"A", "delete": b"D", "modify": b"M"}
        ours = {}
        for row in agent.checkpoint_diff(start, end).files:
            exact = row.path.encode() if row.path_b64 is None else b"docs/latin-\xe9t\xe9.txt"
            ours[exact] = words[row.change]
        assert ours == {path: b"M" if letter == b"T" else letter for path, letter in theirs.items()}


# --- an agent that commits, in a worktree of its own -----------------------------------------------------------------


@pytest.fixture
def worktree(project: GitRepo, tmp_path: Path) -> GitRepo:
    project.git("worktree", "add", "-q", "-b", "agent", str(tmp_path / "worktree"))
    return type(project)(tmp_path / "worktree")


@pytest.mark.contract("V-032", "V-162", "V-193", "V-194", "V-257", "V-282", "V-284")
def test_an_agent_that_commits_in_its_own_worktree(
    project: GitRepo, worktree: GitRepo, workspace: Workspace
) -> None:
    """In a worktree of its own the agent's commits are undone with its files: branch, index and files stand as they did, the person's don't move."""
    agent = workspace.add_agent("a1", isolation="worktree", path=str(worktree.path))
    diary = Diary(worktree)
    mine = (digests(project.path), of_the_person(project)[:2], project.text("rev-parse", "main"))
    with agent.turn() as turn:
        diary.note(turn.checkpoint)
        first_turn(worktree, turn.edited)
        worktree.commit("The first half")
        worktree.write("src/app/search/more.py", prose("uncommitted", 5))
    assert turn.ended is not None
    diary.note(turn.ended.checkpoint)
    with agent.turn() as turn:
        second_turn(worktree, turn.edited)
        worktree.commit("The second half")
        third_turn(worktree, turn.edited)
        worktree.commit("And the rest")
    assert turn.ended is not None
    diary.note(turn.ended.checkpoint)
    present, last = digests(worktree.path), worktree.text("rev-parse", "agent")

    plan = agent.rollback("k2", restore="files", dry_run=True)
    assert not plan.guarded
    assert (plan.repos[0].head.moves, plan.repos[0].head.commits) == (True, 2)
    safety = go_back(agent, "k2")
    diary.holds("k2", beside={})
    assert worktree.text("rev-parse", "agent") == worktree.text("rev-parse", f"{last}~2")
    assert status(worktree) == diary.status["k2"]

    go_back(agent, "k1")
    diary.holds("k1", beside={})
    assert status(worktree) == diary.status["k1"]
    assert worktree.text("rev-parse", "agent") == project.text("rev-parse", "main")
    # The commits that were dropped stay reachable from the safety checkpoint, and the files come back from it.
    assert last in worktree.text("rev-list", f"{HIDDEN}a1/{safety[1:]}").splitlines()
    go_back(agent, safety, keep_head=True)
    assert digests(worktree.path) == present
    assert (digests(project.path), of_the_person(project)[:2], project.text("rev-parse", "main")) == mine
    assert project.text("fsck", "--no-dangling") == ""


def test_the_repositorys_own_housekeeping_takes_nothing(project: GitRepo, workspace: Workspace) -> None:
    """The person runs git gc between the turns, as git does by itself: every checkpoint can still be gone back to."""
    agent = workspace.add_agent("a1")
    diary = Diary(project)
    with agent.turn() as turn:
        diary.note(turn.checkpoint)
        first_turn(project, turn.edited)
    assert turn.ended is not None
    diary.note(turn.ended.checkpoint)
    agent.rollback(
        "k1", restore="files", dry_run=True, outside="overwrite"
    )  # leaves objects that no ref holds
    project.git("gc", "-q", "--prune=now")
    with agent.turn() as turn:
        second_turn(project, turn.edited)
    assert turn.ended is not None
    diary.note(turn.ended.checkpoint)
    project.git("gc", "-q", "--prune=now")
    beside = ignored_files(project)
    for checkpoint in ("k1", "k3", "k2"):
        go_back(agent, checkpoint)
        diary.holds(checkpoint, beside=beside)
    assert project.text("fsck", "--no-dangling") == ""
