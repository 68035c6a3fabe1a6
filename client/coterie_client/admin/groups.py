"""Groups: which there are, how they are, and that they go."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Final

from coterie_client.admin import arguments
from coterie_client.admin.caller import Caller
from coterie_client.admin.models import GroupDescription, GroupListing, MemberDescription
from coterie_client.admin.results import Result, Results, error_of
from coterie_client.wire.addresses import NodeAddress, TopicPartition
from coterie_protocol.consumer import decode_assignment, decode_subscription, flatten
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import GroupIdNotFoundError
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.messages import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribedGroupMember,
    DescribeGroupsRequest,
    ListedGroup,
    ListGroupsRequest,
)

__all__ = ["Groups"]

#: What the members of such a group tell each other is the consumer protocol.
_CONSUMER: Final = "consumer"
#: Up to DescribeGroups 5, the state of a group that is not there.
_DEAD: Final = "Dead"
_NOT_THERE: Final = frozenset({ErrorCode.GROUP_ID_NOT_FOUND})


class Groups:
    """What can be done with groups; reached as `Admin.groups`."""

    def __init__(self, caller: Caller) -> None:
        self._caller = caller

    async def list(
        self, *, states: Iterable[str] = (), types: Iterable[str] = ()
    ) -> tuple[GroupListing, ...]:
        """All groups in the order of their ids, or only those in some states or of some types.

        Raises if any node can't be asked: a list that lacks groups would look like a whole one.
        """
        request = ListGroupsRequest(
            states_filter=arguments.strings("states", states),
            types_filter=arguments.strings("types", types),
        )

        async def call(deadline_s: float) -> tuple[NodeAddress, ...]:
            cluster = await self._caller.cluster(deadline_s)
            return tuple({NodeAddress(b.host, b.port): None for b in cluster.brokers})

        async def attempt(
            nodes: Iterable[NodeAddress], deadline_s: float
        ) -> Mapping[NodeAddress, Result[tuple[ListedGroup, ...]]]:
            async def ask(
                node: NodeAddress, _: object
            ) -> Mapping[NodeAddress, Result[tuple[ListedGroup, ...]]]:
                answer = await self._caller.ask(request, deadline_s, node)
                error = error_of(answer.error_code, f"groups of {node}")
                return {node: Result(answer.groups, error)}

            return await self._caller.by_node({node: node for node in nodes}, ask)

        nodes = await self._caller.once(call)
        listed = (await self._caller.settle(nodes, attempt)).get_all()
        groups = {g.group_id: _listing(g) for groups in listed.values() for g in groups}
        return tuple(groups[group_id] for group_id in sorted(groups))

    async def describe(self, group: str) -> GroupDescription:
        """A group with its members; raises `GroupIdNotFoundError` if there is none."""
        return (await self.describe_many([group]))[group].get()

    async def describe_many(self, groups: Iterable[str]) -> Results[str, GroupDescription]:
        """Groups with their members."""

        async def ask(
            node: NodeAddress, asked: Iterable[str], deadline_s: float
        ) -> Mapping[str, Result[GroupDescription]]:
            request = DescribeGroupsRequest(groups=tuple(asked))
            answer = await self._caller.ask(request, deadline_s, node)
            return {group.group_id: _described(group, node) for group in answer.groups}

        return await self._caller.for_groups(groups, ask)

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

        return await self._caller.for_groups(groups, ask, done_if=_NOT_THERE)


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
        )
    )


def _member(member: DescribedGroupMember, *, is_consumer: bool) -> MemberDescription:
    return MemberDescription(
        member_id=member.member_id,
        instance_id=member.group_instance_id,
        client_id=member.client_id,
        host=member.client_host,
        topics=_topics(member.member_metadata) if is_consumer else None,
        partitions=_partitions(member.member_assignment) if is_consumer else None,
        metadata=member.member_metadata,
        assignment=member.member_assignment,
    )


def _topics(metadata: bytes) -> tuple[str, ...] | None:
    # While a group rebalances, servers show no bytes at all.
    try:
        return tuple(sorted(decode_subscription(metadata).topics)) if metadata else ()
    except ProtocolError:
        return None


def _partitions(assignment: bytes) -> tuple[TopicPartition, ...] | None:
    try:
        assigned = decode_assignment(assignment).assigned_partitions if assignment else ()
    except ProtocolError:
        return None
    return tuple(sorted(flatten(assigned)))
