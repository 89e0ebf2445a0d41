"""The writing part of a rollback: files of every tree, then HEAD and the index where they move, and the way back when something fails.

Use as a context manager around the whole real call. On entry the index locks of the repositories whose HEAD moves are taken, before anything
is written (DESIGN 10.10): a git command at work in one refuses the rollback with nothing changed. On exit whatever is still held is given up.
"""

from __future__ import annotations

import hashlib
from contextlib import ExitStack
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

from turnback import paths
from turnback.changes import EXECUTABLE, FILE, LINK, Entry
from turnback.errors import Failed, TurnbackError
from turnback.gitstore import head, settings, trees
from turnback.native.files import Beneath, Look, sync
from turnback.operations import capture, planning
from turnback.operations.apply import Applier, Kept
from turnback.operations.contents import Contents, verified
from turnback.operations.results import LeftPath, path_members
from turnback.policy.plan import order
from turnback.records.events import Record

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from types import TracebackType

    from turnback.gitstore.settings import Settings
    from turnback.operations.context import Context
    from turnback.operations.planning import TreePlan
    from turnback.policy.heads import HeadMove
    from turnback.policy.plan import Step


@dataclass(slots=True)
class _Tree:
    """One tree while it is written."""

    part: TreePlan
    move: HeadMove
    lock: head.IndexLock | None = None
    index_before: tuple[bytes, int] | None = None
    applier: Applier | None = None
    beneath: Beneath | None = None
    unavailable: set[bytes] = field(default_factory=set)
    moved: bool = False
    index_moved: bool = False


class Changeover:
    """Everything that one rollback writes outside the log and the refs.

    Attributes:
        changed: whether any path was left because somebody else wrote it meanwhile.
        kept: bytes that nothing else holds, now in the pool.
    """

    def __init__(
        self, context: Context, agent: str, parts: Sequence[TreePlan], moves: Mapping[str, HeadMove]
    ) -> None:
        self.context = context
        self.agent = agent
        self._trees = [_Tree(part, moves[part.repo]) for part in parts]
        self._held = ExitStack()
        self._name = context.clock.new_uuid()

    def __enter__(self) -> Self:
        with ExitStack() as stack:
            for tree in self._trees:
                if tree.move.moves:
                    tree.lock = head.IndexLock(tree.part.repository)
                    tree.lock.take()
                    stack.callback(tree.lock.release)
                    tree.index_before = head.read_index(tree.part.repository)
            self._held = stack.pop_all()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.finish()
        self._held.close()

    # forward

    def apply(self) -> None:
        """Steps 4 and 5: the files of every tree, then HEAD and index where they move; on disk when this returns."""
        for tree in self._trees:
            with self.context.scratch() as scratch:
                self._write_files(tree, scratch)
        for tree in self._trees:
            if tree.move.moves and tree.lock is not None and tree.move.after is not None:
                repository = tree.part.repository
                head.move(
                    repository,
                    tree.part.captured.snapshot.head,
                    tree.move.after,
                    f"venom rollback {self.agent}",
                )
                tree.moved = True
                with self.context.scratch() as scratch:
                    data, mtime_ns = head.index_at(repository, tree.move.after, scratch)
                tree.lock.replace(data, mtime_ns)
                tree.index_moved = True
        for tree in self._trees:
            sync(tree.part.repository.path)

    def _write_files(self, tree: _Tree, scratch: str) -> None:
        part = tree.part
        steps = part.plan.steps
        if not steps:
            return
        configured = settings.read(part.repository)
        deletions, writes = order(steps)
        contents = Contents(self.context, part, configured, scratch)
        contents.prepare(writes)
        tree.unavailable = contents.unavailable
        looks, changed = verified(part, configured, steps, scratch)
        tree.beneath = Beneath(part.repository.path)
        applier = tree.applier = Applier(
            tree.beneath,
            part.repository.git_dir,
            self._name,
            self.context.pool,
            self.context.usual_permissions(),
        )
        applier.open()
        applier.changed += changed
        gone = set(changed)
        for step in deletions:
            if step.path not in gone:
                applier.delete(step.path, looks[step.path])
        for step in writes:
            if step.path not in gone and step.path not in contents.unavailable:
                self._write(applier, part, contents, step, looks.get(step.path), configured)

    def _write(
        self,
        applier: Applier,
        part: TreePlan,
        contents: Contents,
        step: Step,
        before: Look | None,
        configured: Settings,
    ) -> None:
        data = contents.data(step)
        entry = step.target
        if entry is None:
            # Only raw bytes change; the tree can't hold the file, so its mode is what is there now.
            entry = Entry(EXECUTABLE if before is not None and before.mode & 0o100 else FILE, "")
        if entry.mode == LINK and not configured.symlinks:
            entry = Entry(FILE, entry.oid)  # where there are no links, git keeps the target's name in a file
        if not configured.file_mode and before is not None and before.kind == "file" and entry.mode != LINK:
            # git doesn't look at exec bits here, so the tree knows nothing of them: what is on disk stays.
            entry = Entry(EXECUTABLE if before.mode & 0o100 else FILE, entry.oid)
        if before is not None and _right_already(entry, data, before):
            return
        if before is None:
            applier.tree.remove_empty_folder(step.path)
        applier.write(step.path, entry, data, part.modes.get(step.path), before)

    def finish(self) -> None:
        """Look at every displaced file once more and let it go; what changed meanwhile is kept. Harmless when done already."""
        for tree in self._trees:
            if tree.applier is not None:
                tree.applier.close()
            if tree.beneath is not None:
                tree.beneath.close()

    # what came of it

    @property
    def changed(self) -> bool:
        """Whether any path of the plan was left, or any bytes were kept, because somebody else wrote meanwhile."""
        return any(
            tree.unavailable or (tree.applier and (tree.applier.changed or tree.applier.kept))
            for tree in self._trees
        )

    @property
    def kept(self) -> list[Kept]:
        """Bytes that nothing else holds, kept in the pool."""
        return [kept for tree in self._trees if tree.applier is not None for kept in tree.applier.kept]

    def kept_rows(self, repo: str) -> tuple[dict[str, Any], ...] | None:
        """``kept`` of one repository as its result shows it; None when there is none."""
        tree = self._tree(repo)
        rows = (
            ()
            if tree.applier is None
            else tuple({**paths.members(kept.path), "sha256": kept.sha256} for kept in tree.applier.kept)
        )
        return rows or None

    def untouched(self, repo: str) -> set[bytes]:
        """Paths of the plan that were left alone after all."""
        tree = self._tree(repo)
        return tree.unavailable | (set() if tree.applier is None else set(tree.applier.changed))

    def left(self, repo: str) -> list[LeftPath]:
        """Those paths with their reasons."""
        tree = self._tree(repo)
        found = [LeftPath(**path_members(path), reason="filter") for path in sorted(tree.unavailable)]
        if tree.applier is not None:
            found += [
                LeftPath(**path_members(path), reason="changed") for path in sorted(set(tree.applier.changed))
            ]
        return found

    @property
    def expected(self) -> dict[str, str]:
        """The tree that each repository's files should have now: S with what was written."""
        return {tree.part.repo: self._expected(tree)[0] for tree in self._trees}

    def expected_rows(self) -> list[dict[str, Any]]:
        """The expected states as ``rollback.ended`` keeps them: what differs from them in the next capture is somebody else's."""
        rows = []
        for tree in self._trees:
            oid, raw = self._expected(tree)
            row: dict[str, Any] = {"repo": tree.part.repo, "tree": oid}
            if raw:
                row["raw"] = [
                    {"path": paths.item(path), "sha256": sha256} for path, sha256 in sorted(raw.items())
                ]
            rows.append(row)
        return rows

    def _expected(self, tree: _Tree) -> tuple[str, dict[bytes, str]]:
        lost = self.untouched(tree.part.repo)
        steps = [step for step in tree.part.plan.steps if step.path not in lost]
        edits = {step.path: step.target for step in steps if not step.filtered}
        oid = (
            trees.edited(tree.part.repository, tree.part.captured.snapshot.tree, edits)
            if edits
            else tree.part.captured.snapshot.tree
        )
        return oid, planning.raw_after(tree.part, steps)

    def _tree(self, repo: str) -> _Tree:
        return next(tree for tree in self._trees if tree.part.repo == repo)

    # back

    def failed(self, error: BaseException, safety: str, restore: str, checkpoint: str) -> BaseException:
        """Take everything back, record how it ended, and give the error to raise (7.6).

        An error before the first write (the harness refused, say) is given as it is: nothing had changed.
        """
        touched = [tree for tree in self._trees if tree.applier is not None or tree.moved]
        if not touched:
            code = error.code if isinstance(error, TurnbackError) else "failed.rollback_undone"
            self._record(safety, restore, checkpoint, code)
            return error
        reason = error.message if isinstance(error, TurnbackError) else f"{type(error).__name__}: {error}"
        states = {tree.part.repo: self._undo(tree) for tree in reversed(touched)}
        self.finish()
        undone = all(state == "undone" for state in states.values()) and self._is_as_before()
        result: TurnbackError
        if undone:
            repo = touched[-1].part.repo
            result = Failed(
                "rollback_undone",
                f"the rollback failed ({reason}) and was taken back: the files, HEAD and the index are as they were",
                repo=repo,
            )
            result.data["reason"] = reason
        else:
            rows = [
                {"repo": tree.part.repo, "state": states.get(tree.part.repo, "unchanged")}
                for tree in self._trees
            ]
            result = Failed(
                "rollback_partial",
                f"the rollback failed ({reason}), and taking it back didn't work everywhere; {safety} holds the files as they "
                f"were: roll back to it with --checkpoint={safety} --restore=files",
                repos=rows,
                safety=safety,
            )
        self._record(safety, restore, checkpoint, result.code)
        return error if not isinstance(error, Exception) else result

    def _undo(self, tree: _Tree) -> str:
        try:
            repository = tree.part.repository
            if tree.index_moved:
                lock = head.IndexLock(repository)
                lock.take()
                if tree.index_before is not None:
                    lock.replace(*tree.index_before)
                else:
                    lock.release()
                tree.index_moved = False
            if tree.moved and tree.move.before is not None:
                now = repository.head()
                head.move(repository, now, tree.move.before, f"venom rollback {self.agent}: undone")
                tree.moved = False
            lost = [] if tree.applier is None else tree.applier.undo()
        except (TurnbackError, OSError):
            return "mixed"
        return "undone" if not lost else "mixed"

    def _is_as_before(self) -> bool:
        """Whether a capture finds S again in every tree."""
        agent = self.context.state().agent(self.agent)
        wanted = {tree.part.repo: tree.part.captured.snapshot for tree in self._trees}
        try:
            found = capture.store(self.context, agent, capture.limits(self.context))
        except TurnbackError:
            return False
        now = {one.tree["repo"]: one.snapshot for one in found}
        return all(
            repo in now and now[repo].tree == was.tree and now[repo].head == was.head
            for repo, was in wanted.items()
        )

    def _record(self, safety: str, restore: str, checkpoint: str, code: str) -> None:
        data = {
            "agent": self.agent,
            "checkpoint": checkpoint,
            "safety": safety,
            "restore": restore,
            "ok": False,
            "code": code,
        }
        self.context.log.append([Record("rollback.ended", data)], durable=True)


def _right_already(entry: Entry, data: bytes, before: Look) -> bool:
    kind = "link" if entry.mode == LINK else "file"
    if before.kind != kind or before.sha256 != hashlib.sha256(data).hexdigest():
        return False
    return kind == "link" or (entry.mode == EXECUTABLE) == bool(before.mode & 0o100)
