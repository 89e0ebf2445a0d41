"""What a harness can do for a conversation: the one operation that an adapter implements (V-005).

An adapter is any object with these members. ``rewind`` missing or false means that the harness can't bring a conversation back, and
then only files are rolled back (V-323, V-351).
"""

from __future__ import annotations

from typing import Protocol, runtime_checkable


@runtime_checkable
class Harness(Protocol):
    """An adapter to the program that holds the conversation.

    Attributes:
        name: what the log calls it.
        can_rewind: whether ``rewind`` works with this version of the harness.
        needs: which id of a turn ``rewind`` needs: ``"harness_turn"``, ``"harness_end"``, or None.
    """

    @property
    def name(self) -> str:
        """What the log calls it."""
        ...

    @property
    def can_rewind(self) -> bool:
        """Whether ``rewind`` works."""
        ...

    @property
    def needs(self) -> str | None:
        """Which id of a turn ``rewind`` needs."""
        ...

    def rewind(
        self, *, session: str | None, through_turn: str, harness_turn: str | None, harness_end: str | None
    ) -> str:
        """Make a new conversation that holds the turns through one turn, and give its id.

        The source conversation must not change (V-320): nothing refers to the copy until the rollback's last step, and a failed
        rollback leaves it unused.

        Raises:
            TurnbackError: ``timeout.harness_request``, ``conflict.harness_fork_refused``, ``not_found.harness_session``; passed on as it is.
        """
        ...
