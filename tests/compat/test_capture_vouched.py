"""Files that the index vouches for: where git would write them out with other bytes, the exact ones are kept, and each is read once."""

import hashlib
import os
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree
from support.children import Child
from support.conversions import CONFIGS, assert_exact, fill
from support.git_repo import GitRepo
from turnback.gitstore import dirty
from turnback.gitstore.repo import Repository


@pytest.fixture(autouse=True)
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Attributes of this moment count as settled, as older ones do: else the tests would have to wait."""
    monkeypatch.setattr(dirty, "_YOUNG", 0)


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """A clean, settled repository under ``autocrlf``, with a file whose line endings are mixed."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.git("config", "core.autocrlf", "true")
    repo.git("config", "core.safecrlf", "false")
    repo.write("mixed.txt", b"one\r\ntwo\nthree\r\n")
    repo.write("crlf.txt", b"one\r\ntwo\r\n")
    repo.write("lf.txt", b"one\ntwo\n")
    repo.write("data.bin", bytes(range(256)))
    repo.commit("first")
    repo.settle()
    assert repo.git("status", "--porcelain") == b""
    return repo


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def read_for_proof(captures: Captures) -> int:
    """How many files the last capture opened for a comparison."""
    context = captures.workspace._context
    tree = captures.state().trees[0]
    repository = context.repository(tree)
    return repository.kept.vouched(context.dirty_file(repository.key)).files_read


def test_mixed_line_endings_come_back(repo: GitRepo, captures: Captures, tmp_path: Path) -> None:
    """Nobody has touched the file, so a capture needn't open it; but git would write CR LF all through, so its bytes are kept."""
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert set(shot.raw) == {b"mixed.txt", b"lf.txt"}
    assert_exact(repo, captures, shot, tmp_path / "out")
    before = {name: repo.read(name) for name in ("mixed.txt", "crlf.txt", "lf.txt", "data.bin")}
    for name in before:
        repo.write(name, "by the agent\n")
    plan = captures.agent.rollback("k1", restore="files", outside="overwrite", dry_run=True)
    done = captures.agent.rollback("k1", restore="files", outside="overwrite", plan=plan.plan)
    assert done.exact
    assert {name: repo.read(name) for name in before} == before


@pytest.mark.parametrize(("autocrlf", "eol"), CONFIGS)
def test_every_conversion_of_a_clean_tree(autocrlf: str, eol: str, tmp_path: Path) -> None:
    """Every attribute and content, committed and left alone: kept is exactly what git would write differently."""
    repo = GitRepo.init(tmp_path / "repo")
    fill(repo)
    repo.git("config", "core.autocrlf", autocrlf)
    repo.git("config", "core.eol", eol)
    repo.git("-c", "core.safecrlf=false", "add", "-A")
    repo.git("commit", "-q", "-m", "all of it")
    repo.settle()
    captures = Captures(repo.path, tmp_path / "state")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert_exact(repo, captures, shot, tmp_path / "out")
    again = captures.take()
    assert (again.reused, read_for_proof(captures)) == (True, 0)


def test_where_nothing_is_converted_nothing_is_read(tmp_path: Path) -> None:
    """Without attributes and without ``autocrlf`` there is nothing to prove, and nothing is remembered."""
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("mixed.txt", b"one\r\ntwo\n")
    repo.commit("first")
    repo.settle()
    captures = Captures(repo.path, tmp_path / "state")
    assert not captures.take().raw
    assert read_for_proof(captures) == 0
    assert not list((tmp_path / "state").rglob("*.proofs"))


def test_conversion_that_was_dropped_since(repo: GitRepo, captures: Captures, tmp_path: Path) -> None:
    """A file that was stored under other rules than today's isn't written back as it is either: its size betrays it."""
    repo.git("config", "core.autocrlf", "false")
    repo.write(".gitattributes", "*.c text\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert set(shot.raw) == {b"mixed.txt", b"crlf.txt"}
    assert_exact(repo, captures, shot, tmp_path / "out")
    repo.delete(".gitattributes")
    assert set(captures.take().raw) == {b"mixed.txt", b"crlf.txt"}


def test_output_that_a_filter_strips(repo: GitRepo, captures: Captures) -> None:
    """The stripped output of a committed notebook is in no blob: it is kept."""
    repo.git("config", "filter.note.clean", "grep -v output")
    repo.git("config", "filter.note.smudge", "cat")
    repo.write(".gitattributes", "*.note filter=note\n")
    repo.write("a.note", b"input\noutput\n")
    repo.write("b.note", b"input\n")
    repo.commit("notes")
    repo.settle()
    shot = captures.take()
    assert captures.kept(shot.raw[b"a.note"]) == b"input\noutput\n"


def test_large_file_storage_is_never_asked(repo: GitRepo, captures: Captures, tmp_path: Path) -> None:
    """A pointer says what it stands for, so neither is the content read nor a missing one downloaded; an unfetched pointer is kept as it is."""
    marker = tmp_path / "smudged"
    content = b"big\n" * 1000
    pointer = b"version https://git-lfs.github.com/spec/v1\noid sha256:%s\nsize %d\n" % (
        hashlib.sha256(content).hexdigest().encode(),
        len(content),
    )
    (tmp_path / "pointer").write_bytes(pointer)
    repo.git("config", "filter.lfs.clean", f"cat {tmp_path}/pointer")
    repo.git("config", "filter.lfs.smudge", f"touch {marker}; cat")
    repo.write(".gitattributes", "*.lfs filter=lfs -text\n")
    repo.write("fetched.lfs", content)
    repo.write("pointer.lfs", pointer)
    repo.commit("large files")
    repo.settle()
    marker.unlink(missing_ok=True)
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert not marker.exists()
    assert b"fetched.lfs" not in shot.raw
    assert captures.kept(shot.raw[b"pointer.lfs"]) == pointer


# --- how much work it is -------------------------------------------------------------------------------------------


def test_each_file_is_read_once(repo: GitRepo, captures: Captures, tmp_path: Path) -> None:
    """After the first capture only entries that are new in the index are looked at; another process looks at none."""
    captures.take()
    assert read_for_proof(captures) == 4
    captures.take()
    assert read_for_proof(captures) == 0
    repo.write("mixed.txt", b"1\r\n2\n")
    repo.write("new.txt", b"1\r\n2\n")
    repo.commit("two files")
    repo.settle()
    shot = captures.take()
    assert read_for_proof(captures) == 2
    assert captures.kept(shot.raw[b"mixed.txt"]) == b"1\r\n2\n"
    with Child(PROGRAM, str(repo.path), str(tmp_path / "state")) as child:
        assert child.hear() == "0 k2 True"


PROGRAM = """
from turnback import Workspace
from turnback.gitstore import dirty
dirty._YOUNG = 0
workspace = Workspace.open(sys.argv[1], state_dir=sys.argv[2])
taken = workspace.agent("a1").checkpoint()
context = workspace._context
repository = context.repository(context.state().agent("a1").trees[0])
say(f"{repository.kept.vouched(context.dirty_file(repository.key)).files_read} {taken.checkpoint} {taken.reused}")
"""


def test_edit_that_is_taken_back_is_looked_at_again(repo: GitRepo, captures: Captures) -> None:
    """While a file is dirty it is the capture's own business; when the index vouches for it again, so do the proofs."""
    first = captures.take()
    mixed = repo.read("mixed.txt")
    repo.write("mixed.txt", "edited\r\n")
    assert b"mixed.txt" not in captures.take().raw
    repo.write("mixed.txt", mixed)
    repo.settle()
    assert captures.take().raw == first.raw


@pytest.mark.parametrize("how", ["gone", "cut", "damaged", "of_another_form"])
def test_proofs_that_are_lost_cost_time_only(
    repo: GitRepo, captures: Captures, tmp_path: Path, how: str
) -> None:
    """The file is a hint: without it every file is compared again, and the answer is the same."""
    first = captures.take()
    (place,) = (tmp_path / "state").rglob("*.proofs")
    if how == "gone":
        place.unlink()
    elif how == "cut":
        os.truncate(place, 100)
    elif how == "damaged":
        data = bytearray(place.read_bytes())
        data[-20] ^= 1
        place.write_bytes(data)
    else:
        place.write_bytes(hashlib.sha256(b"[]").hexdigest().encode() + b"\n[]")
    other = Captures(repo.path, tmp_path / "state2")  # an agent in another state folder knows nothing of it
    assert other.take().raw == first.raw
    with Child(PROGRAM, str(repo.path), str(tmp_path / "state")) as child:
        assert child.hear() == "4 k1 True"


def test_bytes_that_the_pool_lost_are_kept_again(repo: GitRepo, captures: Captures) -> None:
    """A proof names bytes; where they are gone the file is read again."""
    shot = captures.take()
    os.unlink(captures.workspace._context.pool.path(shot.raw[b"mixed.txt"]))
    again = captures.take()
    assert again.reused
    assert captures.kept(again.raw[b"mixed.txt"]) == repo.read("mixed.txt")


def test_what_there_was_no_time_for_is_taken_up_later(
    repo: GitRepo, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The comparison has a share of a capture's time; when that is over the checkpoint is made without it, and the next one goes on."""
    from turnback.gitstore import roundtrip

    monkeypatch.setattr(roundtrip, "_SHARE", float("inf"))
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert not shot.raw
    monkeypatch.undo()
    assert set(captures.take().raw) == {b"mixed.txt", b"lf.txt"}


def test_file_that_cant_be_read_is_no_hindrance(repo: GitRepo, captures: Captures) -> None:
    """A vouched file that went a moment ago proves nothing, and fails nothing."""
    captures.take()
    repository = Repository(str(repo.path))
    assert repository.kept.index().view.find(b"lf.txt") is not None
    repo.delete("lf.txt")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert b"lf.txt" not in shot.raw
