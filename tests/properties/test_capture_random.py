"""Random trees and random histories of edits, put to the capture and to git's own add: the trees are always the same."""

import hashlib
import os
import tempfile
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, event, given, note, settings
from hypothesis import strategies as st

from support.git_repo import GitRepo
from turnback.gitstore import snapshot
from turnback.gitstore.repo import Repository
from turnback.limits import CaptureLimits

if TYPE_CHECKING:
    from collections.abc import Callable

# Few names, so that files, folders and links meet at the same place; some are awkward, some are matched by the rules below.
NAMES = [b"a", b"b", b"c.txt", b"d.log", b"a b", b"-x", b"\xff", b":(top)", b"a.txt"]
CONTENTS = [
    b"",
    b"x",
    b"one\ntwo\n",
    b"one\r\ntwo\r\n",
    b"one\r\ntwo\n",
    b"a\0b\r\n",
    b"$Id$\r\n",
    b"y" * 3000,
]
IGNORES = [
    b"*.log\n",
    b"/a\n",
    b"a/\n!a/c.txt\n",
    b"*\n!*.txt\n",
    b"b/*\n!b/a\n",
    b"",
    b"**/a\n",
    b"\xff\n",
    b"a b\n",
]
ATTRIBUTES = [
    b"* text=auto\n",
    b"*.txt text\n",
    b"* eol=crlf\n",
    b"a* -text\n",
    b"* ident\n",
    b"[attr]m text\nc* m\n",
    b"",
]
CONFIGS = [
    ("core.autocrlf", "true"),
    ("core.autocrlf", "input"),
    ("core.eol", "crlf"),
    ("core.fileMode", "false"),
    ("core.checkStat", "minimal"),
    ("core.ignoreCase", "true"),
    ("core.trustctime", "false"),
]  # fmt: skip

names = st.sampled_from(NAMES)
folders = st.lists(names, max_size=2).map(b"/".join)
paths = st.lists(names, min_size=1, max_size=3).map(b"/".join)
contents = st.sampled_from(CONTENTS)

steps = st.one_of(
    st.tuples(st.just("write"), paths, contents, st.sampled_from([0o644, 0o755, 0o600])),
    st.tuples(st.just("write"), paths, contents, st.just(0o644)),
    st.tuples(st.just("link"), paths, paths),
    st.tuples(st.just("delete"), paths),
    st.tuples(st.just("chmod"), paths, st.sampled_from([0o644, 0o755])),
    st.tuples(st.just("touch"), paths),
    st.tuples(st.just("rules"), folders, st.sampled_from(IGNORES)),
    st.tuples(st.just("attributes"), folders, st.sampled_from(ATTRIBUTES)),
    st.tuples(st.just("add"), paths),
    st.tuples(st.just("announce"), paths),
    st.tuples(st.just("uncache"), paths),
    st.tuples(st.just("flag"), paths, st.sampled_from(["--assume-unchanged", "--skip-worktree"])),
    st.tuples(st.just("conflict"), paths, st.sets(st.sampled_from([1, 2, 3]), min_size=1)),
    st.tuples(st.just("commit")),
    st.tuples(st.just("settle")),
    st.tuples(st.just("look")),
    st.tuples(st.just("nest"), paths),
    st.tuples(st.just("rename"), paths, paths),
    st.tuples(st.just("racy"), paths, contents),
    st.tuples(st.just("form"), st.sampled_from(["--index-version=4", "--split-index", "--no-split-index"])),
    st.tuples(st.just("config"), st.sampled_from(CONFIGS)),
)


class Steps:
    """What the words above do to a repository; one that makes no sense where it stands does nothing."""

    def __init__(self, repo: GitRepo) -> None:
        self.repo = repo

    def apply(self, step: tuple[Any, ...]) -> None:
        word, *arguments = step
        make: Callable[..., None] = getattr(self, word)
        make(*arguments)

    def _free(self, path: bytes) -> bool:
        """Make the way to a path clear: what stands in it goes, links above it are not followed, repositories stay."""
        for end in [at for at, byte in enumerate(path) if byte == ord("/")]:
            above = self.repo.at(path[:end])
            if (above / ".git").exists():
                return False
            if above.is_symlink() or above.is_file():
                above.unlink()
        if self.repo.exists(path):
            self.repo.delete(path)
        return True

    def _plain(self, path: bytes) -> bool:
        """Whether the path can be named to git as it is: nothing above it is a link or a repository."""
        place = self.repo.path
        for name in path.split(b"/"):
            if place.is_symlink() or (place != self.repo.path and (place / ".git").exists()):
                return False
            place = place / os.fsdecode(name)
        return True

    def write(self, path: bytes, content: bytes, mode: int) -> None:
        if self._free(path):
            self.repo.write(path, content, mode=mode)

    def link(self, path: bytes, target: bytes) -> None:
        if self._free(path):
            self.repo.link(path, target)

    def delete(self, path: bytes) -> None:
        if self._plain(path) and self.repo.exists(path):
            self.repo.delete(path)

    def chmod(self, path: bytes, mode: int) -> None:
        place = self.repo.at(path)
        if self._plain(path) and place.is_file() and not place.is_symlink():
            place.chmod(mode)

    def touch(self, path: bytes) -> None:
        if self._plain(path) and self.repo.exists(path):
            os.utime(self.repo.at(path), ns=(10**18, 10**18), follow_symlinks=False)

    def rules(self, folder: bytes, text: bytes) -> None:
        self.write(folder + b"/.gitignore" if folder else b".gitignore", text, 0o644)

    def attributes(self, folder: bytes, text: bytes) -> None:
        self.write(folder + b"/.gitattributes" if folder else b".gitattributes", text, 0o644)

    def add(self, path: bytes) -> None:
        self._git("add", "-A", "-f", "--", path)

    def announce(self, path: bytes) -> None:
        self._git("add", "-N", "-f", "--", path)

    def uncache(self, path: bytes) -> None:
        self._git("rm", "-q", "-r", "-f", "--cached", "--", path)

    def flag(self, path: bytes, flag: str) -> None:
        if path in self.repo.git("ls-files", "-z").split(b"\0"):
            self._git("update-index", flag, "-z", "--stdin", data=path + b"\0")

    def conflict(self, path: bytes, stages: set[int]) -> None:
        ids = [self.repo.git("hash-object", "-w", "--stdin", data=text).strip() for text in CONTENTS[2:5]]
        rows = [b"0 %s\t%s\0" % (b"0" * 40, path)]
        modes = (b"100644", b"100755", b"100644")
        rows += [
            b"%s %s %d\t%s\0" % (modes[stage - 1], ids[stage - 1], stage, path) for stage in sorted(stages)
        ]
        self._git("update-index", "-z", "--index-info", data=b"".join(rows))

    def commit(self) -> None:
        self._git("-c", "core.safecrlf=false", "add", "-A")
        self._git("commit", "-q", "--allow-empty", "-m", "a commit")

    def settle(self) -> None:
        self.repo.settle()

    def nest(self, path: bytes) -> None:
        if self._plain(path) and self._free(path):
            GitRepo.init(self.repo.at(path)).commit("inside")

    def rename(self, path: bytes, to: bytes) -> None:
        apart = not to.startswith(path) and not path.startswith(to)
        if apart and self._plain(path) and self.repo.exists(path) and self._free(to):
            self.repo.at(to).parent.mkdir(parents=True, exist_ok=True)
            os.rename(self.repo.at(path), self.repo.at(to))

    def racy(self, path: bytes, content: bytes) -> None:
        """An edit that stat data don't show: the times are put back, and the index is as young as the file."""
        place = self.repo.at(path)
        index = self.repo.git_dir / "index"
        if self._plain(path) and place.is_file() and not place.is_symlink() and index.exists():
            at = place.stat().st_mtime_ns
            place.write_bytes(content)
            os.utime(place, ns=(at, at))
            os.utime(index, ns=(at, at))

    def form(self, option: str) -> None:
        self._git("update-index", *option.split("="))

    def config(self, setting: tuple[str, str]) -> None:
        self._git("config", *setting)

    def _git(self, *arguments: str | bytes, data: bytes | None = None) -> None:
        self.repo.git("--literal-pathspecs", *arguments, data=data, check=False)


class Memory:
    """Bytes that are kept beside the trees."""

    def __init__(self) -> None:
        self.held: set[str] = set()

    def put(self, data: bytes) -> str:
        sha256 = hashlib.sha256(data).hexdigest()
        self.held.add(sha256)
        return sha256

    def has(self, sha256: str) -> bool:
        return sha256 in self.held


def put_to_both(history: list[tuple[Any, ...]]) -> None:
    """Make the history in a fresh repository, and let both answer wherever somebody looks, and twice at its end."""
    with tempfile.TemporaryDirectory(prefix="turnback-random-") as name:
        repo = GitRepo.init(Path(name, "repo"))
        repository, pool = Repository(str(repo.path)), Memory()
        doing = Steps(repo)
        for step in [*history, ("look",), ("look",)]:
            if step == ("look",):
                look(repo, repository, pool, Path(name))
            else:
                doing.apply(step)


def look(repo: GitRepo, repository: Repository, pool: Memory, place: Path) -> None:
    """One capture, with all that is remembered from the ones before it; its tree must be the one that git gives."""
    index = repo.git_dir / "index"
    before = index.read_bytes() if index.exists() else None
    with tempfile.TemporaryDirectory(dir=place) as scratch:
        taken = snapshot.take(
            repository,
            CaptureLimits(1 << 30, 1 << 30),
            usual=0o644,
            scratch=scratch,
            pool=pool,
            cache_file=str(place / "cache"),
        )
    assert (index.read_bytes() if index.exists() else None) == before
    assert all(item.reason == "skip_worktree" for item in taken.skipped)
    assert all(item.sha256 in pool.held for item in taken.raw)
    try:
        wanted = repo.tree_of_add_all()
    except AssertionError as error:
        # git's add leaves a conflict beneath what is a file or link now, and can't write a tree then; and it takes a tree in which
        # everything is skip-worktree for one outside a sparse checkout.
        if "unmerged" not in str(error) and "sparse-checkout" not in str(error):
            raise
        event("git refuses")
        return
    if taken.tree != wanted:
        ours, gits = repo.ls_tree(taken.tree), repo.ls_tree_of_add_all()
        for path in sorted(ours.keys() | gits.keys()):
            if ours.get(path) != gits.get(path):
                note(f"{path!r}: ours {ours.get(path)}, git's {gits.get(path)}")
    assert taken.tree == wanted


CHECKS = [HealthCheck.too_slow, HealthCheck.function_scoped_fixture, HealthCheck.large_base_example]


@settings(max_examples=200, deadline=None, suppress_health_check=CHECKS)
@given(history=st.lists(steps, min_size=2, max_size=20))
def test_random_histories(history: list[tuple[Any, ...]]) -> None:
    """Whatever was written, linked, staged, flagged, ignored, committed or put in conflict: one tree, git's."""
    put_to_both(history)


@pytest.mark.explore
@settings(max_examples=2000, deadline=None, suppress_health_check=CHECKS)
@given(history=st.lists(steps, min_size=10, max_size=60))
def test_long_random_histories(history: list[tuple[Any, ...]]) -> None:
    """The same, longer and more often."""
    put_to_both(history)
