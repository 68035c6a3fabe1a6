"""The interface of an assignor, and the types that go in and out."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Collection, Hashable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import ClassVar, Final

from coterie_assignors.state import WarmReport, WarmSettings
from coterie_assignors.weights import Weights
from coterie_protocol.consumer import TopicPartitions
from coterie_protocol.loads import LoadReport

__all__ = [
    "NO_CLAIM",
    "NO_GENERATION",
    "Assignor",
    "Claim",
    "Cluster",
    "MemberInfo",
    "Partitions",
    "RebalanceProtocol",
    "in_kafka_order",
    "subscribers_by_topic",
]

#: Partitions grouped by topic, as on the wire. `coterie_protocol.consumer.group_by_topic` builds
#: it from (topic, partition) pairs, `flatten` is the inverse.
Partitions = tuple[TopicPartitions, ...]

#: The generation of a member that has not been in any yet, or does not tell.
NO_GENERATION: Final = -1


class RebalanceProtocol(Enum):
    """What members do with their partitions when they rejoin."""

    #: They revoke all of them before they join.
    EAGER = 0
    #: They keep and report them, and afterwards revoke those that were not assigned again.
    COOPERATIVE = 1


@dataclass(frozen=True, slots=True)
class Cluster:
    """The topics whose partitions are to be assigned."""

    #: The number of partitions of each topic.
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
    """What the leader knows of a member: its decoded subscription."""

    member_id: str
    topics: Collection[str]
    #: The group.instance.id of a static member.
    instance_id: str | None = None
    #: The partitions it says it owns (Subscription version 1 and later).
    owned: Partitions = ()
    #: The generation in which it owned them (version 2 and later).
    generation: int = NO_GENERATION
    #: The rack it runs in (version 3 and later).
    rack: str | None = None
    #: Partitions it had, could not work on, and does not want again (Coterie's members only).
    refused: Partitions = ()
    #: What its assignor wrote for the leader's.
    user_data: bytes | None = None
    #: The state that it holds.  To a member without a report (None) all partitions are alike: it is
    #: ready for any at once, and never keeps a copy of another member's state.
    warm: WarmReport | None = None
    #: A static member whose session is over and whose place is kept: `owned` is what it was
    #: assigned last.  Assignors need not look at this; `lead` keeps for it what it had.
    is_away: bool = False
    #: An administrator wants it to give up what it has (`operations`), so it gets no copies either.
    is_drained: bool = False
    #: The loads of its partitions, and since when it has them, as `read_loads` finds them.
    loads: LoadReport | None = None


@dataclass(frozen=True, slots=True)
class Claim:
    """The partitions that a member says it owned, and in which generation."""

    owned: Partitions = ()
    generation: int = NO_GENERATION


#: A member that owns nothing.
NO_CLAIM: Final = Claim()


class Assignor(ABC):
    """Divides the partitions of a group's topics among its members.

    Every member has an instance of its own; the leader's is asked to `assign`.  Subclasses have to
    define `name` and `assign`.  An assignor must give the same answer to the same question, so it
    uses no clock and no randomness; it may keep state between calls.
    """

    #: The name that members vote by; two assignors with one name have to understand each other.
    name: ClassVar[str]
    #: The protocols that the group's members may use with it, the preferred one last.
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.EAGER,)
    #: How it balances loads; None if it does not, and members need not tell theirs.
    weights: Weights | None = None

    @abstractmethod
    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Return the partitions of every member, regardless of who owns them now.

        Every member must be in the answer, every partition at most once, and only with a member
        that subscribes to its topic.  Under `COOPERATIVE`, `lead` withholds what another member
        still owns; an assignor need not.
        """

    def assign_warm(
        self,
        cluster: Cluster,
        members: Mapping[str, MemberInfo],
        settings: WarmSettings,  # noqa: ARG002  # for those who override this
    ) -> dict[str, Partitions]:
        """Asked instead of `assign` where members report state: return what is right in the end.

        `lead` sees to it that partitions move there only as copies of their state catch up.
        """
        return self.assign(cluster, members)

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # for those who override this
        owned: Partitions,  # noqa: ARG002
        generation: int,  # noqa: ARG002
    ) -> bytes | None:
        """Return what to tell the leader's assignor when this member joins.

        `owned` are the member's partitions (under `EAGER`, those it had until it revoked them to
        join), `generation` the one in which they were assigned.
        """
        return None

    def told(self, member: MemberInfo) -> Hashable:
        """Return the part of a member's user data that makes a difference to the answer.

        While partitions are on their way to where `assign` wants them, it is asked again only if
        the members or partitions have changed, or this.  What changes with each rebalance, such as
        the generation or what a member owns, should be left out.
        """
        return member.user_data

    def on_assignment(  # noqa: B027  # most have nothing to remember
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        """Called with the partitions that were assigned to this member."""

    def note_loads(self, report: LoadReport) -> None:  # noqa: B027  # most balance numbers
        """Called with the loads of this member's partitions before it joins, if it has weights."""

    def reason_to_rebalance(
        self,
        cluster: Cluster,  # noqa: ARG002  # for those who override this
        members: Mapping[str, MemberInfo],  # noqa: ARG002
    ) -> str | None:
        """Return why partitions would move if the group rebalanced now; None if none would.

        The leader's is asked if its `weights` say that it starts rebalances.  `members` own what
        they were assigned, and have `loads`; those that others told are those of their last join.
        """
        return None

    def claim(self, member: MemberInfo) -> Claim:
        """Read from a member's subscription which partitions it owned, and in which generation."""
        return Claim(member.owned, member.generation)


def in_kafka_order(members: Iterable[MemberInfo]) -> list[MemberInfo]:
    """Sort members as Kafka does: static ones first, by instance id; the others by member id.

    In this order a static member keeps its position when it comes back under a new member id.
    """
    order = list(members)
    names = [member.member_id for member in order]
    names += [member.instance_id for member in order if member.instance_id is not None]
    # Encoding takes time, and in ASCII, Java's order and Python's are the same.
    return sorted(order, key=_sort_key if all(map(str.isascii, names)) else _java_sort_key)


def _sort_key(member: MemberInfo) -> tuple[bool, str, str]:
    return member.instance_id is None, member.instance_id or "", member.member_id


def _java_sort_key(member: MemberInfo) -> tuple[bool, bytes, bytes]:
    return (
        member.instance_id is None,
        _as_java_compares(member.instance_id or ""),
        _as_java_compares(member.member_id),
    )


def _as_java_compares(text: str) -> bytes:
    """A key that sorts as Java's strings do, which compare UTF-16 units, not code points."""
    return text.encode("utf-16-be", "surrogatepass")


def subscribers_by_topic(members: Sequence[MemberInfo], cluster: Cluster) -> dict[str, list[int]]:
    """The subscribers of each topic that has partitions, as indexes into `members`.

    Topics and indexes are sorted.  Do not modify the lists: topics may share one.
    """
    # Most members of a group have equal subscriptions, so each distinct one is looked at once.
    by_subscription: dict[frozenset[str], list[int]] = {}
    for index, member in enumerate(members):
        by_subscription.setdefault(frozenset(member.topics), []).append(index)
    if len(by_subscription) == 1:
        [(topics, everyone)] = by_subscription.items()
        return dict.fromkeys(sorted(t for t in topics if cluster.topics.get(t, 0) > 0), everyone)
    subscribers: dict[str, list[int]] = {}
    for topics, indexes in by_subscription.items():
        for topic in topics:
            if cluster.topics.get(topic, 0) > 0:
                subscribers.setdefault(topic, []).extend(indexes)
    return {topic: sorted(indexes) for topic, indexes in sorted(subscribers.items())}
