"""The same question to git and to the walk: which files differ from the index, the race of same-size edits included."""

from __future__ import annotations

import os
import random
import shutil
import stat
from typing import TYPE_CHECKING, Any, NamedTuple

import pytest

from support.index_oracle import SECOND, Repo, agree, sample
from turnback.native.walk import EntryState, Walker

if TYPE_CHECKING:
    from pathlib import Path

    from turnback.native.index import IndexEntry, IndexView
    from turnback.native.walk import Item, Kind, Walk


@pytest.fixture
def repo(tmp_path: Path) -> Repo:
    return sample(tmp_path / "repo")


class Look(NamedTuple):
    trust_ctime: bool
    minimal: bool


def look(repo: Repo, view: IndexView, index_mtime_ns: int | None = None, **options: Any) -> Walk:
    """One walk of the repository's tree."""
    fd = os.open(repo.root, os.O_RDONLY)
    try:
        mtime_ns = os.stat(repo.index).st_mtime_ns if index_mtime_ns is None else index_mtime_ns
        return Walker().walk(view, fd, mtime_ns, **options)
    finally:
        os.close(fd)


def tracked(walk: Walk) -> dict[int, Item]:
    """What the index has and doesn't vouch for, by position; no position twice."""
    items = [(item.position, item) for item in walk.items if item.position is not None]
    found = dict(items)
    assert len(found) == len(items)
    return found


def content_differs(repo: Repo, entry: IndexEntry) -> bool:
    """What git does about a racy file: it reads it."""
    if entry.mode == 0o120000:
        content = os.readlink(os.path.join(os.fsencode(repo.root), entry.path))
        oid = repo.git("hash-object", "--stdin", stdin=content)
    else:
        oid = repo.git("hash-object", "--no-filters", "--", entry.path)
    return oid.strip().decode() != entry.oid.hex()


def differing(repo: Repo, view: IndexView, how: Look, threads: int = 1) -> dict[bytes, bytes]:
    """Path to the letter that ``git diff-files`` would give, from our walk; racy files are read, as git reads them."""
    walk = look(
        repo, view, trust_ctime=how.trust_ctime, full=not how.minimal, nanoseconds=False, threads=threads
    )
    found = {}
    for position, item in tracked(walk).items():
        entry = view.entry(position)
        if item.kind is EntryState.RACY:
            if content_differs(repo, entry):
                found[entry.path] = b"M"
        elif item.kind is EntryState.CHANGED:
            found[entry.path] = b"M" if stat.S_IFMT(item.mode) == stat.S_IFMT(entry.mode) else b"T"
        elif item.kind in (EntryState.DELETED, EntryState.FOLDER):
            found[entry.path] = b"D"
    return found


def git_says(repo: Repo) -> dict[bytes, bytes]:
    fields = repo.git("diff-files", "--raw", "-z").split(b"\0")[:-1]
    return {path: meta.split()[4] for meta, path in zip(fields[::2], fields[1::2], strict=True)}


def edit(root: Path, path: str, chance: random.Random) -> str:
    """One random change; the clock of what is written is set by hand."""
    file = root / path
    before = os.lstat(file)
    kept = (before.st_mtime_ns, before.st_mtime_ns)
    content = file.read_bytes()
    kind = chance.choice(
        [
            "none",
            "none",
            "touch",
            "same size",
            "racy",
            "racy",
            "grow",
            "mode",
            "delete",
            "link",
            "folder",
            "empty",
            "rename",
        ]
    )
    match kind:
        case "touch":
            os.utime(file, ns=(0, before.st_mtime_ns + chance.choice([1, 10]) * SECOND))
        case "same size":
            file.write_bytes(content.swapcase())
            os.utime(file, ns=(0, before.st_mtime_ns + 3 * SECOND))
        case "racy":
            with open(file, "r+b") as same:
                same.write(content.swapcase())
            os.utime(file, ns=kept)
        case "grow":
            file.write_bytes(content + b"!")
            os.utime(file, ns=kept)
        case "mode":
            file.chmod(before.st_mode ^ 0o111)
        case "delete":
            file.unlink()
        case "link":
            file.unlink()
            file.symlink_to("a")
        case "folder":
            file.unlink()
            file.mkdir()
            (file / "inside").touch()
        case "empty":
            file.write_bytes(b"")
            os.utime(file, ns=kept)
        case "rename":  # another inode with the same content and time
            file.rename(file.with_name("aside"))
            shutil.copy2(file.with_name("aside"), file)
            file.with_name("aside").unlink()
    return kind


@pytest.mark.parametrize(
    "how", [Look(True, False), Look(False, False), Look(False, True)], ids=["full", "no-ctime", "minimal"]
)
@pytest.mark.parametrize("seed", range(8))
def test_random_edits(tmp_path: Path, seed: int, how: Look) -> None:
    chance = random.Random(seed)
    repo = Repo(tmp_path / "repo")
    repo.git("config", "core.trustctime", str(how.trust_ctime).lower())
    if how.minimal:
        repo.git("config", "core.checkStat", "minimal")
    paths = [f"d{i % 4}/e{i % 3}/file{i}" for i in range(40)] + [f"top{i}" for i in range(10)]
    for path in paths:
        repo.write(path)
        stamp = chance.choice([1000, 1001, 1002]) * SECOND + chance.randrange(SECOND)
        os.utime(repo.root / path, ns=(stamp, stamp))
    repo.git("add", "-A")
    written = chance.choice([1000, 1001, 1002, 1003]) * SECOND + chance.randrange(SECOND)
    os.utime(repo.index, ns=(written, written))
    view = agree(repo)
    assert differing(repo, view, how) == git_says(repo)
    kinds = {path: edit(repo.root, path, chance) for path in chance.sample(paths, 35)}
    if seed % 2:
        (repo.root / "d1").rename(repo.root / "elsewhere")
        if seed % 4 == 1:
            (repo.root / "d1").symlink_to("elsewhere")
        shutil.rmtree(repo.root / "d2/e1")
    os.utime(repo.index, ns=(written, written))
    expected = git_says(repo)
    assert differing(repo, view, how) == expected, kinds
    assert differing(repo, view, how, threads=3) == expected
    # and once more with an index that git wrote afterwards: its racy entries are smudged
    repo.git("update-index", "-q", "--refresh", check=False)
    os.utime(repo.index, ns=(written, written))
    assert differing(repo, agree(repo), how) == git_says(repo)


def test_a_same_size_edit_in_the_second_of_the_add_is_seen(repo: Repo) -> None:
    how = Look(False, False)
    repo.git("config", "core.trustctime", "false")
    now = 1_500_000_000 * SECOND
    repo.write("a-b", "one")
    os.utime(repo.root / "a-b", ns=(now, now))
    repo.git("add", "a-b")
    with open(repo.root / "a-b", "r+b") as file:
        file.write(b"two")
    os.utime(repo.root / "a-b", ns=(now, now))
    for index_time, seen in ((now, True), (now + SECOND - 1, True), (now + SECOND, False)):
        os.utime(repo.index, ns=(index_time, index_time))
        assert (b"a-b" in git_says(repo)) is seen
        assert (b"a-b" in differing(repo, repo.view(), how)) is seen


def test_a_smudged_entry_is_read(repo: Repo) -> None:
    """git writes size 0 for an entry it knows to be racy and changed; a file emptied later must not pass for it."""
    repo.git("config", "core.trustctime", "false")
    now = 1_500_000_000 * SECOND
    repo.write("a-b", "one")
    os.utime(repo.root / "a-b", ns=(now, now))
    repo.git("add", "a-b")
    os.utime(repo.index, ns=(now, now))
    with open(repo.root / "a-b", "r+b") as file:
        file.write(b"two")
    os.utime(repo.root / "a-b", ns=(now, now))
    repo.git("update-index", "--chmod=+x", "tool", "a")  # any write of the index
    view = agree(repo)
    assert view.entry(view.find(b"a-b") or 0).size == 0
    os.utime(repo.index, ns=(now + 9 * SECOND, now + 9 * SECOND))
    (repo.root / "a-b").write_bytes(b"")
    os.utime(repo.root / "a-b", ns=(now, now))
    assert git_says(repo)[b"a-b"] == b"M"
    assert differing(repo, view, Look(False, False))[b"a-b"] == b"M"


def test_what_git_was_asked_to_overlook_is_seen(repo: Repo) -> None:
    repo.git("update-index", "--assume-unchanged", "a-b")
    repo.write("a-b", "other content")
    assert b"a-b" not in git_says(repo)
    assert differing(repo, agree(repo), Look(True, False))[b"a-b"] == b"M"


def test_skip_worktree_and_sparse_folders_are_left_alone(repo: Repo) -> None:
    repo.git("sparse-checkout", "set", "--cone", "--sparse-index", "docs")
    view = agree(repo)
    walk = look(repo, view, os.stat(repo.index).st_mtime_ns + 9 * SECOND)
    skipped = {
        view.path(position)
        for position, item in tracked(walk).items()
        if item.kind is EntryState.SKIP_WORKTREE
    }
    assert skipped == {b"src/"}
    assert walk.stat_calls == len(view) - 1


def test_a_submodule_is_told_apart(repo: Repo) -> None:
    inner = Repo(repo.root / "sub")
    inner.write("x")
    inner.git("add", "-A")
    inner.git("commit", "-qm", "x")
    repo.git("-c", "advice.addEmbeddedRepo=false", "add", "sub")
    how = Look(True, False)
    view = agree(repo)
    position = view.find(b"sub") or 0
    assert view.entry(position).mode == 0o160000

    def status() -> tuple[Kind | EntryState, int] | None:
        found = tracked(look(repo, view)).get(position)
        return None if found is None else (found.kind, stat.S_IFMT(found.mode))

    assert status() == (EntryState.GITLINK, stat.S_IFDIR)
    shutil.rmtree(repo.root / "sub")
    assert status() == (EntryState.DELETED, 0)
    assert differing(repo, view, how)[b"sub"] == git_says(repo)[b"sub"] == b"D"
    repo.write("sub", "a file")
    assert status() == (EntryState.CHANGED, stat.S_IFREG)
    assert differing(repo, view, how)[b"sub"] == git_says(repo)[b"sub"] == b"T"


def test_conflicts_are_always_looked_at(repo: Repo) -> None:
    blob = repo.git("hash-object", "-w", "--stdin", stdin=b"x").decode().strip()
    lines = f"0 {'0' * 40}\ta-b\n" + "".join(f"100644 {blob} {stage}\ta-b\n" for stage in (1, 2, 3))
    repo.git("update-index", "--index-info", stdin=lines.encode())
    assert differing(repo, agree(repo), Look(True, False)).get(b"a-b") == b"M"
    (repo.root / "a-b").unlink()
    assert differing(repo, agree(repo), Look(True, False)).get(b"a-b") == b"D"
