"""Which connections have members that take this node for their coordinator.

It is the last answer to one of their requests that tells; where members share a connection, it is
that of any of them.
"""

from __future__ import annotations

from typing import Any, Final

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode

__all__ = ["NOT_COORDINATOR", "OF_MEMBERS", "is_of_coordinator"]

#: What members send to their coordinator, to be members or to be so no longer.
OF_MEMBERS: Final = frozenset(
    {ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.LEAVE_GROUP, ApiKey.SYNC_GROUP}
)
#: A plain number: to look it up in its class takes long in some Pythons.
NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)


def is_of_coordinator(api: ApiKey, message: Any) -> bool:  # noqa: ANN401  # any response to these
    """Whether a member takes who gives it this answer for its coordinator, and is one still."""
    return api is not ApiKey.LEAVE_GROUP and message.error_code != NOT_COORDINATOR
