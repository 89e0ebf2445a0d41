"""Hidden refs: created only where there is none, deleted only when they still hold what the log says.

libgit2's ``create_reference`` looks for an existing ref before it takes the lock, so two processes can both succeed; here the ref is locked
first and looked up under its lock. A lock that somebody holds is waited for a little, as git does; a stale one is never broken.
"""

from __future__ import annotations

import os
import time
from typing import TYPE_CHECKING

from turnback.errors import Failed

if TYPE_CHECKING:
    from collections.abc import Iterable

    from turnback.gitstore.repo import Repository

PREFIX = "refs/venom/checkpoints/"

_PATIENCE = 2.0  # seconds that a ref's lock is waited for; git itself waits 0.1 to 1
_BEAT = 0.005


class RefExists(Failed):
    """The ref is there already; ``oid`` is what it holds."""

    def __init__(self, name: str, oid: str) -> None:
        super().__init__("checkpoint_git", f"{name} exists already and holds {oid}", reason="the ref exists")
        self.oid = oid


def checkpoint_ref(agent: str, number: int) -> str:
    """The name of an agent's n-th checkpoint's ref (V-160)."""
    return f"{PREFIX}{agent}/{number}"


def resolve(repository: Repository, name: str) -> str | None:
    """What a ref holds, or None when there is none (or it is damaged, which holds nothing either)."""
    import pygit2

    try:
        found = repository.libgit2.references.get(name)
        return None if found is None else str(found.resolve().target)
    except (pygit2.GitError, OSError, KeyError, ValueError):
        repository.reopen()
        return None


def is_free(repository: Repository, name: str) -> bool:
    """Whether ``create`` would find nothing at a name.

    Raises:
        Failed: ``failed.checkpoint_git``: a ref above it is in the way of every such name.
    """
    return _held_by(repository, name) is None


def create(repository: Repository, name: str, oid: str) -> None:
    """Create a ref, only if there is none.

    Raises:
        RefExists: it is there (or one that stands in its way for ever, ``name/...``); nothing changed.
        Failed: ``failed.checkpoint_git``: it can't be written.
    """
    import pygit2

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with repository.libgit2.transaction() as transaction:
                transaction.lock_ref(name)
                # Looked up under the lock: this is where two processes would otherwise both find nothing and both write.
                existing = _held_by(repository, name)
                if existing is not None:
                    raise RefExists(name, existing)
                transaction.set_target(name, pygit2.Oid(hex=oid))
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            repository.reopen()
            if (existing := _held_by(repository, name)) is not None:
                raise RefExists(name, existing) from error
            if time.monotonic() > until or not _is_locked(repository, name):
                raise Failed(
                    "checkpoint_git",
                    f"{name} can't be created in {repository.path}: {error}",
                    reason=str(error),
                ) from error
            time.sleep(_BEAT)
        else:
            return


def _held_by(repository: Repository, name: str) -> str | None:
    """What stands at a name, in whatever form: an id, a symbolic ref, a damaged file, refs beneath it; None when nothing does.

    Raises:
        Failed: ``failed.checkpoint_git``: a ref above it stands in the way, and will for every number.
    """
    import pygit2

    try:
        found = repository.libgit2.references.get(name)
        if found is not None:
            return str(found.target)
    except (pygit2.GitError, OSError, KeyError, ValueError) as error:
        repository.reopen()
        return f"something that can't be read ({error})"
    above = name.rpartition("/")[0]
    while above != "refs":
        if resolve(repository, above) is not None:
            raise Failed(
                "checkpoint_git",
                f"{name} can't be created in {repository.path}: there is a ref {above}; delete it or rename it",
                reason=f"there is a ref {above}",
            )
        above = above.rpartition("/")[0]
    # libgit2 looks for refs beneath a name among the loose ones only, and would make a store that git calls broken.
    inside = os.path.join(repository.common_dir, name)
    if any(names for _, _, names in os.walk(inside)) or f" {name}/".encode() in _packed(repository):
        return "refs beneath it"
    return None


def _packed(repository: Repository) -> bytes:
    try:
        with open(os.path.join(repository.common_dir, "packed-refs"), "rb") as file:
            return file.read()
    except FileNotFoundError:
        return b""


def _is_locked(repository: Repository, name: str) -> bool:
    return any(
        os.path.lexists(os.path.join(repository.common_dir, locked + ".lock"))
        for locked in (name, "packed-refs")
    )


def delete(repository: Repository, name: str, oid: str) -> bool:
    """Delete a ref that still holds ``oid``; False when it is gone or holds something else (then it stays)."""
    import pygit2

    try:
        found = repository.libgit2.references.get(name)
        if found is None or str(found.target) != oid:
            return False
        found.delete()
    except (pygit2.GitError, OSError, KeyError, ValueError):
        repository.reopen()
        return False
    return True


def listed(repository: Repository, prefix: str = PREFIX) -> dict[str, str]:
    """Every ref below a prefix, with what it holds."""
    import pygit2

    found: dict[str, str] = {}
    try:
        for reference in repository.libgit2.references.iterator():
            if reference.name.startswith(prefix):
                found[reference.name] = str(reference.target)
    except (pygit2.GitError, OSError, KeyError, ValueError) as error:
        repository.reopen()
        raise Failed(
            "checkpoint_git", f"the refs of {repository.path} can't be listed: {error}", reason=str(error)
        ) from error
    return found


def missing(repository: Repository, wanted: Iterable[tuple[str, str]]) -> str | None:
    """The first of (name, oid) whose ref doesn't hold that oid, or None when all do (V-152)."""
    for name, oid in wanted:
        if resolve(repository, name) != oid:
            return name
    return None
