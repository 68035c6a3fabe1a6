"""Where partitions end, though they hold no records: at the highest offset that was committed.

Clients and tools compare a group's offset with the end of its partition.  An end below the offset
makes them start over (sarama), complain for ever (kafka-go), or show a negative lag and set the
offset back (`kafka-consumer-groups`).  So the end of a partition is the highest offset that any
group has committed for it, as far as is known to be durable.

An end never goes back while the topic lives, whatever becomes of the group that committed it.
Ends are not stored, though: after a restart they are as high as the offsets that are stored then.
"""

from __future__ import annotations

from array import array
from typing import TYPE_CHECKING, Final, final

from coterie_server.group.bundle import BundleRow

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from coterie_server.group.bundle import OffsetRow, Place
    from coterie_server.group.records import Record

__all__ = ["PartitionEnds"]

#: How many deletions of topics are remembered, for commits that were under way meanwhile.
_DELETIONS_MAX: Final = 1_000
_OFFSET_BYTES: Final = 8


@final
class PartitionEnds:
    """The ends of all partitions of a node.

    It takes 8 bytes for each partition of a topic, up to the last one that was committed for.
    Commits are only accepted for partitions that exist, so `max.partitions` bounds it.
    """

    __slots__ = ("_by_topic", "_deleted_at", "deletions")

    def __init__(self) -> None:
        self._by_topic: dict[str, array[int]] = {}
        #: How many topics were forgotten; says before which deletions a commit was accepted.
        self.deletions = 0
        #: Which deletion of a topic was its last; the longest ago first.
        self._deleted_at: dict[str, int] = {}

    def end(self, topic: str, partition: int) -> int:
        """The offset behind all that was committed for a partition; 0 if nothing was."""
        ends = self._by_topic.get(topic)
        return ends[partition] if ends is not None and 0 <= partition < len(ends) else 0

    def note(self, records: Iterable[Record], accepted_at: int) -> None:
        """Take note of what has become durable.

        `accepted_at` is what `deletions` was when the records were made: what was committed for a
        topic that was deleted meanwhile says nothing about one that has its name now.
        """
        for record in records:
            if type(record) is BundleRow and record.is_news:
                self._note(zip(record.shape.places, record.offsets, strict=True), accepted_at)

    def _note(self, offsets: Iterable[tuple[Place, int]], accepted_at: int) -> None:
        last: str | None = None
        ends = array("q")
        for (topic, partition), offset in offsets:
            if topic is not last:
                last, ends = topic, self._ends_of(topic, accepted_at)
            try:
                if offset > ends[partition]:  # noqa: PLR1730  # `max` takes twice as long
                    ends[partition] = offset
            except IndexError:  # the first that was committed for this one, or any behind
                ends.frombytes(bytes((partition + 1 - len(ends)) * _OFFSET_BYTES))
                ends[partition] = max(offset, 0)

    def _ends_of(self, topic: str, accepted_at: int) -> array[int]:
        """The ends of a topic's partitions; those of nothing if it was deleted meanwhile."""
        if self._deleted_at.get(topic, 0) > accepted_at:
            return array("q")
        ends = self._by_topic.get(topic)
        if ends is None:
            ends = self._by_topic[topic] = array("q")
        return ends

    def raise_to(self, topic: str, partition: int, offset: int) -> None:
        """Take note of what another node knows of a partition that exists."""
        self._note((((topic, partition), offset),), self.deletions)

    def recover(self, rows: Iterable[OffsetRow], partitions: Mapping[str, int] | None) -> None:
        """Take note of offsets that were read from the store.

        `partitions` says how many each topic has; offsets of others are on their way out.  None
        if that is not known, as of topics that are still to be made anew.
        """
        known = (
            ((row.topic, row.partition), row.offset)
            for row in rows
            if row.partition >= 0
            and (partitions is None or row.partition < partitions.get(row.topic, 0))
        )
        self._note(known, self.deletions)

    def forget(self, topic: str) -> None:
        """Forget a topic that was deleted: another of its name begins at 0."""
        self.deletions += 1
        self._by_topic.pop(topic, None)
        self._deleted_at.pop(topic, None)
        self._deleted_at[topic] = self.deletions
        if len(self._deleted_at) > _DELETIONS_MAX:
            del self._deleted_at[next(iter(self._deleted_at))]
