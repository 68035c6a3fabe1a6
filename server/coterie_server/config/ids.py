"""Names for members and topics that nobody has had before."""

from __future__ import annotations

import uuid
from itertools import count

__all__ = ["RandomIds", "SequenceIds"]

#: Room for this many members between two starts of a node.
_PER_START = 1_000_000


class RandomIds:
    """Kafka's way: who it is, and a random number."""

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """`<instance or client id>-<uuid>`."""
        del group_id, host
        return f"{client_id if instance_id is None else instance_id}-{uuid.uuid4()}"

    def topic_id(self) -> uuid.UUID:
        """A random id."""
        return uuid.uuid4()


class SequenceIds(RandomIds):
    """The way of Kafka's first design: group, host and a number that only grows.

    `start` counts the starts of the node, so that no number comes twice even after a crash.
    """

    def __init__(self, start: int) -> None:
        self._numbers = count(start * _PER_START + 1)

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """`<group>-<host>-<number>`."""
        del client_id, instance_id
        return f"{group_id}-{host.removeprefix('/')}-{next(self._numbers)}"
