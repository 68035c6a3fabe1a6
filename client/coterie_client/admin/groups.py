"""Groups and their members: list, describe, delete groups, remove members."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import (
    GroupDescription,
    GroupListing,
    MemberDescription,
    MemberRef,
    OperationDescription,
    Result,
    Results,
    error_of,
)
from coterie_client.errors import ConfigurationError
from coterie_client.wire.addresses import NodeAddress, TopicPartition, named_nodes
from coterie_protocol.consumer import decode_assignment, decode_subscription, flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import GroupIdNotFoundError
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.member_data import MemberData, split_member_data
from coterie_protocol.messages import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    LeaveGroupRequest,
    ListedGroup,
    ListGroupsRequest,
    MemberIdentity,
    MemberResponse,
)
from coterie_protocol.operations import Operation, partitions_of
from coterie_protocol.streams.reading import Orders, read_lags, read_orders

__all__ = ["Groups", "Members"]

#: The protocol type of groups whose members use the consumer protocol.
_CONSUMER: Final = "consumer"
#: The state of a missing group, up to DescribeGroups version 5.
_DEAD: Final = "Dead"
_NO_GROUP: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND})
_NO_MEMBER: Final = frozenset({ErrorCode.UNKNOWN_MEMBER_ID})
_DEFAULT_REASON: Final = "removed by an administrator"


class Groups:
    """Operations on groups; use `Admin.groups`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """List all groups by id, or only those in some states or of some types.

        Raises if any node can't be asked: an incomplete list would look like a complete one.
        """
        request = ListGroupsRequest(
            states_filter=arguments.strings("states", states),
            types_filter=arguments.strings("types", types),
        )

        async def ask(
            node: NodeAddress, deadline_s: float
        ) -> Mapping[NodeAddress, Result[tuple[ListedGroup, ...]]]:
            answer = await self._caller.ask(request, deadline_s, node)
            error = error_of(answer.error_code, f"groups of {node}")
            return {node: Result(answer.groups, error)}

        async def whole(deadline_s: float) -> dict[NodeAddress, tuple[ListedGroup, ...]]:
            # All nodes anew in each attempt: what one of them had, another may have by now.
            nodes = await self._nodes(deadline_s)
            placed = {node: node for node in nodes}
            listed = await self._caller.by_node(placed, lambda node, _: ask(node, deadline_s))
            return Results(listed).get_all()

        listed = await self._caller.once(whole)
        groups = {g.group_id: _listing(g) for groups in listed.values() for g in groups}
        return tuple(groups[group_id] for group_id in sorted(groups))

    async def _nodes(self, deadline_s: float) -> tuple[NodeAddress, ...]:
        """The nodes of the cluster, each once."""
        named = named_nodes(await self._caller.cluster(deadline_s))
        return tuple(dict.fromkeys(named.values()))

    async def describe(self, group: str) -> GroupDescription:
        """Describe a group with its members; raises `GroupIdNotFoundError` if it does not exist."""
        return (await self.describe_many([group]))[group].get()

    async def describe_many(self, groups: Iterable[str]) -> Results[str, GroupDescription]:
        """Describe groups with their members."""

        async def ask(
            node: NodeAddress, asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[GroupDescription]]:
            request = DescribeGroupsRequest(
                groups=tuple(asked), wants_absences=True, wants_operations=True
            )
            answer = await self._caller.ask(request, deadline_s, node)
            return {group.group_id: _described(group, node) for group in answer.groups}

        return await self._caller.for_groups(groups, ask)

    async def http_address(self, group: str) -> str | None:
        """Where the coordinator of a group answers HTTP, as HOST:PORT.

        None if it does not say: it is a Kafka broker, or has no HTTP that can be reached from here.
        """

        async def ask(
            node: NodeAddress, _: object, deadline_s: float
        ) -> Mapping[str, Result[str | None]]:
            return {group: Result(await self._caller.http_address(node, deadline_s))}

        return (await self._caller.for_groups([group], ask))[group].get()

    async def http_addresses(self) -> tuple[str | None, ...]:
        """Where the nodes of the cluster answer HTTP, as HOST:PORT; None for each that can't say.

        See `http_address`.
        """

        async def ask(deadline_s: float) -> tuple[str | None, ...]:
            nodes = await self._nodes(deadline_s)
            return tuple([await self._caller.http_address(node, deadline_s) for node in nodes])

        return await self._caller.once(ask)

    async def delete(self, group: str) -> None:
        """Delete a group with its offsets; raises `NonEmptyGroupError` while it has members."""
        (await self.delete_many([group]))[group].get()

    async def delete_many(self, groups: Iterable[str]) -> Results[str, None]:
        """Delete groups with their offsets."""

        async def ask(
            node: NodeAddress, asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[None]]:
            request = DeleteGroupsRequest(groups_names=tuple(asked))
            answer = await self._caller.ask(request, deadline_s, node)
            return {
                r.group_id: Result(error=error_of(r.error_code, f"group {r.group_id}"))
                for r in answer.results
            }

        return await self._caller.for_groups(groups, ask, done_if=_NO_GROUP)


class Members:
    """Operations on the members of a group; use `Admin.members`."""

    def __init__(self, caller: Caller, groups: Groups) -> None:
        self._caller = caller
        self._groups = groups

    async def list(self, group: str) -> tuple[MemberDescription, ...]:
        """List a group's members; raises `GroupIdNotFoundError` if the group does not exist."""
        return (await self._groups.describe(group)).members

    async def remove(
        self,
        group: str,
        *,
        member_id: str = "",
        instance_id: str | None = None,
        reason: str = _DEFAULT_REASON,
    ) -> None:
        """Remove a member by its id, or a static one by its instance id.

        The group rebalances, and the member joins again if it is still running. Raises
        `UnknownMemberIdError` if there is no such member.
        """
        member = MemberRef(member_id, instance_id)
        (await self.remove_many(group, [member], reason=reason))[member].get()

    async def remove_many(
        self, group: str, members: Iterable[MemberRef], *, reason: str = _DEFAULT_REASON
    ) -> Results[MemberRef, None]:
        """Remove members of one group, which then rebalances once."""
        removed = tuple(members)
        if not all(member.member_id or member.instance_id for member in removed):
            raise ConfigurationError(
                "each member to remove must have a member_id or an instance_id"
            )

        async def ask(
            node: NodeAddress, asked: Iterable[MemberRef], deadline_s: float
        ) -> Mapping[MemberRef, Result[None]]:
            identities = (
                MemberIdentity(
                    member_id=member.member_id, group_instance_id=member.instance_id, reason=reason
                )
                for member in asked
            )
            request = LeaveGroupRequest(group_id=group, members=tuple(identities))
            answer = await self._caller.ask(request, deadline_s, node)
            error = error_of(answer.error_code, f"group {group}")
            if error is not None:
                raise error
            return {
                MemberRef(gone.member_id, gone.group_instance_id): _removed(gone, group)
                for gone in answer.members
            }

        return await self._caller.in_group(group, removed, ask, done_if=_NO_MEMBER)


def _listing(group: ListedGroup) -> GroupListing:
    return GroupListing(
        group.group_id, group.protocol_type, group.group_state or None, group.group_type or None
    )


def _described(group: DescribedGroup, node: NodeAddress) -> Result[GroupDescription]:
    error = error_of(group.error_code, f"group {group.group_id}", group.error_message)
    if error is None and group.group_state == _DEAD:
        error = GroupIdNotFoundError(f"group {group.group_id}")
    if error is not None:
        return Result(error=error)
    is_consumer = group.protocol_type == _CONSUMER
    return Result(
        GroupDescription(
            group_id=group.group_id,
            state=group.group_state,
            protocol_type=group.protocol_type,
            protocol=group.protocol_data,
            members=tuple(_member(member, is_consumer=is_consumer) for member in group.members),
            coordinator=node,
            operations=tuple(
                _operation(each, is_followed=not group.operations_not_followed)
                for each in group.operations
            ),
        )
    )


def _operation(operation: Operation, *, is_followed: bool) -> OperationDescription:
    return OperationDescription(
        operation=operation.kind,
        member_id=operation.member_id,
        instance_id=operation.instance_id,
        partitions=partitions_of(operation),
        at_a_time=operation.at_a_time,
        by=operation.by,
        reason=operation.reason,
        since_ms=operation.since_ms,
        until_ms=operation.until_ms if operation.until_ms >= 0 else None,
        followed=is_followed,
    )


def _member(member: DescribedGroupMember, *, is_consumer: bool) -> MemberDescription:
    lags, orders = _warmth(member) if is_consumer else (None, None)
    told = _told(member.member_metadata) if is_consumer else MemberData()
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        topics=_topics(member.member_metadata) if is_consumer else None,
        partitions=_partitions(member.member_assignment) if is_consumer else None,
        lags=lags,
        orders=orders,
        away_since_ms=member.away_since_ms if member.away_since_ms >= 0 else None,
        metadata=member.member_metadata,
        assignment=member.member_assignment,
        address=told.address,
        labels=told.labels,
    )


def _told(metadata: bytes) -> MemberData:
    try:
        subscription = decode_subscription(metadata)
    except ProtocolError:
        return MemberData()
    return split_member_data(subscription.user_data)[1] or MemberData()


def _topics(metadata: bytes) -> tuple[str, ...] | None:
    # During a rebalance, servers return no bytes at all.
    try:
        return tuple(sorted(decode_subscription(metadata).topics)) if metadata else ()
    except ProtocolError:
        return None


def _warmth(
    member: DescribedGroupMember,
) -> tuple[Mapping[TopicPartition, int | None] | None, Orders | None]:
    """What a member reports of its state, and what its leader ordered, if that can be read."""
    if not member.member_metadata or not member.member_assignment:
        return None, None
    try:
        subscription = decode_subscription(member.member_metadata)
        assignment = decode_assignment(member.member_assignment)
    except ProtocolError:
        return None, None
    topics = subscription.topics
    return read_lags(subscription.user_data, topics), read_orders(assignment.user_data, topics)


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    try:
        assigned = decode_assignment(assignment).assigned_partitions if assignment else ()
    except ProtocolError:
        return None
    return tuple(sorted(flatten(assigned)))


def _removed(gone: MemberResponse, group: str) -> Result[None]:
    member = MemberRef(gone.member_id, gone.group_instance_id)
    return Result(error=error_of(gone.error_code, f"group {group}, member {member}"))
