"""A capture runs nobody's programs, needs nobody's name, follows nobody's variables, and ends what it started."""

import os
import select
import signal
import subprocess
from pathlib import Path

import pytest

from support.captures import Captures, populated
from support.git_repo import GitRepo
from turnback.errors import TimedOut


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


def converted_files(repo: GitRepo) -> None:
    """Files of every kind of conversion, edited, new and gone ones."""
    repo.write(".gitattributes", "* text=auto\n*.rot filter=rot\n*.bad filter=bad\n")
    repo.git("config", "filter.rot.clean", "tr a-z n-za-m")
    repo.git("config", "filter.rot.smudge", "tr a-z n-za-m")
    repo.git("config", "filter.bad.clean", "false")
    repo.git("config", "filter.bad.required", "true")
    repo.write("a.rot", "hello\n")
    repo.write("b.bad", "hello\n")
    repo.write("c.txt", "one\r\ntwo\n")
    repo.write("src/main.py", "print('two')\n")
    repo.delete("empty")


def submodule_and_nested_repository(repo: GitRepo) -> None:
    """A submodule with an edit in it, and a clone that nobody registered."""
    library = GitRepo.init(repo.path.parent / "library")
    library.write("lib.py", "x\n")
    library.commit("library")
    repo.git("-c", "protocol.file.allow=always", "submodule", "-q", "add", str(library.path), "sub")
    repo.git("clone", "-q", str(library.path), "nested")
    GitRepo(repo.path / "sub").write("lib.py", "changed\n")


@pytest.mark.contract("V-130", "V-131")
def test_no_hook_and_no_monitor_runs(repo: GitRepo, tmp_path: Path) -> None:
    """Hooks of every kind and an fsmonitor program would each leave a mark; none does, also not in a submodule."""
    marks = tmp_path / "marks"
    marks.mkdir()
    submodule_and_nested_repository(repo)
    for git_dir in (repo.git_dir, repo.git_dir / "modules/sub", repo.path / "nested/.git"):
        (git_dir / "hooks").mkdir(exist_ok=True)
        for hook in HOOKS:
            program = git_dir / "hooks" / hook
            program.write_text(f"#!/bin/sh\ntouch {marks}/{hook}\n")
            program.chmod(0o755)
        subprocess.run(
            ["git", f"--git-dir={git_dir}", "config", "core.fsmonitor", str(git_dir / "hooks/fsmonitor")],
            check=True,
        )
    repo.git("config", "core.hooksPath", str(repo.git_dir / "hooks"))
    repo.write(".gitattributes", "* text=auto\n")
    repo.write("a.txt", "one\r\n")
    Captures(repo.path, tmp_path / "state").take()
    assert list(marks.iterdir()) == []
    repo.git("update-ref", "refs/heads/seen", "HEAD")
    assert (marks / "reference-transaction").exists(), "the hooks of this test don't work"


HOOKS = [
    "applypatch-msg",
    "pre-applypatch",
    "post-applypatch",
    "pre-commit",
    "pre-merge-commit",
    "prepare-commit-msg",
    "commit-msg",
    "post-commit",
    "post-checkout",
    "post-merge",
    "post-rewrite",
    "pre-push",
    "pre-auto-gc",
    "reference-transaction",
    "post-index-change",
    "fsmonitor",
]


@pytest.mark.contract("V-138", "V-139")
def test_no_identity_and_no_key_is_needed(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, home: Path
) -> None:
    """Without a name, with signing asked for and no key, and with a log of every ref: the checkpoint is made, by nobody in particular."""
    for setting in (
        "commit.gpgsign=true",
        "tag.gpgsign=true",
        "user.useConfigOnly=true",
        "gpg.program=/nonexistent",
    ):
        repo.git("config", *setting.split("="))
    repo.git("config", "core.logAllRefUpdates", "always")
    shot = Captures(repo.path, tmp_path / "state").take()
    who = repo.text("show", "-s", "--format=%an <%ae>, %cn <%ce>", shot.commit)
    assert who == "venom <venom@localhost>, venom <venom@localhost>"
    assert b"gpgsig" not in repo.git("cat-file", "commit", shot.commit)


@pytest.mark.parametrize(
    "name", ["GIT_DIR", "GIT_WORK_TREE", "GIT_INDEX_FILE", "GIT_OBJECT_DIRECTORY", "all"]
)
def test_variables_that_redirect_git_are_ignored(
    repo: GitRepo, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """An agent's harness may run inside a hook, with git's variables set: they are about another repository, never about this tree."""
    other = populated(tmp_path / "other")
    other.write("other.txt", "x\n")
    converted_files(repo)
    wanted = repo.tree_of_add_all(["b.bad"])
    untouched = other.snapshot_everything(folders=True)
    redirected = {
        "GIT_DIR": other.git_dir,
        "GIT_WORK_TREE": other.path,
        "GIT_INDEX_FILE": other.git_dir / "index",
        "GIT_OBJECT_DIRECTORY": other.git_dir / "objects",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES": tmp_path / "nowhere",
        "GIT_COMMON_DIR": other.git_dir,
        "GIT_NAMESPACE": "elsewhere",
        "GIT_CEILING_DIRECTORIES": repo.path,
        "GIT_ATTR_SOURCE": "HEAD",
        "GIT_LITERAL_PATHSPECS": "1",
        "GIT_TRACE": tmp_path / "trace",
        "GIT_CONFIG": other.git_dir / "config",
        "GIT_CONFIG_COUNT": "1",
        "GIT_CONFIG_KEY_0": "core.autocrlf",
        "GIT_CONFIG_VALUE_0": "true",
        "GIT_CONFIG_PARAMETERS": "'core.fileMode'='false'",
        "GIT_PREFIX": "src/",
        "GIT_DEFAULT_HASH": "sha256",
    }
    with monkeypatch.context() as inside:
        for variable, value in redirected.items():
            if name in (variable, "all"):
                inside.setenv(variable, str(value))
        shot = Captures(repo.path, tmp_path / "state").take()
    assert shot.tree == wanted
    assert repo.refs()["refs/venom/checkpoints/a1/1"] == shot.commit
    assert untouched.changes(other.snapshot_everything(folders=True)) == []
    assert not (tmp_path / "trace").exists()


def half_done(tmp_path: Path) -> list[Path]:
    """Files that a capture left in its scratch folder."""
    return [path for path in (tmp_path / "state" / "scratch").rglob("*") if not path.is_dir()]


# --- time ----------------------------------------------------------------------------------------------------------


needs_pidfd = pytest.mark.skipif(
    not hasattr(os, "pidfd_open"), reason="only Linux tells when somebody else's child has ended"
)


@needs_pidfd
@pytest.mark.contract("V-067")
def test_filter_that_blocks_is_ended_with_the_capture(repo: GitRepo, tmp_path: Path) -> None:
    """A clean filter that waits for ever is killed with git when the time is over; nothing is left, and the next capture works."""
    pipe, started = tmp_path / "pipe", tmp_path / "started"
    os.mkfifo(pipe)
    repo.write(".gitattributes", "*.slow filter=slow\n")
    repo.git("config", "filter.slow.clean", f"sh -c 'echo $$ > {started}; cat {pipe}'")
    repo.write("a.slow", "x\n")
    captures = Captures(repo.path, tmp_path / "state", timeout="2s")
    before = repo.snapshot_everything(folders=True)
    with pytest.raises(TimedOut) as caught:
        captures.take()
    assert caught.value.code == "timeout.checkpoint"
    assert caught.value.data == {"repo": "."}
    assert has_ended(int(started.read_text()))
    assert before.changes(repo.snapshot_everything(folders=True)) == []
    assert not half_done(tmp_path)
    repo.git("config", "filter.slow.clean", "cat")
    assert captures.take().id == "k1"


def has_ended(process: int) -> bool:
    """Whether a process is gone, or goes now that it was killed."""
    try:
        descriptor = os.pidfd_open(process)
    except ProcessLookupError:
        return True
    try:
        return bool(select.select([descriptor], [], [], 10)[0])
    finally:
        os.close(descriptor)


@needs_pidfd
def test_interrupt_ends_the_filter_too(repo: GitRepo, tmp_path: Path) -> None:
    """Ctrl-C while a filter runs: the filter is gone, and so is everything that was half done."""
    pipe, started = tmp_path / "pipe", tmp_path / "started"
    for name in (pipe, started):
        os.mkfifo(name)
    repo.write(".gitattributes", "*.slow filter=slow\n")
    me = os.getpid()
    repo.git("config", "filter.slow.clean", f"sh -c 'echo $$ > {tmp_path}/pid; kill -INT {me}; cat {pipe}'")
    repo.write("a.slow", "x\n")
    captures = Captures(repo.path, tmp_path / "state")
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
    with pytest.raises(KeyboardInterrupt):
        captures.take()
    assert has_ended(int((tmp_path / "pid").read_text()))
    assert repo.refs().keys() == {"refs/heads/main"}
    assert not half_done(tmp_path)
