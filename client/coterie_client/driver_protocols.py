"""What a driver needs of what is around it: a network, an owner of partitions, a reporter."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Protocol

from coterie_client.membership import Role
from coterie_client.membership.events import Event
from coterie_client.wire.addresses import AnyNode, Lane, NodeAddress, TopicPartition

__all__ = ["EventReporter", "Owner", "Requester"]


class Requester(Protocol):
    """What a driver needs of the network."""

    async def request(
        self,
        message: Any,  # noqa: ANN401  # any request
        *,
        to: NodeAddress | AnyNode,
        lane: Lane,
        timeout_s: float,
    ) -> Any:  # noqa: ANN401  # its answer
        """Send a request and return its answer."""
        ...

    def hang_up(self, address: NodeAddress, lane: Lane | None = None) -> None:
        """Drop the connections to a node, or the one of a lane."""
        ...


class Owner(Protocol):
    """Is told what the member owns; it must neither block nor raise."""

    def assign(self, partitions: Mapping[TopicPartition, int], generation: int) -> None:
        """Start work on these, each with its token."""
        ...

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Finish work on these, then have each `released`."""
        ...

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        """These took too long; they are not ours any more."""
        ...

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Stop work on these at once."""
        ...

    def keep_warm(self, roles: Mapping[TopicPartition, Role], generation: int) -> None:
        """Keep the state of these up to date, and of no others."""
        ...

    def end(self) -> None:
        """The membership is over."""
        ...


class EventReporter(Protocol):
    """Is told what happens; it must neither block nor raise."""

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        ...

    def crash(self, error: BaseException) -> None:
        """Tell of a bug in the client, whose error will be raised."""
        ...

    def unraised(self, text: str, error: BaseException) -> None:
        """Tell of an error that is raised nowhere."""
        ...
