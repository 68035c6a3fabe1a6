"""A client's commits are decoded as any other request is, however they follow each other."""

from __future__ import annotations

import dataclasses
import random
from collections.abc import Sequence

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import ProtocolError, decode_request, encode_request
from coterie_protocol.committed import CommitDecoder, CommittedPartitions
from coterie_protocol.messages import (
    HeartbeatRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

INT32 = st.integers(-(2**31), 2**31 - 1)
INT64 = st.integers(-(2**63), 2**63 - 1)
TEXT = st.text(max_size=5)


def partition(index: int = 0, offset: int = 7, **more: object) -> OffsetCommitRequestPartition:
    values = {"committed_metadata": "", **more}
    return OffsetCommitRequestPartition(partition_index=index, committed_offset=offset, **values)  # type: ignore[arg-type]


def commit(
    topics: Sequence[tuple[str, Sequence[OffsetCommitRequestPartition]]], **more: object
) -> OffsetCommitRequest:
    values = {"group_id": "g", "generation_id_or_member_epoch": 3, "member_id": "m-1", **more}
    made = tuple(OffsetCommitRequestTopic(name=n, partitions=tuple(p)) for n, p in topics)
    return OffsetCommitRequest(topics=made, **values)  # type: ignore[arg-type]


def payload(message: object, version: int, number: int = 1, client_id: str | None = "c") -> bytes:
    return encode_request(message, version, number, client_id)[4:]


PARTITIONS = st.lists(
    st.builds(
        partition,
        st.integers(-2, 40),
        INT64,
        committed_leader_epoch=st.just(-1) | INT32,
        committed_metadata=st.none() | TEXT,
    ),
    max_size=4,
)
COMMITS = st.builds(
    commit,
    st.lists(st.tuples(TEXT, PARTITIONS), max_size=3),
    group_id=TEXT,
    generation_id_or_member_epoch=INT32,
    member_id=TEXT,
    sequence=st.just(-1) | st.integers(-3, 3) | INT64,
)
VERSIONS = st.integers(0, 9)


@st.composite
def followers(draw: st.DrawFn, message: OffsetCommitRequest) -> OffsetCommitRequest:
    """A commit like this one, but for its offsets, and at times for one thing more."""
    topics = []
    for topic in message.topics:
        changed = [dataclasses.replace(p, committed_offset=draw(INT64)) for p in topic.partitions]
        if changed and draw(st.integers(0, 9)) == 0:
            changed[0] = draw(st.sampled_from([changed[-1], partition(1), partition(0, epoch())]))
        topics.append(dataclasses.replace(topic, partitions=tuple(changed)))
    sequence = draw(st.just(message.sequence) | st.integers(-1, 300) | INT64)
    generation = message.generation_id_or_member_epoch
    return dataclasses.replace(
        message,
        topics=tuple(topics),
        sequence=sequence,
        generation_id_or_member_epoch=generation if draw(st.integers(0, 9)) else 4,
    )


def epoch() -> int:
    return 2**40 + 1


@given(COMMITS, VERSIONS, st.data())
def test_commits_are_decoded_as_any_request(
    message: OffsetCommitRequest, version: int, data: st.DataObject
) -> None:
    decoder = CommitDecoder()
    for number in range(7):
        sent = payload(message, version, number=data.draw(INT32))
        assert decoder.decode(sent) == decode_request(sent), number
        message = data.draw(followers(message))


@given(COMMITS, VERSIONS, st.randoms(use_true_random=False))
def test_damaged_commits_are_decoded_as_any_request(
    message: OffsetCommitRequest, version: int, chance: random.Random
) -> None:
    decoder = CommitDecoder()
    sent = payload(message, version)
    for _ in range(3):
        decoder.decode(sent)
    for _ in range(20):
        damaged = bytearray(sent)
        damaged[chance.randrange(2, len(sent))] = chance.randrange(256)
        try:
            expected: object = decode_request(bytes(damaged))
        except ProtocolError as error:
            expected = str(error)
        try:
            found: object = decoder.decode(bytes(damaged))
        except ProtocolError as error:
            found = str(error)
        assert found == expected


def columns_of(decoder: CommitDecoder, message: OffsetCommitRequest, version: int = 8) -> bool:
    """Whether a commit was read by column, which is what makes it quick."""
    (topic,) = decoder.decode(payload(message, version)).message.topics
    return isinstance(topic.partitions, CommittedPartitions)


def one_topic(*offsets: int, **more: object) -> OffsetCommitRequest:
    return commit([("t", [partition(i, offset) for i, offset in enumerate(offsets)])], **more)


@pytest.mark.parametrize("version", range(2, 10))
def test_the_third_of_equal_commits_is_read_by_column(version: int) -> None:
    decoder = CommitDecoder()
    found = [columns_of(decoder, one_topic(n, n + 1), version) for n in range(4)]
    assert found == [False, False, True, True]


def test_the_number_that_coteries_client_gives_a_commit_may_differ() -> None:
    decoder = CommitDecoder()
    found = [columns_of(decoder, one_topic(n, sequence=n)) for n in range(5)]
    assert found == [False, False, True, True, True]


def test_who_commits_others_each_time_is_looked_at_ever_more_rarely() -> None:
    decoder = CommitDecoder()
    for n in range(40):
        columns_of(decoder, one_topic(1, 2, member_id=f"m-{n:02}"))
    steady = [columns_of(decoder, one_topic(1, 2, member_id="m-99")) for _ in range(80)]
    assert not any(steady[:5])
    assert steady[-1]  # but not for ever


def test_who_commits_the_same_for_a_while_is_looked_at_for_ever() -> None:
    decoder = CommitDecoder()
    for n in range(40):
        found = [columns_of(decoder, one_topic(1, member_id=f"m-{n:02}")) for _ in range(3)]
        assert found[-1]


@pytest.mark.parametrize(
    "message",
    [
        commit([("t", [partition(n) for n in range(65)])]),
        commit([(f"t{n}", [partition()]) for n in range(9)]),
        commit([("t", [partition(committed_metadata="x" * 2100)])]),
    ],
    ids=["partitions", "topics", "bytes"],
)
def test_large_commits_are_not_remembered(message: OffsetCommitRequest) -> None:
    """As objects they take many times their bytes, and each connection would hold one."""
    decoder, sent = CommitDecoder(), payload(message, 8)
    for _ in range(4):
        topics = decoder.decode(sent).message.topics
        assert not any(isinstance(topic.partitions, CommittedPartitions) for topic in topics)


def test_what_is_no_commit_is_read_as_ever() -> None:
    sent = payload(HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    assert CommitDecoder().decode(sent) == decode_request(sent)


# -- partitions by column --------------------------------------------------------------------------


@given(PARTITIONS, PARTITIONS)
def test_columns_are_a_sequence_of_partitions(
    made: list[OffsetCommitRequestPartition], other: list[OffsetCommitRequestPartition]
) -> None:
    columns = CommittedPartitions.of(tuple(made))
    assert list(columns) == made
    assert len(columns) == len(made)
    assert columns == tuple(made)
    assert tuple(made) == columns
    assert hash(columns) == hash(tuple(made))
    assert repr(columns) == repr(tuple(made))
    assert columns[1:] == tuple(made[1:])
    assert [columns[at] for at in range(-len(made), len(made))] == [*made, *made]
    assert (columns == CommittedPartitions.of(tuple(other))) == (made == other)
    assert columns != 1
    assert CommittedPartitions.of(columns) is columns


def test_columns_are_written_as_a_tuple_is() -> None:
    made = (partition(1, 5), partition(2, -1, committed_metadata=None))
    one, other = (commit([("t", each)]) for each in (made, CommittedPartitions.of(made)))
    for version in range(10):
        if version != 1:
            assert payload(one, version) == payload(other, version)
