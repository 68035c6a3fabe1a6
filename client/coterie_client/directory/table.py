"""The table of who owns what, made of the events of a watch.  Pure."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from types import MappingProxyType
from typing import Any, Final, final

from coterie_client.errors import UnexpectedAnswerError
from coterie_client.wire.addresses import TopicPartition

__all__ = ["UNKNOWN", "Owner", "Table"]

#: The state of a partition of which nothing is known.
UNKNOWN: Final = "unknown"

_NO_LABELS: Final[Mapping[str, str]] = MappingProxyType({})


@dataclass(frozen=True, slots=True)
class Owner:
    """How it stands with a partition, and who owns it."""

    topic: str
    partition: int
    #: `owned`, `warming`, `on_its_way`, `away` or `unowned`.
    state: str
    #: Its owner's member id, and its static name if it has one; None if it has no owner.
    member: str | None = None
    instance: str | None = None
    #: What its owner says of itself.
    address: str | None = None
    labels: Mapping[str, str] = field(default_factory=lambda: _NO_LABELS, hash=False)
    #: The fencing token with which its owner took it over, as far as the coordinator knows: too low
    #: at times, and never too high.
    token: int | None = None

    @property
    def is_owned(self) -> bool:
        """Whether there is an owner to turn to."""
        return self.member is not None


@final
class Table:
    """What is known of a group."""

    def __init__(self) -> None:
        #: Never changed in place, so that users may keep what they were given.
        self.owners: Mapping[TopicPartition, Owner] = MappingProxyType({})
        #: How many partitions each topic has.
        self.topics: Mapping[str, int] = MappingProxyType({})
        self.generation = -1
        #: With which event the table was made; empty if there was none.
        self.last_id = ""
        #: Whether a node has told of the group.
        self.is_known = False

    def clear(self) -> None:
        """There is no such group."""
        self.owners, self.topics = MappingProxyType({}), MappingProxyType({})
        self.generation, self.last_id, self.is_known = -1, "", True

    def apply(self, kind: str, event_id: str, data: str) -> None:
        """Take in an event, or raise `UnexpectedAnswerError`."""
        try:
            told = json.loads(data)
            owners = {} if kind == "snapshot" else dict(self.owners)
            for topic, partition in told.get("gone", ()):
                owners.pop((topic, partition), None)
            for owner in map(_owner, told["owners"]):
                owners[owner.topic, owner.partition] = owner
            topics = {str(name): int(size) for name, size in told["topics"].items()}
            generation = int(told["generation"])
        except Exception as error:  # JSON can be anything, such as 1e999 partitions
            raise UnexpectedAnswerError(f"what answers tells of no owners: {error!r}") from error
        self.owners, self.topics = MappingProxyType(owners), MappingProxyType(topics)
        self.generation, self.last_id, self.is_known = generation, event_id, True

    def owner_of(self, topic: str, partition: int) -> Owner:
        """How it stands with a partition."""
        found = self.owners.get((topic, partition))
        if found is not None:
            return found
        return Owner(topic, partition, "unowned" if self.is_known else UNKNOWN)

    def of_members(self) -> Iterator[Owner]:
        """The partitions that have owners."""
        return (each for each in self.owners.values() if each.is_owned)


def _owner(row: Any) -> Owner:  # noqa: ANN401  # any JSON
    token = row.get("token")
    labels = {str(name): str(value) for name, value in (row.get("labels") or {}).items()}
    return Owner(
        str(row["topic"]),
        int(row["partition"]),
        str(row["state"]),
        _text(row.get("owner")),
        _text(row.get("instance")),
        _text(row.get("address")),
        MappingProxyType(labels) if labels else _NO_LABELS,
        None if token is None else int(token),
    )


def _text(value: Any) -> str | None:  # noqa: ANN401  # any JSON
    return None if value is None else str(value)
