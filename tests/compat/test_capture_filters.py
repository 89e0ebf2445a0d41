"""External filters: what they give is stored, what they can't give back is kept, and one that can't run costs only its own files."""

import sys
from pathlib import Path

import pytest

from support.captures import Captures, assert_same_tree
from support.git_repo import GitRepo


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    repo = GitRepo.init(tmp_path / "repo")
    repo.write("plain.txt", "plain\n")
    repo.commit("first")
    repo.settle()
    return repo


@pytest.fixture
def captures(repo: GitRepo, tmp_path: Path) -> Captures:
    return Captures(repo.path, tmp_path / "state")


def driver(repo: GitRepo, name: str, **commands: str) -> None:
    """Configure a filter, for all files that end in its name."""
    for command, value in commands.items():
        repo.git("config", f"filter.{name}.{command}", value)
    rules = repo.read(".gitattributes") if repo.exists(".gitattributes") else b""
    repo.write(".gitattributes", rules + f"*.{name} filter={name}\n".encode())


@pytest.mark.contract("V-120", "X-41")
def test_what_the_filter_gives_is_stored(repo: GitRepo, captures: Captures) -> None:
    """A filter that comes back exactly: its output is in the tree, nothing is kept beside it."""
    driver(repo, "rot", clean="tr a-z n-za-m", smudge="tr a-z n-za-m")
    repo.write("a.rot", "hello\n")
    repo.write("deep/b.rot", "world\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:a.rot") == b"uryyb\n"
    assert not shot.raw


def test_bytes_are_kept_where_the_filter_loses_some(repo: GitRepo, captures: Captures) -> None:
    """A clean filter that drops something (the output of a notebook) has the exact bytes kept."""
    driver(repo, "note", clean="grep -v output", smudge="cat")
    repo.write("a.note", "input\noutput 42\n")
    repo.write("b.note", "input\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:a.note") == b"input\n"
    # b.note is its own clean form, so nobody asks whether it would come back: its bytes are kept to be sure.
    assert {path: captures.kept(sha256) for path, sha256 in shot.raw.items()} == {
        b"a.note": b"input\noutput 42\n",
        b"b.note": b"input\n",
    }


def test_pointer_is_never_smudged(repo: GitRepo, captures: Captures) -> None:
    """A file that is already what the filter stores (an LFS pointer that was never fetched) must not be downloaded by a capture."""
    marker = repo.path.parent / "smudged"
    driver(repo, "lfs", clean="cat", smudge=f"touch {marker}; cat", required="true")
    repo.write("a.lfs", "version https://git-lfs.github.com/spec/v1\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert not marker.exists()
    assert captures.kept(shot.raw[b"a.lfs"]) == repo.read("a.lfs")


def test_filter_together_with_line_endings_and_ident(repo: GitRepo, captures: Captures) -> None:
    """Filters, line endings and ident apply in git's order."""
    repo.git("config", "filter.rot.clean", "tr a-z n-za-m")
    repo.git("config", "filter.rot.smudge", "tr a-z n-za-m")
    repo.write(".gitattributes", "*.x filter=rot text eol=crlf ident\n")
    repo.write("a.x", "hello $Vq: abc $\r\n")
    repo.write("b.x", "hello\n")
    shot = captures.take()
    assert_same_tree(repo, shot)


def test_filter_process(repo: GitRepo, captures: Captures, tmp_path: Path) -> None:
    """A filter that stays alive for many files (git's long-running process protocol) works as a one-shot one does."""
    program = tmp_path / "filter.py"
    program.write_text(PROCESS)
    driver(repo, "upper", process=f"{sys.executable} {program}", required="true")
    for number in range(20):
        repo.write(f"{number}.upper", f"text {number}\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:3.upper") == b"TEXT 3\n"
    assert len(shot.raw) == 20, "the case of the letters doesn't come back"


def test_filter_runs_in_the_users_locale(
    repo: GitRepo, captures: Captures, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A filter sees the user's locale, as it does under the user's own git add, not one that was chosen for us."""
    monkeypatch.setenv("LC_ALL", "C.UTF-8")
    driver(repo, "loc", clean="cat; echo $LC_ALL", smudge="cat")
    repo.write("a.loc", "x\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:a.loc") == b"x\nC.UTF-8\n"


def test_optional_filter_that_fails_is_passed_over(repo: GitRepo, captures: Captures) -> None:
    """Without ``required`` a failing filter means that the file is stored as it is: git says so, and so do we."""
    driver(repo, "bad", clean="false", smudge="false")
    repo.write("a.bad", "as it is\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("show", f"{shot.commit}:a.bad") == b"as it is\n"
    assert not shot.skipped


@pytest.mark.parametrize(
    "commands", [{"clean": "false"}, {"clean": "no-such-program"}, {}], ids=["fails", "missing", "none"]
)
def test_required_filter_that_fails_costs_only_its_own_files(
    commands: dict[str, str], repo: GitRepo, captures: Captures
) -> None:
    """Where git refuses the whole add, every other file is saved; the tree keeps what the index had, and the bytes are kept.

    On purpose not git's answer, which is none: one missing program must not cost the user every other file.
    """
    repo.write("old.bad", "old\n")
    repo.commit("before the filter was there")
    repo.settle()
    driver(repo, "bad", required="true", smudge="cat", **commands)
    driver(repo, "rot", clean="tr a-z n-za-m", smudge="tr a-z n-za-m")
    repo.write("old.bad", "old and edited\n")
    repo.write("new.bad", "new\n")
    repo.write("good.rot", "hello\n")
    repo.write("plain.txt", "edited\n")
    shot = captures.take()
    assert shot.skipped == {b"new.bad": "filter", b"old.bad": "filter"}
    assert_same_tree(repo, shot, skip=["new.bad", "old.bad"])
    assert repo.git("show", f"{shot.commit}:old.bad") == b"old\n"
    assert repo.git("show", f"{shot.commit}:good.rot") == b"uryyb\n"
    assert captures.kept(shot.raw[b"old.bad"]) == b"old and edited\n"
    assert captures.kept(shot.raw[b"new.bad"]) == b"new\n"
    assert captures.take().reused


def test_driver_that_fails_a_hundred_times_doesnt_cost_a_hundred_processes(
    repo: GitRepo, captures: Captures, tmp_path: Path
) -> None:
    """A program that isn't installed fails every one of its files; git is asked a bounded number of times."""
    count = tmp_path / "count"
    driver(repo, "bad", clean=f"echo >> {count}; false", required="true")
    for number in range(200):
        repo.write(f"{number}.bad", f"{number}\n")
    shot = captures.take()
    assert len(shot.skipped) == len(shot.raw) == 200
    assert len(count.read_text().splitlines()) < 60
    assert_same_tree(repo, shot, skip=[*shot.skipped])


def test_smudge_that_fails_keeps_the_bytes(repo: GitRepo, captures: Captures) -> None:
    """A file that git could store but not write out again has its bytes kept; the ones beside it are compared all the same."""
    driver(repo, "one", clean="tr a-z A-Z", smudge="false", required="true")
    driver(repo, "rot", clean="tr a-z n-za-m", smudge="tr a-z n-za-m")
    repo.write("a.one", "x\n")
    repo.write("b.rot", "hello\n")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert set(shot.raw) == {b"a.one"}


PROCESS = """
import sys
def read():
    size = int(sys.stdin.buffer.read(4) or b"0", 16)
    return None if size == 0 else sys.stdin.buffer.read(size - 4)
def section():
    rows = []
    while (row := read()) is not None:
        rows.append(row)
    return rows
def write(*rows):
    for row in rows:
        sys.stdout.buffer.write(b"%04x" % (len(row) + 4) + row)
    sys.stdout.buffer.write(b"0000")
    sys.stdout.buffer.flush()
section()
write(b"git-filter-server\\n", b"version=2\\n")
section()
write(b"capability=clean\\n", b"capability=smudge\\n")
while request := section():
    data = b"".join(section())
    write(b"status=success\\n")
    write(*([data.upper()] if data else []))
    write()
"""
