"""Keeps the partitions that are owned, and hands them to whoever works on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from coterie_client.driver import Driver
from coterie_client.partition import Partition
from coterie_client.wire.addresses import TopicPartition

__all__ = ["Consumer", "Desk"]


class Consumer(Protocol):
    """Whoever works on partitions."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Start work on these."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """Finish work on these, then hand each to `Desk.released`."""
        ...

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Stop work on these at once."""
        ...

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Work on these did not end in time; they are not ours any more."""
        ...

    def ended(self) -> None:
        """The group is over."""
        ...


class Desk:
    """Holds what is owned; as long as nobody works on it, what is revoked is let go of at once."""

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._partitions: dict[TopicPartition, Partition] = {}
        self._leaving: set[TopicPartition] = set()
        self._consumer: Consumer | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """What is owned, in order."""
        return tuple(self._partitions[key] for key in sorted(self._partitions))

    def attach(self, consumer: Consumer) -> None:
        """Let somebody work on what is owned, now and later."""
        self._consumer = consumer
        if self._partitions:
            consumer.assigned(self.partitions)

    def detach(self) -> None:
        """Nobody works on anything any more."""
        self._consumer = None
        self.released([self._partitions[key] for key in sorted(self._leaving)])

    def released(self, partitions: Iterable[Partition]) -> None:
        """Work on these has ended."""
        ended = [each.key for each in partitions if self._is_leaving(each)]
        for key in ended:
            del self._partitions[key]
            self._leaving.discard(key)
        if ended:
            self._driver.released(ended)

    def give_up(self, partition: Partition) -> None:
        """Work on this has ended, and others should take it over."""
        if self._partitions.get(partition.key) is partition:
            del self._partitions[partition.key]
            self._leaving.discard(partition.key)
            self._driver.give_up([partition.key])

    def _is_leaving(self, partition: Partition) -> bool:
        key = partition.key
        return key in self._leaving and self._partitions[key] is partition

    # -- what the driver tells -----------------------------------------------------------------

    def assign(self, partitions: Mapping[TopicPartition, int], generation: int) -> None:
        """Own these from now on."""
        fresh = {
            key: Partition(self._driver, key, token, generation)
            for key, token in partitions.items()
        }
        self._partitions |= fresh
        if self._consumer is not None:
            self._consumer.assigned(tuple(fresh.values()))

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Have work on these finished."""
        # What was given up a moment ago is about to be told so, and has no work to finish.
        leaving = [self._partitions[key] for key in sorted(partitions) if key in self._partitions]
        self._leaving |= {each.key for each in leaving}
        if self._consumer is None:
            self.released(leaving)
        else:
            self._consumer.revoked(leaving)

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        """Own these no longer, although work on them goes on."""
        late = self._drop(partitions)
        if self._consumer is not None and late:
            self._consumer.abandoned(late)

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Own these no longer."""
        lost = self._drop(partitions)
        if self._consumer is not None and lost:
            self._consumer.lost(lost, reason)

    def end(self) -> None:
        """The group is over."""
        if self._consumer is not None:
            self._consumer.ended()

    def _drop(self, partitions: Collection[TopicPartition]) -> list[Partition]:
        # What was released may still have commits on their way; nobody works on it any more.
        gone = [self._partitions.pop(key) for key in sorted(partitions) if key in self._partitions]
        self._leaving -= set(partitions)
        return gone
