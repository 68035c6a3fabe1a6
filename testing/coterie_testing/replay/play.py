"""From a journal to what can be played again: who came and went, and who was silent when.

A journal says what the coordinator saw, and not why.  Two things are read into it:

- A member that was dropped because it was silent, and whose process joins again soon after, was
  silent all the time between: it was paused, or busy, or cut off.  If it does not come back, it
  was dead from when it was last heard of.
- A member that did not join in time, though it lived, took too long to finish its work.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol.journal import (
    Event,
    Line,
    MemberGone,
    MemberJoined,
    MemberReplaced,
    NodeStarted,
    NodeStopped,
    PhaseJoined,
    RebalanceCompleted,
    TopicChanged,
)

__all__ = ["Life", "Play", "Silence", "play_of"]

#: A process that comes back so soon after it was dropped is taken for the same one.
_SAME_PROCESS_MS: Final = 600_000

_SILENT: Final = frozenset({"session_expired", "join_expired"})
_SLOW: Final = frozenset({"rebalance_expired", "sync_expired"})


@dataclass(frozen=True, slots=True)
class Silence:
    """A time in which a process was not heard of."""

    from_ms: int
    until_ms: int


@dataclass(eq=False, slots=True)
class Life:
    """One process that was a member."""

    client_id: str
    host: str
    instance: str | None
    topics: frozenset[str]
    session_ms: int
    rebalance_ms: int
    assignor: str
    began_ms: int
    #: When it ended; None if it was there to the end.
    ended_ms: int | None = None
    #: Whether it said goodbye, or was just not there any more.
    left: bool = False
    silences: list[Silence] = field(default_factory=list)
    #: When it took how long to finish its work, beyond what is usual.
    slow: list[tuple[int, int]] = field(default_factory=list)
    #: From when a rebalance began to its join, each time, in milliseconds.
    joins_ms: list[int] = field(default_factory=list)

    @property
    def finish_ms(self) -> int:
        """How long it usually takes to let go of its partitions: half the time or less."""
        return sorted(self.joins_ms)[len(self.joins_ms) // 2] if self.joins_ms else 0


@dataclass(slots=True)
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


def play_of(lines: Iterable[Line], group: str) -> Play:
    """Read a group's history out of the lines of a journal, which come in their order."""
    reading = _Reading(group)
    for line in lines:
        reading.read(line.ts, line.event)
    return reading.finish()


class _Reading:
    """Reads line by line; there is a method for each kind of event that matters."""

    def __init__(self, group: str) -> None:
        self._group = group
        self._first_ms: int | None = None
        self._last_ms = 0
        self._lives: list[Life] = []
        self._by_member: dict[str, Life] = {}
        #: Who was dropped for being silent or slow, and may come back: when, and since when.
        self._dropped: dict[Life, tuple[int, int, str]] = {}
        self._topics: dict[str, int] = {}
        self._changes: list[tuple[int, str, int]] = []
        self._absences: list[Silence] = []
        self._stopped_ms: int | None = None

    def read(self, ts_ms: int, event: Event) -> None:
        """Take note of an event."""
        if event.group not in ("", self._group):
            return
        self._read_node(ts_ms, event)
        if event.group != self._group:
            return
        self._first_ms = ts_ms if self._first_ms is None else self._first_ms
        self._last_ms = max(self._last_ms, ts_ms)
        match event:
            case MemberJoined():
                self._joined(ts_ms, event)
            case MemberReplaced():
                self._replaced(ts_ms, event)
            case MemberGone():
                self._gone(ts_ms, event)
            case PhaseJoined():
                for member in event.members:
                    life = self._by_member.get(member.member)
                    if life is not None and member.joined_after_ms is not None:
                        life.joins_ms.append(member.joined_after_ms)
            case RebalanceCompleted(assigned=assigned):
                self._learn_topics(assigned or {})

    def _read_node(self, ts_ms: int, event: Event) -> None:
        match event:
            case TopicChanged():
                self._changes.append((ts_ms, event.topic, event.partitions))
                self._topics.setdefault(event.topic, event.partitions_before)
            case NodeStopped():
                self._stopped_ms = ts_ms
            case NodeStarted() if self._first_ms is not None:
                # A node that did not say that it stops was last heard of with its last line.
                since_ms = self._last_ms if self._stopped_ms is None else self._stopped_ms
                self._absences.append(Silence(since_ms, ts_ms))
                self._stopped_ms = None

    def _learn_topics(self, assigned: Mapping[str, Mapping[str, tuple[int, ...]]]) -> None:
        changed = {topic for _, topic, _ in self._changes}
        for partitions in assigned.values():
            for topic, numbers in partitions.items():
                if topic not in changed and numbers:
                    known = self._topics.get(topic, 0)
                    self._topics[topic] = max(known, *(number + 1 for number in numbers))

    def _joined(self, ts_ms: int, event: MemberJoined) -> None:
        former = self._former(ts_ms, event)
        if former is not None:
            self._by_member[event.member] = former
            dropped_ms, since_ms, how = self._dropped.pop(former)
            if how in _SLOW:
                former.slow.append((since_ms, ts_ms - since_ms))
            else:
                former.silences.append(Silence(min(since_ms, dropped_ms), ts_ms))
            return
        life = Life(
            client_id=event.client_id,
            host=event.host,
            instance=event.instance,
            topics=frozenset(event.topics or ()),
            session_ms=event.session_timeout_ms,
            rebalance_ms=event.rebalance_timeout_ms,
            assignor=event.protocols[0] if event.protocols else "",
            began_ms=ts_ms,
        )
        self._lives.append(life)
        self._by_member[event.member] = life

    def _former(self, ts_ms: int, event: MemberJoined) -> Life | None:
        """The process that was dropped a while ago and is back now."""
        for life, (dropped_ms, _, _) in self._dropped.items():
            same = (life.client_id, life.host, life.instance)
            is_same = same == (event.client_id, event.host, event.instance)
            if is_same and ts_ms - dropped_ms <= _SAME_PROCESS_MS:
                return life
        return None

    def _replaced(self, ts_ms: int, event: MemberReplaced) -> None:
        former = self._by_member.pop(event.former_member, None)
        if former is None:
            return
        former.ended_ms, former.left = ts_ms - event.silent_ms, False
        heir = Life(
            client_id=former.client_id,
            host=event.host,
            instance=event.instance,
            topics=former.topics,
            session_ms=former.session_ms,
            rebalance_ms=former.rebalance_ms,
            assignor=former.assignor,
            began_ms=ts_ms,
        )
        self._lives.append(heir)
        self._by_member[event.member] = heir

    def _gone(self, ts_ms: int, event: MemberGone) -> None:
        life = self._by_member.pop(event.member, None)
        if life is None:
            return
        if event.how in _SILENT | _SLOW:
            since_ms = ts_ms - (event.silent_ms if event.how in _SILENT else life.rebalance_ms)
            self._dropped[life] = (ts_ms, since_ms, event.how)
        else:
            life.ended_ms, life.left = ts_ms, True

    def finish(self) -> Play:
        """All of it."""
        for life, (_, since_ms, _) in self._dropped.items():
            life.ended_ms = since_ms
        began_ms = self._first_ms or 0
        changes = [each for each in self._changes if each[0] > began_ms]
        for ts_ms, topic, partitions in self._changes:
            if ts_ms <= began_ms:
                self._topics[topic] = partitions
        return Play(
            group=self._group,
            began_ms=began_ms,
            ended_ms=self._last_ms,
            lives=self._lives,
            topics={topic: count for topic, count in self._topics.items() if count},
            topic_changes=changes,
            absences=self._absences,
        )
