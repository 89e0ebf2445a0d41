"""Files that change while a capture is at work: each is taken as what it is when it is opened, and nothing outside the tree is ever read."""

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from support.captures import populated
from support.git_repo import GitRepo
from turnback.gitstore import ignore, indextree
from turnback.gitstore import scan as scanning
from turnback.gitstore.repo import Repository
from turnback.gitstore.storing import Storing
from turnback.gitstore.writer import ObjectWriter
from turnback.limits import CaptureLimits, SkipReason

LIMITS = CaptureLimits(1000, 10_000)


class NoPool:
    """Nothing is kept in these tests."""

    def put(self, data: bytes) -> str:
        raise AssertionError(data)

    def has(self, sha256: str) -> bool:
        return False


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """A tracked, edited file, an edited executable and a new one, all in a folder, and a changed link."""
    repo = populated(tmp_path / "repo")
    repo.write("d/tracked", "one\n")
    repo.write("d/run", "one\n", mode=0o755)
    repo.link("d/link", "tracked")
    repo.commit("d")
    repo.settle()
    repo.write("d/tracked", "edited\n")
    repo.write("d/run", "edited\n")
    repo.delete("d/link")
    repo.link("d/link", "run")
    repo.write("d/new", "new\n")
    return repo


def captured(
    repo: GitRepo, scratch: Path, meanwhile: Callable[[], object]
) -> tuple[dict[bytes, tuple[str, str]], Storing]:
    """The entries below ``d`` of a capture during which something happens between the look and the reading."""
    repository = Repository(str(repo.path))
    settings = repository.kept.configuration.read()
    found = scanning.scan(repository, settings, ignore.rules_now(repository, settings), usual=0o644)
    meanwhile()
    writer = ObjectWriter(repository)
    store = Storing(repository, settings, LIMITS, {}, 0o644, str(scratch), NoPool(), None, writer)
    store.store(found.candidates)
    edits = {**dict.fromkeys(found.deleted), **store.edits}
    tree = indextree.write(repository, found.view, edits, writer, [])
    writer.flush()
    return {path: entry for path, entry in repo.ls_tree(tree).items() if path.startswith(b"d/")}, store


def text(repo: GitRepo, entries: dict[bytes, tuple[str, str]], path: bytes) -> bytes:
    return repo.git("cat-file", "blob", entries[path][1])


def test_nothing_happens(repo: GitRepo, tmp_path: Path) -> None:
    """The scene itself: four files are read and stored."""
    entries, store = captured(repo, tmp_path, lambda: None)
    assert entries.keys() == {b"d/tracked", b"d/run", b"d/link", b"d/new"}
    assert store.files_read == 4


def test_files_that_vanish_are_gone(repo: GitRepo, tmp_path: Path) -> None:
    """A tracked file is deleted then, a new one was never there."""

    def vanish() -> None:
        repo.delete("d/tracked")
        repo.delete("d/new")

    entries, store = captured(repo, tmp_path, vanish)
    assert entries.keys() == {b"d/run", b"d/link"}
    assert not store.skipped


def test_folder_that_vanishes_is_gone_with_its_files(repo: GitRepo, tmp_path: Path) -> None:
    """When the folder goes, everything in it does."""
    assert captured(repo, tmp_path, lambda: repo.delete("d"))[0] == {}


def test_file_that_became_a_link_is_a_link(repo: GitRepo, tmp_path: Path) -> None:
    """And a link that became a file is a file: mode and content are those of the moment it is opened."""

    def swap() -> None:
        repo.delete("d/tracked")
        repo.link("d/tracked", "/etc/passwd")
        repo.delete("d/link")
        repo.write("d/link", "a file\n")

    entries, store = captured(repo, tmp_path, swap)
    assert entries[b"d/tracked"][0] == "120000"
    assert text(repo, entries, b"d/tracked") == b"/etc/passwd"
    assert entries[b"d/link"][0] == "100644"
    assert text(repo, entries, b"d/link") == b"a file\n"
    assert not store.skipped


def test_file_that_became_a_folder_is_gone(repo: GitRepo, tmp_path: Path) -> None:
    """What is in the folder is for the next capture to see."""

    def swap() -> None:
        repo.delete("d/tracked")
        repo.write("d/tracked/inside", "x\n")

    entries, _ = captured(repo, tmp_path, swap)
    assert entries.keys() == {b"d/run", b"d/link", b"d/new"}


def test_pipe_in_the_place_of_a_file_is_never_opened(repo: GitRepo, tmp_path: Path) -> None:
    """Opening it would wait for ever: it is left out, and the tree keeps what the index had."""

    def swap() -> None:
        repo.delete("d/tracked")
        os.mkfifo(repo.at("d/tracked"))

    entries, store = captured(repo, tmp_path, swap)
    assert text(repo, entries, b"d/tracked") == b"one\n"
    assert [(item.path, item.reason) for item in store.skipped] == [(b"d/tracked", SkipReason.NOT_REGULAR)]


def test_link_in_the_place_of_a_folder_is_never_followed(repo: GitRepo, tmp_path: Path) -> None:
    """A folder that becomes a link to somewhere else takes nothing from there into the tree."""
    (tmp_path / "outside").mkdir()
    for name in ("tracked", "run", "link", "new"):
        (tmp_path / "outside" / name).write_text("somebody else's secret\n")

    def swap() -> None:
        repo.delete("d")
        repo.link("d", str(tmp_path / "outside"))

    entries, _ = captured(repo, tmp_path, swap)
    assert entries == {}


def test_file_that_grows_beyond_the_limit_is_left_out(repo: GitRepo, tmp_path: Path) -> None:
    """The limit holds for what is read, not only for what was seen."""
    entries, store = captured(repo, tmp_path, lambda: repo.write("d/new", b"x" * 1001))
    assert b"d/new" not in entries
    assert [(item.path, item.reason, item.bytes) for item in store.skipped] == [
        (b"d/new", SkipReason.TOO_BIG, 1001)
    ]


def test_file_that_changes_is_taken_as_it_is_now(repo: GitRepo, tmp_path: Path) -> None:
    """Later content is newer work; the mode is that of the look."""
    entries, _ = captured(repo, tmp_path, lambda: repo.write("d/run", "later\n"))
    assert text(repo, entries, b"d/run") == b"later\n"
    assert entries[b"d/run"][0] == "100755"


def test_file_that_vanishes_before_its_filter_runs_is_gone(repo: GitRepo, tmp_path: Path) -> None:
    """git reads converted files itself, a moment after us: one that is gone by then is no failed filter."""
    repo.git("config", "filter.bye.clean", f"rm -f {repo.path}/d/b.bye; cat")
    repo.write(".gitattributes", "*.bye filter=bye\n")
    for name in ("d/a.bye", "d/b.bye", "d/c.bye"):
        repo.write(name, "x\n")

    class Pool(NoPool):
        def put(self, data: bytes) -> str:
            return "0" * 64

    repository = Repository(str(repo.path))
    settings = repository.kept.configuration.read()
    found = scanning.scan(repository, settings, ignore.rules_now(repository, settings), usual=0o644)
    writer = ObjectWriter(repository)
    store = Storing(repository, settings, LIMITS, {}, 0o644, str(tmp_path), Pool(), None, writer)
    store.store(found.candidates)
    assert store.edits[b"d/b.bye"] is None
    assert {b"d/a.bye", b"d/c.bye"} <= {path for path, entry in store.edits.items() if entry is not None}
    assert not store.skipped
