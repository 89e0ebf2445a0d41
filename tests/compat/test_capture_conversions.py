"""What git stores of files whose bytes it converts, and which exact bytes are kept because it could not give them back."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree
from support.conversions import CONFIGS, assert_exact, fill
from support.git_repo import GitRepo


@pytest.mark.parametrize(("autocrlf", "eol"), CONFIGS)
def test_line_endings(autocrlf: str, eol: str, tmp_path: Path) -> None:
    """Every attribute and configuration of line endings, over every content and every state of the index."""
    repo = GitRepo.init(tmp_path / "repo")
    fill(repo)
    repo.git("config", "core.autocrlf", autocrlf)
    repo.git("config", "core.eol", eol)
    repo.git("config", "core.safecrlf", "true")
    captures = Captures(repo.path, tmp_path / "state")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert_exact(repo, captures, shot, tmp_path / "out")
    assert captures.take().reused


def test_line_endings_kept_by_the_index_in_a_conflict(tmp_path: Path) -> None:
    """git keeps CR LF that our side of a conflict has; the other sides don't count."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.git("config", "core.autocrlf", "true")
    ids = [
        repo.git("hash-object", "-w", "--stdin", data=data).decode().strip()
        for data in (b"a\n", b"b\r\n", b"c\r\n")
    ]
    rows = [f"100644 {ids[stage - 1]} {stage}\tours.txt\n" for stage in (1, 2, 3)]
    rows += [f"100644 {ids[2]} {stage}\ttheirs.txt\n" for stage in (1, 3)]
    repo.git("update-index", "--index-info", data="".join(rows).encode())
    for name in ("ours.txt", "theirs.txt"):
        repo.write(name, "resolved\r\n")
    shot = Captures(repo.path, tmp_path / "state").take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:ours.txt") == b"resolved\r\n"
    assert repo.git("show", f"{shot.commit}:theirs.txt") == b"resolved\n"


@pytest.mark.parametrize("encoding", ["UTF-16LE-BOM", "UTF-16", "UTF-16BE", "SHIFT-JIS", "UTF-8"])
def test_working_tree_encoding(encoding: str, tmp_path: Path) -> None:
    """A file with an encoding of its own is stored as UTF-8; where git can't bring the exact bytes back they are kept."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write(".gitattributes", f"*.txt working-tree-encoding={encoding} text\n")
    codec = {"UTF-16LE-BOM": "utf-16", "UTF-16": "utf-16"}.get(encoding, encoding)
    repo.write("a.txt", "één\r\n".encode(codec) if encoding != "SHIFT-JIS" else "日本\n".encode(codec))
    repo.write("b.txt", "two\ntwo\n".encode(codec))
    captures = Captures(repo.path, tmp_path / "state")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert_exact(repo, captures, shot, tmp_path / "out")


# --- where attributes come from ------------------------------------------------------------------------------------


def rules_in_the_repository(repo: GitRepo) -> None:
    repo.write(".git/info/attributes", "*.txt text\n")


def rules_of_the_user(repo: GitRepo) -> None:
    (Path(os.environ["HOME"]) / "attributes").write_text("*.txt text\n")
    (Path(os.environ["HOME"]) / "gitconfig").write_text("[core]\n\tattributesFile = ~/attributes\n")


def rules_in_the_users_default_place(repo: GitRepo) -> None:
    (Path(os.environ["HOME"]) / ".config/git").mkdir(parents=True)
    (Path(os.environ["HOME"]) / ".config/git/attributes").write_text("*.txt text\n")


def rules_not_yet_tracked(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.txt text\n")


def rules_deeper_first(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.write("deep/.gitattributes", "*.txt -text\n")
    repo.write("deep/er/.gitattributes", "b.txt !text\n")


def rules_edited(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.commit("rules")
    repo.settle()
    repo.write(".gitattributes", "*.txt -text\n")


def rules_deleted(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.txt text\n")
    repo.write("deep/.gitattributes", "*.txt text\n")
    repo.commit("rules")
    repo.settle()
    repo.delete(".gitattributes")
    repo.delete("deep/.gitattributes")


def rules_that_are_a_link(repo: GitRepo) -> None:
    repo.write("rules", "*.txt text\n")
    repo.link(".gitattributes", "rules")


def rules_with_quoted_patterns(repo: GitRepo) -> None:
    repo.write(".gitattributes", '"deep/*.txt" text\n!a.txt text\n[attr]win text eol=crlf\nb.txt win\n')


RULES = [value for name, value in dict(globals()).items() if name.startswith("rules_")]


@pytest.mark.parametrize("make", RULES, ids=lambda make: make.__name__)
def test_every_place_that_attributes_come_from(make: Callable[[GitRepo], None], tmp_path: Path) -> None:
    """Wherever an attribute is set, it counts as it does for git."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("seen.txt", "x\n")
    repo.commit("first")
    repo.settle()
    make(repo)
    for name in ("a.txt", "b.txt", "deep/a.txt", "deep/er/b.txt"):
        repo.write(name, "one\r\ntwo\r\n")
    captures = Captures(repo.path, tmp_path / "state")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert_exact(repo, captures, shot, tmp_path / "out")
