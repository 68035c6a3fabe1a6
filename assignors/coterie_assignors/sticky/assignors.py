"""The two sticky assignors, and their user data.

Both assign alike.  They differ in what members do during a rebalance (KIP-54 eager, KIP-429
cooperative) and in how they tell the leader what they owned.
"""

from __future__ import annotations

from collections.abc import Collection, Hashable, Mapping
from typing import ClassVar, Final

from coterie_assignors.base import (
    NO_GENERATION,
    Assignor,
    Claim,
    Cluster,
    MemberInfo,
    Partitions,
    RebalanceProtocol,
)
from coterie_assignors.outlook import read_loads
from coterie_assignors.presence import among_present
from coterie_assignors.sticky.balance import balanced
from coterie_assignors.sticky.interchange import prefer_copies
from coterie_assignors.sticky.loads import balanced_by_load, imbalance
from coterie_assignors.weights import Weights
from coterie_protocol.codec import encode
from coterie_protocol.consumer import (
    CooperativeStickyData,
    StickyData,
    decode_cooperative_sticky_data,
    decode_sticky_data,
    encode_sticky_data,
)
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.loads import LoadReport, join_load_report, split_load_report

__all__ = ["CooperativeStickyAssignor", "StickyAssignor"]

#: The cooperative assignor's user data is one int32.
_COOPERATIVE_SIZE: Final = 4
#: What kafka-python puts in front of the eager assignor's user data.
_VERSION_1: Final = b"\x00\x01"


class _BalancedAssignor(Assignor):
    def __init__(self, weights: Weights | None = None) -> None:
        """With weights, balance the loads of partitions instead of their number."""
        if not isinstance(weights, Weights | None):
            raise TypeError(f"weights must be a Weights or None, got {weights!r:.60}")
        self.weights = weights
        self._report = LoadReport()

    def assign(self, cluster: Cluster, members: Mapping[str, MemberInfo]) -> dict[str, Partitions]:
        """Assign evenly, and let members keep as much as possible."""
        claims = {member_id: self.claim(member) for member_id, member in members.items()}
        if self.weights is not None:
            members = read_loads(members)
        return among_present(self._balance, cluster, members, claims)

    def _balance(
        self, cluster: Cluster, members: Mapping[str, MemberInfo], claims: Mapping[str, Claim]
    ) -> dict[str, Partitions]:
        if self.weights is not None:
            return balanced_by_load(cluster, members, claims, self.weights)
        return prefer_copies(balanced(cluster, members, claims), cluster, members, claims)

    def note_loads(self, report: LoadReport) -> None:
        """Remember what to tell the leader's assignor with the next user data."""
        self._report = report

    def reason_to_rebalance(
        self, cluster: Cluster, members: Mapping[str, MemberInfo]
    ) -> str | None:
        """Return which member has too high a load, if a rebalance would change that."""
        if self.weights is None:
            return None
        claims = {name: Claim(member.owned) for name, member in members.items()}
        return imbalance(cluster, members, claims, self.weights)

    def told(self, member: MemberInfo) -> Hashable:
        """Return nothing: members tell what they owned, and loads, which count in the next plan."""
        del member
        return None

    def _with_loads(self, user_data: bytes) -> bytes:
        """Put the loads behind what leaders of any make read."""
        if self.weights is None:
            return user_data
        return join_load_report(user_data, self._report)


class StickyAssignor(_BalancedAssignor):
    """KIP-54: members revoke everything before they join, and get most of it back.

    What they owned travels in the user data, in the format of Kafka's assignor of this name.
    """

    name: ClassVar[str] = "sticky"

    def __init__(self, weights: Weights | None = None) -> None:
        """With weights, balance the loads of partitions instead of their number."""
        super().__init__(weights)
        self._last = Claim()

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # what was owned of other topics does no harm
        owned: Partitions,
        generation: int,
    ) -> bytes | None:
        """Tell what this member owned; if it owns nothing now, what it was assigned last."""
        claim = Claim(owned, generation) if owned else self._last
        if not claim.owned and self.weights is None:
            return None  # With weights, a report follows, and leaders have to find where it begins.
        return self._with_loads(
            encode_sticky_data(
                StickyData(previous_assignment=claim.owned, generation=claim.generation)
            )
        )

    def on_assignment(
        self, assignment: Partitions, generation: int, user_data: bytes | None = None
    ) -> None:
        """Remember the assignment for the next time this member joins."""
        del user_data  # Kafka's assignors write none
        self._last = Claim(assignment, generation)

    def claim(self, member: MemberInfo) -> Claim:
        """Read the user data; a member whose user data can't be read owned nothing."""
        data = _read_sticky_data(member.user_data) if member.user_data else None
        return Claim(data.previous_assignment, data.generation) if data else Claim()


class CooperativeStickyAssignor(_BalancedAssignor):
    """KIP-429: members keep their partitions during a rebalance and give up only what moves."""

    name: ClassVar[str] = "cooperative-sticky"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (
        RebalanceProtocol.EAGER,
        RebalanceProtocol.COOPERATIVE,
    )

    def subscription_user_data(
        self,
        topics: Collection[str],  # noqa: ARG002  # the subscription itself has the rest
        owned: Partitions,  # noqa: ARG002
        generation: int,
    ) -> bytes | None:
        """Tell the generation, for leaders that don't read it from the subscription."""
        return self._with_loads(encode(CooperativeStickyData(generation=generation), 0))

    def claim(self, member: MemberInfo) -> Claim:
        """Take the owned partitions, and the generation from the subscription or user data."""
        if member.generation != NO_GENERATION or not member.user_data:
            return Claim(member.owned, member.generation)
        own, _ = split_load_report(member.user_data)
        return Claim(member.owned, _generation_in(own or b""))


def _read_sticky_data(data: bytes) -> StickyData | None:
    """Read the eager assignor's user data; None if it can't be read.

    kafka-python 3 prefixes a version; no other client does, Kafka's own included.
    """
    for candidate in (data, data.removeprefix(_VERSION_1)):
        try:
            return decode_sticky_data(candidate)
        except ProtocolError:
            continue
    return None


def _generation_in(user_data: bytes) -> int:
    """The generation in a cooperative member's user data.

    Kafka's assignor writes only that; librdkafka writes the eager sticky assignor's user data.
    """
    if len(user_data) == _COOPERATIVE_SIZE:
        return decode_cooperative_sticky_data(user_data).generation
    sticky = _read_sticky_data(user_data)
    return sticky.generation if sticky else NO_GENERATION
