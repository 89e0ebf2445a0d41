"""A second capture goes by what the first one learned, and still gives git's tree, whatever changed in between."""

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from support.captures import Captures, assert_same_tree
from support.children import Child
from support.git_repo import GitRepo
from turnback.gitstore import dirty, snapshot

Step = Callable[[GitRepo], object]


@pytest.fixture(autouse=True)
def nothing_is_young(monkeypatch: pytest.MonkeyPatch) -> None:
    """Files of this moment may be remembered, as older ones are: else the tests would have to wait."""
    monkeypatch.setattr(dirty, "_YOUNG", 0)


@pytest.fixture
def repo(tmp_path: Path) -> GitRepo:
    """A repository with dirty files of every conversion."""
    repo = GitRepo.init(tmp_path / "repo")
    (tmp_path / "filter.sh").write_text("tr a-z A-Z\n")
    repo.write(".gitattributes", "*.up filter=up\n*.auto text=auto\n")
    repo.write("ignored/.gitignore", "*\n")
    repo.write("ignored/kept.txt", "x\n")
    repo.write("crlf.auto", "one\r\n")
    repo.git("add", "-f", "ignored/kept.txt", ".gitattributes")
    repo.git("-c", "core.attributesFile=/dev/null", "commit", "-q", "-m", "first")
    repo.git("config", "filter.up.clean", f"sh {tmp_path}/filter.sh")
    repo.git("config", "filter.up.smudge", "cat")
    for name in ("a.txt", "b.up", "c.auto", "deep/d.txt", "ignored/kept.txt"):
        repo.write(name, "dirty\r\n")
    repo.write("tool.sh", "#!/bin/sh\n", mode=0o755)
    return repo


def attributes_edited(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.txt text\n")


def attributes_of_the_same_size(repo: GitRepo) -> None:
    repo.write(".gitattributes", "*.up filter=up\n*.txt  text=auto\n".replace("  ", " "))


def attributes_deeper(repo: GitRepo) -> None:
    repo.write("deep/.gitattributes", "* text\n")


def attributes_gone(repo: GitRepo) -> None:
    repo.delete(".gitattributes")


def attributes_in_an_ignored_folder(repo: GitRepo) -> None:
    repo.write("ignored/.gitattributes", "* text\n")


def attributes_of_the_repository(repo: GitRepo) -> None:
    repo.write(".git/info/attributes", "* text\n")


def attributes_of_the_user(repo: GitRepo) -> None:
    (Path(os.environ["HOME"]) / ".config/git").mkdir(parents=True)
    (Path(os.environ["HOME"]) / ".config/git/attributes").write_text("* text\n")


def autocrlf(repo: GitRepo) -> None:
    repo.git("config", "core.autocrlf", "input")


def autocrlf_of_the_user(repo: GitRepo) -> None:
    (Path(os.environ["HOME"]) / "gitconfig").write_text("[core]\n\tautocrlf = input\n")


def autocrlf_in_an_include(repo: GitRepo) -> None:
    repo.git("config", "include.path", "more")
    repo.write(".git/more", "[core]\n\tautocrlf = input\n")


def filter_command(repo: GitRepo) -> None:
    repo.git("config", "filter.up.clean", "rev")


def filter_gone(repo: GitRepo) -> None:
    repo.git("config", "--remove-section", "filter.up")


def filter_program_edited(repo: GitRepo) -> None:
    (repo.path.parent / "filter.sh").write_text("tr a-z Z\n")


def staged_with_other_line_endings(repo: GitRepo) -> None:
    oid = repo.git("hash-object", "-w", "--stdin", data=b"was\r\n").decode().strip()
    repo.git("update-index", "--add", "--cacheinfo", f"100644,{oid},c.auto")


def exec_bits_ignored(repo: GitRepo) -> None:
    repo.git("config", "core.fileMode", "false")


def replaced_by_another_of_the_same_size_and_time(repo: GitRepo) -> None:
    before = repo.at("a.txt").stat()
    repo.at("other").write_bytes(b"DIRTY\r\n")
    os.utime(repo.at("other"), ns=(before.st_atime_ns, before.st_mtime_ns))
    os.rename(repo.at("other"), repo.at("a.txt"))


def edited_in_place_with_the_time_put_back(repo: GitRepo) -> None:
    before = repo.at("a.txt").stat()
    repo.at("a.txt").write_bytes(b"DIRTY\r\n")
    os.utime(repo.at("a.txt"), ns=(before.st_atime_ns, before.st_mtime_ns))


def file_became_a_link(repo: GitRepo) -> None:
    repo.delete("a.txt")
    repo.link("a.txt", "b.up")


def blob_pruned(repo: GitRepo) -> None:
    repo.git("update-ref", "-d", "refs/venom/checkpoints/a1/1")
    repo.git("gc", "-q", "--prune=now")
    repo.git("prune", "--expire=now")


def nothing(repo: GitRepo) -> None:
    pass


CHANGES = [
    attributes_edited,
    attributes_of_the_same_size,
    attributes_deeper,
    attributes_gone,
    attributes_in_an_ignored_folder,
    attributes_of_the_repository,
    attributes_of_the_user,
    autocrlf,
    autocrlf_of_the_user,
    autocrlf_in_an_include,
    filter_command,
    filter_gone,
    filter_program_edited,
    staged_with_other_line_endings,
    exec_bits_ignored,
    replaced_by_another_of_the_same_size_and_time,
    edited_in_place_with_the_time_put_back,
    file_became_a_link,
    blob_pruned,
    nothing,
]


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
def test_what_was_learned_is_only_used_while_it_holds(change: Step, repo: GitRepo, tmp_path: Path) -> None:
    """Attributes, configuration, filters, the index, the files, the object store: whatever changes, the next tree is git's."""
    captures = Captures(repo.path, tmp_path / "state")
    assert_same_tree(repo, captures.take())
    change(repo)
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("fsck", "--strict", "--no-dangling") == b""
    for path, sha256 in shot.raw.items():
        assert captures.kept(sha256) == repo.read(path)
    fresh = Captures(repo.path, tmp_path / "other-state")
    assert (shot.tree, shot.raw, shot.modes) == (
        (again := fresh.take()).tree,
        again.raw,
        again.modes,
    ), "somebody who remembers nothing found something else"


def test_pack_that_was_in_use_and_is_gone(repo: GitRepo, tmp_path: Path) -> None:
    """A pack that this process has read from may have been replaced by one without our objects: what was in it is written again."""
    captures = Captures(repo.path, tmp_path / "state")
    first = captures.take()
    repo.git("repack", "-q", "-a", "-d")
    repo.write("other.txt", "x\n")
    second = captures.take()
    assert captures.agent.checkpoint_diff(first.id, second.id, path="other.txt").files  # reads from the pack
    captures.agent.checkpoint_diff(second.id, path="a.txt")
    for name in repo.refs():
        if name.startswith("refs/venom/"):
            repo.git("update-ref", "-d", name)
    repo.git("repack", "-q", "-a", "-d")
    repo.git("prune", "--expire=now")
    shot = captures.take()
    assert_same_tree(repo, shot)
    assert repo.git("fsck", "--strict", "--no-dangling") == b""


# --- how much work it is -------------------------------------------------------------------------------------------


@pytest.fixture
def read(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """How many files each capture read."""
    counts: list[int] = []
    take = snapshot.take

    def counted(*arguments: Any, **options: Any) -> snapshot.Snapshot:
        taken = take(*arguments, **options)
        counts.append(taken.files_read)
        return taken

    monkeypatch.setattr(snapshot, "take", counted)
    return counts


@pytest.mark.contract("V-132")
def test_clean_tree_is_not_read(repo: GitRepo, tmp_path: Path, read: list[int]) -> None:
    """What the index vouches for is not opened, however many files there are."""
    for number in range(100):
        repo.write(f"many/{number}.txt", f"{number}\n")
    repo.commit("all of it")
    repo.settle()
    captures = Captures(repo.path, tmp_path / "state")
    captures.take()
    captures.take()
    assert read == [0, 0]


def test_dirty_tree_is_read_once(repo: GitRepo, tmp_path: Path, read: list[int]) -> None:
    """A tree that stays dirty for many turns is hashed once, also by another process; one more edit costs one more read."""
    captures = Captures(repo.path, tmp_path / "state")
    captures.take()
    captures.take()
    repo.write("a.txt", "again\n")
    captures.take()
    assert read[0] > 5
    assert read[1:] == [0, 1]
    program = "from turnback import Workspace\nfrom turnback.gitstore import snapshot\n" + COUNTED
    with Child(program, str(repo.path), str(tmp_path / "state")) as child:
        assert child.hear() == "0"


COUNTED = """
take = snapshot.take
def counted(*arguments, **options):
    taken = take(*arguments, **options)
    say(str(taken.files_read))
    return taken
snapshot.take = counted
Workspace.open(sys.argv[1], state_dir=sys.argv[2]).agent("a1").checkpoint()
"""


def test_racy_files_are_read_and_then_remembered(tmp_path: Path, read: list[int]) -> None:
    """In a fresh clone every file is as young as the index: read once, not at every turn."""
    origin = GitRepo.init(tmp_path / "origin")
    for number in range(20):
        origin.write(f"{number}.txt", f"{number}\n")
    origin.commit("first")
    origin.git("clone", "-q", str(origin.path), str(tmp_path / "clone"))
    clone = GitRepo(tmp_path / "clone")
    index = clone.git_dir / "index"
    at = clone.at("0.txt").stat().st_mtime_ns
    os.utime(index, ns=(at, at))
    captures = Captures(clone.path, tmp_path / "state")
    captures.take()
    captures.take()
    assert read == [20, 0]
