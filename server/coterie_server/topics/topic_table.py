"""All that the catalogue remembers, and the one function that changes it."""

from __future__ import annotations

import uuid
from typing import TYPE_CHECKING, Final

from coterie_protocol.messages import MetadataResponsePartition
from coterie_server.topics.records import Gone, TopicRow
from coterie_server.turns import AT_ONCE

if TYPE_CHECKING:
    from coterie_server.turns import Making

__all__ = ["LEADER_EPOCH", "MetadataPartitions", "TopicTable"]

#: Any node can stand in for the leader of any partition, so that never changes.
LEADER_EPOCH: Final = 0


class TopicTable:
    """The topics, found by name, by id and by lookalike names."""

    __slots__ = ("_lookalikes", "_names", "counts", "partitions", "rows")

    def __init__(self) -> None:
        self.rows: dict[str, TopicRow] = {}
        #: How many partitions each topic has.  The core of the groups holds on to this very dict.
        self.counts: dict[str, int] = {}
        #: How many partitions all topics have together.
        self.partitions = 0
        self._names: dict[uuid.UUID, str] = {}
        self._lookalikes: dict[str, list[str]] = {}

    def apply(self, record: TopicRow | Gone) -> None:
        """Put a row in place or take it away."""
        before = self.rows.get(record.name)
        if before is not None:
            del self._names[before.topic_id]
            self.partitions -= before.partitions
        if isinstance(record, Gone):
            self._forget(record.name)
            return
        if before is None:
            self._lookalikes.setdefault(_lookalike_key(record.name), []).append(record.name)
        self.rows[record.name] = record
        self.counts[record.name] = record.partitions
        self.partitions += record.partitions
        self._names[record.topic_id] = record.name

    def _forget(self, name: str) -> None:
        del self.rows[name], self.counts[name]
        key = _lookalike_key(name)
        self._lookalikes[key].remove(name)
        if not self._lookalikes[key]:
            del self._lookalikes[key]

    def clear(self) -> None:
        """Forget everything; `counts` stays the same dict."""
        for name in list(self.rows):
            self.apply(Gone(name))

    def by_id(self, topic_id: uuid.UUID) -> TopicRow | None:
        """The topic with an id."""
        name = self._names.get(topic_id)
        return None if name is None else self.rows[name]

    def lookalike_of(self, name: str) -> str | None:
        """Another topic whose name differs from this one in '.' and '_' alone."""
        names = self._lookalikes.get(_lookalike_key(name), ())
        return next((other for other in names if other != name), None)

    def has_partition(self, topic: str, partition: int) -> bool:
        """Whether there is such a partition."""
        return 0 <= partition < self.counts.get(topic, 0)


class MetadataPartitions:
    """The partitions as Metadata tells them: the same for every topic, so they are made once.

    Their leaders are the nodes in turn, so that requests for records are spread over them.
    """

    __slots__ = ("_made", "_node_ids")

    def __init__(self) -> None:
        self._node_ids: tuple[int, ...] = ()
        self._made: list[MetadataResponsePartition] = []

    def first(
        self, count: int, node_ids: tuple[int, ...]
    ) -> Making[tuple[MetadataResponsePartition, ...]]:
        """The partitions of a topic that has so many, where there are these nodes."""
        if node_ids != self._node_ids:
            self._node_ids, self._made = node_ids, []
        made = self._made  # others may come to be made meanwhile
        while len(made) < count:
            upto = min(count, len(made) + AT_ONCE)
            made.extend(_partition(index, node_ids) for index in range(len(made), upto))
            if upto < count:
                yield
        return tuple(made[:count])


def _partition(index: int, node_ids: tuple[int, ...]) -> MetadataResponsePartition:
    leader = node_ids[index % len(node_ids)]
    return MetadataResponsePartition(
        partition_index=index,
        leader_id=leader,
        leader_epoch=LEADER_EPOCH,
        replica_nodes=(leader,),
        isr_nodes=(leader,),
    )


def _lookalike_key(name: str) -> str:
    """A name without the difference between '.' and '_'."""
    return name.replace(".", "_")
