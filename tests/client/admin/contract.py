"""What an administrator may rely on, from Coterie and from a real Kafka alike.

A suite subclasses the class here and gives it an `address`; names are new in every test, because
a server may serve many.
"""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from typing import Any

import pytest
import pytest_asyncio

from coterie_client.admin import (
    Admin,
    CommittedOffset,
    MemberRef,
    NewTopic,
    TopicDescription,
)
from coterie_client.errors import BatchFailedError
from coterie_client.wire import Lane, Network, NodeAddress
from coterie_protocol.consumer import (
    Assignment,
    Subscription,
    TopicPartitions,
    encode_assignment,
    encode_subscription,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import (
    GroupIdNotFoundError,
    GroupSubscribedToTopicError,
    InvalidPartitionsError,
    InvalidTopicError,
    NonEmptyGroupError,
    TopicAlreadyExistsError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
)
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    HeartbeatRequest,
    JoinGroupRequest,
    JoinGroupRequestProtocol,
    JoinGroupResponse,
    SyncGroupRequest,
    SyncGroupRequestAssignment,
)

__all__ = ["AdminContract", "Member"]

_TIMEOUT_S = 60.0
_SESSION_MS = 30_000


class Member:
    """The one member of a group, who gives himself three partitions of a topic."""

    def __init__(self, network: Network, group: str, topic: str, instance_id: str | None) -> None:
        self._network = network
        self._group = group
        self._topic = topic
        self._instance_id = instance_id
        self._generation = -1
        self.member_id = ""

    async def join(self) -> None:
        """Become a member, the leader, and stable."""
        joined = await self._join()
        if joined.error_code == ErrorCode.MEMBER_ID_REQUIRED:
            self.member_id = joined.member_id
            joined = await self._join()
        assert joined.error_code == 0
        self.member_id, self._generation = joined.member_id, joined.generation_id
        given = TopicPartitions(topic=self._topic, partitions=(0, 1, 2))
        assignment = SyncGroupRequestAssignment(
            member_id=self.member_id,
            assignment=encode_assignment(Assignment(assigned_partitions=(given,))),
        )
        sync = SyncGroupRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocol_name="range",
            assignments=(assignment,),
        )
        assert (await self._ask(sync)).error_code == 0

    async def heartbeat(self) -> int:
        """The error code by which the group answers."""
        heartbeat = HeartbeatRequest(
            group_id=self._group,
            generation_id=self._generation,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
        )
        code: int = (await self._ask(heartbeat)).error_code
        return code

    async def _join(self) -> JoinGroupResponse:
        subscription = encode_subscription(Subscription(topics=(self._topic,)))
        join = JoinGroupRequest(
            group_id=self._group,
            session_timeout_ms=_SESSION_MS,
            rebalance_timeout_ms=_SESSION_MS,
            member_id=self.member_id,
            group_instance_id=self._instance_id,
            protocol_type="consumer",
            protocols=(JoinGroupRequestProtocol(name="range", metadata=subscription),),
        )
        answer = await self._ask(join)
        assert isinstance(answer, JoinGroupResponse)
        return answer

    async def _ask(self, message: Any) -> Any:
        return await self._network.request(
            message, to=await self._coordinator(), lane=Lane.GROUP, timeout_s=_TIMEOUT_S
        )

    async def _coordinator(self) -> NodeAddress:
        async with asyncio.timeout(_TIMEOUT_S):
            while True:
                question = FindCoordinatorRequest(key=self._group)
                found = await self._network.request(question, timeout_s=_TIMEOUT_S)
                if not found.error_code:
                    return NodeAddress(found.host, found.port)
                await asyncio.sleep(0.1)  # Kafka makes its offsets topic on first use


@pytest.mark.asyncio
class AdminContract:
    """The contract; subclasses say where the server is, by a fixture `address`."""

    @pytest_asyncio.fixture
    async def admin(self, address: str) -> AsyncIterator[Admin]:
        """Give an administrator."""
        async with Admin(address) as admin:
            yield admin

    @pytest_asyncio.fixture
    async def network(self, address: str) -> AsyncIterator[Network]:
        """Give a network for members."""
        async with Network(address, client_id="worker") as network:
            yield network

    @pytest_asyncio.fixture
    async def topic(self, admin: Admin) -> str:
        """Give a topic of three partitions."""
        name = f"topic-{uuid.uuid4()}"
        await admin.topics.create(name, partitions=3)
        return name

    @pytest.fixture
    def group(self) -> str:
        """Give a name that no other test uses."""
        return f"group-{uuid.uuid4()}"

    # -- topics --------------------------------------------------------------------------------

    async def test_created_topic_can_be_described_at_once(self, admin: Admin) -> None:
        name = f"topic-{uuid.uuid4()}"
        created = await admin.topics.create(name, partitions=4)
        assert (created.name, created.partitions, created.replication_factor) == (name, 4, 1)
        described = await admin.topics.describe(name)
        assert described.topic_id == created.topic_id is not None
        assert [p.partition for p in described.partitions] == [0, 1, 2, 3]
        assert all(p.leader in p.replicas and p.in_sync == p.replicas for p in described.partitions)

    async def test_topics_are_listed_by_name(self, admin: Admin) -> None:
        names = sorted(f"topic-{uuid.uuid4()}" for _ in range(3))
        created = await admin.topics.create_many([NewTopic(n, 2) for n in reversed(names)])
        assert list(created.get_all()) == names[::-1]
        listed = [topic for topic in await admin.topics.list() if topic.name in names]
        assert [(t.name, t.partitions, t.internal) for t in listed] == [
            (name, 2, False) for name in names
        ]

    async def test_existing_topic_is_refused_and_others_of_the_batch_are_not(
        self, admin: Admin, topic: str
    ) -> None:
        other = f"topic-{uuid.uuid4()}"
        results = await admin.topics.create_many([NewTopic(topic, 1), NewTopic(other, 1)])
        assert isinstance(results[topic].error, TopicAlreadyExistsError)
        assert results[other].get().partitions == 1
        with pytest.raises(BatchFailedError, match="1 of 2 failed"):
            results.get_all()

    async def test_invalid_topics_are_refused_with_the_servers_message(self, admin: Admin) -> None:
        with pytest.raises(InvalidTopicError, match="contains one or more characters"):
            await admin.topics.create("no good!", 1)
        with pytest.raises(InvalidPartitionsError):
            await admin.topics.create(f"topic-{uuid.uuid4()}", 0)

    async def test_validate_only_creates_nothing(self, admin: Admin) -> None:
        name = f"topic-{uuid.uuid4()}"
        await admin.topics.create(name, 1, validate_only=True)
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.topics.describe(name)

    async def test_default_number_of_partitions_is_the_servers(self, admin: Admin) -> None:
        created = await admin.topics.create(f"topic-{uuid.uuid4()}")
        assert created.partitions is not None
        assert created.partitions >= 1

    async def test_grown_topic_has_its_partitions_when_the_call_returns(
        self, admin: Admin, topic: str
    ) -> None:
        await admin.topics.grow(topic, 5)
        assert len((await admin.topics.describe(topic)).partitions) == 5

    async def test_topic_does_not_shrink(self, admin: Admin, topic: str) -> None:
        with pytest.raises(InvalidPartitionsError):
            await admin.topics.grow(topic, 3)

    async def test_deleted_topic_is_gone_when_the_call_returns(
        self, admin: Admin, topic: str
    ) -> None:
        results = await admin.topics.delete_many([topic, "no-such-topic"])
        assert results[topic].ok
        assert isinstance(results["no-such-topic"].error, UnknownTopicOrPartitionError)
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.topics.describe(topic)

    async def test_existing_topics_of_a_batch_are_described(self, admin: Admin, topic: str) -> None:
        results = await admin.topics.describe_many([topic, "no-such-topic"])
        assert list(results) == [topic, "no-such-topic"]
        assert isinstance(results[topic].get(), TopicDescription)
        assert isinstance(results["no-such-topic"].error, UnknownTopicOrPartitionError)

    # -- groups and members --------------------------------------------------------------------

    async def test_group_with_offsets_only_is_listed_as_empty(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 1})
        described = await admin.groups.describe(group)
        assert (described.state, described.members) == ("Empty", ())
        listed = {g.group_id: g for g in await admin.groups.list(states=["Empty"])}
        assert listed[group].state == "Empty"
        assert listed[group].type == "classic"
        assert group not in {g.group_id for g in await admin.groups.list(states=["Stable"])}

    async def test_member_is_described_with_subscription_and_assignment(
        self, admin: Admin, network: Network, topic: str, group: str
    ) -> None:
        member = Member(network, group, topic, "worker-1")
        await member.join()
        described = await admin.groups.describe(group)
        assert (described.state, described.protocol_type) == ("Stable", "consumer")
        assert described.protocol == "range"
        (shown,) = await admin.members.list(group)
        assert described.members == (shown,)
        assert (shown.member_id, shown.instance_id) == (member.member_id, "worker-1")
        assert (shown.client_id, shown.host) == ("worker", "/127.0.0.1")
        assert shown.topics == (topic,)
        assert shown.partitions == ((topic, 0), (topic, 1), (topic, 2))

    async def test_groups_are_filtered_by_type(self, admin: Admin, topic: str, group: str) -> None:
        await admin.offsets.set(group, {(topic, 0): 1})
        assert group in {g.group_id for g in await admin.groups.list(types=["classic"])}
        assert group not in {g.group_id for g in await admin.groups.list(types=["consumer"])}

    async def test_unknown_group_can_not_be_described_or_deleted(
        self, admin: Admin, group: str
    ) -> None:
        with pytest.raises(GroupIdNotFoundError, match=group):
            await admin.groups.describe(group)
        with pytest.raises(GroupIdNotFoundError):
            await admin.members.list(group)
        with pytest.raises(GroupIdNotFoundError):
            await admin.groups.delete(group)

    async def test_group_without_members_is_deleted_with_its_offsets(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 1})
        results = await admin.groups.delete_many([group, "no-such-group"])
        assert results[group].ok
        assert isinstance(results["no-such-group"].error, GroupIdNotFoundError)
        assert await admin.offsets.fetch(group) == {}

    async def test_group_with_members_can_not_be_deleted_or_have_offsets_set(
        self, admin: Admin, network: Network, topic: str, group: str
    ) -> None:
        await Member(network, group, topic, None).join()
        with pytest.raises(NonEmptyGroupError):
            await admin.groups.delete(group)
        with pytest.raises(NonEmptyGroupError, match="stop the group's members"):
            await admin.offsets.set(group, {(topic, 0): 1})

    async def test_member_is_removed_by_its_id(
        self, admin: Admin, network: Network, topic: str, group: str
    ) -> None:
        member = Member(network, group, topic, None)
        await member.join()
        assert await member.heartbeat() == ErrorCode.NONE
        await admin.members.remove(group, member_id=member.member_id, reason="a test")
        assert await member.heartbeat() == ErrorCode.UNKNOWN_MEMBER_ID
        assert await admin.members.list(group) == ()

    async def test_member_is_removed_by_its_instance_id(
        self, admin: Admin, network: Network, topic: str, group: str
    ) -> None:
        await Member(network, group, topic, "worker-1").join()
        known, unknown = MemberRef(instance_id="worker-1"), MemberRef(instance_id="worker-2")
        results = await admin.members.remove_many(group, [known, unknown])
        assert results[known].ok
        assert isinstance(results[unknown].error, UnknownMemberIdError)
        assert (await admin.groups.describe(group)).state == "Empty"

    # -- offsets -------------------------------------------------------------------------------

    async def test_set_offsets_are_fetched(self, admin: Admin, topic: str, group: str) -> None:
        noted = CommittedOffset(7, "a note", leader_epoch=0)
        await admin.offsets.set(group, {(topic, 0): 5, (topic, 1): noted})
        both = {(topic, 0): CommittedOffset(5), (topic, 1): noted}
        assert await admin.offsets.fetch(group) == both
        assert await admin.offsets.fetch(group, [(topic, 1), (topic, 2)]) == {(topic, 1): noted}
        assert await admin.offsets.fetch(group, require_stable=True) == both

    async def test_offsets_of_several_groups_are_fetched(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 5})
        other = f"{group}-other"
        results = await admin.offsets.fetch_many([other, group])
        assert results.get_all() == {other: {}, group: {(topic, 0): CommittedOffset(5)}}

    async def test_offsets_of_unknown_partitions_are_refused_one_by_one(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        with pytest.raises(BatchFailedError) as caught:
            await admin.offsets.set(group, {(topic, 0): 5, (topic, 9): 5, ("no-such-topic", 0): 5})
        errors = caught.value.errors
        assert set(errors) == {(topic, 9), ("no-such-topic", 0)}
        assert {type(error) for error in errors.values()} == {UnknownTopicOrPartitionError}
        assert await admin.offsets.fetch(group) == {(topic, 0): CommittedOffset(5)}

    async def test_deleted_offset_is_gone_and_others_stay(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 5, (topic, 1): 6})
        await admin.offsets.delete(group, [(topic, 0)])
        assert await admin.offsets.fetch(group) == {(topic, 1): CommittedOffset(6)}

    async def test_offsets_of_subscribed_topics_can_not_be_deleted(
        self, admin: Admin, network: Network, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 5})
        await Member(network, group, topic, None).join()
        with pytest.raises(GroupSubscribedToTopicError):
            await admin.offsets.delete(group, [(topic, 0)])

    async def test_unknown_group_has_no_offsets(self, admin: Admin, topic: str, group: str) -> None:
        assert await admin.offsets.fetch(group) == {}
        with pytest.raises(GroupIdNotFoundError):
            await admin.offsets.delete(group, [(topic, 0)])

    async def test_offsets_are_reset_to_the_beginning(
        self, admin: Admin, topic: str, group: str
    ) -> None:
        await admin.offsets.set(group, {(topic, 0): 5})
        assert await admin.offsets.reset(group, "earliest") == {(topic, 0): 0}
        assert await admin.offsets.fetch(group) == {(topic, 0): CommittedOffset(0, "", None)}
        await admin.offsets.reset(group, "latest", [(topic, 1)])
        assert set(await admin.offsets.fetch(group)) == {(topic, 0), (topic, 1)}

    async def test_empty_partition_begins_and_ends_at_zero(self, admin: Admin, topic: str) -> None:
        partitions = [(topic, 0), (topic, 2)]
        assert await admin.offsets.earliest(partitions) == dict.fromkeys(partitions, 0)
        assert await admin.offsets.latest(partitions) == dict.fromkeys(partitions, 0)

    async def test_ends_of_unknown_partitions_are_an_error(self, admin: Admin, topic: str) -> None:
        with pytest.raises(UnknownTopicOrPartitionError):
            await admin.offsets.latest([("no-such-topic", 0)])
        with pytest.raises(BatchFailedError) as caught:
            await admin.offsets.latest([(topic, 0), (topic, 9)])
        assert set(caught.value.errors) == {(topic, 9)}

    async def test_no_offset_by_time_in_an_empty_partition(self, admin: Admin, topic: str) -> None:
        found = await admin.offsets.find([(topic, 0)], 1_700_000_000_000)
        assert found[topic, 0].offset is None
