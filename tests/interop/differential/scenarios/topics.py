"""CreateTopics, CreatePartitions and DeleteTopics."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.schema import NIL_UUID
from tests.interop.differential.differences import NO_RECORDS, NO_TOPIC_SETTINGS, TOPIC_CHANGES
from tests.interop.differential.member import Member, stable, subscribed
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Reply, Script
from tests.interop.differential.transcript import ANY

_FIRST_WITH_SETTINGS = 5
_TOO_FEW_NODES = (
    "Unable to replicate the partition 2 time(s): The target replication factor of 2 cannot be "
    "reached because only 1 broker(s) are registered."
)


def _topic(name: str, partitions: int = 1, factor: int = 1, **fields: Any) -> m.CreatableTopic:
    values: dict[str, Any] = {
        "name": name,
        "num_partitions": partitions,
        "replication_factor": factor,
        "assignments": (),
        "configs": (),
    }
    return m.CreatableTopic(**{**values, **fields})


def _assigned(*replicas: tuple[int, Sequence[int]]) -> tuple[m.CreatableReplicaAssignment, ...]:
    return tuple(
        m.CreatableReplicaAssignment(partition_index=index, broker_ids=tuple(brokers))
        for index, brokers in replicas
    )


def _setting(name: str, value: str | None) -> m.CreatableTopicConfig:
    return m.CreatableTopicConfig(name=name, value=value)


async def _create(
    s: Script, *topics: m.CreatableTopic, version: int = 7, validate_only: bool = False
) -> Reply:
    """Create topics; those that can be made come without their settings."""
    message = m.CreateTopicsRequest(topics=topics, timeout_ms=20_000, validate_only=validate_only)
    reply = await s.ask(message, version)
    if version >= _FIRST_WITH_SETTINGS:
        for number, topic in enumerate(sorted(reply.message.topics, key=lambda t: str(t.name))):
            if not topic.error_code:
                path = f"topics[{number}].configs"
                reply.differs(NO_TOPIC_SETTINGS, path, kafka=ANY, coterie=[])
    return reply


async def _grow(
    s: Script, *topics: m.CreatePartitionsTopic, version: int = 3, validate_only: bool = False
) -> Reply:
    message = m.CreatePartitionsRequest(
        topics=topics, timeout_ms=20_000, validate_only=validate_only
    )
    return await s.ask(message, version)


def _more(
    name: str, count: int, assignments: Sequence[Sequence[int]] | None = None
) -> m.CreatePartitionsTopic:
    entries = None
    if assignments is not None:
        entries = tuple(
            m.CreatePartitionsAssignment(broker_ids=tuple(brokers)) for brokers in assignments
        )
    return m.CreatePartitionsTopic(name=name, count=count, assignments=entries)


@scenario(each=ApiKey.CREATE_TOPICS)
async def topics_are_created(s: Script, version: int) -> None:
    """With numbers, with defaults, and with every broker named; twice is once too often."""
    name = f"{s.group}.t"
    await _create(s, _topic(f"{name}1", 3), version=version)
    if version >= 4:
        await _create(s, _topic(f"{name}2", -1, -1), version=version)
    by_hand = _assigned((1, [1]), (0, [1]))
    await _create(s, _topic(f"{name}3", -1, -1, assignments=by_hand), version=version)
    await _create(s, _topic(f"{name}1"), _topic(f"{name}4"), version=version)
    await s.until_partitions(f"{name}4", 1)
    for number in (1, 3, 4):
        await _tell(s, f"{name}{number}")
    await _create(s, version=version)


async def _tell(s: Script, *names: str, version: int = 12) -> Reply:
    topics = tuple(m.MetadataRequestTopic(name=name) for name in names)
    return await s.ask(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)


@scenario(each=ApiKey.CREATE_TOPICS)
async def topics_are_only_checked(s: Script, version: int) -> None:
    """Asked whether topics could be made, a broker makes none."""
    good, bad = _topic(f"{s.group}.good", 2), _topic(f"{s.group}.bad", 0)
    await _create(s, good, bad, version=version, validate_only=True)
    await _tell(s, f"{s.group}.good")


@scenario()
async def topics_with_bad_names(s: Script) -> None:
    """Names that no topic can have, each with the reason."""
    names = ("", ".", "..", "a/b", "é", "x" * 250, "a b", "__cluster_metadata")
    for name in names:
        await _create(s, _topic(name))
        await _create(s, _topic(name), validate_only=True)


@scenario()
async def topics_with_names_alike(s: Script) -> None:
    """Dots and underscores count as one letter, but only next to topics that exist."""
    one = await s.new_topic("a.b")
    await _create(s, _topic(one.replace(".a.b", ".a_b")))
    first, second = f"{s.group}.c.d", f"{s.group}.c_d"
    await _create(s, _topic(first), _topic(second))


@scenario()
async def topics_with_bad_numbers(s: Script) -> None:
    """Partitions and replicas that can't be."""
    name = f"{s.group}.t"
    for partitions, factor in ((0, 1), (-2, 1), (1, 0), (1, -2), (0, 0), (0, 3)):
        await _create(s, _topic(name, partitions, factor))
    for partitions in (1, -1):
        reply = await _create(s, _topic(name, partitions, 2))
        # Kafka's reason also speaks of the folders of logs, in 4.3 at least.
        reply.differs(NO_RECORDS, "topics[0].error_message", kafka=ANY, coterie=_TOO_FEW_NODES)
    await _create(s, _topic(name, 10_001))
    await _create(s, _topic(name, 6_000), _topic(f"{name}2", 6_000))


@scenario()
async def topics_with_bad_assignments(s: Script) -> None:
    """Partitions handed to brokers by hand, and all that can be wrong with it."""
    name = f"{s.group}.t"
    good = _assigned((0, [1]))
    await _create(s, _topic(name, 1, -1, assignments=good))
    await _create(s, _topic(name, -1, 1, assignments=good))
    bad: list[list[tuple[int, list[int]]]] = [
        [(0, [])],
        [(0, [7])],
        [(0, [1, 1])],
        [(0, [1]), (0, [1])],
        [(1, [1])],
        [(0, [1]), (2, [1])],
        [(0, [1]), (1, [])],
    ]
    for replicas in bad:
        await _create(s, _topic(name, -1, -1, assignments=_assigned(*replicas)))


@scenario()
async def topics_with_settings(s: Script) -> None:
    """Settings must have a known name and a value."""
    name = f"{s.group}.t"
    await _create(s, _topic(name, configs=(_setting("no.such.thing", "1"),)))
    await _create(s, _topic(name, configs=(_setting("retention.ms", None),)))
    two = (_setting("retention.ms", None), _setting("segment.ms", None))
    await _create(s, _topic(name, configs=two))
    good = (_setting("retention.ms", "1000"), _setting("cleanup.policy", "compact"))
    await _create(s, _topic(name, configs=good), _topic(f"{name}2", configs=two))


@scenario()
async def topics_with_bad_values(s: Script) -> None:
    """Kafka reads the values of settings that mean nothing to Coterie."""
    bad = (_setting("retention.ms", "soon"),)
    message = m.CreateTopicsRequest(topics=(_topic(f"{s.group}.t", configs=bad),))
    reply = await s.ask(message, 4)
    reply.differs(NO_TOPIC_SETTINGS, "topics[0].error_code", kafka=40, coterie=0)
    reply.differs(NO_TOPIC_SETTINGS, "topics[0].error_message", kafka=ANY, coterie=None)


@scenario()
async def topics_named_twice(s: Script) -> None:
    """A name that a request has twice is not looked at."""
    twice, once = _topic(f"{s.group}.twice"), _topic(f"{s.group}.once")
    await _create(s, twice, once, twice)
    await _tell(s, f"{s.group}.twice")
    await _grow(s, _more(f"{s.group}.once", 2), _more(f"{s.group}.once", 3))


@scenario(each=ApiKey.CREATE_PARTITIONS)
async def topics_grow(s: Script, version: int) -> None:
    """More partitions, with and without brokers named, and only checked."""
    topic = await s.new_topic("t", 2)
    await _grow(s, _more(topic, 3), version=version)
    await _grow(s, _more(topic, 5, [[1], [1]]), version=version)
    await _grow(s, _more(topic, 6), version=version, validate_only=True)
    await _grow(s, _more(topic, 5), _more("unknown", 2), version=version)
    await _grow(s, version=version)
    await s.until_partitions(topic, 5)
    await _tell(s, topic)


@scenario()
async def topics_do_not_grow(s: Script) -> None:
    """Numbers that are no increase, and assignments that don't fit."""
    topic = await s.new_topic("t", 2)
    for count in (2, 1, 0, -1):
        await _grow(s, _more(topic, count))
    bad: list[list[list[int]]] = [[], [[1], [1]], [[]], [[7]], [[1, 1]]]
    for assignments in bad:
        await _grow(s, _more(topic, 3, assignments))
        await _grow(s, _more(topic, 3, assignments), validate_only=True)
    await _tell(s, topic)


@scenario(each=ApiKey.DELETE_TOPICS)
async def topics_are_deleted(s: Script, version: int) -> None:
    """Topics go by name; unknown ones, and those named twice, are told."""
    one, two, three = [await s.new_topic(name) for name in ("one", "two", "three")]
    await _delete(s, one, "unknown", version=version)
    await _delete(s, two, three, two, version=version)
    await _delete(s, version=version)
    await s.until_partitions(three, 0)
    await _tell(s, one, two, three)


async def _delete(s: Script, *names: str, version: int) -> Reply:
    states: dict[str, Any] = {"topic_names": names}
    if version >= 6:
        states = {"topics": tuple(m.DeleteTopicState(name=n, topic_id=NIL_UUID) for n in names)}
    return await s.ask(m.DeleteTopicsRequest(timeout_ms=20_000, **states), version)


@scenario()
async def topics_are_deleted_by_id(s: Script) -> None:
    """Topics go by id as well, but not by both, nor by neither."""
    one, two, three = [await s.new_topic(name) for name in ("one", "two", "three")]
    told = await _tell(s, one, two, three)
    ids = {topic.name: topic.topic_id for topic in told.message.topics}
    stranger = uuid.UUID(int=99)

    async def delete(*states: tuple[str | None, uuid.UUID]) -> None:
        topics = tuple(m.DeleteTopicState(name=n, topic_id=i) for n, i in states)
        await s.ask(m.DeleteTopicsRequest(topics=topics, timeout_ms=20_000), 6)

    await delete((one, ids[one]))
    await delete((None, NIL_UUID))
    await delete((None, stranger))
    await delete((None, ids[one]), (None, ids[one]))
    await delete((one, NIL_UUID), (None, ids[one]))
    await delete((None, ids[one]), (two, NIL_UUID), (None, stranger))
    await s.until_partitions(two, 0)
    await _tell(s, one, two, three)


@scenario(Setup.NARROW, each=ApiKey.DELETE_TOPICS)
async def topics_that_may_not_be_deleted(s: Script, version: int) -> None:
    """Where topics can't be deleted, all are refused."""
    topic = await s.new_topic("t")
    await _delete(s, topic, "unknown", version=version)
    await _tell(s, topic)


@scenario()
async def a_topic_grows_under_a_group(s: Script) -> None:
    """Coterie tells the group at once; in Kafka its members have to look for themselves."""
    topic = await s.new_topic("t")
    a = await Member.of(s, "a", protocols={"range": subscribed(topic)})
    await stable(a)
    await _grow(s, _more(topic, 2))
    await s.until_partitions(topic, 2)
    reply = await a.heartbeat()
    reply.differs(TOPIC_CHANGES, "error_code", kafka=0, coterie=27)
