"""An agent at work in a tree, its checkpoints as git has them, and the comparison with the recipe's own tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from support.git_repo import GitRepo
from turnback import Workspace
from turnback.paths import from_json

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence
    from pathlib import Path

    from support.git_repo import Name


@dataclass(frozen=True)
class Shot:
    """One checkpoint of one tree.

    Attributes:
        id: ``k<n>``.
        reused: nothing differed from the one before.
        commit, tree: the objects.
        row: the record's part about the tree.
        record: the whole record.
    """

    id: str
    reused: bool
    commit: str
    tree: str
    row: dict[str, Any]
    record: dict[str, Any]

    @property
    def skipped(self) -> dict[bytes, str]:
        """Path to the reason why it was left out."""
        return {from_json(item): str(item["reason"]) for item in self.row["skipped"]}

    @property
    def submodules(self) -> dict[bytes, tuple[str | None, bool]]:
        """Path to (commit, dirty)."""
        return {from_json(item): (item["commit"], item["dirty"]) for item in self.row["submodules"]}

    @property
    def raw(self) -> dict[bytes, str]:
        """Path to the digest of the bytes that are kept beside the tree."""
        return {from_json(item["path"]): item["sha256"] for item in self.row.get("raw", [])}

    @property
    def modes(self) -> dict[bytes, int]:
        """Path to permission bits."""
        return {from_json(item["path"]): item["mode"] for item in self.row.get("modes", [])}


class Captures:
    """A workspace with one agent, whose checkpoints are taken on request."""

    def __init__(
        self, folder: Path, state: Path, *, repos: Sequence[str] | None = None, **checkpoints: Any
    ) -> None:
        self.workspace = Workspace.open(folder, state_dir=state, config={"checkpoints": checkpoints})
        self.agent = self.workspace.add_agent("a1", repos=repos)

    def take(self, label: str | None = None, *, repo: str = ".") -> Shot:
        """Take a checkpoint, or reuse the latest."""
        taken = self.agent.checkpoint(label)
        return self.shot(taken.checkpoint, reused=taken.reused, repo=repo)

    def shot(self, checkpoint: str, *, reused: bool = False, repo: str = ".") -> Shot:
        """A checkpoint as the log has it."""
        record: Any = self.state().checkpoints[checkpoint]
        row = next(row for row in record["repos"] if row["repo"] == repo)
        return Shot(checkpoint, reused, row["commit"], row["tree"], row, record)

    def state(self) -> Any:
        """The agent as the log has it."""
        return self.workspace._context.state().agent("a1")

    def kept(self, sha256: str) -> bytes:
        """Bytes that are kept beside a tree."""
        return self.workspace._context.pool.get(sha256)


def populated(place: Path) -> GitRepo:
    """A repository whose first commit has files of every ordinary kind; all of it is old, so that the index vouches for it."""
    repo = GitRepo.init(place)
    repo.write("README.md", "# a project\n")
    repo.write("src/main.py", "print('one')\n")
    repo.write("src/lib/util.py", "UTIL = 1\n")
    repo.write("run.sh", "#!/bin/sh\n", mode=0o755)
    repo.write("empty", "")
    repo.write("data.bin", bytes(range(256)))
    repo.link("link", "README.md")
    repo.link("to-folder", "src")
    repo.link("dangling", "nowhere/at/all")
    repo.commit("first")
    repo.settle()
    return repo


def assert_same_tree(repo: GitRepo, shot: Shot, *, skip: Iterable[Name] = (), sparse: bool = False) -> None:
    """The commit's tree is the one that the recipe gives for the same files; the message names the paths that differ."""
    left_out = [*skip]
    wanted = repo.tree_of_add_all(left_out, sparse=sparse)
    found = repo.text("rev-parse", f"{shot.commit}^{{tree}}")
    assert found == shot.tree
    if found != wanted:
        ours, gits = repo.ls_tree(found), repo.ls_tree_of_add_all(left_out, sparse=sparse)
        paths = sorted(path for path in ours.keys() | gits.keys() if ours.get(path) != gits.get(path))
        rows = [f"{path!r}: ours {ours.get(path)}, git's {gits.get(path)}" for path in paths]
        raise AssertionError("the trees differ:\n" + "\n".join(rows))
