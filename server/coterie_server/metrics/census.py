"""What is not counted as it happens but looked at when somebody asks."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

from coterie_server.group import GroupState

if TYPE_CHECKING:
    from coterie_server.group import Group
    from coterie_server.journal import JournalStats
    from coterie_server.net.stats import NetStats

__all__ = ["Census", "GroupCount", "count_groups"]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCount:
    """The groups of a node at one moment."""

    #: By state; every state is there.
    groups: Mapping[str, int]
    members: int
    parked_joins: int
    parked_syncs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Census:
    """A node at one moment; what it does not have, or not yet, is None."""

    groups: GroupCount | None = None
    topics: int | None = None
    #: Requests for records that wait because there are none, as there never are.
    parked_fetches: int | None = None
    net: NetStats | None = None
    journal: JournalStats | None = None


def count_groups(groups: Iterable[Group]) -> GroupCount:
    """Count groups, their members and the requests that are parked in them."""
    states: Counter[str] = Counter({state.value: 0 for state in GroupState})
    # A dead group is no group any more.
    del states[GroupState.DEAD.value]
    members = joins = syncs = 0
    for group in groups:
        states[group.state.value] += 1
        members += len(group.members)
        joins += group.parked_joins
        if group.state is GroupState.COMPLETING:
            syncs += sum(member.sync is not None for member in group.members.values())
    return GroupCount(groups=states, members=members, parked_joins=joins, parked_syncs=syncs)
