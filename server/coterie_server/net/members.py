"""Whose members take this node for their coordinator, by what they were answered last."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode

if TYPE_CHECKING:
    from coterie_server.net.exchange import OnReply

__all__ = ["MemberConnections"]

#: What members send to their coordinator as long as they are members.
_OF_MEMBERS: Final = frozenset({ApiKey.HEARTBEAT, ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


class MemberConnections:
    """The connections on which members ask for answers of their coordinator.

    One whose member was told that its coordinator is another node, or that it has left, counts no
    longer; and where members share one, it is the last answer that counts.
    """

    def __init__(self, on_reply: OnReply | None = None) -> None:
        self._on_reply = on_reply
        self._connections: set[object] = set()

    def __len__(self) -> int:
        return len(self._connections)

    def answered(self, api: ApiKey, message: Any, received_ms: int, connection: object) -> None:  # noqa: ANN401  # any response
        """Take note of an answer that is about to be sent, and count it."""
        if api in _OF_MEMBERS:
            if message.error_code == ErrorCode.NOT_COORDINATOR:
                self._connections.discard(connection)
            else:
                self._connections.add(connection)
        elif api is ApiKey.LEAVE_GROUP:
            self._connections.discard(connection)
        if self._on_reply is not None:
            self._on_reply(api, message, received_ms)

    def forget(self, connection: object) -> None:
        """Learn that a connection is gone."""
        self._connections.discard(connection)
