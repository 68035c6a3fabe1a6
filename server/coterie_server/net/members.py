"""Which connections have members that take this node for their coordinator.

It is the last answer to one of their requests that tells; where members share a connection, it is
that of any of them.
"""

from __future__ import annotations

from enum import Enum, unique
from typing import Any, Final

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import OffsetCommitResponse

__all__ = ["NOBODY", "TELLING", "Membership", "after", "after_heartbeat"]


@unique
class Membership(Enum):
    """What a connection has to do with members of groups."""

    #: Nothing, or no longer: they have left, or know of another coordinator.
    NONE = "none"
    #: Members have joined on it.  Some clients have another one for all that must not wait for a
    #: join, and hear on that one that they have another coordinator.
    JOINED = "joined"
    #: Their heartbeats come on it.
    ALIVE = "alive"


#: By names of their own: to look them up in a class takes long in some Pythons.
NOBODY: Final = Membership.NONE
_ALIVE: Final = Membership.ALIVE
_JOINED: Final = Membership.JOINED
_LEAVE_GROUP: Final = ApiKey.LEAVE_GROUP
_NOT_COORDINATOR: Final = int(ErrorCode.NOT_COORDINATOR)

_JOINING: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})
#: What all kinds of clients ask a coordinator, members among them.  Only that they are sent
#: elsewhere tells something: a member looks for its coordinator then, whatever it has asked, and
#: its next heartbeat goes there.
_ABOUT_OFFSETS: Final = frozenset({ApiKey.OFFSET_COMMIT, ApiKey.OFFSET_FETCH})
#: The requests whose answers tell.
TELLING: Final = _JOINING | _ABOUT_OFFSETS | {ApiKey.HEARTBEAT, ApiKey.LEAVE_GROUP}


def after_heartbeat(error_code: int) -> Membership:
    """What a connection has to do with members when a heartbeat on it is answered."""
    return NOBODY if error_code == _NOT_COORDINATOR else _ALIVE


def after(api: ApiKey, message: Any, before: Membership) -> Membership:  # noqa: ANN401  # any response to these
    """What a connection has to do with members after this answer, and so much before."""
    if api in _ABOUT_OFFSETS:
        is_news = before is not NOBODY and _sends_elsewhere(message)
        return NOBODY if is_news else before
    if api is _LEAVE_GROUP or message.error_code == _NOT_COORDINATOR:
        return NOBODY
    return _JOINED if api in _JOINING and before is not _ALIVE else _ALIVE


def _sends_elsewhere(message: Any) -> bool:  # noqa: ANN401  # an answer about offsets
    """Whether it says that the group is with another node, of all that was asked or of a topic.

    What is refused for other reasons, as the client may not ask for it, is so by whole topics.
    """
    for topic in message.topics:
        if topic.partitions and topic.partitions[0].error_code == _NOT_COORDINATOR:
            return True
    if type(message) is OffsetCommitResponse:
        return False
    groups = (message, *message.groups)
    return any(each.error_code == _NOT_COORDINATOR for each in groups)
