"""Trees that can't be saved: each is refused in words, costs nobody's turn, and changes nothing."""

import errno
import os
import shutil
from pathlib import Path

import pytest

from support.captures import Captures, populated
from support.git_repo import GitRepo
from turnback.errors import Failed, InvalidParams, Unsupported
from turnback.pool.blobs import Pool


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    return populated(tmp_path / "repo")


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def failures(captures: Captures) -> list[dict[str, str]]:
    return [event["data"] for event in captures.workspace.events(types=["agent.checkpoint_failed"])]


@pytest.mark.contract("V-143")
def test_search_never_walks_up_into_an_enclosing_repository(tmp_path: Path) -> None:
    """When a tree's own ``.git`` is gone, the repository around it is not taken for it."""
    outer = populated(tmp_path / "outer")
    inner = populated(outer.path / "inner")
    captures = Captures(inner.path, tmp_path / "state")
    shutil.rmtree(inner.path / ".git")
    before = outer.snapshot_everything(folders=True)
    with pytest.raises(Failed) as caught:
        captures.take()
    assert caught.value.code == "failed.checkpoint_git"
    assert caught.value.data["repo"] == "."
    assert before.changes(outer.snapshot_everything(folders=True)) == []
    (inner.path / ".git").mkdir()
    with pytest.raises(Failed):
        captures.take()
    assert before.refs == outer.refs()
    assert [failure["code"] for failure in failures(captures)] == ["failed.checkpoint_git"] * 2


def test_plain_folder_in_a_repository_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    """A folder that isn't the top of its repository can't be given to an agent."""
    with pytest.raises(InvalidParams, match="not the top folder"):
        Captures(repo.path / "src", tmp_path / "state", repos=["."])


def test_bare_repository_is_refused(tmp_path: Path) -> None:
    """There are no files in it to save."""
    bare = GitRepo.init(tmp_path / "bare.git", "--bare")
    with pytest.raises(InvalidParams, match="bare repository"):
        Captures(bare.path, tmp_path / "state", repos=["."])


def test_repository_whose_files_are_elsewhere_is_refused(repo: GitRepo, tmp_path: Path) -> None:
    """With ``core.worktree`` the files beside ``.git`` aren't the repository's."""
    (tmp_path / "elsewhere").mkdir()
    repo.git("config", "core.worktree", str(tmp_path / "elsewhere"))
    with pytest.raises(InvalidParams, match=r"core\.worktree"):
        Captures(repo.path, tmp_path / "state")


def test_repository_that_is_reached_through_links(repo: GitRepo, tmp_path: Path) -> None:
    """A ``.git`` that is a symbolic link, in a folder that was named through one, is the same repository."""
    (repo.path / ".git").rename(tmp_path / "git-folder")
    (repo.path / ".git").symlink_to(tmp_path / "git-folder")
    (tmp_path / "alias").symlink_to(repo.path)
    shot = Captures(tmp_path / "alias", tmp_path / "state").take()
    assert shot.row["path"] == str(repo.path)
    assert shot.tree == repo.text("rev-parse", "HEAD^{tree}")


@pytest.mark.contract("V-076", "V-077")
def test_folder_that_is_gone_fails_the_capture_and_not_the_turn(repo: GitRepo, captures: Captures) -> None:
    """The tree was removed: the turn goes on, the failure is in the log and among the events."""
    shutil.rmtree(repo.path)
    with captures.agent.turn() as turn:
        assert turn.checkpoint is None
        assert turn.capture_failed is not None
        assert turn.capture_failed.code == "failed.checkpoint_git"
    assert [(one["code"], one["reason"]) for one in failures(captures)] == [
        ("failed.checkpoint_git", "turn_start"),
        ("failed.checkpoint_git", "turn_end"),
    ]


def test_objects_that_cant_be_written_fail_the_capture(repo: GitRepo, captures: Captures) -> None:
    """Where git's object folder takes no more, the capture fails in words; nothing else changes."""
    repo.write("new.txt", "x\n")
    for number in range(256):
        place = repo.git_dir / "objects" / f"{number:02x}"
        if not place.exists():
            place.touch()
    shutil.rmtree(repo.git_dir / "objects/pack")
    (repo.git_dir / "objects/pack").touch()
    before = repo.snapshot_everything()
    with pytest.raises(Failed) as caught:
        captures.take()
    assert caught.value.code == "failed.checkpoint_git"
    assert before.changes(repo.snapshot_everything()) == []


@pytest.mark.contract("V-076", "V-077")
def test_full_disk_fails_the_capture_and_not_the_turn(
    repo: GitRepo, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """No room for the bytes that are kept beside the tree: the turn goes on, the failure is told, and the next capture works."""
    repo.git("config", "filter.note.clean", "grep -v output")
    repo.write(".gitattributes", "*.note filter=note\n")
    repo.write("a.note", "input\noutput\n")

    def full(pool: Pool, data: bytes, *, durable: bool = False) -> str:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC), "/state/pool")

    with monkeypatch.context() as inside:
        inside.setattr(Pool, "put", full)
        with captures.agent.turn() as turn:
            assert turn.capture_failed is not None
            assert turn.capture_failed.code == "failed.checkpoint_git"
            assert "No space left on device (/state/pool)" in turn.capture_failed.message
    assert [one["code"] for one in failures(captures)] == ["failed.checkpoint_git"] * 2
    assert repo.refs().keys() == {"refs/heads/main"}
    assert captures.take().id == "k1"


def test_damaged_index_and_head_are_said(repo: GitRepo, captures: Captures) -> None:
    """A repository that git itself can't read fails the capture with a sentence that says what to do."""
    index = repo.git_dir / "index"
    whole = index.read_bytes()
    index.write_bytes(whole[:100])
    with pytest.raises(Failed, match="git status"):
        captures.take()
    index.write_bytes(whole)
    head = repo.git_dir / "HEAD"
    head.write_text("nonsense\n")
    with pytest.raises(Failed):
        captures.take()
    head.write_text("ref: refs/heads/main\n")
    assert captures.take().id == "k1"


def test_without_git_on_the_path_it_is_said(
    repo: GitRepo, captures: Captures, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A machine without git gets a sentence about it, not a traceback."""
    monkeypatch.setenv("PATH", str(tmp_path))
    repo.write("a.txt", "x\n")
    with pytest.raises(Unsupported, match="install git") as caught:
        captures.take()
    assert caught.value.code == "unsupported.git"
