"""All metrics of a node, and the collector that shows them to Prometheus."""

from __future__ import annotations

import platform
from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.core import InfoMetricFamily
from prometheus_client.exposition import choose_encoder

from coterie_protocol.journal import (
    CAUSES,
    Event,
    MemberFenced,
    MemberGone,
    OffsetsCommitted,
    OwnershipConflict,
    PhaseJoined,
    RebalanceCompleted,
    RebalanceStarted,
)
from coterie_server.history import History, RebalanceOutcome, RebalanceRecord
from coterie_server.metrics.fast import (
    LATENCY_BOUNDS_S,
    REBALANCE_BOUNDS_S,
    Distribution,
    counter,
    histogram,
    total,
)
from coterie_server.metrics.gauges import NodeSnapshot, gauges
from coterie_server.metrics.requests import RequestMetrics

__all__ = ["Metrics"]


class Metrics:
    """The metrics of one node; all of it belongs to the event loop's thread.

    Events come in through `observe`, finished rebalances from the history, and the rest through
    the methods that the node calls.  What is looked at rather than counted comes with each scrape,
    as a snapshot of the node.
    """

    def __init__(self, version: str, history: History) -> None:
        self._version = version
        self.requests = RequestMetrics()
        self._snapshot = NodeSnapshot()
        self._rebalances: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._outcomes: Counter[RebalanceOutcome] = Counter()
        self._stopped_ms: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._silent_ms: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._prepare = Distribution(REBALANCE_BOUNDS_S)
        self._complete = Distribution(REBALANCE_BOUNDS_S)
        self._gone: Counter[str] = Counter()
        self._fenced = 0
        self._conflicts = 0
        self._commits = 0
        self._append = Distribution(LATENCY_BOUNDS_S)
        self._append_records = 0
        self._store_failures = 0
        history.listen(self._rebalance_over)
        self._registry = CollectorRegistry()
        self._registry.register(self)
        ProcessCollector(registry=self._registry)

    # -- counting ------------------------------------------------------------------------------

    def store_appended(self, records: int, seconds: float) -> None:
        """Count records that became durable, and the time that took."""
        self._append.add(seconds)
        self._append_records += records

    def store_failed(self) -> None:
        """Count a failure of the store to keep records."""
        self._store_failures += 1

    def observe(self, _ts_ms: int, event: Event) -> None:
        """Count an event."""
        count = self._HANDLERS.get(type(event))
        if count is not None:
            count(self, event)

    def _committed(self, _event: OffsetsCommitted) -> None:
        self._commits += 1

    def _rebalance_started(self, event: RebalanceStarted) -> None:
        self._rebalances[event.cause] += 1

    def _phase_joined(self, event: PhaseJoined) -> None:
        self._prepare.add(event.took_ms / 1000)

    def _completed(self, event: RebalanceCompleted) -> None:
        self._complete.add(event.took_ms / 1000)

    def _member_gone(self, event: MemberGone) -> None:
        self._gone[event.how] += 1

    def _member_fenced(self, _event: MemberFenced) -> None:
        self._fenced += 1

    def _conflict(self, _event: OwnershipConflict) -> None:
        self._conflicts += 1

    def _rebalance_over(self, rebalance: RebalanceRecord) -> None:
        self._outcomes[rebalance.outcome] += 1
        self._stopped_ms[rebalance.cause] += rebalance.stopped_partition_ms or 0
        self._silent_ms[rebalance.cause] += rebalance.silent_partition_ms or 0

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[Metrics, Any], None]]] = {
        MemberFenced: _member_fenced,
        MemberGone: _member_gone,
        OffsetsCommitted: _committed,
        OwnershipConflict: _conflict,
        PhaseJoined: _phase_joined,
        RebalanceCompleted: _completed,
        RebalanceStarted: _rebalance_started,
    }

    # -- scraping ------------------------------------------------------------------------------

    def render(self, snapshot: NodeSnapshot, accept: str = "") -> tuple[bytes, str]:
        """All metrics, in a format that the scraper accepts, and that format's content type."""
        self._snapshot = snapshot
        encode, content_type = choose_encoder(accept)
        return encode(self._registry), content_type

    def collect(self) -> Iterator[Metric]:
        """Yield all metrics; the registry calls this while it renders them."""
        build = {"version": self._version, "python": platform.python_version()}
        yield InfoMetricFamily("coterie_build", "Which Coterie this is.", value=build)
        yield from gauges(self._snapshot)
        yield from self.requests.collect()
        yield from self._collect_rebalances()
        yield from self._collect_members()
        yield from self._collect_store()

    def _collect_rebalances(self) -> Iterator[Metric]:
        yield counter(
            "coterie_rebalances",
            "Rebalances started, by cause.",
            ("cause",),
            (((cause,), count) for cause, count in self._rebalances.items()),
        )
        yield counter(
            "coterie_rebalances_ended",
            "Rebalances that ended, by outcome.",
            ("outcome",),
            (
                ((str(o),), self._outcomes[o])
                for o in RebalanceOutcome
                if o is not RebalanceOutcome.RUNNING
            ),
        )
        yield counter(
            "coterie_rebalance_stopped_partition_seconds",
            "Time that partitions were without an owner at work, added up over the partitions.",
            ("cause",),
            (((cause,), ms / 1000) for cause, ms in self._stopped_ms.items()),
        )
        yield counter(
            "coterie_rebalance_silent_partition_seconds",
            "Time that owners had been silent when they were given up, added up over their "
            "partitions.",
            ("cause",),
            (((cause,), ms / 1000) for cause, ms in self._silent_ms.items()),
        )
        yield histogram(
            "coterie_rebalance_prepare_seconds",
            "Duration of first phases of rebalances: until the members had joined.",
            (),
            {(): self._prepare},
        )
        yield histogram(
            "coterie_rebalance_complete_seconds",
            "Duration of second phases of rebalances: until the assignment was in place.",
            (),
            {(): self._complete},
        )

    def _collect_members(self) -> Iterator[Metric]:
        yield counter(
            "coterie_members_gone",
            "Members that left their group or were removed, by how.",
            ("how",),
            (((how,), count) for how, count in self._gone.items()),
        )
        yield total(
            "coterie_members_fenced",
            "Requests refused because another member holds the instance id.",
            self._fenced,
        )
        yield total(
            "coterie_ownership_conflicts",
            "Partitions given to a member while another still held them.",
            self._conflicts,
        )
        yield total("coterie_commits", "Offset commits stored.", self._commits)

    def _collect_store(self) -> Iterator[Metric]:
        yield histogram(
            "coterie_store_append_seconds",
            "Time until records were durable.",
            (),
            {(): self._append},
        )
        yield total("coterie_store_records", "Records made durable.", self._append_records)
        yield total(
            "coterie_store_failures",
            "Times that the store failed to keep or read records, or to see to leases.",
            self._store_failures,
        )
