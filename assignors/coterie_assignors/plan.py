"""What a leader has set out to do, and keeps to until it is done.

A move takes several rebalances: a copy of the state is made first, and a partition is released
before its new owner gets it.  On the way, partitions have no owner, or one that only fills in.  An
assignor that is asked again then starts from that, and may come to another answer; what was under
way is given up for something else, and that every time.  However sticky an assignor is: it minds
what members own, not what they are about to.

So it is not asked again.  As long as the answer is not in effect, and the group is the one that it
was given for, it stands.  Each rebalance then leaves fewer partitions where they do not belong, or
waits for a copy, so the group comes to rest, whichever assignor it uses.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass
from typing import TypeAlias

from coterie_assignors.base import Assignor, Cluster, MemberInfo, Partitions
from coterie_assignors.copies import process_of
from coterie_assignors.state import STALLED, WarmSettings
from coterie_protocol.consumer import flatten

__all__ = ["Plan", "planned"]

#: A copy that is to be made: its process, or its member if that is one by itself; topic; partition.
_Copy: TypeAlias = tuple[Hashable, str, int]


@dataclass(frozen=True, slots=True)
class Plan:
    """What an assignor said is right in the end, and of which group."""

    assignor: Assignor
    cluster: Cluster
    settings: WarmSettings | None
    members: Mapping[str, MemberInfo]
    #: The partitions of each member.
    shares: Mapping[str, Partitions]


def planned(
    former: Plan | None,
    assignor: Assignor,
    cluster: Cluster,
    members: Mapping[str, MemberInfo],
    settings: WarmSettings | None,
    ask: Callable[[Mapping[str, MemberInfo]], Mapping[str, Partitions]],
) -> Plan:
    """Return the former plan if it still stands, else one of what `ask` says of the members.

    It stands until the members or partitions are others, or a copy that it needs gets stuck.
    """
    if (
        former is not None
        and former.assignor is assignor
        and (former.cluster, former.settings) == (cluster, settings)
        and _same(former.members, members, assignor)
        and not _needed(former.shares, members, _stalled(members) - _stalled(former.members))
    ):
        return former
    # Callers may change theirs as topics grow and members come.
    cluster = Cluster(dict(cluster.topics), dict(cluster.racks))
    return Plan(assignor, cluster, settings, dict(members), ask(members))


def _same(
    former: Mapping[str, MemberInfo], members: Mapping[str, MemberInfo], assignor: Assignor
) -> bool:
    return former.keys() == members.keys() and all(
        _lasting(assignor, former[name]) == _lasting(assignor, member)
        for name, member in members.items()
    )


def _lasting(assignor: Assignor, member: MemberInfo) -> Hashable:
    """What an answer depends on, without what changes as partitions move.

    What a member that is away has is as good as given.
    """
    return (
        frozenset(member.topics),
        member.instance_id,
        member.rack,
        member.refused,
        assignor.told(member),
        None if member.warm is None else (True, member.warm.process),
        member.is_away,
        member.is_drained,
        member.owned if member.is_away else (),
    )


def _stalled(members: Mapping[str, MemberInfo]) -> frozenset[_Copy]:
    return frozenset(
        (process_of(member), *pair)
        for member in members.values()
        if member.warm is not None and STALLED in member.warm.lags.values()
        for pair, lag in member.warm.lags.items()
        if lag == STALLED
    )


def _needed(
    shares: Mapping[str, Partitions],
    members: Mapping[str, MemberInfo],
    copies: frozenset[_Copy],
) -> bool:
    """Whether any of these copies are of what their process is to have."""
    return bool(copies) and any(
        (process_of(members[name]), *pair) in copies
        for name, partitions in shares.items()
        for pair in flatten(partitions)
    )
