"""Committed offsets: they may only be gone if their topic was deleted."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from coterie_protocol.journal import Event, OffsetsCommitted, OffsetsDeleted, TopicChanged

__all__ = ["OffsetChecker"]

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _Position:
    """How far work on a partition got."""

    #: The highest offset whose commit was acknowledged, and the highest that a worker asked for.
    stored: int = 0
    asked: int = 0
    #: Counts the times at which its offsets may have been forgotten.
    life: int = 0
    #: How often the journal told that they were forgotten with their topic.
    forgotten: int = 0
    #: By offset, the life in which its commit was journalled; -1 if the topic was gone.
    journalled: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Topic:
    """What is known of a topic."""

    #: Whether it exists, by the journal; None before the journal says so.
    exists: bool | None = None
    #: Whether its creation was asked for since, so that it may exist without the journal saying so.
    may_exist: bool = False
    #: How many deletions are known.
    deletions: int = 0
    #: Deletions without an answer, each with the number of known deletions when it was asked for.
    doubts: dict[int, int] = field(default_factory=dict)
    #: Those of them that will never be answered.
    unanswered: set[int] = field(default_factory=set)
    #: What is a violation unless one of them was carried out.
    suspicions: list[str] = field(default_factory=list)


class OffsetChecker:
    """Follows commits and reads, and finds those that can't be right.

    Offsets may be gone if the journal or an administrator was told that their topic was deleted. A
    deletion that was refused excuses nothing. One whose answer was lost may have been carried out:
    what it would explain is kept as a suspicion, and becomes a violation if the topic turns out not
    to have been deleted.
    """

    def __init__(self) -> None:
        self._positions: defaultdict[TopicPartition, _Position] = defaultdict(_Position)
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)
        self._asked = 0

    # -- what workers do -----------------------------------------------------------------------

    def commit_asked(self, key: TopicPartition, offset: int) -> None:
        """A worker is about to commit."""
        position = self._positions[key]
        position.asked = max(position.asked, offset)

    def commit_acknowledged(self, key: TopicPartition, offset: int) -> None:
        """A worker was told that its commit is stored, so it must not be forgotten from now on.

        If the topic was deleted meanwhile, the acknowledgement is late: the journal has the order.
        """
        position = self._positions[key]
        if position.journalled.get(offset, position.life) == position.life:
            position.stored = max(position.stored, offset)

    def position_read(
        self, key: TopicPartition, offset: int, who: str, *, is_late: bool = False
    ) -> Iterator[str]:
        """A worker was told where to go on, perhaps late; yield what is wrong with that."""
        position, topic = self._positions[key], self._topics[key[0]]
        name = f"{key[0]}[{key[1]}]"
        if offset > position.asked:
            yield f"{name}: offset {offset} was never committed"
        if offset < position.stored and not is_late:
            text = f"{name}: {who} was told offset {offset}, but {position.stored} was stored"
            yield from _unless_deleted(topic, text)

    # -- what an administrator does ------------------------------------------------------------

    def deletion_asked(self, topic: str) -> int:
        """A topic is about to be deleted; return the number of this request."""
        self._asked += 1
        known = self._topics[topic]
        known.doubts[self._asked] = known.deletions
        return self._asked

    def deletion_done(self, topic: str, number: int) -> None:
        """The administrator was told that the topic is deleted."""
        known = self._topics[topic]
        if (
            known.doubts.pop(number) == known.deletions
        ):  # the journal has not told yet, and may never
            self._deleted(topic)
            known.exists = known.may_exist = False

    def deletion_refused(self, topic: str, number: int) -> Iterator[str]:
        """The administrator was told that it is not deleted; yield what is unexplained then."""
        known = self._topics[topic]
        del known.doubts[number]
        if not known.doubts:
            yield from known.suspicions
            known.suspicions.clear()

    def deletion_unanswered(self, topic: str, number: int) -> None:
        """The administrator got no answer: it may be deleted, unless the journal has told so."""
        known = self._topics[topic]
        if known.doubts[number] == known.deletions:
            known.unanswered.add(number)
        else:
            del known.doubts[number]

    def creation_asked(self, topic: str) -> None:
        """A topic is about to be created."""
        self._topics[topic].may_exist = True

    # -- what the journal says -----------------------------------------------------------------

    def journalled(self, event: Event) -> Iterator[str]:
        """Look at the next line of the journal; yield what is wrong with it."""
        match event:
            case OffsetsCommitted():
                yield from self._committed(event)
            case OffsetsDeleted(how="topic_deleted"):
                yield from self._forgotten(event)
            case TopicChanged(topic=name, change="deleted"):
                self._deleted(name)
                self._topics[name].exists = self._topics[name].may_exist = False
            case TopicChanged(topic=name, change="created"):
                yield from self._created(name, event)

    def _committed(self, event: OffsetsCommitted) -> Iterator[str]:
        for name, offsets in event.offsets.items():
            topic = self._topics[name]
            for number, offset in offsets.items():
                position = self._positions[name, int(number)]
                position.journalled[offset] = -1 if topic.exists is False else position.life
                if offset < position.stored:
                    what = f"a commit of {event.member} undoes a later one"
                    yield from _unless_deleted(
                        topic, f"{name}[{number}]: {what}: {offset} of {position.stored}"
                    )

    def _forgotten(self, event: OffsetsDeleted) -> Iterator[str]:
        for name, numbers in event.partitions.items():
            topic = self._topics[name]
            for number in numbers:
                position = self._positions[name, number]
                position.forgotten += 1
                if position.forgotten > topic.deletions:
                    text = f"offsets were forgotten with a topic that was not deleted: {event}"
                    yield from _unless_deleted(topic, text)
                _end_life(position)

    def _created(self, name: str, event: TopicChanged) -> Iterator[str]:
        topic = self._topics[name]
        if topic.exists:
            if not topic.doubts:
                yield f"a topic is created that exists: {event}"
            # A coordinator that was killed had deleted it without telling.
            self._deleted(name)
        topic.exists = True

    def _deleted(self, name: str) -> None:
        """A topic is known to be deleted, and its offsets with it."""
        known = self._topics[name]
        known.deletions += 1
        known.suspicions.clear()
        for number in known.unanswered:
            del known.doubts[number]
        known.unanswered.clear()
        for (topic, _), position in self._positions.items():
            if topic == name:
                _end_life(position)

    # -- at the end ----------------------------------------------------------------------------

    def check(self, existing: Container[str]) -> Iterator[str]:
        """Compare what was said of deletions with the topics that exist; yield what is wrong."""
        for name, topic in self._topics.items():
            if name in existing:
                yield from topic.suspicions
                if topic.exists is False and not topic.may_exist:
                    yield f"the journal says that topic {name} was deleted, but it exists"


def _unless_deleted(topic: _Topic, violation: str) -> Iterator[str]:
    """Yield a violation, or keep it as a suspicion while a deletion may explain it."""
    if topic.doubts:
        topic.suspicions.append(violation)
    else:
        yield violation


def _end_life(position: _Position) -> None:
    position.stored = 0
    position.life += 1
