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

__all__ = ["Census", "GroupCount", "GroupCounting", "count_groups"]


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


class GroupCounting:
    """Counts groups, their members and the requests that are parked in them, some at a time."""

    def __init__(self) -> None:
        self._states: Counter[str] = Counter({state.value: 0 for state in GroupState})
        # A dead group is no group any more.
        del self._states[GroupState.DEAD.value]
        self._members = self._joins = self._syncs = 0

    def add(self, groups: Iterable[Group]) -> None:
        """Count some more."""
        for group in groups:
            if group.state is GroupState.DEAD:
                continue  # it was deleted since the counting began
            self._states[group.state.value] += 1
            self._members += len(group.members)
            self._joins += group.parked_joins
            if group.state is GroupState.COMPLETING:
                self._syncs += sum(member.sync is not None for member in group.members.values())

    def count(self) -> GroupCount:
        """What was counted so far."""
        return GroupCount(
            groups=self._states,
            members=self._members,
            parked_joins=self._joins,
            parked_syncs=self._syncs,
        )


def count_groups(groups: Iterable[Group]) -> GroupCount:
    """Count groups, their members and the requests that are parked in them."""
    counting = GroupCounting()
    counting.add(groups)
    return counting.count()
