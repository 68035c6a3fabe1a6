"""The five states of a group, and every way from one to another.

Which state may follow which is said in `TRANSITIONS` alone; `Group.enter` looks it up, and a live
group changes its state nowhere else.  The diagram in the documentation and the test of every
request in every state are made from the same table.
"""

from __future__ import annotations

from enum import Enum
from typing import Final

__all__ = ["TRANSITIONS", "GroupState"]


class GroupState(Enum):
    """What a group is doing; the values are the names that Kafka's clients print."""

    EMPTY = "Empty"
    """It has no members; it exists for its offsets, or because a member was told its id.

    A join by an unknown member starts the first rebalance.  Heartbeats and syncs find no member.
    Offsets can be committed without a member id, deleted, and in time expire with the group.
    """

    PREPARING = "PreparingRebalance"
    """The first phase: joins are parked until all members have joined or their time is up.

    Heartbeats keep a member alive and answer REBALANCE_IN_PROGRESS, as does a sync.  Offsets can
    be committed, so that a member can save its work before it gives up its partitions.  Static
    members that are away (see `absence`) are not waited for.
    """

    COMPLETING = "CompletingRebalance"
    """The second phase: members know the new generation, and the leader works out who gets what.

    Syncs are parked until the leader's brings the assignment.  A join that changes nothing gets
    the current generation again; any other join sends the group back to the first phase.  Commits
    get REBALANCE_IN_PROGRESS, heartbeats are fine.
    """

    STABLE = "Stable"
    """All members have, or can ask for, their assignments.

    A sync is answered at once.  The leader's join, a join with a changed subscription, a new
    member and a lost one start a rebalance; one that is away for now does not, unless others keep
    copies of its state.
    """

    DEAD = "Dead"
    """Deleted.  Only its generation is remembered, so that the number is never used again."""


_S = GroupState

#: From each state, the states that may follow and what leads there.
TRANSITIONS: Final[dict[GroupState, dict[GroupState, str]]] = {
    _S.EMPTY: {
        _S.PREPARING: "a member joins",
        _S.DEAD: "deleted, or expired with its last offset",
    },
    _S.PREPARING: {
        _S.COMPLETING: "all have joined, or their time is up",
        _S.EMPTY: "the last member is gone",
    },
    _S.COMPLETING: {
        _S.STABLE: "the leader brings the assignment",
        _S.PREPARING: "a member joins, leaves, changes or is lost",
    },
    _S.STABLE: {
        _S.PREPARING: "a member joins, leaves, changes or is lost",
    },
    _S.DEAD: {
        _S.EMPTY: "the name is used again",
    },
}
