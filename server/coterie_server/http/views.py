"""A node and its groups as they are shown, and how a group of the core is made into that."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol

from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.journal import Partitions
from coterie_server.group import GroupState
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import by_topic

if TYPE_CHECKING:
    from coterie_server.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member

__all__ = [
    "Awaiting",
    "GroupSummary",
    "GroupView",
    "MemberView",
    "NodeView",
    "summarize",
    "view",
]


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupSummary:
    """A group in a list of groups."""

    group: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    members: int


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member of a group."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    #: When it was last heard of.
    last_seen_ms: int
    #: Whether a JoinGroup or SyncGroup of it is parked, so that it is not silent but waits.
    parked: bool
    #: What it was given last; None if the coordinator can't read that.
    owned: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class Awaiting:
    """Whom a group that is rebalancing waits for."""

    #: `join` in the first phase, `sync` in the second.
    phase: str
    members: tuple[str, ...]
    #: Clients that were told a member id and have not come back with it.
    unclaimed: tuple[str, ...]
    #: Nobody is missing: the first rebalance of a group gives others time to come as well.
    initial_delay: bool
    #: When the phase ends at the latest, or the delay does if nobody comes meanwhile.
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group in full."""

    group: str
    state: str
    generation: int
    protocol_type: str | None
    protocol: str | None
    leader: str | None
    #: How many partitions it has committed offsets for.
    offsets: int
    members: tuple[MemberView, ...]
    awaiting: Awaiting | None


class NodeView(Protocol):
    """What the HTTP pages want to know of a node."""

    def not_ready(self) -> str | None:
        """Why the node does not serve, in a sentence; None if it does."""

    def group_names(self) -> list[str]:
        """The names of this node's groups, in any order."""

    def summary(self, group_id: str) -> GroupSummary | None:
        """A group of this node as one of a list; None if there is none."""

    async def count_groups(self) -> None:
        """Count the groups, their members and their requests, for the figures."""

    def group(self, group_id: str) -> GroupView | None:
        """A group of this node; None if there is none."""

    async def force_rebalance(self, group_id: str) -> GroupView:
        """Start a rebalance and return the group when that is durable, or raise `Refusal`."""


def summarize(group: Group) -> GroupSummary:
    """A group of the core as one of a list."""
    return GroupSummary(
        group=group.id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.row.protocol_type,
        protocol=group.row.protocol_name,
        members=len(group.members),
    )


def view(group: Group, until_ms: int | None, date_of: Callable[[int], int]) -> GroupView:
    """A group of the core in full.

    `until_ms` is the deadline of its phase, if it is in one.  That and the group's own times are
    running time; `date_of` makes dates of them.
    """
    owned = _owned(group)
    return GroupView(
        group=group.id,
        state=group.state.value,
        generation=group.generation,
        protocol_type=group.row.protocol_type,
        protocol=group.row.protocol_name,
        leader=group.row.leader,
        offsets=len(group.offsets),
        members=tuple(_member(member, owned, date_of) for member in group.members.values()),
        awaiting=_awaiting(group, None if until_ms is None else date_of(until_ms)),
    )


def _member(
    member: Member, owned: dict[str, Partitions | None], date_of: Callable[[int], int]
) -> MemberView:
    return MemberView(
        member=member.id,
        instance=member.instance_id,
        client_id=member.row.client_id,
        host=member.row.client_host,
        session_timeout_ms=member.row.session_timeout_ms,
        rebalance_timeout_ms=member.row.rebalance_timeout_ms,
        last_seen_ms=date_of(member.last_seen_ms),
        parked=member.is_waiting,
        owned=owned[member.id],
    )


def _owned(group: Group) -> dict[str, Partitions | None]:
    """What each member was given last: by the ledger, or by the assignments if none is kept."""
    if group.row.protocol_type != CONSUMER:
        return dict.fromkeys(group.members)
    if not group.ledger.holdings:
        return {member.id: _read(member.assignment) for member in group.members.values()}
    held: dict[str, list[Partition]] = {member_id: [] for member_id in group.members}
    for partition, holding in group.ledger.holdings.items():
        if holding.member_id in held:
            held[holding.member_id].append(partition)
    return {member_id: by_topic(partitions) for member_id, partitions in held.items()}


def _read(assignment: bytes) -> Partitions | None:
    if not assignment:
        return {}
    try:
        return by_topic(flatten(decode_assignment(assignment).assigned_partitions))
    except ProtocolError:
        return None


def _awaiting(group: Group, until_ms: int | None) -> Awaiting | None:
    if group.state is GroupState.PREPARING:
        delay = group.initial_delay is not None
        # During the delay everybody who is there has joined.
        missing = [member.id for member in group.not_joined()]
    elif group.state is GroupState.COMPLETING:
        delay = False
        missing = [member_id for member_id in group.members if member_id in group.pending_syncs]
    else:
        return None
    return Awaiting(
        phase="join" if group.state is GroupState.PREPARING else "sync",
        members=tuple(missing),
        unclaimed=tuple(sorted(group.pending_joins)),
        initial_delay=delay,
        until_ms=until_ms,
    )
