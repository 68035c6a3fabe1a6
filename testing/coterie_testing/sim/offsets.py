"""What was committed, and what of it may be forgotten: what went with a deleted topic, no more."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Container, Iterator
from dataclasses import dataclass, field

from coterie_protocol.journal import Event, OffsetsCommitted, OffsetsDeleted, TopicChanged

__all__ = ["Offsets"]

TopicPartition = tuple[str, int]


@dataclass(slots=True)
class _Place:
    """How far a partition got."""

    #: The highest offset that a worker was told is stored, and the highest that any asked for.
    stored: int = 0
    asked: int = 0
    #: Counts up whenever its offsets may be forgotten.
    life: int = 0
    #: How often the journal told that they were, with its topic.
    forgotten: int = 0
    #: In which of these lives the journal told of a commit; -1 for one of a topic that was gone.
    told: dict[int, int] = field(default_factory=dict)


@dataclass(slots=True)
class _Topic:
    """What is known of a topic."""

    #: Whether it is there, by the journal; None before that says so.
    is_there: bool | None = None
    #: Whether it was asked for since it went, so that it may be there although nobody was told.
    is_wanted: bool = False
    #: How often it is known to have been deleted.
    deletions: int = 0
    #: Deletions that were asked for and have no answer, with how often it had been deleted before.
    doubts: dict[int, int] = field(default_factory=dict)
    #: Those of them that will never have one.
    unanswered: set[int] = field(default_factory=set)
    #: What is wrong unless one of them did.
    suspicions: list[str] = field(default_factory=list)


class Offsets:
    """Follows commits and reads, and finds those that can't be right.

    Offsets may be gone if the journal tells that their topic is, or if an administrator was told
    that it was deleted.  A deletion that was refused excuses nothing.  One whose answer was lost
    may have happened: what that would explain is remembered, and held against the coordinator if
    it turns out that it did not.
    """

    def __init__(self) -> None:
        self._places: defaultdict[TopicPartition, _Place] = defaultdict(_Place)
        self._topics: defaultdict[str, _Topic] = defaultdict(_Topic)
        self._asked = 0

    # -- what workers see ----------------------------------------------------------------------

    def ask(self, key: TopicPartition, offset: int) -> None:
        """A worker is about to commit."""
        place = self._places[key]
        place.asked = max(place.asked, offset)

    def confirm(self, key: TopicPartition, offset: int) -> None:
        """A worker was told that its commit is stored: from now on it must not be forgotten.

        Unless the topic went meanwhile, which the worker hears later: the journal has the order.
        """
        place = self._places[key]
        if place.told.get(offset, place.life) == place.life:
            place.stored = max(place.stored, offset)

    def read(self, key: TopicPartition, offset: int, who: str) -> Iterator[str]:
        """A worker was told where to go on."""
        place, topic = self._places[key], self._topics[key[0]]
        name = f"{key[0]}[{key[1]}]"
        if offset > place.asked:
            yield f"{name}: offset {offset} was never committed"
        if offset < place.stored:
            text = f"{name}: {who} was told offset {offset}, but {place.stored} was stored"
            yield from _held(topic, text)

    # -- what an administrator does ------------------------------------------------------------

    def deletion_asked(self, topic: str) -> int:
        """A topic is about to be deleted; the number is for the answer."""
        self._asked += 1
        known = self._topics[topic]
        known.doubts[self._asked] = known.deletions
        return self._asked

    def deletion_done(self, topic: str, number: int) -> None:
        """The administrator was told that it is deleted."""
        known = self._topics[topic]
        if known.doubts.pop(number) == known.deletions:  # the journal has not told, and may never
            self._deleted(topic)
            known.is_there = known.is_wanted = False

    def deletion_refused(self, topic: str, number: int) -> Iterator[str]:
        """The administrator was told that nothing was done."""
        known = self._topics[topic]
        del known.doubts[number]
        if not known.doubts:
            yield from known.suspicions
            known.suspicions.clear()

    def deletion_unanswered(self, topic: str, number: int) -> None:
        """The administrator gave up: it may have happened, unless the journal has told so."""
        known = self._topics[topic]
        if known.doubts[number] == known.deletions:
            known.unanswered.add(number)
        else:
            del known.doubts[number]

    def creation_asked(self, topic: str) -> None:
        """A topic is about to be made."""
        self._topics[topic].is_wanted = True

    # -- what the journal tells ----------------------------------------------------------------

    def hear(self, event: Event) -> Iterator[str]:
        """Take in what comes next, and say what is wrong with it."""
        match event:
            case OffsetsCommitted():
                yield from self._committed(event)
            case OffsetsDeleted(how="topic_deleted"):
                yield from self._forgotten(event)
            case TopicChanged(topic=name, change="deleted"):
                self._deleted(name)
                self._topics[name].is_there = self._topics[name].is_wanted = False
            case TopicChanged(topic=name, change="created"):
                yield from self._created(name, event)

    def _committed(self, event: OffsetsCommitted) -> Iterator[str]:
        for name, offsets in event.offsets.items():
            topic = self._topics[name]
            for number, offset in offsets.items():
                place = self._places[name, int(number)]
                place.told[offset] = -1 if topic.is_there is False else place.life
                if offset < place.stored:
                    what = f"a commit of {event.member} undoes a later one"
                    yield from _held(topic, f"{name}[{number}]: {what}: {offset} of {place.stored}")

    def _forgotten(self, event: OffsetsDeleted) -> Iterator[str]:
        for name, numbers in event.partitions.items():
            topic = self._topics[name]
            for number in numbers:
                place = self._places[name, number]
                place.forgotten += 1
                if place.forgotten > topic.deletions:
                    text = f"offsets are forgotten with a topic that was not deleted: {event}"
                    yield from _held(topic, text)
                _end_life(place)

    def _created(self, name: str, event: TopicChanged) -> Iterator[str]:
        topic = self._topics[name]
        if topic.is_there:
            if not topic.doubts:
                yield f"a topic is made that is there: {event}"
            # A coordinator that was killed had deleted it, and did not get to tell.
            self._deleted(name)
        topic.is_there = True

    def _deleted(self, name: str) -> None:
        """A topic is known to be gone, and so are its offsets."""
        known = self._topics[name]
        known.deletions += 1
        known.suspicions.clear()
        for number in known.unanswered:
            del known.doubts[number]
        known.unanswered.clear()
        for (topic, _), place in self._places.items():
            if topic == name:
                _end_life(place)

    # -- when everything has calmed down -------------------------------------------------------

    def check(self, existing: Container[str]) -> Iterator[str]:
        """Hold what was said of deletions against the topics that are there."""
        for name, topic in self._topics.items():
            if name in existing:
                yield from topic.suspicions
                if topic.is_there is False and not topic.is_wanted:
                    yield f"the journal tells that topic {name} was deleted, and it is there"


def _held(topic: _Topic, complaint: str) -> Iterator[str]:
    """Keep a complaint to ourselves as long as a deletion may explain it."""
    if topic.doubts:
        topic.suspicions.append(complaint)
    else:
        yield complaint


def _end_life(place: _Place) -> None:
    place.stored = 0
    place.life += 1
