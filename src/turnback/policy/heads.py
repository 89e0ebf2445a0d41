"""Whether HEAD moves back with the files, and when it may not (contract 7.5, V-280..V-292).

Only in an unguarded tree: there the branch goes back to the checkpoint's commit, else every dropped change would show as a reversal waiting to
be committed. It never moves where that would lose a line of history (another branch, a rewritten one) or force the next push. Nothing
is read here; the caller has asked the repository, and asked no network.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from turnback.errors import Conflict

if TYPE_CHECKING:
    from collections.abc import Iterable

__all__ = ["HeadFacts", "HeadMove", "check_heads", "head_move"]


@dataclass(frozen=True, slots=True, kw_only=True)
class HeadFacts:
    """HEAD of one tree, at the checkpoint and now.

    Attributes:
        repo: relative to the workspace.
        target_head: the checkpoint's HEAD commit; None when the repository had none.
        target_branch: the branch it was on; None when detached.
        now_head: HEAD's commit now.
        now_branch: the branch it is on now; None when detached.
        is_ancestor: ``target_head`` is an ancestor of ``now_head``, or the same.
        dropped: how many commits a move would drop.
        pushed_commits: of those, the ones that a remote-tracking ref holds (A-30).
        pushed_refs: those refs.
        guarded: the tree is guarded.
    """

    repo: str
    target_head: str | None
    target_branch: str | None
    now_head: str | None
    now_branch: str | None
    is_ancestor: bool = False
    dropped: int = 0
    pushed_commits: tuple[str, ...] = ()
    pushed_refs: tuple[str, ...] = ()
    guarded: bool = False


@dataclass(frozen=True, slots=True)
class HeadMove:
    """The result's ``head``: ``{moves, from, to, commits}`` (V-292)."""

    moves: bool
    before: str | None
    after: str | None
    commits: int

    def to_dict(self) -> dict[str, Any]:
        """With the contract's names."""
        return {"moves": self.moves, "from": self.before, "to": self.after, "commits": self.commits}


def head_move(facts: HeadFacts, *, keep_head: bool) -> HeadMove:
    """Where HEAD goes, for a tree that ``check_heads`` passed (V-285, V-290, V-291)."""
    if facts.guarded or keep_head or facts.target_head == facts.now_head:
        return HeadMove(False, facts.now_head, facts.now_head, 0)
    return HeadMove(True, facts.now_head, facts.target_head, facts.dropped)


def check_heads(heads: Iterable[HeadFacts], *, keep_head: bool) -> None:
    """Refuse a move that can't be made safely, in any repo: first ``head_moved`` in all of them, then ``commits_pushed`` (V-211).

    A HEAD that is where it was is fine on any branch, since nothing moves.

    Raises:
        Conflict: ``conflict.head_moved`` with ``{repo, expected, actual, branch?}``, ``branch`` being the one HEAD is on now;
            ``conflict.commits_pushed`` with ``{repo, commits, refs}``.
    """
    moving = [] if keep_head else [facts for facts in heads if head_move(facts, keep_head=False).moves]
    for facts in moving:
        why = _moved(facts)
        if why is not None:
            raise _head_moved(facts, why)
    for facts in moving:
        if facts.pushed_commits:
            raise Conflict(
                "commits_pushed",
                f"{_count(len(facts.pushed_commits), 'commit')} of {facts.repo} that would be dropped are on {facts.pushed_refs[0]} "
                "already, so the next push would have to be forced; use --keep-head to restore the files and leave the commits",
                repo=facts.repo,
                commits=list(facts.pushed_commits),
                refs=list(facts.pushed_refs),
            )


def _moved(facts: HeadFacts) -> str | None:
    if facts.target_head is None:
        return "the repository had no commit at the checkpoint"
    if facts.now_head is None:
        return "HEAD has no commit now"
    if facts.now_branch != facts.target_branch:
        return f"HEAD is {_where(facts.now_branch)} and was {_where(facts.target_branch)} at the checkpoint"
    if not facts.is_ancestor:
        return "the checkpoint's commit is no ancestor of HEAD any more (after a rebase, an amend, or going back to before it)"
    return None


def _head_moved(facts: HeadFacts, why: str) -> Conflict:
    error = Conflict(
        "head_moved",
        f"HEAD of {facts.repo} can't go back: {why}; use --keep-head to restore the files and leave HEAD where it is",
        repo=facts.repo,
    )
    # A head of null is a fact and not a missing member.
    error.data |= {"expected": facts.target_head, "actual": facts.now_head}
    if facts.now_branch is not None:
        error.data["branch"] = facts.now_branch
    return error


def _where(branch: str | None) -> str:
    return "detached" if branch is None else f"on {branch}"


def _count(number: int, noun: str) -> str:
    return f"{number} {noun}{'' if number == 1 else 's'}"
