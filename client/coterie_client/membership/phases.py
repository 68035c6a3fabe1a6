"""The phases of a member, and every way from one to another.

All that decides which phase may follow which is in `TRANSITIONS`.  `MemberState.enter` looks it up
and nothing else changes a phase.  The diagram in docs/architecture.md is drawn from this table.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = [
    "COMMITTING",
    "ENDS",
    "HEARTBEATING",
    "LOST_ITS_PLACE",
    "REBALANCING",
    "TRANSITIONS",
    "Phase",
]


class Phase(Enum):
    """What a member is doing."""

    OUT = "Out"
    """It is in no generation and owns nothing.  A reason to join moves it on."""

    PREPARING = "Preparing"
    """It is about to join, and ends the work on partitions that it may not keep while it does.

    Heartbeats and commits go on, so that the work can store how far it got.
    """

    JOINING = "Joining"
    """It sends JoinGroup and waits for the answer, which comes when all members have joined.

    A member that has kept partitions works on, and sends heartbeats and commits.
    """

    LEADING = "Leading"
    """It was made the leader, and waits for fresh metadata of the topics to assign by."""

    SYNCING = "Syncing"
    """It sends SyncGroup, with the assignment if it leads, and waits for its own."""

    PROVING = "Proving"
    """It has an assignment, and no lease to work on it: it asks for a heartbeat's answer and
    syncs once more, to begin one.

    A member whose lease has run out comes back here.
    """

    STABLE = "Stable"
    """It works on what it was assigned."""

    LEAVING = "Leaving"
    """It owns nothing any more, and its last request is on the way."""

    OVER = "Over"
    """The membership has ended; nothing is sent any more."""


_P = Phase

#: What leads out of many phases alike.
LOST_ITS_PLACE: Final = "lost its place in the group"
ENDS: Final = "closed, failed or fenced"

#: From each phase, the phases that may follow and what leads there.
TRANSITIONS: Final[dict[Phase, dict[Phase, str]]] = {
    _P.OUT: {
        _P.PREPARING: "has a reason to join",
        _P.LEAVING: ENDS,
    },
    _P.PREPARING: {
        _P.JOINING: "has let go of what it may not keep",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.JOINING: {
        _P.PREPARING: "has unsubscribed from what it kept",
        _P.LEADING: "joined as the leader",
        _P.SYNCING: "joined as a follower",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.LEADING: {
        _P.SYNCING: "has decided who gets what",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.SYNCING: {
        _P.PROVING: "received its assignment",
        _P.STABLE: "is told that another rebalance began",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.PROVING: {
        _P.STABLE: "has a lease",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.STABLE: {
        _P.PREPARING: "has a reason to join again",
        _P.PROVING: "its lease ran out",
        _P.OUT: LOST_ITS_PLACE,
        _P.LEAVING: ENDS,
    },
    _P.LEAVING: {
        _P.OVER: "has left, or ran out of time for it",
    },
    _P.OVER: {},
}

#: Where the answer to a join or sync tells more than an error code that came beside it: the
#: coordinator may be a generation ahead of what the member knows.
REBALANCING: Final = frozenset({_P.JOINING, _P.LEADING, _P.SYNCING})

#: Where heartbeats are sent; in JOINING only by a member that has kept partitions.
HEARTBEATING: Final = frozenset({_P.PREPARING, _P.LEADING, _P.SYNCING, _P.PROVING, _P.STABLE})

#: Where the coordinator takes commits: in the other phases it is between two generations.
COMMITTING: Final = frozenset({_P.PREPARING, _P.JOINING, _P.PROVING, _P.STABLE})
