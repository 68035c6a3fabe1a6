"""The sticky assignors: fair shares, and as little change as fairness allows.

Both share out alike; they differ in what members do meanwhile (KIP-54 eager, KIP-429 cooperative)
and in how they tell the leader what they had.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import ClassVar, Final

from coterie_assignors._fair import share_out
from coterie_assignors.base import (
    NO_GENERATION,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
)
from coterie_protocol.codec import encode
from coterie_protocol.consumer import (
    CooperativeStickyData,
    StickyData,
    decode_cooperative_sticky_data,
    decode_sticky_data,
    encode_sticky_data,
)
from coterie_protocol.exceptions import ProtocolError

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]

#: The cooperative assignor's user data is one int32.
_COOPERATIVE_SIZE: Final = 4
#: What kafka-python puts in front of the eager assignor's user data.
_VERSION_1: Final = b"\x00\x01"


class _FairAssignor(Assignor):
    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Share out fairly, and let everybody keep as much as possible."""
        claims = {member_id: self.claim(member) for member_id, member in members.items()}
        return share_out(cluster, members, claims)


class StickyAssignor(_FairAssignor):
    """KIP-54: members give up everything before they join, and mostly get it back.

    What they had travels in the user data, as Kafka's assignor of this name writes it.
    """

    name: ClassVar[str] = "sticky"

    def __init__(self) -> None:
        self._last = Claim()

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # what was had of other topics does no harm
        owned: Partitions,
        generation: int,
    ) -> bytes | None:
        """Tell what this member had; if it owns nothing now, what it was last given."""
        had = Claim(owned, generation) if owned else self._last
        if not had.owned:
            return None
        return encode_sticky_data(
            StickyData(previous_assignment=had.owned, generation=had.generation)
        )

    def on_assignment(
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        """Remember what this member has been given, for the next time it joins."""
        del user_data  # Kafka's assignors write none
        self._last = Claim(assignment, generation)

    def claim(self, member: MemberInfo) -> Claim:
        """Read the user data; a member whose data can't be read had nothing."""
        had = _read_sticky_data(member.user_data) if member.user_data else None
        return Claim(had.previous_assignment, had.generation) if had else Claim()


class CooperativeStickyAssignor(_FairAssignor):
    """KIP-429: members keep what they own during a rebalance and give up only what moves."""

    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (
        RebalanceProtocol.EAGER,
        RebalanceProtocol.COOPERATIVE,
    )

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # the subscription itself says the rest
        owned: Partitions,  # noqa: ARG002
        generation: int,
    ) -> bytes | None:
        """Tell the generation, for leaders that don't read it from the subscription."""
        return encode(CooperativeStickyData(generation=generation), 0)

    def claim(self, member: MemberInfo) -> Claim:
        """Take what the member says it owns, and the generation from wherever it stands."""
        if member.generation != NO_GENERATION or not member.user_data:
            return Claim(member.owned, member.generation)
        return Claim(member.owned, _generation_in(member.user_data))


def _read_sticky_data(data: bytes) -> StickyData | None:
    """Read the eager assignor's user data; None if it can't be read.

    kafka-python 3 puts a version in front, which no other client does, Kafka's own neither.
    """
    for candidate in (data, data.removeprefix(_VERSION_1)):
        try:
            return decode_sticky_data(candidate)
        except ProtocolError:
            continue
    return None


def _generation_in(user_data: bytes) -> int:
    """The generation in a cooperative member's user data.

    Kafka's assignor writes nothing else; librdkafka writes what its eager sticky assignor writes.
    """
    if len(user_data) == _COOPERATIVE_SIZE:
        return decode_cooperative_sticky_data(user_data).generation
    sticky = _read_sticky_data(user_data)
    return sticky.generation if sticky else NO_GENERATION
