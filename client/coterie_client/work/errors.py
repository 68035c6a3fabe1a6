"""What goes wrong between a group and those who use it.

CoterieClientError
├── GroupMisuseError        a call that does not fit what the group is about (also a RuntimeError)
├── WorkCancelledError      work ended with a CancelledError, and nobody had cancelled it
└── WorkStalledError        work made no progress for too long, and was ended for that
"""

from __future__ import annotations

from coterie_client.errors import CoterieClientError

__all__ = ["GroupMisuseError", "WorkCancelledError", "WorkStalledError"]


class GroupMisuseError(CoterieClientError, RuntimeError):
    """A call that does not fit what the group is about."""


class WorkCancelledError(CoterieClientError):
    """Work ended with a CancelledError of its own making: the group had not cancelled it."""


class WorkStalledError(CoterieClientError):
    """Work made no progress for too long, and was ended for that."""
