"""A repository, an agent and a person: turns, edits, and going back in the two calls that it takes."""

from __future__ import annotations

import os
import shutil
import stat
from typing import TYPE_CHECKING, Any, Self

from support.git_repo import FileState, GitRepo
from turnback import Principal, Workspace

if TYPE_CHECKING:
    from collections.abc import Mapping
    from pathlib import Path

    from turnback.operations.results import RollbackDone, RollbackPlan
    from turnback.workspace import Agent, Harness, Turn

Contents = str | bytes | None


class Rewinds:
    """An adapter that can take a conversation back; it remembers what it was asked."""

    name = "stub"
    can_rewind = True
    needs: str | None = "harness_end"

    def __init__(self, session: str = "copy-1", error: BaseException | None = None) -> None:
        self.session = session
        self.error = error
        self.asked: list[dict[str, Any]] = []

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        self.asked.append({"session": session, "through_turn": through_turn, "harness_end": harness_end})
        if self.error is not None:
            raise self.error
        return self.session


class Scene:
    """One agent in one tree, and a person who may do anything in it.

    Attributes:
        root: everything is beneath it.
        source: the repository that the workspace is.
        tree: where the agent works; the same as ``source`` in place.
        ws, agent: the handles.
    """

    def __init__(
        self, root: Path, source: GitRepo, tree: GitRepo, name: str, harness: Harness | None
    ) -> None:
        self.root = root
        self.source = source
        self.tree = tree
        self._name = name
        self._harness = harness
        self.ws = self.open()
        self.agent: Agent

    @classmethod
    def in_place(
        cls,
        root: Path,
        files: Mapping[str | bytes, Contents] | None = None,
        *,
        name: str = "a5",
        harness: Harness | None = None,
    ) -> Self:
        """An agent in the repository itself: guarded."""
        source = _repository(root, files)
        scene = cls(root, source, source, name, harness)
        scene.agent = scene.ws.add_agent(name, harness=harness)
        return scene

    @classmethod
    def worktree(
        cls,
        root: Path,
        files: Mapping[str | bytes, Contents] | None = None,
        *,
        name: str = "a2",
        harness: Harness | None = None,
    ) -> Self:
        """An agent in a worktree of its own, on the branch ``work``: unguarded."""
        source = _repository(root, files)
        source.git("worktree", "add", "-q", "-b", "work", str(root / "tree"))
        scene = cls(root, source, GitRepo(root / "tree"), name, harness)
        scene.agent = scene.ws.add_agent(name, isolation="worktree", path=str(root / "tree"), harness=harness)
        return scene

    @property
    def state_dir(self) -> Path:
        """The workspace's state folder."""
        return self.root / "state"

    def open(self, **options: Any) -> Workspace:
        """The workspace, opened afresh."""
        options.setdefault("principal", Principal.person())
        return Workspace.open(self.source.path, state_dir=self.state_dir, **options)

    def reopen(self, **options: Any) -> None:
        """Forget the handles and open the workspace again, as another process would."""
        self.ws = self.open(**options)
        self.agent = self.ws.agent(self._name, harness=self._harness)

    # what happens

    def turn(self, prompt: str = "do it") -> Turn:
        """A turn of the agent, for a ``with`` statement."""
        return self.agent.turn(prompt)

    def put(self, files: Mapping[str | bytes, Contents]) -> None:
        """Write files, or delete those (or folders) whose content is None."""
        for name, content in files.items():
            if content is None:
                self.tree.delete(name)
        for name, content in files.items():
            if content is not None:
                self.tree.write(name, content)

    def changes(self, files: Mapping[str | bytes, Contents], named: tuple[str | bytes, ...] = ()) -> str:
        """A whole turn in which the agent writes and deletes files; the id of the checkpoint at its end."""
        with self.turn() as turn:
            self.put(files)
            if named:
                turn.edited(*named)
        return self.latest

    @property
    def latest(self) -> str:
        """The newest checkpoint's id."""
        return self.agent.checkpoints(limit=1).checkpoints[0].checkpoint

    def plan(self, checkpoint: str, **choices: Any) -> RollbackPlan:
        """The dry run; ``restore`` is ``files`` unless said otherwise."""
        choices.setdefault("restore", "files")
        found: RollbackPlan = self.agent.rollback(checkpoint, dry_run=True, **choices)
        return found

    def back(self, checkpoint: str, **choices: Any) -> RollbackDone:
        """The dry run and then the real call."""
        choices.setdefault("restore", "files")
        done: RollbackDone = self.agent.rollback(
            checkpoint, plan=self.plan(checkpoint, **choices).plan, **choices
        )
        return done

    # what came of it

    def files(self) -> dict[bytes, FileState]:
        """Every file and link of the tree, with its inode and times; without ``.git``."""
        return files_of(self.tree.path)

    def contents(self) -> dict[bytes, tuple[int, bytes]]:
        """Every file and link of the tree: type and permission bits, and bytes."""
        return {path: (found.mode, found.content) for path, found in self.files().items()}

    def events(self, *types: str) -> list[dict[str, Any]]:
        """The published events of these types."""
        return list(self.ws.events(types=types or None))

    def log(self) -> bytes:
        """The bytes of the log."""
        return (self.state_dir / "log.ndjson").read_bytes()

    def pool(self, sha256: str) -> bytes:
        """Bytes that were kept."""
        return (self.state_dir / "pool" / "objects" / sha256[:2] / sha256).read_bytes()

    def blob(self, checkpoint: str, name: str | bytes) -> bytes:
        """A file as a checkpoint holds it, asked of git."""
        ref = f"refs/venom/checkpoints/{self._name}/{checkpoint[1:]}"
        return self.tree.git("cat-file", "blob", os.fsencode(ref) + b":" + os.fsencode(name))


def paths(rows: Any) -> list[str]:
    """The paths of a result's ``files`` or ``left``."""
    return [row.path for row in rows]


def reasons(rows: Any) -> dict[str, str]:
    """Path to reason of a result's ``left``."""
    return {row.path: row.reason for row in rows}


def steps(rows: Any) -> dict[str, tuple[str, str]]:
    """Path to (change, class) of a result's ``files``."""
    return {row.path: (row.change, row.class_) for row in rows}


def files_of(folder: Path) -> dict[bytes, FileState]:
    """Every file and link beneath a folder, ``.git`` at its top left out."""
    root = os.fsencode(folder)
    found = {}
    for here, folders, names in os.walk(root):
        if here == root:
            folders[:] = [name for name in folders if name != b".git"]
        links = [name for name in folders if os.path.islink(os.path.join(here, name))]
        for name in (*names, *links):
            if here == root and name == b".git":
                continue  # of a linked worktree
            full = os.path.join(here, name)
            found[os.path.relpath(full, root)] = _state(full)
    return found


def folders_of(folder: Path) -> dict[bytes, int]:
    """Every folder beneath a folder with its permission bits, ``.git`` left out."""
    root = os.fsencode(folder)
    found = {}
    for here, folders, _ in os.walk(root):
        folders[:] = [name for name in folders if not (here == root and name == b".git")]
        for name in folders:
            full = os.path.join(here, name)
            if not os.path.islink(full):
                found[os.path.relpath(full, root)] = stat.S_IMODE(os.stat(full).st_mode)
    return found


def _state(full: bytes) -> FileState:
    found = os.lstat(full)
    content = b""
    if stat.S_ISLNK(found.st_mode):
        content = os.readlink(full)
    elif stat.S_ISREG(found.st_mode):
        with open(full, "rb") as file:
            content = file.read()
    return FileState(found.st_mode, found.st_mtime_ns, found.st_ino, content)


def _repository(root: Path, files: Mapping[str | bytes, Contents] | None) -> GitRepo:
    source = GitRepo.init(root / "app")
    for name, content in (files or {"README.md": "readme\n", "src/main.py": "one\n"}).items():
        if content is not None:
            source.write(name, content)
    source.commit("first")
    return source


class Stage:
    """A scene that can be put back to how it was when it was built, as often as a test likes, in the same place."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._kept = root.with_name(root.name + "-kept")

    def keep(self) -> None:
        """Remember everything as it is now."""
        shutil.copytree(self.root, self._kept, symlinks=True)

    def reset(self) -> None:
        """Put everything back."""
        shutil.rmtree(self.root)
        shutil.copytree(self._kept, self.root, symlinks=True)
