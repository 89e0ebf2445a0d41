"""Which paths the ignore rules cover, now and at the moment of a checkpoint: git's own answer, for any name and any kind of rule."""

import os
from pathlib import Path

import pytest

from support.git_repo import GitRepo
from turnback.gitstore import ignore
from turnback.gitstore.repo import Repository

PATHS = [
    b"a.log",
    b"keep.log",
    b"build/x",
    b"src/build/x",
    b"a b.log",
    b":(top).log",
    b"\xff.log",
    b"-x.log",
    b"a.txt",
    b"d/e.txt",
]


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """Rules of all three kinds, and files that they cover or don't."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write(".gitignore", "*.log\nbuild/\n!keep.log\n")
    repo.write("d/.gitignore", "*.txt\n")
    repo.write(".git/info/exclude", "*.tmp\n")
    (tmp_path / "excludes").write_text("*.user\n")
    repo.git("config", "core.excludesFile", str(tmp_path / "excludes"))
    repo.commit("rules")
    return repo


def now(repo: GitRepo, paths: list[bytes]) -> set[bytes]:
    return ignore.covered_now(Repository(str(repo.path)), paths)


def then(repo: GitRepo, tree: str, rules: ignore.Rules, paths: list[bytes], scratch: Path) -> set[bytes]:
    scratch.mkdir()
    return ignore.covered_then(Repository(str(repo.path)), tree, rules, paths, str(scratch))


def rules_of(repo: GitRepo) -> ignore.Rules:
    repository = Repository(str(repo.path))
    return ignore.rules_now(repository, repository.kept.configuration.read())


def test_todays_rules(repo: GitRepo) -> None:
    """All three kinds of rules count, for paths that exist and for ones that don't, whatever is in their names."""
    wanted = {
        b"a.log",
        b"build/x",
        b"src/build/x",
        b"a b.log",
        b":(top).log",
        b"\xff.log",
        b"-x.log",
        b"d/e.txt",
    }
    assert now(repo, PATHS) == wanted
    for path in PATHS:
        repo.write(path, "x\n")
    assert now(repo, PATHS) == wanted
    assert now(repo, [b"x.tmp", b"x.user", b"x.c"]) == {b"x.tmp", b"x.user"}


def test_tracked_path_is_covered_all_the_same(repo: GitRepo) -> None:
    """The question is about the rules: for a tracked path too."""
    repo.write("forced.log", "x\n")
    repo.git("add", "-f", "forced.log")
    assert now(repo, [b"forced.log"]) == {b"forced.log"}


def test_path_beyond_a_link_or_in_another_repository_doesnt_spoil_the_others(repo: GitRepo) -> None:
    """git refuses the whole question because of one path beyond a link; it is no path of the tree, so no rule covers it."""
    repo.link("link", "src")
    repo.write("src/x.log", "x\n")
    GitRepo.init(repo.path / "inner").commit("inside")
    assert now(repo, [b"link/x.log", b"a.log", b"inner/a.txt", b"src/x.log"]) == {b"a.log", b"src/x.log"}


def test_rules_of_a_checkpoint_and_not_of_today(repo: GitRepo, tmp_path: Path) -> None:
    """What was covered then is answered from the checkpoint's tree and the texts that were kept, whatever the rules are today."""
    tree, rules = repo.text("rev-parse", "HEAD^{tree}"), rules_of(repo)
    before = now(repo, PATHS)
    repo.write(".gitignore", "*\n")
    repo.delete("d/.gitignore")
    repo.write(".git/info/exclude", "")
    (tmp_path / "excludes").write_text("*.c\n")
    asked = [*PATHS, b"x.tmp", b"x.user", b"x.c"]
    assert then(repo, tree, rules, asked, tmp_path / "one") == before | {b"x.tmp", b"x.user"}
    empty = ignore.Rules(None, None, ignore_case=False)
    assert then(repo, tree, empty, asked, tmp_path / "two") == before


def test_case_counts_as_it_did_then(repo: GitRepo, tmp_path: Path) -> None:
    """``core.ignoreCase`` is part of the rules."""
    tree = repo.text("rev-parse", "HEAD^{tree}")
    for ignore_case in (True, False):
        rules = ignore.Rules(None, None, ignore_case=ignore_case)
        assert then(repo, tree, rules, [b"A.LOG"], tmp_path / str(ignore_case)) == (
            {b"A.LOG"} if ignore_case else set()
        )


def test_ignore_file_that_is_a_link_rules_nothing(repo: GitRepo, tmp_path: Path) -> None:
    """git doesn't follow it, in the tree of today or of then."""
    repo.write("rules", "*.c\n")
    repo.link("e/.gitignore", "../rules")
    tree = repo.text("rev-parse", f"{repo.commit('a link')}^{{tree}}")
    assert now(repo, [b"e/x.c"]) == set()
    assert then(repo, tree, rules_of(repo), [b"e/x.c"], tmp_path / "then") == set()


def test_rules_that_cant_be_read_are_none(repo: GitRepo, tmp_path: Path) -> None:
    """A missing file, a folder in its place, no configuration at all: no rules, as for git."""
    (tmp_path / "excludes").unlink()
    repo.delete(".git/info/exclude")
    os.mkdir(repo.path / ".git/info/exclude")
    assert rules_of(repo) == ignore.Rules(None, None, ignore_case=False)
    repo.git("config", "core.excludesFile", "")
    (Path(os.environ["HOME"]) / ".config/git").mkdir(parents=True)
    (Path(os.environ["HOME"]) / ".config/git/ignore").write_text("*.xdg\n")
    assert rules_of(repo).excludes_file is None, "an empty setting means no file, not the default one"
    repo.git("config", "--unset", "core.excludesFile")
    assert rules_of(repo).excludes_file == b"*.xdg\n"
