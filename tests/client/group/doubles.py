"""Stand-ins for what surrounds the parts under test."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable

from coterie_client.membership import PartitionLostError, Position
from coterie_client.wire.addresses import TopicPartition

__all__ = ["FakeKeeper"]


class FakeKeeper:
    """Stores offsets at once, and owns what it is not told to lose."""

    def __init__(self) -> None:
        self.stored: dict[TopicPartition, Position] = {}
        self.lost: set[int] = set()
        self.lags: list[tuple[TopicPartition, int]] = []
        self.loads: dict[TopicPartition, float] = {}

    def commit(self, partition: TopicPartition, token: int, position: Position) -> Awaitable[None]:
        """Store an offset, or refuse it if the token is lost."""
        promise: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        if token in self.lost:
            promise.set_exception(PartitionLostError("lost"))
        else:
            self.stored[partition] = position
            promise.set_result(None)
        return promise

    def fetch(self, partition: TopicPartition, _: int | None) -> Awaitable[Position | None]:
        """Tell a stored offset."""
        promise: asyncio.Future[Position | None] = asyncio.get_running_loop().create_future()
        promise.set_result(self.stored.get(partition))
        return promise

    def load(self, partition: TopicPartition, token: int, value: float) -> None:
        """Note a load."""
        if token not in self.lost:
            self.loads[partition] = value

    def loss(self, partition: TopicPartition) -> PartitionLostError:
        """Tell that it is not owned."""
        return PartitionLostError(f"{partition[0]}[{partition[1]}]")

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Take note of a lag."""
        self.lags.append((partition, lag))

    def owns(self, _: TopicPartition, token: int, /) -> bool:
        """Whether the token was not lost."""
        return token not in self.lost
