"""The writing part of a rollback: files of every tree, then HEAD and the index where they move, and the way back when something fails.

Use as a context manager around the whole real call. On entry the locks of the indexes and branches that move are taken, before anything is
written (DESIGN 10.10): a git command at work in one refuses the rollback with nothing changed. They are held until the end. Everything
that can be known to fail is looked up in every tree before the first file of any is touched.

A rollback counts as done when the log says so. Until then ``failed`` takes everything back; after that ``finish`` lets go of what was
displaced.
"""

from __future__ import annotations

import contextlib
import hashlib
import os
import stat
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from turnback import paths
from turnback.changes import EXECUTABLE, FILE, LINK, Entry
from turnback.errors import Conflict, TurnbackError
from turnback.gitstore import head, objects, trees
from turnback.gitstore.locks import BranchLock, IndexLock, clear_stale, read_index
from turnback.native.files import Beneath, Look
from turnback.native.moves import sync
from turnback.operations import planning
from turnback.operations.apply import Applier
from turnback.operations.contents import Contents, verified
from turnback.operations.holding import Holding, Kept
from turnback.operations.notes import Note
from turnback.operations.results import LeftPath, path_members
from turnback.policy.plan import order

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence
    from types import TracebackType

    from turnback.gitstore.settings import Settings
    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.heads import HeadMove
    from turnback.policy.plan import Step


@dataclass(slots=True)
class Tree:
    """One tree while it is written.

    Attributes:
        part: its plan.
        move: where its HEAD goes.
        index: the lock on its index, where HEAD moves.
        branch: the lock on its branch, likewise.
        index_sha256: its index as it was, in the pool.
        staged: what only its index held, in the pool: rows for the log.
        applier: its steps, once it is ready to be written.
        contents: what is written.
        looks: what is replaced and deleted, as it was found to be what S holds.
        moved: HEAD and the index may have moved.
    """

    part: TreePlan
    move: HeadMove
    index: IndexLock | None = None
    branch: BranchLock | None = None
    index_sha256: str | None = None
    staged: list[dict[str, Any]] = field(default_factory=list)
    applier: Applier | None = None
    contents: Contents | None = None
    looks: Mapping[bytes, Look] = field(default_factory=dict)
    moved: bool = False


@dataclass(frozen=True, slots=True)
class Undone:
    """What came of taking back one repository.

    Attributes:
        touched: there was something to take back.
        head: HEAD and the index are where they were.
        lost: paths that aren't as they were.
    """

    touched: bool
    head: bool
    lost: tuple[bytes, ...]

    @property
    def complete(self) -> bool:
        """Whether nothing is missing."""
        return self.head and not self.lost


class Changeover:
    """Everything that one rollback writes outside the log and the refs.

    Attributes:
        trees: the trees, in the order of the plan.
        began: the writes were asked for: from here on an error takes them back.
        over: the log says how it ended, so that displaced files need not wait any more.
    """

    def __init__(
        self, context: Context, agent: str, parts: Sequence[TreePlan], moves: Mapping[str, HeadMove]
    ) -> None:
        self.context = context
        self.agent = agent
        self.trees = [Tree(part, moves[part.repo]) for part in parts]
        self.began = False
        self.over = False
        self._held = ExitStack()
        self._name = context.clock.new_uuid()
        self._note: Note | None = None

    def __enter__(self) -> Self:
        now = self.context.clock.now()
        self._note = Note.create(self.context.state_dir, self.agent, self._name, now)
        try:
            for tree in self.trees:
                if tree.move.moves and tree.move.after is not None:
                    self._lock(tree, tree.move.after)
        except BaseException:
            self._held.close()
            self._note.close(done=True)
            raise
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            self.finish()
        finally:
            self._held.close()
            # Last, so that whoever finds the locks or a waiting file after a kill finds the note as well.
            if self._note is not None:
                appliers = [tree.applier for tree in self.trees if tree.applier is not None]
                self._note.close(done=not any(applier.holding.waits for applier in appliers))

    def _lock(self, tree: Tree, after: str) -> None:
        """Lock the index and the branch, and keep what only the index holds: no checkpoint does."""
        part = tree.part
        owner = owner_of(self.context, self.agent)
        # We hold the agent's lock, so a lock of another one of its rollbacks was left by a killed process.
        clear_stale(part.repository, owner)
        index = tree.index = IndexLock(part.repository, owner)
        self._held.callback(index.release)
        index.take()
        tree.branch = BranchLock(
            part.repository, part.captured.snapshot.head, after, f"venom rollback {self.agent}"
        )
        self._held.callback(tree.branch.release)
        tree.branch.take()
        if part.repository.head() != part.captured.snapshot.head:
            # From here on it can't be: git locks HEAD together with the branch that it is on.
            raise Conflict(
                "branch_locked",
                f"HEAD of {part.repository.path} was switched meanwhile; begin again with a dry run",
                repo=part.repository.path,
            )
        if index.before is not None:
            tree.index_sha256 = self.context.pool.put(index.before.data, durable=True)
        for path, entry in staged_alone(part, tree.move).items():
            with contextlib.suppress(objects.MissingObject):
                sha256 = self.context.pool.put(objects.read_blob(part.repository, entry.oid), durable=True)
                row = {**paths.members(path), "mode": entry.mode, "oid": entry.oid, "sha256": sha256}
                tree.staged.append(row)

    # forward

    def apply(self, safety: str) -> None:
        """Steps 4 and 5: the files of every tree, then HEAD and index where they move; on disk when this returns."""
        assert self._note is not None
        self.began = True
        self._note.add({"safety": safety})
        with ExitStack() as stack:
            for tree in self.trees:
                self._get_ready(tree, stack.enter_context(self.context.scratch()))
            for tree in self.trees:
                self._write_files(tree)
        for tree in self.trees:
            if tree.branch is not None and tree.index is not None and tree.move.after is not None:
                repository = tree.part.repository
                tree.moved = True
                tree.branch.move()
                with self.context.scratch() as scratch:
                    index = head.index_at(repository, tree.move.after, scratch)
                tree.index.replace(index)
        sync_once(
            folder
            for tree in self.trees
            if tree.applier is not None or tree.moved
            for folder in (tree.part.repository.path, tree.part.repository.git_dir)
        )

    def _get_ready(self, tree: Tree, scratch: str) -> None:
        """Look up everything that the writes need, and open the tree. Nothing is written yet."""
        part = tree.part
        if not part.plan.steps:
            return
        _, writes = order(part.plan.steps)
        tree.contents = Contents(self.context, part, scratch)
        tree.contents.prepare(writes)
        beneath = Beneath(part.repository.path)
        self._held.callback(beneath.close)
        looks, changed = verified(part, scratch, beneath)
        tree.looks = looks
        assert self._note is not None
        holding = Holding(
            beneath, part.repo, part.repository.git_dir, self._name, self._note, self.context.pool
        )
        tree.applier = Applier(beneath, holding, self.context.usual_permissions(), changed=changed)

    def _write_files(self, tree: Tree) -> None:
        applier, contents = tree.applier, tree.contents
        if applier is None or contents is None:
            return
        applier.holding.open()
        self._held.callback(applier.holding.shut)
        gone = {*applier.changed, *contents.unavailable}
        deletions, writes = order(step for step in tree.part.plan.steps if step.path not in gone)
        for step in deletions:
            applier.delete(step.path, tree.looks[step.path])
        for step in writes:
            _write(applier, tree.part, contents, step, tree.looks.get(step.path))

    def finish(self) -> None:
        """Look at every displaced file once more and let it go; what changed meanwhile is kept. Harmless when done already.

        Before it is known how the rollback ended nothing is let go of: the files wait, and the note of them stays.
        """
        if self.over:
            for tree in self.trees:
                if tree.applier is not None:
                    tree.applier.finish()

    # what came of it

    @property
    def changed(self) -> bool:
        """Whether any path of the plan was left after all, or what somebody wrote meanwhile had to be kept."""
        return any(self.untouched(tree.part.repo) for tree in self.trees) or any(
            not kept.open for kept in self.kept
        )

    @property
    def kept(self) -> list[Kept]:
        """Bytes that are no longer under their name and that no checkpoint holds."""
        return [kept for tree in self.trees if tree.applier is not None for kept in tree.applier.holding.kept]

    def staged(self, repo: str) -> list[dict[str, Any]]:
        """What only the index of a repository held, as the log has it."""
        return self._tree(repo).staged

    def kept_rows(self, repo: str) -> tuple[dict[str, Any], ...] | None:
        """``kept`` of one repository as its result shows it; None when there is none."""
        applier = self._tree(repo).applier
        rows = () if applier is None else tuple(kept.to_dict() for kept in applier.holding.kept)
        return rows or None

    def untouched(self, repo: str) -> set[bytes]:
        """Paths of the plan that were left alone after all."""
        return {path for _, found in self._reasons(repo) for path in found}

    def left(self, repo: str) -> list[LeftPath]:
        """Those paths with their reasons."""
        return [
            LeftPath(**path_members(path), reason=reason)
            for reason, found in self._reasons(repo)
            for path in sorted(set(found))
        ]

    def _reasons(self, repo: str) -> list[tuple[str, Iterable[bytes]]]:
        tree = self._tree(repo)
        found: list[tuple[str, Iterable[bytes]]] = []
        if tree.contents is not None:
            found.append(("filter", tree.contents.unavailable))
        if tree.applier is not None:
            found.append(("changed", tree.applier.changed))
            found.append(("invalid_path", tree.applier.refused))
        return found

    def expected(self, repo: str) -> tuple[str, dict[bytes, str]]:
        """What a repository's files should be now: S with what was written, as a tree and its raw bytes."""
        part = self._tree(repo).part
        lost = self.untouched(repo)
        steps = [step for step in part.plan.steps if step.path not in lost]
        edits = {step.path: step.target for step in steps if not step.filtered}
        base = part.captured.snapshot.tree
        oid = trees.edited(part.repository, base, edits) if edits else base
        return oid, planning.raw_after(part, steps)

    def expected_rows(self) -> list[dict[str, Any]]:
        """The expected states as ``rollback.ended`` keeps them: what differs from them in the next capture is somebody else's."""
        rows = []
        for tree in self.trees:
            oid, raw = self.expected(tree.part.repo)
            row: dict[str, Any] = {"repo": tree.part.repo, "tree": oid}
            if raw:
                row["raw"] = [
                    {"path": paths.item(path), "sha256": sha256} for path, sha256 in sorted(raw.items())
                ]
            rows.append(row)
        return rows

    def _tree(self, repo: str) -> Tree:
        return next(tree for tree in self.trees if tree.part.repo == repo)

    # back

    def undo(self) -> dict[str, Undone]:
        """Take everything back, in every tree, whatever fails on the way (7.6); what came of it by repository."""
        states = {}
        for tree in reversed(self.trees):
            touched = tree.moved or (tree.applier is not None and bool(tree.applier.holding.items))
            head_back = self._head_back(tree)
            lost = [] if tree.applier is None else tree.applier.undo()
            states[tree.part.repo] = Undone(touched, head_back, tuple(lost))
        return {tree.part.repo: states[tree.part.repo] for tree in self.trees}

    def is_as_before(self) -> bool:
        """Whether every path of the plan holds what S holds, and HEAD and the index are where they were.

        What somebody else wrote meanwhile, and so was left alone, is theirs and doesn't count.
        """
        try:
            return all(_is_as_before(tree) for tree in self.trees)
        except (TurnbackError, OSError):
            return False

    def _head_back(self, tree: Tree) -> bool:
        repository = tree.part.repository
        if not tree.moved:
            return True
        try:
            if tree.index is not None and read_index(repository) != tree.index.before:
                tree.index.restore()
            if tree.branch is not None:
                tree.branch.move_back()
        except (TurnbackError, OSError):
            return False
        tree.moved = False
        return True


def _is_as_before(tree: Tree) -> bool:
    part = tree.part
    if tree.index is not None and read_index(part.repository) != tree.index.before:
        return False
    if tree.move.moves and part.repository.head() != part.captured.snapshot.head:
        return False
    if tree.applier is None:
        return True
    for step in part.plan.steps:
        if step.path in tree.applier.changed:
            continue
        was, now = tree.looks.get(step.path), tree.applier.tree.lstat(step.path)
        if was is None and now is not None and not stat.S_ISDIR(now.st_mode):
            return False
        if was is not None:
            found = tree.applier.tree.look(step.path)
            if found is None or not found.same_content(was):
                return False
    return True


def staged_alone(part: TreePlan, move: HeadMove) -> dict[bytes, Entry]:
    """What only the index holds and loses when HEAD moves: staged, and then changed again in the files. No checkpoint has it."""
    if not move.moves or move.before is None:
        return {}
    return head.staged_alone(part.repository, move.before, part.captured.snapshot.tree)


def owner_of(context: Context, agent: str) -> str:
    """By what a lock of a rollback is known after its process was killed: the log and the agent."""
    return f"of {agent}, {context.log.source}"


def sync_once(folders: Iterable[str]) -> None:
    """Make what was written to some folders' filesystems durable, each filesystem once.

    Raises:
        OSError: something did not reach the disk.
    """
    done = set()
    for folder in folders:
        device = os.stat(folder).st_dev
        if device not in done:
            done.add(device)
            sync(folder)


def _write(applier: Applier, part: TreePlan, contents: Contents, step: Step, before: Look | None) -> None:
    data = contents.data(step)
    entry = _as_written(step, part.settings, before)
    if before is not None and _right_already(entry, data, before):
        return
    applier.write(step.path, entry, data, part.modes.get(step.path), before)


def _as_written(step: Step, configured: Settings, before: Look | None) -> Entry:
    """The entry that a file gets on this filesystem."""
    was = EXECUTABLE if before is not None and before.mode & 0o100 else FILE
    entry = step.target
    if entry is None:
        # Only raw bytes change; the tree can't hold the file, so its mode is what is there now.
        return Entry(was, "")
    if entry.mode == LINK:
        # Where there are no links, git keeps the target's name in a file.
        return entry if configured.symlinks else Entry(FILE, entry.oid)
    if not configured.file_mode and before is not None and before.kind == "file":
        # git doesn't look at exec bits here, so the tree knows nothing of them: what is on disk stays.
        return Entry(was, entry.oid)
    return entry


def _right_already(entry: Entry, data: bytes, before: Look) -> bool:
    kind = "link" if entry.mode == LINK else "file"
    if before.kind != kind or before.sha256 != hashlib.sha256(data).hexdigest():
        return False
    return kind == "link" or (entry.mode == EXECUTABLE) == bool(before.mode & 0o100)
