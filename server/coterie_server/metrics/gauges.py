"""What a look at the node shows, as metrics."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from prometheus_client import Metric
from prometheus_client.core import GaugeMetricFamily

from coterie_server.journal import JournalStats
from coterie_server.metrics.census import Census, GroupCount
from coterie_server.metrics.fast import counter
from coterie_server.net.stats import NetStats

__all__ = ["gauges"]


def gauges(census: Census) -> Iterator[Metric]:
    """The metrics of what is there."""
    if census.groups is not None:
        yield from _groups(census.groups)
    if census.topics is not None:
        yield _gauge("coterie_topics", "Topics.", census.topics)
    yield from _parked(census)
    if census.net is not None:
        yield from _connections(census.net)
    if census.journal is not None:
        yield from _journal(census.journal)


def _groups(count: GroupCount) -> Iterator[Metric]:
    yield _by("coterie_groups", "Groups, by state.", "state", count.groups)
    yield _gauge("coterie_members", "Members of all groups.", count.members)


def _parked(census: Census) -> Iterator[Metric]:
    parked: dict[str, float] = {}
    if census.groups is not None:
        parked["JoinGroup"] = census.groups.parked_joins
        parked["SyncGroup"] = census.groups.parked_syncs
    if census.parked_fetches is not None:
        parked["Fetch"] = census.parked_fetches
    if parked:
        yield _by("coterie_parked_requests", "Requests whose answer has to wait.", "api", parked)


def _connections(net: NetStats) -> Iterator[Metric]:
    yield _gauge("coterie_connections", "Open connections.", net.open)
    yield _gauge("coterie_requests_in_flight", "Requests that are being answered.", net.in_flight)
    yield _total("coterie_connections_accepted", "Connections let in.", net.accepted)
    yield counter(
        "coterie_connections_refused",
        "Connections turned away at once, by the reason.",
        ("reason",),
        (((str(reason),), count) for reason, count in net.refused.items()),
    )
    yield counter(
        "coterie_connections_closed",
        "Connections that ended, by the reason.",
        ("reason",),
        (((str(reason),), count) for reason, count in net.closed.items()),
    )
    yield _total("coterie_received_bytes", "Bytes that clients sent.", net.bytes_in)
    yield _total("coterie_sent_bytes", "Bytes sent to clients.", net.bytes_out)


def _journal(stats: JournalStats) -> Iterator[Metric]:
    yield _total("coterie_journal_lines", "Lines of the journal written.", stats.lines)
    yield _total("coterie_journal_bytes", "Bytes of the journal written.", stats.bytes)
    yield _total(
        "coterie_journal_dropped_lines",
        "Lines of the journal that were lost, each a gap in its numbers.",
        stats.dropped,
    )
    yield _gauge("coterie_journal_queued_lines", "Lines that wait for the disk.", stats.queued)
    failing = int(stats.failing)
    yield _gauge("coterie_journal_failing", "1 while the journal can't be written.", failing)


def _gauge(name: str, text: str, value: float) -> Metric:
    return GaugeMetricFamily(name, text, value=value)


def _by(name: str, text: str, label: str, values: Mapping[str, float]) -> Metric:
    family = GaugeMetricFamily(name, text, labels=(label,))
    for key, value in values.items():
        family.add_metric((key,), value)
    return family


def _total(name: str, text: str, count: float) -> Metric:
    return counter(name, text, (), [((), count)])
