"""The tree of a checkpoint is the tree that git's own add would give: files, links, folders, modes and ignore rules."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree, populated
from support.git_repo import GitRepo

Situation = Callable[[GitRepo], None]


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


# --- one situation each --------------------------------------------------------------------------------------------

SITUATIONS: list[Situation] = []


def situation(make: Situation) -> Situation:
    """Put a situation into the catalogue."""
    SITUATIONS.append(make)
    return make


@situation
def nothing(repo: GitRepo) -> None:
    pass


@situation
def tracked_edit(repo: GitRepo) -> None:
    repo.write("src/main.py", "print('two')\n")


@situation
def staged(repo: GitRepo) -> None:
    repo.write("src/main.py", "print('two')\n")
    repo.git("add", "src/main.py")


@situation
def staged_then_edited(repo: GitRepo) -> None:
    staged(repo)
    repo.write("src/main.py", "print('three')\n")


@situation
def staged_then_put_back(repo: GitRepo) -> None:
    staged(repo)
    repo.write("src/main.py", "print('one')\n")


@situation
def untracked(repo: GitRepo) -> None:
    repo.write("notes.txt", "a note\n")
    repo.write("new/deep/er/file.txt", "deep\n")
    repo.write("src/beside.py", "")


@situation
def added_then_deleted(repo: GitRepo) -> None:
    repo.write("notes.txt", "a note\n")
    repo.git("add", "notes.txt")
    repo.delete("notes.txt")


@situation
def deleted(repo: GitRepo) -> None:
    repo.delete("src/main.py")
    repo.delete("link")


@situation
def deleted_and_staged(repo: GitRepo) -> None:
    repo.git("rm", "-q", "src/main.py")


@situation
def removed_from_the_index_alone(repo: GitRepo) -> None:
    repo.git("rm", "-q", "--cached", "src/main.py")


@situation
def folder_deleted(repo: GitRepo) -> None:
    repo.delete("src")


@situation
def everything_deleted(repo: GitRepo) -> None:
    for name in os.listdir(repo.path):
        if name != ".git":
            repo.delete(name)


@situation
def renamed(repo: GitRepo) -> None:
    repo.at("src/lib/util.py").rename(repo.at("src/helpers.py"))


@situation
def empty_folder(repo: GitRepo) -> None:
    repo.at("nothing/in/here").mkdir(parents=True)


@situation
def exec_bit_on(repo: GitRepo) -> None:
    repo.at("src/main.py").chmod(0o755)


@situation
def exec_bit_off(repo: GitRepo) -> None:
    repo.at("run.sh").chmod(0o644)


@situation
def odd_modes(repo: GitRepo) -> None:
    for number, mode in enumerate((0o600, 0o700, 0o444, 0o755, 0o654, 0o611, 0o4755, 0o200)):
        repo.write(f"modes/{number}", f"{mode:o}\n", mode=mode)
    repo.at("README.md").chmod(0o600)


@situation
def file_mode_off(repo: GitRepo) -> None:
    repo.git("config", "core.fileMode", "false")
    repo.at("src/main.py").chmod(0o755)
    repo.at("run.sh").chmod(0o644)
    repo.write("run.sh", "#!/bin/sh\necho\n", mode=0o644)
    repo.write("new.sh", "#!/bin/sh\n", mode=0o755)


@situation
def file_mode_off_as_a_number(repo: GitRepo) -> None:
    file_mode_off(repo)
    repo.git("config", "core.fileMode", "0")


@situation
def file_mode_on_as_a_number(repo: GitRepo) -> None:
    repo.git("config", "core.fileMode", "0x10")
    repo.at("src/main.py").chmod(0o755)


@situation
def links_moved(repo: GitRepo) -> None:
    repo.delete("link")
    repo.link("link", "src/main.py")
    repo.delete("dangling")
    repo.link("new-dangling", "../outside")
    repo.link("to-itself", "to-itself")
    repo.link("src/up", "..")


@situation
def without_symlinks(repo: GitRepo) -> None:
    repo.git("config", "core.symlinks", "false")
    repo.delete("link")
    repo.write("link", "src/main.py")
    repo.link("real", "README.md")


@situation
def file_to_link(repo: GitRepo) -> None:
    repo.delete("README.md")
    repo.link("README.md", "src/main.py")


@situation
def link_to_file(repo: GitRepo) -> None:
    repo.delete("link")
    repo.write("link", "no link any more\n")


@situation
def file_to_folder(repo: GitRepo) -> None:
    repo.delete("README.md")
    repo.write("README.md/part", "one\n")
    repo.write("README.md/other/part", "two\n")


@situation
def file_to_empty_folder(repo: GitRepo) -> None:
    repo.delete("README.md")
    repo.at("README.md").mkdir()


@situation
def folder_to_file(repo: GitRepo) -> None:
    repo.delete("src")
    repo.write("src", "a file\n")


@situation
def folder_to_link(repo: GitRepo) -> None:
    repo.at("src").rename(repo.at("elsewhere"))
    repo.link("src", "elsewhere")


@situation
def link_to_folder(repo: GitRepo) -> None:
    repo.delete("link")
    repo.write("link/inside", "x\n")


@situation
def same_size_edit_in_the_same_second(repo: GitRepo) -> None:
    """The racy case: the index can't tell by stat data, since the time of the edit is the one that it has."""
    repo.write("racy", "aaaa\n")
    repo.git("add", "racy")
    at = repo.at("racy").stat().st_mtime_ns
    index = repo.git_dir / "index"
    repo.write("racy", "bbbb\n")
    os.utime(repo.at("racy"), ns=(at, at))
    os.utime(index, ns=(at, at))


@situation
def touched(repo: GitRepo) -> None:
    for name in ("README.md", "src/main.py", "run.sh"):
        os.utime(repo.at(name), ns=(1, 1))


@situation
def replaced_by_equal_content(repo: GitRepo) -> None:
    repo.delete("README.md")
    repo.write("README.md", "# a project\n")


@situation
def only_stat_minimal(repo: GitRepo) -> None:
    repo.git("config", "core.checkStat", "minimal")
    repo.git("config", "core.trustctime", "no")
    repo.write("src/main.py", "print('two')\n")


@situation
def ignored_by_all_three(repo: GitRepo) -> None:
    repo.write(".gitignore", "*.log\nbuild/\n/root-only\n!keep.log\n")
    repo.write(".git/info/exclude", "*.tmp\n")
    excludes = repo.path.parent / "excludes"
    excludes.write_text("*.user\n")
    repo.git("config", "core.excludesFile", str(excludes))
    for name in ("a.log", "keep.log", "build/out", "src/build/out", "root-only", "src/root-only", "b.tmp"):
        repo.write(name, "x\n")
    repo.write("c.user", "x\n")
    repo.write("d.txt", "x\n")


@situation
def excludes_file_in_the_home(repo: GitRepo) -> None:
    home = Path(os.environ["HOME"])
    (home / ".config/git").mkdir(parents=True)
    (home / ".config/git/ignore").write_text("*.xdg\n")
    repo.write("a.xdg", "x\n")
    repo.write("b.txt", "x\n")


@situation
def excludes_file_with_a_tilde(repo: GitRepo) -> None:
    (Path(os.environ["HOME"]) / "mine").write_text("*.mine\n")
    (Path(os.environ["HOME"]) / "gitconfig").write_text("[core]\n\texcludesFile = ~/mine\n")
    repo.write("a.mine", "x\n")


@situation
def excludes_file_relative(repo: GitRepo) -> None:
    repo.write("conf/ignored", "*.rel\n")
    repo.git("config", "core.excludesFile", "conf/ignored")
    repo.write("a.rel", "x\n")


@situation
def tracked_but_ignored(repo: GitRepo) -> None:
    repo.write("kept.log", "one\n")
    repo.git("add", "kept.log")
    repo.write(".gitignore", "*.log\nsrc/\n")
    repo.write("kept.log", "two\n")
    repo.write("other.log", "x\n")
    repo.write("src/main.py", "print('two')\n")
    repo.write("src/new.py", "ignored with its folder\n")


@situation
def nested_ignore_files(repo: GitRepo) -> None:
    repo.write(".gitignore", "*.out\nlogs/*\n!logs/.gitkeep\n")
    repo.write("a/.gitignore", "!*.out\n*.txt\n")
    repo.write("a/b/.gitignore", "!keep.txt\n")
    repo.write("logs/.gitkeep", "")
    repo.write("logs/x", "x\n")
    for name in ("x.out", "a/x.out", "a/x.txt", "a/b/x.txt", "a/b/keep.txt", "a/b/x.out"):
        repo.write(name, "x\n")


@situation
def ignore_file_that_is_a_link(repo: GitRepo) -> None:
    repo.write("rules", "*.txt\n")
    repo.link(".gitignore", "rules")
    repo.write("a.txt", "not ignored: git doesn't follow\n")


@situation
def pipe_beside_files(repo: GitRepo) -> None:
    os.mkfifo(repo.at("pipe"))
    repo.write("notes.txt", "a note\n")


@pytest.mark.contract(
    "V-100", "V-102", "V-104", "V-106", "V-108", "V-109", "V-110", "V-111", "V-136", "V-006", "A-49"
)
@pytest.mark.parametrize("make", SITUATIONS, ids=lambda make: make.__name__)
def test_tree_is_what_gits_add_gives(make: Situation, repo: GitRepo, tmp_path: Path) -> None:
    """Whatever was done to the files, the checkpoint's tree is what ``git add -A`` and ``git write-tree`` make of them."""
    make(repo)
    captures = Captures(repo.path, tmp_path / "state")
    shot = captures.take()
    assert_same_tree(repo, shot)
    # A pipe is no work of anybody's that git could hold: it is told, never opened.
    assert shot.skipped == ({b"pipe": "not_regular"} if make is pipe_beside_files else {})
    assert captures.take().reused, "a second look at the same files found something else"
