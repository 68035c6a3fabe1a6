"""Fetch: nothing has come, told in a way that keeps clients where they are."""

from __future__ import annotations

import dataclasses
import uuid
from typing import Any

import pytest

from coterie_protocol import encode
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    DeleteTopicsRequest,
    FetchPartition,
    FetchRequest,
    FetchTopic,
    ForgottenTopic,
)
from coterie_server.group import OffsetRow
from coterie_server.topics import outdated
from coterie_server.topics.fetch import WAIT_MAX_MS
from tests.server.topics.harness import CatalogueHarness
from tests.support.cases import for_each
from tests.support.offset_rows import bundled

ALL = range(19)
LAST = ALL[-1]
#: From this version on topics are asked for by their ids.
BY_ID_FROM = 13
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
UNKNOWN_ID = ErrorCode.UNKNOWN_TOPIC_ID
STRANGER = uuid.UUID(int=99)


def at(index: int, offset: int, **more: Any) -> FetchPartition:
    """What is fetched of one partition."""
    more.setdefault("partition_max_bytes", 1_000)
    return FetchPartition(partition=index, fetch_offset=offset, **more)


def wanted(
    max_wait_ms: int = 500, session: tuple[int, int] = (0, -1), **topics: Any
) -> FetchRequest:
    """A request for partitions by topic."""
    return FetchRequest(
        max_wait_ms=max_wait_ms,
        min_bytes=1,
        session_id=session[0],
        session_epoch=session[1],
        topics=tuple(FetchTopic(topic=t, partitions=tuple(p)) for t, p in topics.items()),
    )


def with_ids(harness: CatalogueHarness, request: FetchRequest) -> FetchRequest:
    """The same request, with the ids of its topics as well."""
    ids = {name: row.topic_id for name, row in harness.catalogue.topics.items()}
    topics = (
        dataclasses.replace(topic, topic_id=ids.get(topic.topic, STRANGER))
        for topic in request.topics
    )
    return dataclasses.replace(request, topics=tuple(topics))


def ask(harness: CatalogueHarness, request: FetchRequest, version: int = LAST) -> Any:
    """Send a request, by id where the version wants that; the answer has names in any case."""
    ids = {name: row.topic_id for name, row in harness.catalogue.topics.items()}
    reply = harness.ask(with_ids(harness, request), version)
    if version < BY_ID_FROM:
        return reply
    names = {topic_id: name for name, topic_id in ids.items()} | {STRANGER: "nope"}
    responses = (dataclasses.replace(t, topic=names[t.topic_id]) for t in reply.responses)
    return dataclasses.replace(reply, responses=tuple(responses))


def partitions(reply: Any) -> list[tuple[str, int, int]]:
    """Topic, partition and error of each partition in a reply."""
    return [
        (t.topic, p.partition_index, p.error_code) for t in reply.responses for p in t.partitions
    ]


@for_each("version", ALL)
@pytest.mark.parametrize("offset", [0, 1, 7_000_000_000, 2**63 - 1])
def test_the_end_is_where_the_client_is(version: int, offset: int) -> None:
    """A client has read everything at whatever offset it asks from, and is never out of range."""
    reply = ask(CatalogueHarness().with_topics(t=1), wanted(t=[at(0, offset)]), version)
    ((found,),) = (topic.partitions for topic in reply.responses)
    assert (found.error_code, found.high_watermark) == (0, offset)
    assert found.last_stable_offset == (offset if version >= 4 else -1)
    assert found.log_start_offset == (0 if version >= 5 else -1)


def test_a_negative_offset_is_not_out_of_range() -> None:
    reply = ask(CatalogueHarness().with_topics(t=1), wanted(t=[at(0, -5)]))
    ((found,),) = (topic.partitions for topic in reply.responses)
    assert (found.error_code, found.high_watermark) == (0, 0)


@for_each("version", ALL)
def test_records_are_empty_and_never_null(version: int) -> None:
    """Clients fail on records of length -1, so even errors have records, of length 0."""
    reply = ask(CatalogueHarness().with_topics(t=1), wanted(t=[at(0, 3), at(9, 3)]), version)
    assert [p.records for t in reply.responses for p in t.partitions] == [b"", b""]


def test_empty_records_on_the_wire() -> None:
    """Version 12 writes the empty records as length 0 in its compact form, which is 1."""
    harness = CatalogueHarness().with_topics(t=1)
    answer = harness.send(wanted(t=[at(0, 0)]), 12)
    # Behind the preferred replica (-1) come the records, and three times no tagged fields.
    assert encode(answer.message, 12).endswith(b"\xff\xff\xff\xff" + b"\x01" + b"\0\0\0")


@for_each("version", ALL)
def test_every_partition_is_answered(version: int) -> None:
    """Clients drop a reply that lacks a partition: all are there, in order, known or not."""
    harness = CatalogueHarness().with_topics(a=2, b=1)
    request = wanted(a=[at(1, 5), at(0, 6), at(2, 7), at(-1, 0)], nope=[at(0, 0)], b=[at(0, 1)])
    assert partitions(ask(harness, request, version)) == [
        ("a", 1, 0),
        ("a", 0, 0),
        ("a", 2, UNKNOWN),
        ("a", -1, UNKNOWN),
        ("nope", 0, UNKNOWN if version < BY_ID_FROM else UNKNOWN_ID),
        ("b", 0, 0),
    ]


@pytest.mark.parametrize("version", ALL[BY_ID_FROM:])
def test_a_recreated_topic_has_another_id(version: int) -> None:
    """A client that knows the deleted topic's id has to refresh its metadata."""
    harness = CatalogueHarness().with_topics(t=1)
    former = harness.catalogue.topics["t"].topic_id
    harness.ask(DeleteTopicsRequest(topic_names=("t",), timeout_ms=0), 5)
    harness.with_topics(t=1)
    asked = FetchTopic(topic="t", topic_id=former, partitions=(at(0, 4),))
    (told,) = harness.ask(dataclasses.replace(wanted(), topics=(asked,)), version).responses
    assert (told.topic_id, [p.error_code for p in told.partitions]) == (former, [UNKNOWN_ID])


@for_each("version", ALL)
def test_the_end_is_where_the_client_is_even_below_a_commit(version: int) -> None:
    """A higher end would say that records are missing from the answer."""
    harness = CatalogueHarness().with_topics(t=1)
    harness.ends.note([bundled(OffsetRow("g", "t", 0, 19))], harness.ends.deletions)
    ((found,),) = (t.partitions for t in ask(harness, wanted(t=[at(0, 5)]), version).responses)
    assert (found.error_code, found.high_watermark) == (0, 5)


def test_a_partition_that_is_not_there_has_no_offsets() -> None:
    reply = ask(CatalogueHarness(), wanted(nope=[at(0, 5)]))
    ((found,),) = (topic.partitions for topic in reply.responses)
    offsets = (found.high_watermark, found.last_stable_offset, found.log_start_offset)
    assert offsets == (-1, -1, -1)


def test_fetching_creates_no_topics() -> None:
    harness = CatalogueHarness()
    ask(harness, wanted(nope=[at(0, 0)]))
    assert harness.counts == {}


@for_each("version", ALL)
def test_no_other_replica_is_preferred(version: int) -> None:
    reply = ask(CatalogueHarness().with_topics(t=1), wanted(t=[at(0, 0)]), version)
    ((found,),) = (topic.partitions for topic in reply.responses)
    assert found.preferred_read_replica == -1


@pytest.mark.parametrize("version", ALL[4:])
@pytest.mark.parametrize(("isolation_level", "aborted"), [(0, None), (1, ())])
def test_no_aborted_transactions(
    version: int, isolation_level: int, aborted: tuple[()] | None
) -> None:
    """As in Kafka, only clients that read committed records are told so."""
    request = dataclasses.replace(wanted(t=[at(0, 0)]), isolation_level=isolation_level)
    reply = ask(CatalogueHarness().with_topics(t=1), request, version)
    ((found,),) = (topic.partitions for topic in reply.responses)
    assert found.aborted_transactions == aborted


# -- waiting -----------------------------------------------------------------------------------


@for_each("version", ALL)
@pytest.mark.parametrize("max_wait_ms", [0, 1, 500, WAIT_MAX_MS])
def test_reply_waits_as_long_as_the_client_lets_it(version: int, max_wait_ms: int) -> None:
    """A reply that comes at once makes clients ask at once."""
    harness = CatalogueHarness().with_topics(t=1)
    answer = harness.send(with_ids(harness, wanted(max_wait_ms, t=[at(0, 0)])), version)
    assert answer.wait_ms == max_wait_ms


@pytest.mark.parametrize("max_wait_ms", [WAIT_MAX_MS + 1, 2**31 - 1])
def test_a_fetch_waits_no_longer_than_five_minutes(max_wait_ms: int) -> None:
    answer = CatalogueHarness().with_topics(t=1).send(wanted(max_wait_ms, t=[at(0, 0)]), 12)
    assert answer.wait_ms == WAIT_MAX_MS == 300_000


def test_a_negative_wait_is_none() -> None:
    assert CatalogueHarness().with_topics(t=1).send(wanted(-1, t=[at(0, 0)]), 12).wait_ms == 0


@for_each("version", ALL)
@pytest.mark.parametrize(
    "topics",
    [{}, {"nope": [at(0, 0)]}, {"t": [at(1, 0), at(-1, 0)]}, {"t": []}],
    ids=["nothing", "unknown topic", "unknown partitions", "no partition"],
)
def test_unknown_partitions_are_not_waited_for(version: int, topics: dict[str, Any]) -> None:
    """They can't get records; clients refresh their metadata before they ask again."""
    harness = CatalogueHarness().with_topics(t=1)
    assert harness.send(with_ids(harness, wanted(500, **topics)), version).wait_ms == 0


def test_known_partitions_are_waited_for() -> None:
    """Also beside one that does not exist: clients would spin until it was created."""
    request = wanted(500, nope=[at(0, 0)], t=[at(0, 0), at(5, 0)])
    assert CatalogueHarness().with_topics(t=1).send(request, 12).wait_ms == 500


def test_wrong_epoch_is_answered_at_once() -> None:
    """The client has to refresh its metadata now, and not after its wait."""
    request = wanted(500, t=[at(0, 0, current_leader_epoch=9), at(1, 0)])
    assert CatalogueHarness().with_topics(t=2).send(request, 12).wait_ms == 0


@pytest.mark.parametrize("fields", [{"min_bytes": 0}, {"min_bytes": -1}, {"max_bytes": 0}])
def test_request_for_no_bytes_is_answered_at_once(fields: dict[str, Any]) -> None:
    request = dataclasses.replace(wanted(500, t=[at(0, 0)]), **fields)
    assert CatalogueHarness().with_topics(t=1).send(request, 12).wait_ms == 0


def test_no_request_but_fetch_is_held_back() -> None:
    harness = CatalogueHarness()
    harness.ensure("t", 1)
    assert harness.answer.wait_ms == 0


# -- sessions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL[7:])
@pytest.mark.parametrize("session", [(0, 0), (0, -1), (77, -1), (77, 0)])
def test_no_session_is_begun(version: int, session: tuple[int, int]) -> None:
    """A client that asks for a session, or ends one, gets a full answer and no session."""
    reply = ask(CatalogueHarness().with_topics(t=1), wanted(session=session, t=[at(0, 4)]), version)
    assert (reply.error_code, reply.session_id) == (0, 0)
    assert partitions(reply) == [("t", 0, 0)]


@pytest.mark.parametrize("version", ALL[7:])
@pytest.mark.parametrize("session", [(77, 1), (77, 2**31 - 1), (0, 1)])
def test_session_of_another_server_is_unknown(version: int, session: tuple[int, int]) -> None:
    """A client that goes on with a session from elsewhere has to start over."""
    harness = CatalogueHarness().with_topics(t=1)
    reply = ask(harness, wanted(session=session, t=[at(0, 4)]), version)
    assert (reply.error_code, reply.session_id) == (ErrorCode.FETCH_SESSION_ID_NOT_FOUND, 0)
    assert (partitions(reply), harness.answer.wait_ms) == ([], 0)


def test_forgotten_partitions_are_of_no_interest() -> None:
    forgotten = (ForgottenTopic(topic="t", partitions=(0,)),)
    request = FetchRequest(
        max_wait_ms=0,
        min_bytes=1,
        topics=(FetchTopic(topic="t", partitions=(at(0, 0),)),),
        forgotten_topics_data=forgotten,
    )
    assert partitions(ask(CatalogueHarness().with_topics(t=1), request)) == [("t", 0, 0)]


# -- epochs ------------------------------------------------------------------------------------


@pytest.mark.parametrize("version", ALL[9:])
def test_epoch_of_another_cluster(version: int) -> None:
    """A client that knows a later leader epoch than there ever was has to refresh its metadata."""
    harness = CatalogueHarness().with_topics(t=2)
    asked = [at(0, 5, current_leader_epoch=1), at(1, 5, current_leader_epoch=0)]
    found = partitions(ask(harness, wanted(t=asked), version))
    assert found == [("t", 0, ErrorCode.UNKNOWN_LEADER_EPOCH), ("t", 1, 0)]


def test_a_changed_topic_makes_clients_look_again() -> None:
    """The topic has an error for which clients ask for Metadata; the others are as they were."""
    reply = ask(
        CatalogueHarness().with_topics(t=2, u=1), wanted(t=[at(0, 7), at(1, 8)], u=[at(0, 9)])
    )
    told = outdated(reply, {"t"})
    again = ErrorCode.NOT_LEADER_OR_FOLLOWER
    assert partitions(told) == [("t", 0, again), ("t", 1, again), ("u", 0, 0)]
    assert [p.high_watermark for t in told.responses for p in t.partitions] == [7, 8, 9]
