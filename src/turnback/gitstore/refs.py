"""Hidden refs: created only where there is none, deleted only when they still hold what the log says.

libgit2's ``create_reference`` looks for an existing ref before it takes the lock, so two processes can both succeed; here the ref is locked
first and looked up under its lock. A lock that somebody holds is waited for a little, as git does; a stale one is never broken.
"""

from __future__ import annotations

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


def create(repository: Repository, name: str, oid: str) -> None:
    """Create a ref, only if there is none.

    Raises:
        RefExists: it is there; nothing changed.
        Failed: ``failed.checkpoint_git``: it can't be written.
    """
    import pygit2

    until = time.monotonic() + _PATIENCE
    while True:
        try:
            with repository.libgit2.transaction() as transaction:
                transaction.lock_ref(name)
                # Looked up under the lock: this is where two processes would otherwise both find nothing and both write.
                existing = resolve(repository, name)
                if existing is not None:
                    raise RefExists(name, existing)
                transaction.set_target(name, pygit2.Oid(hex=oid))
        except (pygit2.GitError, OSError, KeyError, ValueError) as error:
            repository.reopen()
            if "lock" not in str(error) or time.monotonic() > until:
                raise Failed(
                    "checkpoint_git",
                    f"{name} can't be created in {repository.path}: {error}",
                    reason=str(error),
                ) from error
            time.sleep(_BEAT)
        else:
            return


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
