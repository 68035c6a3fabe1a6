"""Which commits come too late: a later one of the same member was taken before them."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["CommitOrder"]

_Member = tuple[str, str]


class CommitOrder:
    """The highest number of a commit that was taken from each member who numbers its commits.

    A commit may be held up on a connection that its client has given up and replaced, and arrive
    after one that was sent later.  As long as the process lives that may happen, so these numbers
    outlive what a shard's coordinator remembers otherwise: whoever reads the shard again hands the
    same object to the next coordinator.  With the process its connections end, so nothing of it is
    stored.
    """

    def __init__(self) -> None:
        self._highest: dict[_Member, int] = {}
        #: Those of them that were no members when last looked at.
        self._gone: set[_Member] = set()

    def __len__(self) -> int:
        return len(self._highest)

    def admits(self, group_id: str, member_id: str, sequence: int) -> bool:
        """Whether a commit comes in its order; one without a number always does."""
        return sequence < 0 or sequence > self._highest.get((group_id, member_id), -1)

    def note(self, group_id: str, member_id: str, sequence: int) -> None:
        """Remember that a commit was taken."""
        if sequence >= 0:
            self._highest[group_id, member_id] = sequence

    def forget_gone(self, is_member: Callable[[str, str], bool]) -> None:
        """Forget those who have not been members since this was last called.

        Not at once: that somebody is gone may not be stored yet, and if it never is, the shard is
        read again with the member in it.
        """
        gone = {member for member in self._highest if not is_member(*member)}
        for member in gone & self._gone:
            del self._highest[member]
        self._gone = gone & self._highest.keys()
