"""git's configuration in all its spellings, and the environment in which git runs for us."""

from pathlib import Path

import pytest

from support.git_repo import GitRepo
from turnback.gitstore import process, settings
from turnback.gitstore.repo import Repository
from turnback.gitstore.settings import Settings


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return GitRepo.init(tmp_path / "repo")


def read(repo: GitRepo) -> Settings:
    return Repository(str(repo.path)).kept.configuration.read()


@pytest.mark.parametrize(
    "spelling",
    [
        "true",
        "yes",
        "on",
        "1",
        "TRUE",
        "2",
        "-1",
        "0x1",
        "010",
        "1k",
        "+3",
        "false",
        "no",
        "off",
        "0",
        "00",
        "0x0",
        "0k",
        "-0",
        "",
    ],
)
def test_boolean_in_every_spelling(repo: GitRepo, spelling: str) -> None:
    """Whatever git takes for true or false, we do."""
    for key, member in (
        ("core.fileMode", "file_mode"),
        ("core.symlinks", "symlinks"),
        ("core.ignoreCase", "ignore_case"),
        ("core.trustctime", "trust_ctime"),
    ):
        repo.git("config", key, spelling)
        wanted = repo.text("config", "--type=bool", key) == "true"
        assert getattr(read(repo), member) == wanted, key


def test_key_alone_means_true(repo: GitRepo) -> None:
    """A key without ``=`` is true."""
    config = repo.git_dir / "config"
    config.write_text(config.read_text() + "[core]\n\tfileMode = false\n\tfileMode\n\tautocrlf\n")
    assert read(repo).file_mode
    assert read(repo).autocrlf == "true"


@pytest.mark.parametrize(
    ("spelling", "meaning"),
    [
        ("true", "true"),
        ("INPUT", "input"),
        ("input", "input"),
        ("1", "true"),
        ("0", "false"),
        ("", "false"),
        ("no", "false"),
    ],
)
def test_autocrlf(repo: GitRepo, spelling: str, meaning: str) -> None:
    """A boolean, or ``input`` in any case."""
    repo.git("config", "core.autocrlf", spelling)
    assert read(repo).autocrlf == meaning


def test_last_value_counts_wherever_it_stands(repo: GitRepo, home: Path) -> None:
    """The user's, the repository's, an include and a worktree's own: in git's order."""
    (home / "gitconfig").write_text(
        '[core]\n\tautocrlf = true\n\teol = crlf\n\tcheckStat = minimal\n[filter "Mine.X"]\n\tclean = cat\n'
    )
    repo.git("config", "core.eol", "lf")
    repo.git("config", "include.path", "more")
    (repo.git_dir / "more").write_text("[core]\n\tautocrlf = input\n")
    found = read(repo)
    assert (found.autocrlf, found.eol, found.full_stat, found.filters) == (
        "input",
        "lf",
        False,
        frozenset({"Mine.X"}),
    )
    repo.git("config", "extensions.worktreeConfig", "true")
    repo.git("config", "--worktree", "core.autocrlf", "false")
    assert read(repo).autocrlf == "false"


def test_filter_driver_is_one_by_any_of_its_keys(repo: GitRepo) -> None:
    """A driver with nothing but ``required`` exists: git fails its files."""
    for key in ("a.clean", "b.smudge", "c.process", "d.required"):
        repo.git("config", f"filter.{key}", "true")
    repo.git("config", "filter.e.other", "true")
    assert read(repo).filters == {"a", "b", "c", "d"}


def test_users_own_files(repo: GitRepo, home: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With a tilde, relative to the tree, by default in the XDG place, and none at all when the setting is empty."""
    assert read(repo).excludes_file == str(home / ".config/git/ignore")
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / "xdg"))
    assert read(repo).attributes_file == str(home / "xdg/git/attributes")
    repo.git("config", "core.excludesFile", "~/mine")
    assert read(repo).excludes_file == str(home / "mine")
    repo.git("config", "core.excludesFile", "conf/mine")
    assert read(repo).excludes_file == str(repo.path / "conf/mine")
    repo.git("config", "core.excludesFile", "")
    assert read(repo).excludes_file == ""


def test_settings_of_nothing_are_gits_defaults(repo: GitRepo) -> None:
    """No key at all."""
    found = settings.of(Repository(str(repo.path)), {})
    assert (found.file_mode, found.symlinks, found.ignore_case, found.autocrlf, found.eol) == (
        True,
        True,
        False,
        "false",
        "native",
    )
    assert (found.trust_ctime, found.full_stat, found.attributes_tree, found.commands) == (
        True,
        True,
        False,
        (),
    )


# --- the environment of a child ------------------------------------------------------------------------------------


def test_child_inherits_nothing_that_redirects_git(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """Every variable that git calls local to a repository is gone, and so is what traces or injects."""
    local = repo.text("rev-parse", "--local-env-vars").split()
    others = [
        "GIT_TRACE",
        "GIT_TRACE2_EVENT",
        "GIT_ATTR_SOURCE",
        "GIT_CONFIG_KEY_0",
        "GIT_NAMESPACE",
        "GIT_EXTERNAL_DIFF",
    ]
    for name in (*local, *others):
        monkeypatch.setenv(name, "x")
    found = process.environment(str(repo.path))
    ours = {"GIT_NO_REPLACE_OBJECTS"}
    assert not (found.keys() & {*local, *others}) - ours


def test_child_keeps_what_says_where_the_users_configuration_is(
    repo: GitRepo, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The user's configuration files and the LFS filter's own switches are part of git's answer."""
    kept = [
        "GIT_CONFIG_GLOBAL",
        "GIT_CONFIG_SYSTEM",
        "GIT_CONFIG_NOSYSTEM",
        "GIT_EXEC_PATH",
        "GIT_LFS_SKIP_SMUDGE",
        "HOME",
        "LC_ALL",
    ]
    for name in kept:
        monkeypatch.setenv(name, "kept")
    found = process.environment(str(repo.path))
    assert {name: found[name] for name in kept} == dict.fromkeys(kept, "kept")


def test_child_never_finds_a_repository_above(repo: GitRepo) -> None:
    """In a folder that is no repository, git finds none, though there is one around it."""
    inside = repo.path / "inside"
    inside.mkdir()
    with pytest.raises(process.GitFailed, match="not a git repository"):
        process.run(str(inside), ["rev-parse", "--git-dir"])
    assert process.run(str(repo.path), ["rev-parse", "--git-dir"]) == b".git\n"
    (repo.path.parent / "alias").symlink_to(inside)
    with pytest.raises(process.GitFailed):
        process.run(str(repo.path.parent / "alias"), ["rev-parse", "--git-dir"])


def test_child_speaks_english_in_any_locale(repo: GitRepo, monkeypatch: pytest.MonkeyPatch) -> None:
    """What git says is shown to people and never translated; the locale itself stays the user's."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    monkeypatch.setenv("LANGUAGE", "de")
    assert process.environment(str(repo.path))["LANGUAGE"] == "C"
    with pytest.raises(process.GitFailed, match="unknown option"):
        process.run(str(repo.path), ["status", "--no-such-option"])


def test_child_has_no_terminal(repo: GitRepo) -> None:
    """A filter or helper that asks a question finds nobody to ask, at once."""
    output = process.run(
        str(repo.path), ["-c", "alias.ask=!(: </dev/tty) 2>/dev/null && echo asked || echo nobody", "ask"]
    )
    assert output == b"nobody\n"
