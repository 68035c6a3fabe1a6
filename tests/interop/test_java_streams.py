"""What members with state tell each other is what Kafka Streams' own classes write and read."""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path
from typing import Any, Final
from uuid import UUID

import pytest
from hypothesis import given
from hypothesis import strategies as st

from coterie_protocol import CoterieError, decode, encode
from coterie_protocol.consumer import (
    CooperativeStickyData,
    StickyData,
    TopicPartitions,
    encode_sticky_data,
)
from coterie_protocol.streams import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_VERSION,
    AssignmentInfo,
    HostInfo,
    SubscriptionInfo,
    TaskId,
    UnknownVersionError,
    decode_assignment_info,
    decode_subscription_info,
    encode_assignment_info,
    encode_subscription_info,
    join_user_data,
    next_version,
)
from coterie_protocol.streams._data import AssignmentInfoData
from tests.interop.java_pipe import JavaPipe
from tests.interop.java_serializers import JavaSerializers
from tests.interop.java_tools import JavaProgramError, java_source_command
from tests.support.oracle_examples import examples
from tests.support.streams_infos import VERSIONS, assignment_infos, subscription_infos

pytestmark = pytest.mark.interop

_SOURCE: Final = Path(__file__).with_name("java") / "StreamsInfos.java"

each_version = pytest.mark.parametrize("version", VERSIONS)


@pytest.fixture(scope="module")
def java(java_compiler: None) -> Iterator[JavaPipe]:  # noqa: ARG001 - its skip
    """Give Kafka Streams' own classes."""
    with JavaPipe(java_source_command(_SOURCE)) as running:
        yield running


# What travels to the program and back


def task_json(task: TaskId) -> list[Any]:
    """A task as the program has it."""
    return [task.subtopology, task.partition, task.topology]


def subscription_json(info: SubscriptionInfo) -> dict[str, Any]:
    """A subscription as the program has it."""
    return {
        "version": info.version,
        "latest": info.latest_supported_version,
        "process": str(info.process_id),
        "endpoint": info.user_endpoint,
        "tasks": [[task_json(task), number] for task, number in info.task_offset_sums.items()],
        "unique": info.unique_field,
        "code": info.error_code,
        "tags": list(info.client_tags.items()),
    }


def subscription_from(told: dict[str, Any]) -> SubscriptionInfo:
    """The opposite of `subscription_json`."""
    return SubscriptionInfo(
        process_id=UUID(told["process"]),
        task_offset_sums={TaskId(*task): number for task, number in told["tasks"]},
        user_endpoint=told["endpoint"],
        unique_field=told["unique"],
        error_code=told["code"],
        client_tags=dict(told["tags"]),
        version=told["version"],
        latest_supported_version=told["latest"],
    )


def assignment_json(info: AssignmentInfo) -> dict[str, Any]:
    """An assignment as the program has it."""
    hosts, standby_hosts = (
        [[[host.host, host.port], pairs] for host, pairs in by_host.items()]
        for by_host in (info.partitions_by_host, info.standby_partitions_by_host)
    )
    return {
        "version": info.version,
        "commonly": info.commonly_supported_version,
        "active": [task_json(task) for task in info.active_tasks],
        "standby": [[task_json(task), pairs] for task, pairs in info.standby_tasks.items()],
        "hosts": hosts,
        "standbyHosts": standby_hosts,
        "code": info.error_code,
        "next": info.next_rebalance_ms,
    }


def assignment_from(told: dict[str, Any]) -> AssignmentInfo:
    """The opposite of `assignment_json`."""
    hosts, standby_hosts = (
        {HostInfo(*host): as_pairs(pairs) for host, pairs in told[key]}
        for key in ("hosts", "standbyHosts")
    )
    return AssignmentInfo(
        active_tasks=tuple(TaskId(*task) for task in told["active"]),
        standby_tasks={TaskId(*task): as_pairs(pairs) for task, pairs in told["standby"]},
        partitions_by_host=hosts,
        standby_partitions_by_host=standby_hosts,
        error_code=told["code"],
        next_rebalance_ms=told["next"],
        version=told["version"],
        commonly_supported_version=told["commonly"],
    )


def as_pairs(told: list[list[Any]]) -> tuple[tuple[str, int], ...]:
    """Partitions that came as a set."""
    return tuple((topic, partition) for topic, partition in told)


def without_order(info: AssignmentInfo) -> AssignmentInfo:
    """The assignment with the partitions of each set sorted; Kafka reads them into hash sets."""

    def in_order(mapping: Any) -> Any:
        return {key: tuple(sorted(pairs)) for key, pairs in mapping.items()}

    return replace(
        info,
        standby_tasks=in_order(info.standby_tasks),
        partitions_by_host=in_order(info.partitions_by_host),
        standby_partitions_by_host=in_order(info.standby_partitions_by_host),
    )


# Subscriptions


@each_version
def test_subscriptions_are_the_same_bytes(java: JavaPipe, version: int) -> None:
    @examples(150)
    @given(subscription_infos(version))
    def check(info: SubscriptionInfo) -> None:
        ours = encode_subscription_info(info)
        assert subscription_from(java.ask("read-subscription", hex=ours.hex())) == info
        # A hash map may have put the tasks into another order.
        theirs = asked_for(java, "write-subscription", subscription_json(info))
        assert len(theirs) == len(ours)
        assert decode_subscription_info(theirs) == info
        assert encode_subscription_info(decode_subscription_info(theirs)) == theirs

    check()


@pytest.mark.parametrize("version", [10, 11])
def test_subscriptions_with_names_are_in_the_same_order(java: JavaPipe, version: int) -> None:
    """From version 10 on, Kafka writes tasks in the order in which it is given them."""

    @examples(60)
    @given(subscription_infos(version))
    def check(info: SubscriptionInfo) -> None:
        theirs = asked_for(java, "write-subscription", subscription_json(info))
        assert encode_subscription_info(info) == theirs

    check()


@pytest.mark.parametrize("version", [7, 8, 9])
def test_subscriptions_of_numbered_tasks_are_in_the_same_order(
    java: JavaPipe, version: int
) -> None:
    """Small numbers lie in order in Java's hash maps."""
    sums = {TaskId(0, 0): 7, TaskId(0, 1): -2, TaskId(1, 0): 0, TaskId(1, 2): 2**40}
    info = SubscriptionInfo(process_id=UUID(int=5), task_offset_sums=sums, version=version)
    theirs = asked_for(java, "write-subscription", subscription_json(info))
    assert encode_subscription_info(info) == theirs


@each_version
def test_bytes_behind_a_subscription_are_passed_over(java: JavaPipe, version: int) -> None:
    info = SubscriptionInfo(process_id=UUID(int=5), version=version)
    ours = encode_subscription_info(info) + b"more"
    told = subscription_from(java.ask("read-subscription", hex=ours.hex()))
    assert told == decode_subscription_info(ours)


@pytest.mark.parametrize(
    ("version", "latest"), [(12, 12), (12, 20), (2**31 - 1, 2**31 - 1), (12, 11), (12, -1)]
)
def test_of_a_newer_subscription_the_same_two_numbers_are_read(
    java: JavaPipe, version: int, latest: int
) -> None:
    data = struct.pack(">ii", version, latest) + b"whatever"
    if latest < version:
        with pytest.raises(JavaProgramError, match="IllegalArgumentException"):
            java.ask("read-subscription", hex=data.hex())
        with pytest.raises(Exception, match="can't be the latest"):
            decode_subscription_info(data)
        return
    told = java.ask("read-subscription", hex=data.hex())
    with pytest.raises(UnknownVersionError) as caught:
        decode_subscription_info(data)
    assert (told["version"], told["latest"]) == (version, latest)
    assert (caught.value.version, caught.value.latest_supported) == (version, latest)


@pytest.mark.parametrize(
    ("version", "named"), [(version, True) for version in range(1, 10)] + [(10, False)]
)
def test_names_are_refused_where_kafka_refuses_them(
    java: JavaPipe,
    version: int,
    named: bool,  # noqa: FBT001  # what is compared
) -> None:
    tasks = {TaskId(0, 1, "orders"): 5}
    info = SubscriptionInfo(process_id=UUID(int=5), task_offset_sums=tasks, version=version)
    refusals = [
        refuses(lambda: encode_subscription_info(info)),
        refuses(lambda: java.ask("write-subscription", **subscription_json(info))),
    ]
    assert refusals == [named, named]


# Assignments


@each_version
def test_assignments_are_the_same_bytes(java: JavaPipe, version: int) -> None:
    @examples(150)
    @given(assignment_infos(version))
    def check(info: AssignmentInfo) -> None:
        ours = encode_assignment_info(info)
        told = assignment_from(java.ask("read-assignment", hex=ours.hex()))
        assert without_order(told) == without_order(info)
        theirs = asked_for(java, "write-assignment", assignment_json(info))
        assert decode_assignment_info(theirs) == info
        assert with_numbers_of(ours, theirs) == theirs

    check()


def with_numbers_of(ours: bytes, theirs: bytes) -> bytes:
    """Our bytes with Kafka's numbers of topics, which come from the order of a hash set."""
    version = int.from_bytes(ours[:4])
    if version < 5:
        return ours
    mine = decode(AssignmentInfoData, version, ours)
    kafkas = decode(AssignmentInfoData, version, theirs)
    assert sorted(t.number for t in kafkas.topics) == list(range(len(mine.topics)))
    number_of = {entry.topic: entry.number for entry in kafkas.topics}
    moved = {entry.number: number_of[entry.topic] for entry in mine.topics}

    def renumbered(hosts: Any) -> Any:
        return tuple(
            replace(
                host, partitions=tuple(replace(p, topic=moved[p.topic]) for p in host.partitions)
            )
            for host in hosts
        )

    changed = replace(
        mine,
        topics=kafkas.topics,
        numbered_hosts=renumbered(mine.numbered_hosts),
        standby_hosts=renumbered(mine.standby_hosts),
    )
    return encode(changed, version)


@each_version
def test_kafka_passes_over_coteries_own_fields(java: JavaPipe, version: int) -> None:
    @examples(60)
    @given(assignment_infos(version, own=True))
    def check(info: AssignmentInfo) -> None:
        ours = encode_assignment_info(info)
        told = assignment_from(java.ask("read-assignment", hex=ours.hex()))
        plain = replace(info, warmups=frozenset(), targets={})
        assert without_order(told) == without_order(plain)

    check()


def test_a_newer_assignment_is_refused_by_both(java: JavaPipe) -> None:
    data = struct.pack(">ii", 12, 12) + bytes(40)
    with pytest.raises(JavaProgramError, match="used version: 12; latest supported version: 11"):
        java.ask("read-assignment", hex=data.hex())
    with pytest.raises(UnknownVersionError):
        decode_assignment_info(data)


@each_version
def test_the_answer_to_a_member_that_is_too_new(java: JavaPipe, version: int) -> None:
    info = AssignmentInfo(version=version, commonly_supported_version=version)
    ours = encode_assignment_info(info)
    assert ours == asked_for(java, "write-assignment", assignment_json(info))


# The envelope


@pytest.mark.parametrize("old", [False, True], ids=["current Kafka", "Kafka 3.9"])
@pytest.mark.usefixtures("java_compiler")
def test_kafkas_assignors_take_no_notice_of_a_block(old: bool) -> None:  # noqa: FBT001  # which one
    info = SubscriptionInfo(process_id=UUID(int=5), task_offset_sums={TaskId(0, 1, "t"): 7})
    block = encode_subscription_info(info)
    previous = (TopicPartitions(topic="t", partitions=(3, 1)),)
    sticky = encode_sticky_data(StickyData(previous_assignment=previous, generation=9))
    cooperative = encode(CooperativeStickyData(generation=9), 0)
    with JavaSerializers(old=old) as assignors:
        for kind, own in (("sticky", sticky), ("cooperative", cooperative)):
            joined = join_user_data(own, block)
            alone = assignors.ask(f"read-{kind}-data", hex=own.hex())
            assert alone["generation"] == 9
            assert assignors.ask(f"read-{kind}-data", hex=joined.hex()) == alone


# Version probing


def test_members_change_their_version_as_kafkas_do(java: JavaPipe) -> None:
    """For all that Kafka's members can receive: no version newer than the one that they used."""
    known = range(EARLIEST_PROBEABLE_VERSION, LATEST_VERSION + 1)
    for used, received, commonly in product(known, range(1, LATEST_VERSION + 1), known):
        if received <= used and received <= commonly:
            told = java.ask("next-version", used=used, received=received, commonly=commonly)
            assert next_version(used, received, commonly) == told["next"], (
                used,
                received,
                commonly,
            )


# Hostile bytes


@st.composite
def broken(draw: Callable[[st.SearchStrategy[Any]], Any]) -> bytes:
    """An assignment or subscription that was cut off."""
    version = draw(st.sampled_from(VERSIONS))
    info = draw(subscription_infos(version))
    written = encode_subscription_info(info)
    return written[: draw(st.integers(4, len(written)))]


def test_subscriptions_are_cut_off_where_kafka_says_so(java: JavaPipe) -> None:
    @examples(150)
    @given(broken())
    def check(data: bytes) -> None:
        ours = refuses(lambda: decode_subscription_info(data))
        assert ours == refuses(lambda: java.ask("read-subscription", hex=data.hex()))

    check()


def refuses(attempt: Callable[[], object]) -> bool:
    """Whether something fails in a way that it is allowed to."""
    try:
        attempt()
    except (CoterieError, JavaProgramError):
        return True
    return False


def asked_for(java: JavaPipe, operation: str, details: dict[str, Any]) -> bytes:
    """The bytes that Kafka writes."""
    return bytes.fromhex(java.ask(operation, **details)["hex"])
