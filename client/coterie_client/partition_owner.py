"""Keeps the partitions that are owned, and hands them to the listener that works on them."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence
from typing import Protocol

from coterie_client.driver import Driver
from coterie_client.membership import Role
from coterie_client.partition import Partition
from coterie_client.standby import Standby
from coterie_client.wire.addresses import TopicPartition

__all__ = ["PartitionOwner", "RebalanceListener", "StandbyListener"]


class RebalanceListener(Protocol):
    """Works on partitions, as it is told."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        """Start work on these."""
        ...

    def revoked(self, partitions: Sequence[Partition]) -> None:
        """End work on these in order, then hand each to `PartitionOwner.released`."""
        ...

    def lost(self, partitions: Sequence[Partition], reason: str) -> None:
        """Stop work on these at once."""
        ...

    def abandoned(self, partitions: Sequence[Partition]) -> None:
        """Note that work on these did not end in time, and that they are not ours any more."""
        ...

    def ended(self) -> None:
        """Note that the group is over."""
        ...


class StandbyListener(Protocol):
    """Keeps the state of standbys up to date, as it is told."""

    def held(self, standbys: Sequence[Standby]) -> None:
        """Keep these up to date from now on."""
        ...

    def withdrawn(self, standbys: Sequence[Standby]) -> None:
        """Keep these up to date no longer."""
        ...


class PartitionOwner:
    """Holds what is owned and what is kept up to date.

    Without a listener, what is revoked is let go of at once.
    """

    def __init__(self, driver: Driver) -> None:
        self._driver = driver
        self._partitions: dict[TopicPartition, Partition] = {}
        self._leaving: set[TopicPartition] = set()
        self._listener: RebalanceListener | None = None
        self._former_listener: RebalanceListener | None = None
        self._standbys: dict[TopicPartition, Standby] = {}
        self._standby_listener: StandbyListener | None = None

    @property
    def partitions(self) -> tuple[Partition, ...]:
        """What is owned, in order."""
        return tuple(self._partitions[key] for key in sorted(self._partitions))

    def attach(self, listener: RebalanceListener) -> None:
        """Have a listener work on what is owned, now and later."""
        self._listener = listener
        if self._partitions:
            listener.assigned(self.partitions)

    @property
    def standbys(self) -> tuple[Standby, ...]:
        """What is kept up to date, in order."""
        return tuple(self._standbys[key] for key in sorted(self._standbys))

    def attach_standbys(self, listener: StandbyListener) -> None:
        """Have a listener keep standbys up to date, now and later."""
        self._standby_listener = listener
        if self._standbys:
            listener.held(self.standbys)

    def detach(self) -> None:
        """Have no listener any more, but for the end of the group."""
        self._former_listener, self._listener = self._listener, None
        self.released([self._partitions[key] for key in sorted(self._leaving)])

    def released(self, partitions: Iterable[Partition]) -> None:
        """Note that work on these has ended."""
        ended = [each.key for each in partitions if self._is_leaving(each)]
        for key in ended:
            del self._partitions[key]
            self._leaving.discard(key)
        if ended:
            self._driver.released(ended)

    def give_up(self, partition: Partition) -> None:
        """Note that work on this has ended, and have another member take it over."""
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
        if self._listener is not None:
            self._listener.assigned(tuple(fresh.values()))

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Have work on these ended."""
        # What was given up a moment ago is missing here: its work has ended.
        leaving = [self._partitions[key] for key in sorted(partitions) if key in self._partitions]
        self._leaving |= {each.key for each in leaving}
        if self._listener is None:
            self.released(leaving)
        else:
            self._listener.revoked(leaving)

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        """Own these no longer, although work on them goes on."""
        late = self._drop(partitions)
        if self._listener is not None and late:
            self._listener.abandoned(late)

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Own these no longer."""
        lost = self._drop(partitions)
        if self._listener is not None and lost:
            self._listener.lost(lost, reason)

    def keep_warm(self, roles: Mapping[TopicPartition, Role], generation: int) -> None:
        """Keep these up to date from now on, and no others."""
        ended = [self._standbys.pop(key) for key in sorted(self._standbys.keys() - roles.keys())]
        for each in ended:
            each.withdraw()
        fresh = {
            key: Standby(self._driver, key, role, generation)
            for key, role in sorted(roles.items())
            if key not in self._standbys
        }
        self._standbys |= fresh
        for key, role in roles.items():
            self._standbys[key].role = role
        if self._standby_listener is not None:
            self._standby_listener.withdrawn(ended)
            self._standby_listener.held(tuple(fresh.values()))

    def end(self) -> None:
        """Note that the group is over."""
        self.keep_warm({}, 0)
        for each in (self._listener, self._former_listener):
            if each is not None:
                each.ended()

    def _drop(self, partitions: Collection[TopicPartition]) -> list[Partition]:
        # What was released is missing here; it may still have had commits on their way.
        gone = [self._partitions.pop(key) for key in sorted(partitions) if key in self._partitions]
        self._leaving -= set(partitions)
        return gone
