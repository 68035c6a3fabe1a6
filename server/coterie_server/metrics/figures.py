"""All figures of a node, and the one collector that shows them."""

from __future__ import annotations

import platform
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from typing import Any, ClassVar

from prometheus_client import CollectorRegistry, Metric, ProcessCollector
from prometheus_client.core import InfoMetricFamily
from prometheus_client.exposition import choose_encoder

from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
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
from coterie_server.history import History, Outcome, Rebalance
from coterie_server.metrics.census import Census
from coterie_server.metrics.fast import (
    LATENCY_BOUNDS_S,
    REBALANCE_BOUNDS_S,
    Distribution,
    counter,
    histogram,
)
from coterie_server.metrics.gauges import gauges

__all__ = ["Metrics"]


class _Api:
    """The requests of one kind."""

    __slots__ = ("errors", "seconds", "title")

    def __init__(self, title: str) -> None:
        self.title = title
        self.errors: defaultdict[int, int] = defaultdict(int)
        self.seconds = Distribution(LATENCY_BOUNDS_S)


class Metrics:
    """The figures of one node; all of it belongs to the event loop's thread.

    Events come in by `observe`, ends of rebalances from the history, and the rest by the methods
    that the node calls.  What can be looked at instead of counted, `watch` is told how.
    """

    def __init__(self, version: str, history: History) -> None:
        self._version = version
        self._look: Callable[[], Census] = Census
        self._apis = {int(key): _Api(key.title) for key in ApiKey}
        self._rebalances: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
        self._outcomes: Counter[Outcome] = Counter()
        self._stopped_ms: Counter[str] = Counter(dict.fromkeys(CAUSES, 0))
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
        self.registry = CollectorRegistry()
        self.registry.register(self)
        ProcessCollector(registry=self.registry)

    # -- what the node tells -------------------------------------------------------------------

    def watch(self, look: Callable[[], Census]) -> None:
        """Say how the node is to be looked at when somebody asks for figures."""
        self._look = look

    def request_done(self, api_key: int, error: int, seconds: float) -> None:
        """A request was answered, so long after it came."""
        api = self._apis[api_key]
        api.errors[error] += 1
        api.seconds.add(seconds)

    def store_appended(self, records: int, seconds: float) -> None:
        """Records became durable."""
        self._append.add(seconds)
        self._append_records += records

    def store_failed(self) -> None:
        """The store could not keep records."""
        self._store_failures += 1

    def observe(self, _ts_ms: int, event: Event) -> None:
        """Count an event."""
        count = self._HANDLERS.get(type(event))
        if count is not None:
            count(self, event)

    # -- events --------------------------------------------------------------------------------

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

    def _rebalance_over(self, rebalance: Rebalance) -> None:
        self._outcomes[rebalance.outcome] += 1
        self._stopped_ms[rebalance.cause] += rebalance.stopped_partition_ms or 0

    _HANDLERS: ClassVar[Mapping[type[Event], Callable[[Metrics, Any], None]]] = {
        MemberFenced: _member_fenced,
        MemberGone: _member_gone,
        OffsetsCommitted: _committed,
        OwnershipConflict: _conflict,
        PhaseJoined: _phase_joined,
        RebalanceCompleted: _completed,
        RebalanceStarted: _rebalance_started,
    }

    # -- showing -------------------------------------------------------------------------------

    def render(self, accept: str = "") -> tuple[bytes, str]:
        """The figures in the format that a scraper accepts, and the name of that format."""
        encode, content_type = choose_encoder(accept)
        return encode(self.registry), content_type

    def collect(self) -> Iterator[Metric]:
        """All figures as they stand; the registry calls this."""
        build = {"version": self._version, "python": platform.python_version()}
        yield InfoMetricFamily("coterie_build", "Which Coterie this is.", value=build)
        yield from gauges(self._look())
        yield from self._requests()
        yield from self._of_rebalances()
        yield from self._of_members()
        yield from self._of_the_store()

    def _requests(self) -> Iterator[Metric]:
        seen = [api for api in self._apis.values() if api.errors]
        yield counter(
            "coterie_requests",
            "Requests answered, by the first error in the answer.",
            ("api", "error"),
            (
                ((api.title, _error_name(error)), count)
                for api in seen
                for error, count in api.errors.items()
            ),
        )
        yield histogram(
            "coterie_request_seconds",
            "Time from a request's arrival to its answer, with the time for which it was parked.",
            ("api",),
            {(api.title,): api.seconds for api in seen},
        )

    def _of_rebalances(self) -> Iterator[Metric]:
        yield counter(
            "coterie_rebalances",
            "Rebalances begun, by cause.",
            ("cause",),
            (((cause,), count) for cause, count in self._rebalances.items()),
        )
        yield counter(
            "coterie_rebalances_ended",
            "Rebalances that are over, by how they ended.",
            ("outcome",),
            (((str(o),), self._outcomes[o]) for o in Outcome if o is not Outcome.RUNNING),
        )
        yield counter(
            "coterie_rebalance_stopped_partition_seconds",
            "Time that partitions were without an owner at work, added up over the partitions.",
            ("cause",),
            (((cause,), ms / 1000) for cause, ms in self._stopped_ms.items()),
        )
        yield histogram(
            "coterie_rebalance_prepare_seconds",
            "First phases of rebalances: until the members had joined.",
            (),
            {(): self._prepare},
        )
        yield histogram(
            "coterie_rebalance_complete_seconds",
            "Second phases of rebalances: until the leader's assignment was in place.",
            (),
            {(): self._complete},
        )

    def _of_members(self) -> Iterator[Metric]:
        yield counter(
            "coterie_members_gone",
            "Members that are no longer in their group, by how they went.",
            ("how",),
            (((how,), count) for how, count in self._gone.items()),
        )
        yield _count(
            "coterie_members_fenced",
            "Requests refused because another member holds the instance id.",
            self._fenced,
        )
        yield _count(
            "coterie_ownership_conflicts",
            "Partitions given to a member while another still held them.",
            self._conflicts,
        )
        yield _count("coterie_commits", "Commits of offsets that were stored.", self._commits)

    def _of_the_store(self) -> Iterator[Metric]:
        yield histogram(
            "coterie_store_append_seconds",
            "Time until records were durable.",
            (),
            {(): self._append},
        )
        yield _count("coterie_store_records", "Records made durable.", self._append_records)
        yield _count(
            "coterie_store_failures",
            "Times that the store could not keep records.",
            self._store_failures,
        )


def _count(name: str, text: str, count: float) -> Metric:
    return counter(name, text, (), [((), count)])


def _error_name(code: int) -> str:
    try:
        return ErrorCode(code).name
    except ValueError:
        return str(code)
