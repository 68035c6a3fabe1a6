"""The topics as the groups of a node know them: what is durable, and no more."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, final

from coterie_protocol.journal import TopicChanged

if TYPE_CHECKING:
    from uuid import UUID

    from coterie_server.topics import TopicRow

__all__ = ["TopicCounts", "in_turn"]


@final
class TopicCounts(Mapping[str, int]):
    """How many partitions each topic has, for the coordinators."""

    def __init__(self) -> None:
        self.counts: dict[str, int] = {}
        self._ids: dict[str, UUID] = {}
        self._is_read = False
        #: Told what another node has changed; this one's journal does not tell of it.
        self.on_others_change: Callable[[TopicChanged], None] = lambda _: None

    def read(self, topics: Mapping[str, TopicRow]) -> list[TopicChanged]:
        """Take over what is stored; return what that changes, if anything was known before."""
        changes = list(self._differences(topics)) if self._is_read else []
        self.counts = {name: row.partitions for name, row in topics.items()}
        self._ids = {name: row.topic_id for name, row in topics.items()}
        self._is_read = True
        for change in changes:
            self.on_others_change(change)
        return changes

    def apply(self, change: TopicChanged, row: TopicRow | None) -> None:
        """Take over a change that is durable; `row` is what has become of the topic since."""
        name = change.topic
        self._ids.pop(name, None)
        if change.partitions:
            self.counts[name] = change.partitions
            if row is not None:
                self._ids[name] = row.topic_id
        else:
            self.counts.pop(name, None)

    def _differences(self, topics: Mapping[str, TopicRow]) -> Iterator[TopicChanged]:
        for name in sorted(self.counts.keys() | topics.keys()):
            before, row = self.counts.get(name, 0), topics.get(name)
            if before and (row is None or row.topic_id != self._ids.get(name, row.topic_id)):
                yield _change(name, "deleted", before, 0)
                before = 0
            after = row.partitions if row is not None else 0
            if after != before:
                yield _change(name, "grown" if before else "created", before, after)

    def __getitem__(self, topic: str) -> int:
        return self.counts[topic]

    def __iter__(self) -> Iterator[str]:
        return iter(self.counts)

    def __len__(self) -> int:
        return len(self.counts)

    def get(self, topic: str, default: Any = None) -> Any:  # noqa: ANN401  # as Mapping has it
        """As a dictionary has it; the mixin's would raise and catch for every unknown topic."""
        return self.counts.get(topic, default)


def _change(topic: str, change: str, before: int, partitions: int) -> TopicChanged:
    return TopicChanged(topic=topic, change=change, partitions_before=before, partitions=partitions)


def in_turn(changes: Iterable[TopicChanged]) -> Iterator[dict[str, str]]:
    """What became of each topic, in as few parts as a topic has changes: none is left out."""
    told: dict[str, str] = {}
    for change in changes:
        if change.topic in told:
            yield told
            told = {}
        told[change.topic] = change.change
    if told:
        yield told
