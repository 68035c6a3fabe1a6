"""Metrics of the node's present state, which are read when a scrape comes."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from prometheus_client import Metric

from coterie_server.group import GroupState
from coterie_server.metrics.fast import counter, gauge, gauge_by, total

if TYPE_CHECKING:
    from coterie_server.group import Group
    from coterie_server.journal import JournalStats
    from coterie_server.net.stats import NetStats

__all__ = ["GroupCounts", "NodeSnapshot", "count_groups", "gauges"]

#: How many groups are counted before other tasks get a turn: a few milliseconds' worth.
_GROUPS_AT_ONCE: Final = 2000


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupCounts:
    """The groups of a node, counted."""

    #: By state; every state but Dead is there.
    groups: Mapping[str, int]
    members: int
    #: Those of the members whose session is over and whose place is kept.
    away: int
    parked_joins: int
    parked_syncs: int


@dataclass(frozen=True, slots=True, kw_only=True)
class NodeSnapshot:
    """A node's state at one moment; None stands for a part that it does not have, or not yet."""

    groups: GroupCounts | None = None
    topics: int | None = None
    #: Fetches that wait for records, of which there are never any.
    parked_fetches: int | None = None
    net: NetStats | None = None
    journal: JournalStats | None = None


async def count_groups(groups: Sequence[Group]) -> GroupCounts:
    """Count groups, their members and their parked requests, and let other tasks run meanwhile."""
    states = Counter({state.value: 0 for state in GroupState if state is not GroupState.DEAD})
    members = away = joins = syncs = 0
    for number, group in enumerate(groups, start=1):
        if number % _GROUPS_AT_ONCE == 0:
            await asyncio.sleep(0)
        states[group.state.value] += 1
        members += len(group.members)
        away += len(group.away)
        joins += group.parked_joins
        if group.state is GroupState.COMPLETING:
            syncs += sum(member.sync is not None for member in group.members.values())
    return GroupCounts(
        groups=states, members=members, away=away, parked_joins=joins, parked_syncs=syncs
    )


def gauges(snapshot: NodeSnapshot) -> Iterator[Metric]:
    """The metrics of what a snapshot holds."""
    if snapshot.groups is not None:
        yield gauge_by("state", "coterie_groups", "Groups, by state.", snapshot.groups.groups)
        yield gauge("coterie_members", "Members of all groups.", snapshot.groups.members)
        yield gauge(
            "coterie_members_away",
            "Static members whose session is over and whose place is kept.",
            snapshot.groups.away,
        )
    if snapshot.topics is not None:
        yield gauge("coterie_topics", "Topics.", snapshot.topics)
    yield from _parked(snapshot)
    if snapshot.net is not None:
        yield from _connections(snapshot.net)
    if snapshot.journal is not None:
        yield from _journal(snapshot.journal)


def _parked(snapshot: NodeSnapshot) -> Iterator[Metric]:
    parked: dict[str, float] = {}
    if snapshot.groups is not None:
        parked["JoinGroup"] = snapshot.groups.parked_joins
        parked["SyncGroup"] = snapshot.groups.parked_syncs
    if snapshot.parked_fetches is not None:
        parked["Fetch"] = snapshot.parked_fetches
    if parked:
        yield gauge_by("api", "coterie_parked_requests", "Requests that are parked.", parked)


def _connections(net: NetStats) -> Iterator[Metric]:
    yield gauge("coterie_connections", "Open connections.", net.open)
    yield gauge("coterie_requests_in_flight", "Requests being answered.", net.in_flight)
    yield total("coterie_connections_accepted", "Connections accepted.", net.accepted)
    yield counter(
        "coterie_connections_refused",
        "Connections closed as soon as they were opened, by reason.",
        ("reason",),
        (((str(reason),), count) for reason, count in net.refused.items()),
    )
    yield counter(
        "coterie_connections_closed",
        "Connections that ended, by reason.",
        ("reason",),
        (((str(reason),), count) for reason, count in net.closed.items()),
    )
    yield total("coterie_received_bytes", "Bytes received from clients.", net.bytes_in)
    yield total("coterie_sent_bytes", "Bytes sent to clients.", net.bytes_out)


def _journal(stats: JournalStats) -> Iterator[Metric]:
    yield total("coterie_journal_lines", "Journal lines written.", stats.lines)
    yield total("coterie_journal_bytes", "Bytes of journal written.", stats.bytes)
    yield total(
        "coterie_journal_dropped_lines",
        "Journal lines lost, each a gap in the line numbers.",
        stats.dropped,
    )
    yield gauge("coterie_journal_queued_lines", "Journal lines waiting for the disk.", stats.queued)
    failing = int(stats.failing)
    yield gauge("coterie_journal_failing", "1 while the journal can't be written.", failing)
