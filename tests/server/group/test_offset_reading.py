"""OffsetFetch and OffsetDelete."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import OffsetsDeleted
from coterie_protocol.messages import (
    OffsetDeleteRequest,
    OffsetDeleteRequestPartition,
    OffsetDeleteRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopic,
    OffsetFetchRequestTopics,
)
from coterie_server.group import GroupState
from tests.support.group_harness import Answer, Client, World, offsets_of

OK = ErrorCode.NONE


# -- fetching ----------------------------------------------------------------------------------


def fetch(world: World, version: int, partitions: dict[str, tuple[int, ...]] | None) -> Answer:
    """Fetch some partitions of a group, or all, before version 8."""
    topics = None
    if partitions is not None:
        topics = tuple(
            OffsetFetchRequestTopic(name=name, partition_indexes=indexes)
            for name, indexes in partitions.items()
        )
    return world.request(OffsetFetchRequest(group_id="g", topics=topics), version)


@pytest.mark.parametrize("version", range(8))
def test_offsets_before_version_8_are_told_and_minus_one_where_there_are_none(version: int) -> None:
    world = World()
    world.commit({("t", 1): 5}, metadata="note")
    (topic, other) = fetch(world, version, {"t": (0, 1), "nowhere": (7,)}).reply.topics
    told = [(p.partition_index, p.committed_offset, p.metadata) for p in topic.partitions]
    assert told == [(0, -1, ""), (1, 5, "note")]
    assert [(p.committed_offset, p.error_code) for p in other.partitions] == [(-1, 0)]


@pytest.mark.parametrize("version", range(2, 8))
def test_asking_for_no_topics_in_particular_gives_all_committed_offsets(version: int) -> None:
    world = World()
    world.commit({("t", 1): 5, ("u", 0): 6})
    reply = fetch(world, version, None).reply
    told = {
        t.name: [(p.partition_index, p.committed_offset) for p in t.partitions]
        for t in reply.topics
    }
    assert told == {"t": [(1, 5)], "u": [(0, 6)]}


def fetch_groups(world: World, *groups: OffsetFetchRequestGroup, version: int = 8) -> Answer:
    """Fetch offsets of several groups."""
    return world.request(OffsetFetchRequest(groups=groups), version)


@pytest.mark.parametrize("version", [8, 9])
def test_since_version_8_each_group_is_answered_for_itself(version: int) -> None:
    world = World()
    world.commit({("t", 1): 5})
    world.commit({("u", 0): 6}, group_id="h")
    some = (OffsetFetchRequestTopics(name="t", partition_indexes=(1, 2)),)
    groups = [
        OffsetFetchRequestGroup(group_id="g", topics=some),
        OffsetFetchRequestGroup(group_id="h", topics=None),
        OffsetFetchRequestGroup(group_id="nowhere", topics=some),
        OffsetFetchRequestGroup(group_id="nowhere", topics=None),
    ]
    reply = fetch_groups(world, *groups, version=version).reply
    told = [
        {(t.name, p.partition_index): p.committed_offset for t in g.topics for p in t.partitions}
        for g in reply.groups
    ]
    assert told == [
        {("t", 1): 5, ("t", 2): -1},
        {("u", 0): 6},
        {("t", 1): -1, ("t", 2): -1},
        {},
    ]
    assert [group.error_code for group in reply.groups] == [0, 0, 0, 0]


def test_the_leader_epoch_is_told_or_minus_one() -> None:
    world = World()
    world.commit({("t", 0): 1})
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    (group,) = fetch_groups(world, asked).reply.groups
    assert group.topics[0].partitions[0].committed_leader_epoch == -1


def test_acknowledged_offsets_survive_a_crash() -> None:
    world = World()
    world.commit({("t", 0): 1, ("u", 1): 2})
    world.crash()
    assert world.offsets() == {("t", 0): 1, ("u", 1): 2}


def test_offsets_go_with_their_topic_in_all_groups() -> None:
    world = World()
    world.commit({("t", 0): 1, ("u", 1): 2})
    world.commit({("t", 0): 3}, group_id="h")
    world.change_topic("t", "deleted")
    world.change_topic("t", "created", 4)
    assert world.offsets() == {("u", 1): 2}
    assert world.offsets("h") == {}
    assert [event.how for event in world.seen(OffsetsDeleted)] == ["topic_deleted"] * 2


# -- deleting ----------------------------------------------------------------------------------


def delete(world: World, partitions: dict[str, tuple[int, ...]], group: str = "g") -> Answer:
    """Delete offsets."""
    topics = tuple(
        OffsetDeleteRequestTopic(
            name=name,
            partitions=tuple(OffsetDeleteRequestPartition(partition_index=i) for i in indexes),
        )
        for name, indexes in partitions.items()
    )
    return world.request(OffsetDeleteRequest(group_id=group, topics=topics), 0)


def test_the_named_offset_is_deleted_and_that_there_is_none_is_no_error() -> None:
    world = World()
    world.commit({("t", 0): 1, ("t", 1): 2, ("u", 0): 3})
    assert delete(world, {"t": (0, 3)}).part_errors == [OK, OK]
    assert world.offsets() == {("t", 1): 2, ("u", 0): 3}
    (deleted,) = world.seen(OffsetsDeleted)
    assert (deleted.partitions, deleted.how) == ({"t": (0,)}, "requested")


def test_the_last_deleted_offset_does_not_take_the_group_along() -> None:
    world = World()
    world.commit({("t", 0): 1})
    delete(world, {"t": (0,)})
    assert world.state() is GroupState.EMPTY


def test_partitions_are_looked_up_before_offsets() -> None:
    world = World()
    world.commit({("t", 0): 1})
    answer = delete(world, {"t": (0, 9), "nowhere": (0,)})
    missing = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    assert answer.part_errors == [OK, missing, missing]


@pytest.mark.parametrize(("topic", "answered"), [("t", []), ("nowhere", ["nowhere"])])
def test_a_topic_without_partitions_is_answered_only_if_it_does_not_exist(
    topic: str, answered: list[str]
) -> None:
    world = World()
    world.commit({("t", 0): 1})
    assert [t.name for t in delete(world, {topic: ()}).reply.topics] == answered


@pytest.mark.parametrize(
    ("group", "error"),
    [("", ErrorCode.INVALID_GROUP_ID), ("nowhere", ErrorCode.GROUP_ID_NOT_FOUND)],
)
def test_deleting_offsets_of_a_missing_group_is_an_error_at_the_top(
    group: str, error: ErrorCode
) -> None:
    answer = delete(World(), {"nowhere": (0,)}, group)
    assert answer.error is error
    assert answer.reply.topics == ()


def consumer(world: World, **attributes: object) -> Client:
    """The only member of a stable group that has committed to both topics beforehand."""
    world.commit({("t", 0): 1, ("u", 0): 2})
    client = world.member("a", **attributes)
    world.form(client)
    return client


def test_offsets_of_a_subscribed_topic_can_not_be_deleted() -> None:
    world = World()
    consumer(world)
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(world, {"t": (0,), "u": (0,)}).part_errors == [subscribed, OK]
    assert world.offsets() == {("t", 0): 1}


def test_an_unreadable_subscription_protects_every_topic() -> None:
    world = World()
    consumer(world, metadata=b"?")
    answer = delete(world, {"t": (0,), "u": (0,)})
    assert answer.part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2


def test_topics_of_all_present_members_are_protected() -> None:
    world = World()
    first, second = world.member("a"), world.member("b", topics=("u",))
    world.form(first, second)
    assert delete(world, {"u": (0,)}).part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    second.leave()
    world.rejoin(first)
    assert delete(world, {"u": (0,)}).part_errors == [OK]


def test_topics_that_a_member_gave_up_are_not_protected() -> None:
    """What counts is the present subscription, though the number of members is the same."""
    world = World()
    first, second = world.member("a"), world.member("b", topics=("t", "u"))
    world.form(first, second)
    assert delete(world, {"u": (0,)}).part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    second.topics = ("t",)
    world.rejoin(second, first)
    assert delete(world, {"u": (0,)}).part_errors == [OK]


def test_topics_that_a_member_gives_up_are_protected_until_the_next_generation() -> None:
    """While members join anew, they still work on what they had."""
    world = World()
    first, second = world.member("a"), world.member("b", topics=("t", "u"))
    world.form(first, second)
    second.topics = ("t",)
    second.join()
    assert delete(world, {"u": (0,)}).part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]
    first.join()
    assert world.state() is GroupState.COMPLETING
    assert delete(world, {"u": (0,)}).part_errors == [OK]


def test_topics_of_a_static_member_that_came_back_are_protected() -> None:
    """Its new subscription counts as soon as there is an assignment for it."""
    world = World()
    first, second = world.member("a"), world.member("b", static="i1")
    world.form(first, second)
    assert delete(world, {"u": (0,)}).part_errors == [OK]
    second.restarted(topics=("u",)).join()
    world.rejoin(first)
    assert world.state() is GroupState.STABLE
    assert delete(world, {"u": (0,)}).part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC]


@pytest.mark.parametrize("attributes", [{}, {"topics": ("u",)}])
def test_first_rebalance_protects_every_topic(attributes: dict[str, object]) -> None:
    """The subscriptions are unknown until the members have agreed on a protocol."""
    world = World()
    world.member("a", **attributes).join()
    answer = delete(world, {"t": (0,), "u": (0,)})
    assert answer.part_errors == [ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC] * 2


def test_the_protection_of_topics_survives_a_crash() -> None:
    world = World()
    consumer(world)
    world.crash()
    subscribed = ErrorCode.GROUP_SUBSCRIBED_TO_TOPIC
    assert delete(world, {"t": (0,), "u": (0,)}).part_errors == [subscribed, OK]


def test_an_emptied_group_protects_no_topic() -> None:
    world = World()
    consumer(world).leave()
    assert delete(world, {"t": (0,), "u": (0,)}).part_errors == [OK, OK]
    asked = OffsetFetchRequestGroup(group_id="g", topics=None)
    assert offsets_of(fetch_groups(world, asked)) == {}
