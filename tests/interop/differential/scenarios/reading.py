"""Metadata, ListOffsets, Fetch and Produce, where there are no records."""

from __future__ import annotations

import uuid
from collections.abc import Sequence
from typing import Any

from kafka.record.default_records import DefaultRecordBatchBuilder

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from tests.interop.differential.differences import (
    CLIENTS_FAULT,
    ENDS_FOLLOW_COMMITS,
    NO_RECORDS,
    TOPICS_AT_ONCE,
)
from tests.interop.differential.member import cast
from tests.interop.differential.scenario import Setup, scenario
from tests.interop.differential.script import Reply, Script
from tests.interop.differential.transcript import ANY

_FIRST_WITH_NULL = 1
_FIRST_WITH_IDS = 12
_FETCHES_BY_ID_FROM = 13
_NIL = uuid.UUID(int=0)
_STRANGER = uuid.UUID(int=99)


async def _metadata(
    s: Script, names: Sequence[str] | None, version: int = 12, **fields: Any
) -> Reply:
    topics = None if names is None else tuple(m.MetadataRequestTopic(name=n) for n in names)
    fields.setdefault("allow_auto_topic_creation", version < 4)
    return await s.ask(m.MetadataRequest(topics=topics, **fields), version)


@scenario(each=ApiKey.METADATA)
async def topics_are_told(s: Script, version: int) -> None:
    """All topics, none, some, unknown ones and names that can't be."""
    one = await s.new_topic("one", 3)
    await _metadata(s, [one], version)
    await _metadata(s, [one, s.topic, one, f"{s.group}.unknown"], version)
    await _metadata(s, [], version)
    if version >= _FIRST_WITH_NULL:
        await _metadata(s, None, version)
    await _metadata(s, ["", ".", "a b"], version)
    if version >= 8:
        asked: dict[str, bool] = {"include_topic_authorized_operations": True}
        if version <= 10:
            asked["include_cluster_authorized_operations"] = True
        await _metadata(s, [one, f"{s.group}.unknown"], version, **asked)


@scenario(each=ApiKey.METADATA, since=10)
async def topics_are_told_by_id(s: Script, version: int) -> None:
    """Since version 12 a topic can be asked for by its id; the field is two versions older."""
    one = await s.new_topic("one")
    told = await _metadata(s, [one])
    (topic_id,) = [topic.topic_id for topic in told.message.topics]
    known = m.MetadataRequestTopic(name=None, topic_id=topic_id)
    stranger = m.MetadataRequestTopic(name=None, topic_id=uuid.UUID(int=99))
    both = m.MetadataRequestTopic(name=one, topic_id=topic_id)
    nameless = m.MetadataRequestTopic(name=None)
    for topics in ((known,), (stranger, known), (both,), (known, nameless)):
        await s.ask(m.MetadataRequest(topics=topics, allow_auto_topic_creation=False), version)
    reply = await s.ask(m.MetadataRequest(topics=(nameless,)), version)
    if version >= _FIRST_WITH_IDS:
        reply.differs(CLIENTS_FAULT, "topics[0].error_code", kafka=-1, coterie=42)
    named = m.MetadataRequestTopic(name=s.topic)
    if version >= _FIRST_WITH_IDS:
        await s.ask(m.MetadataRequest(topics=(known, named)), version)


@scenario(Setup.NARROW)
async def topics_come_when_asked_for(s: Script) -> None:
    """Kafka says that the topic is unknown and makes it; Coterie makes it and tells it."""
    name = f"{s.group}.new"
    reply = await _metadata(s, [name], 5, allow_auto_topic_creation=True)
    reply.differs(TOPICS_AT_ONCE, "topics[0].error_code", kafka=3, coterie=0)
    reply.differs(TOPICS_AT_ONCE, "topics[0].partitions", kafka=[], coterie=ANY)
    await s.until_partitions(name, 2)
    await _metadata(s, [name], 5)
    await _metadata(s, [f"{s.group}.other"], 5)
    for bad in ("", "a b", "..", "x" * 250):
        await _metadata(s, [bad], 5, allow_auto_topic_creation=True)


async def _list(s: Script, *asked: tuple[int, int], version: int, **fields: Any) -> Reply:
    """Ask for offsets of the shared topic, by partition and time."""
    topic = fields.pop("topic", s.topic)
    partitions = tuple(
        m.ListOffsetsPartition(partition_index=index, timestamp=timestamp, **fields)
        for index, timestamp in asked
    )
    topics = (m.ListOffsetsTopic(name=topic, partitions=partitions),)
    return await s.ask(m.ListOffsetsRequest(replica_id=-1, topics=topics), version)


async def _new_topic(s: Script, name: str, partitions: int) -> str:
    """A topic whose partitions can be asked for offsets; in Kafka that takes another moment."""
    topic = await s.new_topic(name, partitions)
    asked = tuple(
        m.ListOffsetsPartition(partition_index=index, timestamp=-2) for index in range(partitions)
    )
    topics = (m.ListOffsetsTopic(name=topic, partitions=asked),)

    async def are_led() -> bool:
        answer = await s.learn(m.ListOffsetsRequest(replica_id=-1, topics=topics), 1)
        return not any(each.error_code for each in answer.topics[0].partitions)

    await s.until(are_led, f"{topic} is led")
    return topic


@scenario(each=ApiKey.LIST_OFFSETS)
async def ends_are_told(s: Script, version: int) -> None:
    """Every partition begins and ends at 0; no record is found by any time."""
    # In Coterie, what others commit for the shared topic shows in its ends.
    own = await _new_topic(s, "own", 3)
    for timestamp in (-1, -2, 0, 1_700_000_000_000, -3, -4, -5, -6, -99):
        await _list(s, (0, timestamp), version=version, topic=own)
    await _list(s, (0, -1), (1, -2), (2, 5), version=version, topic=own)
    await _list(s, (3, -1), (-1, -1), version=version, topic=own)
    await _list(s, (0, -1), version=version, topic="unknown")
    await _list(s, (0, -1), (0, -2), (1, -1), version=version, topic=own)
    await _list(s, (0, -99), version=version, topic="unknown")
    await _list(s, version=version, topic=own)
    if version >= 4:
        for epoch in (0, 1, 99):
            await _list(s, (0, -1), version=version, topic=own, current_leader_epoch=epoch)


@scenario(each=ApiKey.LIST_OFFSETS, since=1)
async def ends_where_offsets_are_committed(s: Script, version: int) -> None:
    """In Kafka the end is behind the last record, in Coterie behind the last commit."""
    own = await _new_topic(s, "own", 2)
    (a,) = await cast(s, "a")
    await a.commit({(own, 0): 19})
    reply = await _list(s, (0, -1), (1, -1), version=version, topic=own)
    reply.differs(ENDS_FOLLOW_COMMITS, "topics[0].partitions[0].offset", kafka=0, coterie=19)
    for timestamp in (-2, 0, -3, -4):
        await _list(s, (0, timestamp), version=version, topic=own)
    await _fetch(s, (0, 0), version=4, topic=own)


async def _fetch(
    s: Script, *asked: tuple[int, int], version: int = 12, topic: str = "", **fields: Any
) -> Reply:
    """Fetch from the shared topic, by partition and offset, without waiting long."""
    epoch = fields.pop("current_leader_epoch", -1)
    partitions = tuple(
        m.FetchPartition(
            partition=index,
            fetch_offset=offset,
            partition_max_bytes=1000,
            current_leader_epoch=epoch,
        )
        for index, offset in asked
    )
    topic = topic or s.topic
    topic_id = await _id_of(s, topic) if version >= _FETCHES_BY_ID_FROM else _NIL
    topics = (m.FetchTopic(topic=topic, topic_id=topic_id, partitions=partitions),)
    values: dict[str, Any] = {"max_wait_ms": 200, "min_bytes": 1, "topics": topics}
    return await s.ask(m.FetchRequest(**{**values, **fields}), version)


async def _id_of(s: Script, topic: str) -> uuid.UUID:
    """The id of a topic, or one that none has."""
    asked = m.MetadataRequestTopic(name=topic)
    request = m.MetadataRequest(topics=(asked,), allow_auto_topic_creation=False)
    (told,) = (await s.learn(request, _FIRST_WITH_IDS)).topics
    return _STRANGER if told.error_code else told.topic_id


@scenario(each=ApiKey.FETCH, since=13)
async def fetches_by_id(s: Script, version: int) -> None:
    """A topic that was made anew has another id; the old one is as unknown as one never heard of.

    What else is asked for is answered as ever.  No id at all is too much for Kafka.
    """
    name = await _new_topic(s, "t", 1)
    former = await _id_of(s, name)
    await s.learn(m.DeleteTopicsRequest(topic_names=(name,), timeout_ms=10_000), 5)
    await s.until_partitions(name, 0)
    await _new_topic(s, "t", 1)
    ids = (former, _STRANGER, await _id_of(s, name))
    partitions = tuple(
        m.FetchPartition(partition=index, fetch_offset=0, partition_max_bytes=1000)
        for index in (0, 1)
    )
    for isolation_level in (0, 1):
        for topic_ids in (*((each,) for each in ids), ids):
            # Of many topics Kafka tells first what is wrong, and so of one topic in two places.
            asked = partitions if len(topic_ids) == 1 else partitions[:1]
            topics = tuple(
                m.FetchTopic(topic_id=topic_id, partitions=asked) for topic_id in topic_ids
            )
            request = m.FetchRequest(
                max_wait_ms=100, min_bytes=1, isolation_level=isolation_level, topics=topics
            )
            await s.ask(request, version)
    topics = (m.FetchTopic(topic_id=_NIL, partitions=partitions),)
    reply = await s.ask(m.FetchRequest(max_wait_ms=100, min_bytes=1, topics=topics), version)
    reply.differs(CLIENTS_FAULT, "error_code", kafka=-1, coterie=0)
    reply.differs(CLIENTS_FAULT, "responses", kafka=[], coterie=ANY)


@scenario(each=ApiKey.FETCH)
async def nothing_is_fetched(s: Script, version: int) -> None:
    """From the end of an empty partition there is nothing to fetch, now or after a while."""
    await _fetch(s, (0, 0), version=version)
    await _fetch(s, (0, 0), (2, 0), version=version, max_wait_ms=0)
    await _fetch(s, (0, 0), version=version, min_bytes=0)
    await _fetch(s, (0, 0), version=version, isolation_level=1)
    await _fetch(s, (3, 0), (-1, 0), (1, 0), version=version)
    await _fetch(s, (0, 0), version=version, topic="unknown")
    await s.ask(m.FetchRequest(max_wait_ms=100, min_bytes=1, topics=()), version)


@scenario(each=ApiKey.FETCH, since=9)
async def fetches_with_an_epoch(s: Script, version: int) -> None:
    """A client that knows of a later leader than there is must look again."""
    for epoch in (0, 1, 99):
        await _fetch(s, (0, 0), version=version, current_leader_epoch=epoch)
        await _fetch(s, (0, 0), version=version, current_leader_epoch=epoch, isolation_level=1)


@scenario(each=ApiKey.FETCH, since=7)
async def fetch_sessions(s: Script, version: int) -> None:
    """A session that the broker does not know is not found."""
    await _fetch(s, (0, 0), version=version, session_id=77, session_epoch=3)
    await _fetch(s, (0, 0), version=version, session_id=77, session_epoch=-1)
    await _fetch(s, (0, 0), version=version, session_id=0, session_epoch=1)
    reply = await _fetch(s, (0, 0), version=version, session_id=0, session_epoch=0)
    reply.differs(NO_RECORDS, "session_id", kafka=ANY, coterie=0)


async def _wait(s: Script, *partitions: int, epoch: int = -1, **fields: Any) -> None:
    """Fetch from the shared topic with a long wait, and note whether there is an answer soon."""
    asked = tuple(
        m.FetchPartition(
            partition=index,
            fetch_offset=0,
            partition_max_bytes=1000,
            current_leader_epoch=epoch,
        )
        for index in partitions
    )
    topics = (m.FetchTopic(topic=s.topic, partitions=asked),) if asked else ()
    values: dict[str, Any] = {"max_wait_ms": 20_000, "min_bytes": 1, "topics": topics}
    message = m.FetchRequest(**{**values, **fields})
    who = f"{partitions} {epoch} {fields}"
    await s.send(who, await s.connect(who), message, 12).or_silence(1.0)


@scenario()
async def fetches_that_wait_or_not(s: Script) -> None:
    """An answer comes at once if no byte is asked for, if nothing is there, or if a read fails."""
    await _wait(s, 0)
    await _wait(s, 0, 99)
    await _wait(s, 99)
    await _wait(s, 99, 98)
    await _wait(s)
    await _wait(s, 0, min_bytes=0)
    await _wait(s, 0, min_bytes=-1)
    await _wait(s, 0, max_bytes=0)
    await _wait(s, 0, max_wait_ms=0)
    await _wait(s, 0, max_wait_ms=-1)
    await _wait(s, 0, epoch=0)
    await _wait(s, 0, epoch=99)
    await _wait(s, 0, 99, epoch=99)
    await _wait(s, 99, epoch=99)


@scenario()
async def fetches_beyond_the_end(s: Script) -> None:
    """Kafka says that the offset is out of range, Coterie that the client is at the end."""
    reply = await _fetch(s, (0, 5), version=4)
    path = "responses[0].partitions[0]"
    reply.differs(NO_RECORDS, f"{path}.error_code", kafka=1, coterie=0)
    reply.differs(NO_RECORDS, f"{path}.high_watermark", kafka=-1, coterie=5)
    reply.differs(NO_RECORDS, f"{path}.last_stable_offset", kafka=-1, coterie=5)


@scenario(each=ApiKey.PRODUCE, since=3)
async def records_are_produced(s: Script, version: int) -> None:
    """Kafka takes records; Coterie has no place for them."""
    topic = await s.new_topic("t")
    data = m.PartitionProduceData(index=0, records=_one_record())
    topics = (m.TopicProduceData(name=topic, partition_data=(data,)),)
    message = m.ProduceRequest(acks=1, timeout_ms=10_000, topic_data=topics)
    reply = await s.ask(message, version)
    path = "responses[0].partition_responses[0]"
    reply.differs(NO_RECORDS, f"{path}.error_code", kafka=0, coterie=44)
    reply.differs(NO_RECORDS, f"{path}.base_offset", kafka=0, coterie=-1)
    if version >= 5:
        reply.differs(NO_RECORDS, f"{path}.log_start_offset", kafka=0, coterie=-1)
    if version >= 8:
        reply.differs(NO_RECORDS, f"{path}.error_message", kafka=None, coterie=ANY)


def _one_record() -> bytes:
    builder = DefaultRecordBatchBuilder(
        magic=2,
        compression_type=0,
        is_transactional=0,
        producer_id=-1,
        producer_epoch=-1,
        base_sequence=-1,
        batch_size=1000,
    )
    builder.append(0, timestamp=1_700_000_000_000, key=None, value=b"x", headers=[])
    return bytes(builder.build())
