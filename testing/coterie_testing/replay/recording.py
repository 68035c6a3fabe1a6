"""A recording: what came from outside in a group's history, and so can be replayed."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["RecordedMember", "Recording", "Silence", "Stall", "SubscriptionChange"]


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which nothing was heard of a process."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which a live process was too busy to join."""

    from_ms: int
    until_ms: int
    #: Whether it leaves when that takes too long, as Kafka's consumer does.
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class SubscriptionChange:
    """The topics that a process subscribes to from some time on."""

    from_ms: int
    topics: frozenset[str]


@dataclass(eq=False, slots=True, kw_only=True)
class RecordedMember:
    """One process that was a member."""

    client_id: str
    host: str
    instance: str | None
    topics: frozenset[str]
    session_ms: int
    rebalance_ms: int
    #: The assignors that it supports, best first.
    assignors: tuple[str, ...]
    began_ms: int
    #: When it ended; None if it was there to the end.
    ended_ms: int | None = None
    #: Whether it left in good order, or just disappeared.
    left: bool = False
    silences: list[Silence] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    subscriptions: list[SubscriptionChange] = field(default_factory=list)
    #: How long after the start of each rebalance that waited for it it joined.
    joins_ms: list[int] = field(default_factory=list)

    @property
    def join_ms(self) -> int:
        """How long it usually takes to join: the median."""
        return sorted(self.joins_ms)[len(self.joins_ms) // 2] if self.joins_ms else 0


@dataclass(slots=True, kw_only=True)
class Recording:
    """What came from outside in a group's history."""

    group: str
    began_ms: int
    ended_ms: int
    members: list[RecordedMember]
    #: Each topic's partitions at the beginning, and how they changed.
    topics: dict[str, int]
    topic_changes: list[tuple[int, str, int]]
    #: When the coordinator was down.
    outages: list[Silence]
    #: The coordinator's settings, as far as they are known, by the attributes of `Settings`.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: The interval at which members seem to have sent heartbeats; None if nothing shows it.
    heartbeat_ms: int | None = None
    #: What had to be assumed because the journal does not tell it.
    assumptions: tuple[str, ...] = ()

    def condensed(self, quiet_ms: int) -> Recording:
        """Cut every time in which nothing happens down to `quiet_ms`."""
        clock = _clock(self._moments(), quiet_ms)

        def shifted(span: Any) -> Any:  # noqa: ANN401  # a span keeps its type
            return replace(span, from_ms=clock(span.from_ms), until_ms=clock(span.until_ms))

        members = [
            replace(
                member,
                began_ms=clock(member.began_ms),
                ended_ms=None if member.ended_ms is None else clock(member.ended_ms),
                silences=[shifted(each) for each in member.silences],
                stalls=[shifted(each) for each in member.stalls],
                subscriptions=[
                    replace(each, from_ms=clock(each.from_ms)) for each in member.subscriptions
                ],
            )
            for member in self.members
        ]
        return replace(
            self,
            ended_ms=clock(self.ended_ms),
            members=members,
            topic_changes=[(clock(ms), topic, count) for ms, topic, count in self.topic_changes],
            outages=[shifted(each) for each in self.outages],
        )

    def _moments(self) -> Iterator[tuple[int, int]]:
        """The times in which something happens, each from when until when."""
        yield self.began_ms, self.began_ms
        yield self.ended_ms, self.ended_ms
        for outage in self.outages:
            yield outage.from_ms, outage.until_ms
        for ms, _, _ in self.topic_changes:
            yield ms, ms
        for member in self.members:
            yield member.began_ms, member.began_ms
            if member.ended_ms is not None:
                yield member.ended_ms, member.ended_ms
            for silence in member.silences:
                yield silence.from_ms, silence.until_ms
            for stall in member.stalls:
                yield stall.from_ms, stall.until_ms
            for subscription in member.subscriptions:
                yield subscription.from_ms, subscription.from_ms


def _clock(moments: Iterator[tuple[int, int]], quiet_ms: int) -> Callable[[int], int]:
    """A function from times of the recording to times without long quiet stretches."""
    cuts: list[tuple[int, int]] = []
    busy_until_ms: int | None = None
    for from_ms, until_ms in sorted(moments):
        if busy_until_ms is not None and from_ms - busy_until_ms > quiet_ms:
            cuts.append((from_ms, from_ms - busy_until_ms - quiet_ms))
        busy_until_ms = max(until_ms, busy_until_ms or until_ms)

    def clock(ms: int) -> int:
        return ms - sum(length_ms for from_ms, length_ms in cuts if ms >= from_ms)

    return clock
