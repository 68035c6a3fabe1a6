"""A group's history, as far as it came from outside: what can be played again."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

__all__ = ["Life", "Play", "Silence", "Stall", "Subscription"]


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a process was not heard of."""

    from_ms: int
    until_ms: int


@dataclass(frozen=True, slots=True)
class Stall:
    """A time in which a process lived and was too busy to join."""

    from_ms: int
    until_ms: int
    #: Whether it leaves by itself when that takes longer than it may, as Kafka's consumer does.
    leaves: bool = False


@dataclass(frozen=True, slots=True)
class Subscription:
    """The topics that a process wants from some time on."""

    from_ms: int
    topics: frozenset[str]


@dataclass(eq=False, slots=True, kw_only=True)
class Life:
    """One process that was a member."""

    client_id: str
    host: str
    instance: str | None
    topics: frozenset[str]
    session_ms: int
    rebalance_ms: int
    #: What it can follow, best first.
    assignors: tuple[str, ...]
    began_ms: int
    #: When it ended; None if it was there to the end.
    ended_ms: int | None = None
    #: Whether it said goodbye, or was just not there any more.
    left: bool = False
    silences: list[Silence] = field(default_factory=list)
    stalls: list[Stall] = field(default_factory=list)
    subscriptions: list[Subscription] = field(default_factory=list)
    #: From when a rebalance began to its join, each time that it was waited for.
    joins_ms: list[int] = field(default_factory=list)

    @property
    def join_ms(self) -> int:
        """How long it usually takes to join: half the time or less."""
        return sorted(self.joins_ms)[len(self.joins_ms) // 2] if self.joins_ms else 0


@dataclass(slots=True, kw_only=True)
class Play:
    """A group's history, as far as it came from outside."""

    group: str
    began_ms: int
    ended_ms: int
    lives: list[Life]
    #: Each topic's partitions when the play begins, and what became of them.
    topics: dict[str, int]
    topic_changes: list[tuple[int, str, int]]
    #: When the coordinator was not there.
    absences: list[Silence]
    #: How the coordinator was set up, by the attributes of `Settings`, as far as that is known.
    settings: Mapping[str, Any] = field(default_factory=dict)
    #: How often members seem to have sent heartbeats; None if nothing shows it.
    heartbeat_ms: int | None = None
    #: What had to be assumed because the journal does not tell; sentences.
    assumed: tuple[str, ...] = ()

    def condensed(self, quiet_ms: int) -> Play:
        """Leave out what is left of a time in which nothing happens, after so long."""
        clock = _clock(self._moments(), quiet_ms)

        def shifted(span: Any) -> Any:  # noqa: ANN401  # a span comes back as what it was
            return replace(span, from_ms=clock(span.from_ms), until_ms=clock(span.until_ms))

        lives = [
            replace(
                life,
                began_ms=clock(life.began_ms),
                ended_ms=None if life.ended_ms is None else clock(life.ended_ms),
                silences=[shifted(each) for each in life.silences],
                stalls=[shifted(each) for each in life.stalls],
                subscriptions=[
                    replace(each, from_ms=clock(each.from_ms)) for each in life.subscriptions
                ],
            )
            for life in self.lives
        ]
        return replace(
            self,
            ended_ms=clock(self.ended_ms),
            lives=lives,
            topic_changes=[(clock(ms), topic, count) for ms, topic, count in self.topic_changes],
            absences=[shifted(each) for each in self.absences],
        )

    def _moments(self) -> Iterator[tuple[int, int]]:
        """When something happens: from when until when."""
        yield self.began_ms, self.began_ms
        yield self.ended_ms, self.ended_ms
        for absence in self.absences:
            yield absence.from_ms, absence.until_ms
        for ms, _, _ in self.topic_changes:
            yield ms, ms
        for life in self.lives:
            yield life.began_ms, life.began_ms
            if life.ended_ms is not None:
                yield life.ended_ms, life.ended_ms
            for silence in life.silences:
                yield silence.from_ms, silence.until_ms
            for stall in life.stalls:
                yield stall.from_ms, stall.until_ms
            for subscription in life.subscriptions:
                yield subscription.from_ms, subscription.from_ms


def _clock(moments: Iterator[tuple[int, int]], quiet_ms: int) -> Callable[[int], int]:
    """From a time in the history to one without long quiet times; both begin as one."""
    cuts: list[tuple[int, int]] = []
    busy_until_ms: int | None = None
    for from_ms, until_ms in sorted(moments):
        if busy_until_ms is not None and from_ms - busy_until_ms > quiet_ms:
            cuts.append((from_ms, from_ms - busy_until_ms - quiet_ms))
        busy_until_ms = max(until_ms, busy_until_ms or until_ms)

    def clock(ms: int) -> int:
        return ms - sum(length_ms for from_ms, length_ms in cuts if ms >= from_ms)

    return clock
