"""What an assignor is told, what it answers, and the interface that it implements."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from coterie_protocol.consumer import TopicPartitions

__all__ = [
    "NO_GENERATION",
    "Assignor",
    "Claim",
    "Cluster",
    "MemberInfo",
    "Partitions",
    "RebalanceProtocol",
    "in_kafka_order",
]

#: Partitions by topic, in the shape that travels. `coterie_protocol.consumer.group_by_topic` makes
#: it from (topic, partition) pairs, `flatten` takes it apart.
Partitions = tuple[TopicPartitions, ...]

#: What a member says that has not been in any generation yet, or can't tell.
NO_GENERATION: Final = -1


class RebalanceProtocol(Enum):
    """What members do with what they own when they rejoin."""

    #: They revoke all of it before they join.
    EAGER = 0
    #: They keep it, say so, and revoke afterwards what they have not been given again.
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Cluster:
    """The topics there are to share out."""

    #: How many partitions each topic has.
    topics: Mapping[str, int]
    #: The racks of each partition's replicas, by topic, where they are known.
    racks: Mapping[str, Sequence[frozenset[str]]] = field(default_factory=dict)

    def partitions_of(self, topics: Iterable[str]) -> Iterator[tuple[str, int]]:
        """The (topic, partition) pairs of these topics, sorted; unknown topics have none."""
        for topic in sorted(set(topics)):
            for partition in range(self.topics.get(topic, 0)):
                yield topic, partition


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberInfo:
    """What the leader knows of a member: its subscription, decoded."""

    member_id: str
    topics: Collection[str]
    #: Its static name (group.instance.id), if it has one.
    instance_id: str | None = None
    #: What it says it owns (Subscription version 1 and later).
    owned: Partitions = ()
    #: The generation in which it owned that (version 2 and later).
    generation: int = NO_GENERATION
    #: The rack that it runs in (version 3 and later).
    rack: str | None = None
    #: What it had, could not work on, and asks to be spared (Coterie's members only).
    refused: Partitions = ()
    #: What its assignor wrote for the leader's.
    user_data: bytes | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """What a member had, and in which generation."""

    owned: Partitions = ()
    generation: int = NO_GENERATION


class Assignor(ABC):
    """Shares the partitions of a group's topics out among its members.

    Every member has an instance of its own, and the leader's one is asked to `assign`.  Only
    `name` and `assign` have to be written.  An assignor has to give the same answer whenever it is
    asked the same, so it keeps away from clocks and randomness; it may keep state between calls.
    """

    #: The name that members vote by; two assignors with one name have to understand each other.
    name: ClassVar[str]
    #: What the group's members may do while it is in use, the preferred one last.
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)

    @abstractmethod
    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Answer who is to have which partitions, whoever has them now.

        Every member has to be in the answer, every partition at most once, and each only with a
        member that subscribed to its topic.  Under `COOPERATIVE` it is `lead` that holds back what
        another member still owns, so an assignor need not care.
        """

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # for those who override this
        owned: Partitions,  # noqa: ARG002
        generation: int,  # noqa: ARG002
    ) -> bytes | None:
        """Answer what to tell the leader's assignor when this member joins.

        `owned` is what the member owns, or under `EAGER` owned until it revoked it to join;
        `generation` is the one in which it was given that.
        """
        return None

    def on_assignment(  # noqa: B027  # most have nothing to note
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        """Take note of what this member has been given."""

    def claim(self, member: MemberInfo) -> Claim:
        """Read from a member's subscription what it owned, and in which generation."""
        return Claim(member.owned, member.generation)


def in_kafka_order(members: Iterable[MemberInfo]) -> list[MemberInfo]:
    """Sort members as Kafka does: static ones first, by instance id; the others by member id.

    What is cut into pieces in this order stays where it is when a static member comes back under
    a new member id.
    """
    return sorted(members, key=_rank)


def _rank(member: MemberInfo) -> tuple[bool, bytes, bytes]:
    static = member.instance_id is not None
    return (
        not static,
        _as_java_compares(member.instance_id or ""),
        _as_java_compares(member.member_id),
    )


def _as_java_compares(text: str) -> bytes:
    """A key that sorts like Java's strings, which compare UTF-16 units and not code points."""
    return text.encode("utf-16-be", "surrogatepass")
