"""A group in full, as a page of HTTP shows it; made a piece at a time, as it may be large."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Final, Self

from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.journal import Lags, Partitions
from coterie_protocol.operations import DRAIN
from coterie_server.group import GroupState
from coterie_server.group.group import CONSUMER
from coterie_server.group.ledger import by_topic
from coterie_server.group.standing import are_followed, member_of, partitions_named
from coterie_server.group.warmth import Allowance, Plan, lags_of, orders_of, plan_from
from coterie_server.turns import Piece, each

if TYPE_CHECKING:
    from coterie_protocol.member_data import MemberData
    from coterie_protocol.operations import Operation
    from coterie_server.group import Group
    from coterie_server.group.ledger import Partition
    from coterie_server.group.member import Member
    from coterie_server.turns import Making

__all__ = ["AwaitedMembers", "GroupView", "MemberView", "OperationView"]

#: How many members are shown before other tasks get a turn; that takes about two milliseconds.
_ROWS_AT_ONCE: Final = 250
#: How many bytes of members' reports and orders are read.
_WARM_BYTES: Final = 1_048_576


@dataclass(frozen=True, slots=True, kw_only=True)
class MemberView:
    """A member of a group."""

    member: str
    instance: str | None
    client_id: str
    host: str
    session_timeout_ms: int
    rebalance_timeout_ms: int
    #: When its process joined; None if that was before the node had the group.
    since_ms: int | None
    #: When it was last heard of.
    last_seen_ms: int
    #: Whether its JoinGroup or SyncGroup is parked, so that its silence means nothing.
    parked: bool
    #: When its session ended and when its place is given up, if it is static and away.
    away_since_ms: int | None
    away_until_ms: int | None
    #: What it tells of itself; None and nothing if it does not.
    address: str | None
    labels: Mapping[str, str]
    #: What it was assigned last; None if the coordinator can't read that.
    owned: Partitions | None
    #: Of which partitions it is to keep a copy, of which it makes one to work on them, and how far
    #: behind its copies were as it joined; None if that is not known.
    standbys: Partitions | None
    warming: Partitions | None
    lags: Lags | None
    #: What it is to work on in the end, where another member does now.
    targets: Partitions | None


@dataclass(frozen=True, slots=True, kw_only=True)
class AwaitedMembers:
    """The members that a rebalancing group waits for."""

    #: `join` in the first phase, `sync` in the second.
    phase: str
    members: tuple[str, ...]
    #: Member ids that clients were given and have not come back with.
    unclaimed: tuple[str, ...]
    #: Whether no member is missing, and the new group gives further ones time to come.
    initial_delay: bool
    #: When the phase ends at the latest, or the delay if no further member comes.
    until_ms: int | None


@dataclass(frozen=True, slots=True, kw_only=True)
class OperationView:
    """What an administrator has ordered, and still stands."""

    #: One of drain, pin, keep-from, freeze.
    operation: str
    #: Whom it is about; a static member by its name, whichever id it has.
    member: str | None
    instance: str | None
    partitions: Partitions | None
    #: How many partitions a drained member gives up at a time; 0 for all at once.
    at_a_time: int | None
    #: How many it still has.
    left: int | None
    by: str
    reason: str
    since_ms: int
    until_ms: int | None
    #: Whether a member is there that follows it.
    followed: bool

    @classmethod
    def of(cls, group: Group, operation: Operation) -> Self:
        """View an operation of a group."""
        member, is_drain = member_of(group, operation), operation.kind == DRAIN
        return cls(
            operation=operation.kind,
            member=operation.member_id,
            instance=operation.instance_id,
            partitions=partitions_named(operation),
            at_a_time=operation.at_a_time if is_drain else None,
            left=len(group.ledger.owned_by(member.id if member else "")) if is_drain else None,
            by=operation.by,
            reason=operation.reason,
            since_ms=operation.since_ms,
            until_ms=operation.until_ms if operation.until_ms >= 0 else None,
            followed=are_followed(group),
        )


@dataclass(frozen=True, slots=True, kw_only=True)
class GroupView:
    """A group in full."""

    group: str
    state: str
    generation: int
    type: str | None
    protocol: str | None
    leader: str | None
    #: For how many partitions it has committed offsets.
    offsets: int
    members: tuple[MemberView, ...]
    awaiting: AwaitedMembers | None
    #: When it is to look again whether copies have caught up.
    next_probing_ms: int | None
    operations: tuple[OperationView, ...]

    @classmethod
    def of(cls, group: Group, until_ms: int | None, date_of: Callable[[int], int]) -> Making[Self]:
        """View a group of the core, with its members as they are a little later if they are many.

        `until_ms` is the deadline of its phase, if it is in one.  That and the group's own times
        are running time, which `date_of` converts to dates.
        """
        row, offsets, members = group.row, len(group.offsets), list(group.members.values())
        awaiting = _awaiting(group, None if until_ms is None else date_of(until_ms))
        operations = tuple(OperationView.of(group, each) for each in group.operations)
        piece = Piece(_ROWS_AT_ONCE)
        owned = yield from _owned(group, members, piece)
        warm = yield from _warm(group, members, piece)
        return cls(
            group=group.id,
            state=row.state,
            generation=row.generation,
            type=row.protocol_type,
            protocol=row.protocol_name,
            leader=row.leader,
            offsets=offsets,
            members=(yield from each(members, partial(_member, owned, warm, date_of), piece)),
            awaiting=awaiting,
            next_probing_ms=warm.plan.next_probing_ms,
            operations=operations,
        )


@dataclass(slots=True)
class _Warm:
    """What members say beside their subscriptions, and what those that keep state were told."""

    plan: Plan
    lags: dict[str, Lags | None]
    #: The members that were told anything.
    told: set[str]
    #: What members tell of themselves.
    data: dict[str, MemberData | None]


def _warm(group: Group, members: list[Member], piece: Piece) -> Making[_Warm]:
    found, allowance = _Warm(Plan({}, {}, {}), {}, set(), {}), Allowance(_WARM_BYTES)
    if group.row.protocol_type != CONSUMER:
        return found
    protocol = group.row.protocol_name
    orders = {}
    for member in members:
        found.data[member.id] = member.data(protocol)
        found.lags[member.id] = lags_of(member, protocol, allowance)
        told = orders_of(member, protocol, allowance)
        if told is not None:
            orders[member.id] = told
        if piece.is_whole() or told is not None:
            yield
    found.plan, found.told = plan_from(orders, found.lags), set(orders)
    return found


def _member(
    owned: dict[str, Partitions | None],
    warm: _Warm,
    date_of: Callable[[int], int],
    member: Member,
) -> MemberView:
    plan, is_told = warm.plan, member.id in warm.told
    data = warm.data.get(member.id)
    return MemberView(
        member=member.id,
        instance=member.instance_id,
        client_id=member.row.client_id,
        host=member.row.client_host.lstrip("/"),
        session_timeout_ms=member.row.session_timeout_ms,
        rebalance_timeout_ms=member.row.rebalance_timeout_ms,
        since_ms=None if member.came_at_ms is None else date_of(member.came_at_ms),
        last_seen_ms=date_of(member.last_seen_ms),
        parked=member.is_waiting,
        away_since_ms=member.row.away_since_ms if member.is_away else None,
        away_until_ms=date_of(member.alive_until_ms) if member.is_away else None,
        address=None if data is None else data.address,
        labels={} if data is None else data.labels,
        owned=owned[member.id],
        standbys=plan.standbys.get(member.id, {}) if is_told else None,
        warming=plan.warming.get(member.id, {}) if is_told else None,
        lags=warm.lags.get(member.id),
        targets=plan.targets.get(member.id, {}) if is_told else None,
    )


def _owned(
    group: Group, members: list[Member], piece: Piece
) -> Making[dict[str, Partitions | None]]:
    """What each member was assigned last, by the ledger or, if none is kept, by the assignments."""
    ids = [member.id for member in members]
    if group.row.protocol_type != CONSUMER:
        return dict.fromkeys(ids)
    if not group.ledger.holdings:
        read = yield from each(members, lambda member: _read(member.assignment), piece)
        return dict(zip(ids, read, strict=True))
    held: dict[str, list[Partition]] = {member_id: [] for member_id in ids}
    for partition, holding in list(group.ledger.holdings.items()):
        if holding.member_id in held:
            held[holding.member_id].append(partition)
        if piece.is_whole():
            yield
    shown = yield from each(held.values(), by_topic, piece)
    return dict(zip(held, shown, strict=True))


def _read(assignment: bytes) -> Partitions | None:
    if not assignment:
        return {}
    try:
        return by_topic(flatten(decode_assignment(assignment).assigned_partitions))
    except ProtocolError:
        return None


def _awaiting(group: Group, until_ms: int | None) -> AwaitedMembers | None:
    if group.state is GroupState.PREPARING:
        delay = group.initial_delay is not None
        # During the delay, all members there are have joined.
        missing = [member.id for member in group.not_joined()]
    elif group.state is GroupState.COMPLETING:
        delay = False
        missing = [member_id for member_id in group.members if member_id in group.pending_syncs]
    else:
        return None
    return AwaitedMembers(
        phase="join" if group.state is GroupState.PREPARING else "sync",
        members=tuple(missing),
        unclaimed=tuple(sorted(group.pending_joins)),
        initial_delay=delay,
        until_ms=until_ms,
    )
