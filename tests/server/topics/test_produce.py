"""Produce: always refused, so that no client believes that its records are kept."""

from __future__ import annotations

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.errors import RetriableKafkaError, error_for
from coterie_protocol.messages import PartitionProduceData, ProduceRequest, TopicProduceData
from coterie_server.topics import NO_RECORDS_HERE
from tests.server.topics.harness import CatalogueHarness


def records(acks: int, **topics: list[int]) -> ProduceRequest:
    """A request to append to partitions, by topic."""
    return ProduceRequest(
        acks=acks,
        timeout_ms=100,
        topic_data=tuple(
            TopicProduceData(
                name=name,
                partition_data=tuple(PartitionProduceData(index=i, records=b"r") for i in indexes),
            )
            for name, indexes in topics.items()
        ),
    )


@pytest.mark.parametrize("version", range(10))
@pytest.mark.parametrize("acks", [1, -1])
def test_every_partition_is_refused_and_no_topic_is_made(version: int, acks: int) -> None:
    harness = CatalogueHarness().with_topics(t=1)
    reply = harness.ask(records(acks, t=[0, 5], nope=[0]), version)
    found = [
        (topic.name, p.index, p.error_code, p.base_offset)
        for topic in reply.responses
        for p in topic.partition_responses
    ]
    refused = ErrorCode.POLICY_VIOLATION
    assert found == [("t", 0, refused, -1), ("t", 5, refused, -1), ("nope", 0, refused, -1)]
    assert harness.counts == {"t": 1}


@pytest.mark.parametrize("version", range(10))
def test_from_version_8_on_the_refusal_says_why(version: int) -> None:
    reply = CatalogueHarness().ask(records(1, t=[0]), version)
    ((found,),) = (topic.partition_responses for topic in reply.responses)
    assert found.error_message == (NO_RECORDS_HERE if version >= 8 else None)


def test_producers_do_not_try_again_after_the_refusal() -> None:
    error = error_for(ErrorCode.POLICY_VIOLATION)
    assert not isinstance(error, RetriableKafkaError)


@pytest.mark.parametrize("version", range(10))
def test_a_producer_without_acknowledgements_is_cut_off(version: int) -> None:
    answer = CatalogueHarness().send(records(0, t=[0]), version)
    assert (answer.message, answer.close) == (None, NO_RECORDS_HERE)


def test_a_producer_that_reads_answers_keeps_its_connection() -> None:
    assert CatalogueHarness().send(records(1, t=[0]), 9).close == ""
