"""ListOffsets: every partition begins at 0, and ends where groups have got to."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    ListOffsetsPartition,
    ListOffsetsRequest,
    ListOffsetsTopic,
)
from coterie_server.group import OffsetRow
from tests.server.topics.harness import CatalogueHarness
from tests.support.offset_rows import bundled

LATEST, EARLIEST, MAX_TIMESTAMP, EARLIEST_LOCAL = -1, -2, -3, -4
INVALID, UNSUPPORTED = ErrorCode.INVALID_REQUEST, ErrorCode.UNSUPPORTED_VERSION
UNKNOWN = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION


def question(index: int, timestamp: int, **more: Any) -> ListOffsetsPartition:
    """What is asked of one partition."""
    return ListOffsetsPartition(partition_index=index, timestamp=timestamp, **more)


def ask(
    harness: CatalogueHarness, version: int, **topics: list[ListOffsetsPartition]
) -> dict[str, list[Any]]:
    """Ask; answer what is said of each topic's partitions."""
    asked = (
        ListOffsetsTopic(name=name, partitions=tuple(partitions))
        for name, partitions in topics.items()
    )
    reply = harness.ask(ListOffsetsRequest(replica_id=-1, topics=tuple(asked)), version)
    return {topic.name: list(topic.partitions) for topic in reply.topics}


def ask_one(harness: CatalogueHarness, version: int, partition: ListOffsetsPartition) -> Any:
    """Ask about one partition of topic t."""
    ((found,),) = ask(harness, version, t=[partition]).values()
    return found


@pytest.mark.parametrize("version", range(1, 9))
@pytest.mark.parametrize("timestamp", [LATEST, EARLIEST])
def test_partitions_begin_and_end_at_0(version: int, timestamp: int) -> None:
    found = ask_one(CatalogueHarness().with_topics(t=1), version, question(0, timestamp))
    epoch = 0 if version >= 4 else -1
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (
        0,
        0,
        -1,
        epoch,
    )


def reached(offset: int) -> CatalogueHarness:
    """A catalogue with a topic for which a group has committed an offset."""
    harness = CatalogueHarness().with_topics(t=1)
    harness.ends.note([bundled(OffsetRow("g", "t", 0, offset))], harness.ends.deletions)
    return harness


@pytest.mark.parametrize("version", range(1, 9))
@pytest.mark.parametrize(
    ("timestamp", "since", "offset"),
    [(LATEST, 1, 19), (EARLIEST, 1, 0), (MAX_TIMESTAMP, 7, -1), (EARLIEST_LOCAL, 8, 0), (5, 1, -1)],
)
def test_a_partition_ends_where_a_group_has_got_to(
    version: int, timestamp: int, since: int, offset: int
) -> None:
    if version >= since:
        found = ask_one(reached(19), version, question(0, timestamp))
        assert (found.error_code, found.offset, found.timestamp) == (0, offset, -1)


@pytest.mark.parametrize(
    ("timestamp", "at_most", "offsets"),
    [(LATEST, 1, (19,)), (LATEST, 2, (19, 0)), (LATEST, 0, ()), (EARLIEST, 2, (0,))],
)
def test_version_0_lists_end_and_beginning_as_an_old_broker_would(
    timestamp: int, at_most: int, offsets: tuple[int, ...]
) -> None:
    found = ask_one(reached(19), 0, question(0, timestamp, max_num_offsets=at_most))
    assert (found.error_code, found.old_style_offsets) == (0, offsets)


@pytest.mark.parametrize("version", range(1, 9))
@pytest.mark.parametrize("timestamp", [0, 1, 1_700_000_000_000])
def test_no_offset_is_found_for_a_time(version: int, timestamp: int) -> None:
    found = ask_one(CatalogueHarness().with_topics(t=1), version, question(0, timestamp))
    assert (found.error_code, found.offset, found.timestamp, found.leader_epoch) == (0, -1, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "since", "offset"), [(MAX_TIMESTAMP, 7, -1), (EARLIEST_LOCAL, 8, 0)]
)
@pytest.mark.parametrize("version", range(1, 9))
def test_timestamps_that_a_version_does_not_know_are_refused(
    timestamp: int, since: int, offset: int, version: int
) -> None:
    found = ask_one(CatalogueHarness().with_topics(t=1), version, question(0, timestamp))
    expected = (0, offset) if version >= since else (UNSUPPORTED, -1)
    assert (found.error_code, found.offset) == expected


@pytest.mark.parametrize("version", range(9))
@pytest.mark.parametrize("timestamp", [-5, -6, -7, -(2**63)])
def test_negative_times_without_a_meaning_are_refused(version: int, timestamp: int) -> None:
    found = ask_one(CatalogueHarness().with_topics(t=1), version, question(0, timestamp))
    assert (found.error_code, found.offset, found.leader_epoch) == (UNSUPPORTED, -1, -1)


@pytest.mark.parametrize(
    ("timestamp", "at_most", "offsets"),
    [(LATEST, 1, (0,)), (EARLIEST, 5, (0,)), (LATEST, 0, ()), (EARLIEST, -1, ()), (1_000, 1, ())],
)
def test_version_0_gets_no_more_offsets_than_it_asks_for(
    timestamp: int, at_most: int, offsets: tuple[int, ...]
) -> None:
    asked = question(0, timestamp, max_num_offsets=at_most)
    found = ask_one(CatalogueHarness().with_topics(t=1), 0, asked)
    assert (found.error_code, found.old_style_offsets) == (0, offsets)


@pytest.mark.parametrize("version", range(9))
def test_unknown_partitions_are_told_one_by_one(version: int) -> None:
    found = ask(
        CatalogueHarness().with_topics(t=2),
        version,
        t=[question(i, LATEST) for i in (0, 1, 2, -1)],
        nope=[question(0, LATEST)],
    )
    codes = {name: [p.error_code for p in partitions] for name, partitions in found.items()}
    assert codes == {"t": [0, 0, UNKNOWN, UNKNOWN], "nope": [UNKNOWN]}


def test_listing_offsets_creates_no_topics() -> None:
    harness = CatalogueHarness()
    ask(harness, 8, nope=[question(0, LATEST)])
    assert harness.counts == {}


def test_a_partition_asked_for_twice_is_told_once_as_a_mistake() -> None:
    asked = [question(0, LATEST), question(1, LATEST), question(0, EARLIEST)]
    found = ask(CatalogueHarness().with_topics(t=2), 8, t=asked)["t"]
    assert [(p.partition_index, p.error_code) for p in found] == [(0, INVALID), (1, 0)]


def test_a_topic_asked_for_twice_is_told_once() -> None:
    topic = ListOffsetsTopic(name="t", partitions=(question(0, LATEST),))
    other = ListOffsetsTopic(name="t", partitions=(question(1, LATEST), question(0, LATEST)))
    request = ListOffsetsRequest(replica_id=-1, topics=(topic, other))
    (found,) = CatalogueHarness().with_topics(t=2).ask(request).topics
    assert [(p.partition_index, p.error_code) for p in found.partitions] == [(0, INVALID), (1, 0)]


def test_a_topic_without_partitions_is_not_in_the_answer() -> None:
    assert list(
        ask(CatalogueHarness().with_topics(t=1, u=1), 8, t=[], u=[question(0, LATEST)])
    ) == ["u"]


def test_epoch_of_another_cluster() -> None:
    """A client that knows a later leader epoch than there ever was is told so; epoch 0 is right."""
    harness = CatalogueHarness().with_topics(t=2)
    asked = [question(0, LATEST, current_leader_epoch=1)]
    asked.append(question(1, LATEST, current_leader_epoch=0))
    found = ask(harness, 8, t=asked)["t"]
    assert [p.error_code for p in found] == [ErrorCode.UNKNOWN_LEADER_EPOCH, 0]


def test_twice_beats_an_unknown_time_beats_unknown_beats_the_epoch() -> None:
    harness = CatalogueHarness().with_topics(t=1)
    wrong = {"current_leader_epoch": 9}
    twice = [question(5, -9, **wrong), question(5, -9, **wrong)]
    found = ask(harness, 8, t=[*twice, question(6, -9, **wrong), question(7, LATEST, **wrong)])["t"]
    assert [p.error_code for p in found] == [INVALID, UNSUPPORTED, UNKNOWN]
