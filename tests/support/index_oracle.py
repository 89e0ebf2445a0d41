"""Repositories made by git whose index is put both to git and to the reader: the words of each, and where they must agree."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from typing import TYPE_CHECKING

from turnback.native.index import IndexView

if TYPE_CHECKING:
    from pathlib import Path

SECOND = 10**9
DEBUG = re.compile(
    rb"(?P<tag>\S) (?P<mode>\d{6}) (?P<oid>[0-9a-f]+) (?P<stage>\d)\t(?P<path>[^\0]*)\0"
    rb"  ctime: (?P<ctime_s>\d+):(?P<ctime_ns>\d+)\n  mtime: (?P<mtime_s>\d+):(?P<mtime_ns>\d+)\n"
    rb"  dev: (?P<dev>\d+)\tino: (?P<ino>\d+)\n  uid: (?P<uid>\d+)\tgid: (?P<gid>\d+)\n"
    rb"  size: (?P<size>\d+)\tflags: (?P<flags>[0-9a-f]+)\n"
)


class Repo:
    """A repository made by git, with a home of its own and no configuration but its own."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self.clock = 1_000_000_000 * SECOND  # files are old, so that none is racy unless a test makes it so
        self.home = root.parent / "home"
        self.home.mkdir(exist_ok=True)
        root.mkdir()
        self.git("init", "-q", *options)

    def git(self, *arguments: str | bytes, stdin: bytes = b"", check: bool = True, **extra: str) -> bytes:
        who = {f"GIT_{role}_{what}": "a@b" for role in ("AUTHOR", "COMMITTER") for what in ("NAME", "EMAIL")}
        env = {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "GIT_CONFIG_NOSYSTEM": "1",
            "LC_ALL": "C",
            **who,
            **extra,
        }
        done = subprocess.run(
            ["git", *arguments], cwd=self.root, env=env, input=stdin, capture_output=True, check=False
        )
        assert not check or done.returncode == 0, done.stderr
        return done.stdout

    def write(self, path: str, content: str = "") -> None:
        file = self.root / path
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(content or path)
        os.utime(file, ns=(0, self.clock))

    @property
    def index(self) -> Path:
        return self.root / ".git/index"

    def view(self, oid_size: int = 20) -> IndexView:
        data = self.index.read_bytes()
        shared = IndexView.shared_oid(data, oid_size)
        base = None if shared is None else (self.root / f".git/sharedindex.{shared.hex()}").read_bytes()
        view = IndexView.parse(data, base, oid_size)
        assert view.checksum_ok(data)
        return view

    def debug(self) -> list[dict[str, bytes]]:
        output = self.git("ls-files", "--sparse", "-s", "-v", "-z", "--debug")
        found = list(DEBUG.finditer(output))
        assert sum(len(match[0]) for match in found) == len(output), "git's output was not understood"
        return [match.groupdict() for match in found]


def mine(view: IndexView) -> list[dict[str, bytes]]:
    """The view in the words of ``git ls-files --debug``."""
    lines = []
    for position, entry in enumerate(view):
        raw = view._index.entries[position]
        tag = "S" if entry.skip_worktree else "M" if entry.stage else "H"
        line = {
            "tag": (tag.lower() if entry.assume_unchanged else tag).encode(),
            "mode": b"%06o" % entry.mode,
            "oid": entry.oid.hex().encode(),
            "stage": b"%d" % entry.stage,
            "path": entry.path,
        }
        for name in ("ctime_s", "ctime_ns", "mtime_s", "mtime_ns", "dev", "ino", "uid", "gid", "size"):
            line[name] = b"%d" % getattr(raw, name)
        lines.append(line)
    return lines


def agree(repo: Repo, oid_size: int = 20) -> IndexView:
    """Every entry is what git says, flags included; returns the view for more questions."""
    theirs = repo.debug()
    view = repo.view(oid_size)
    intents = [bool(int(line.pop("flags"), 16) & 1 << 29) for line in theirs]
    assert mine(view) == theirs
    assert [entry.intent_to_add for entry in view] == intents
    for position in range(0, len(view), max(1, len(view) // 50)):
        entry = view.entry(position)
        assert view.find(entry.path, entry.stage) == position
    return view


def trees_agree(repo: Repo, view: IndexView) -> None:
    """Every valid node is the tree that git would write for that folder, and covers as many entries as git lists."""
    copy = repo.root / ".git/copy"
    shutil.copy2(repo.index, copy)
    tree = repo.git("write-tree", GIT_INDEX_FILE=str(copy)).strip()
    folders = {b"": tree}
    for line in repo.git("ls-tree", "-r", "-t", "-d", "-z", tree).split(b"\0")[:-1]:
        meta, _, path = line.partition(b"\t")
        folders[path] = meta.split()[2]
    listed = [entry.path for entry in view]
    for folder in view.tree_nodes.folders():
        node = view.tree_nodes.get(folder)
        assert node is not None
        if node.oid is None:
            continue
        assert node.oid.hex().encode() == folders[folder], folder
        within = [path for path in listed if path.startswith(folder + b"/" if folder else b"")]
        assert node.entry_count == len(within) == len(view.prefix(folder))


def sample(root: Path) -> Repo:
    """A small committed tree: names that sort oddly, one that is not UTF-8, an executable, a link."""
    made = Repo(root)
    for path in (
        "a",
        "a-b",
        "ab",
        "src/x.c",
        "src/lib/y.c",
        "src/lib/z.c",
        "src.h",
        "docs/one",
        "docs/two",
        "tool",
    ):
        made.write(path)
    (made.root / "tool").chmod(0o755)
    (made.root / "link").symlink_to("docs/one")
    with open(os.fsencode(made.root) + b"/caf\xe9\xff", "wb"):
        pass
    made.git("add", "-A")
    made.git("commit", "-qm", "x")
    return made
