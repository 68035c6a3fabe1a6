"""The frames that the server benchmark sends, and the checks of their answers."""

from __future__ import annotations

import socket
import time
from collections.abc import Iterable
from functools import partial
from typing import Any, Final, TypeVar

from coterie_protocol import decode_response, encode_request, encode_response
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    CreatableTopic,
    CreateTopicsRequest,
    CreateTopicsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    MetadataRequest,
    MetadataRequestTopic,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetCommitResponse,
    OffsetCommitResponsePartition,
    OffsetCommitResponseTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
    OffsetFetchRequestTopics,
    OffsetFetchResponse,
)
from tests.live.daemon import eventually

__all__ = [
    "CLIENT_ID",
    "CORRELATION_ID",
    "TOPIC",
    "check_commit",
    "check_heartbeat",
    "commit",
    "commit_sizes",
    "coordinator_of",
    "has_offsets",
    "heartbeat",
    "heartbeat_sizes",
    "make_ready",
    "nodes",
]

M = TypeVar("M")

CLIENT_ID: Final = "orders-worker"
CORRELATION_ID: Final = 70_001
TOPIC: Final = "orders.events"

_HEARTBEAT_VERSION: Final = 4
_COMMIT_VERSION: Final = 9
_FETCH_VERSION: Final = 8
_HOST: Final = "127.0.0.1"
_TIMEOUT_S: Final = 60.0
_AGAIN_S: Final = 0.01


def _frame(message: Any, version: int) -> bytes:
    return encode_request(message, version, CORRELATION_ID, CLIENT_ID)


# -- heartbeats ------------------------------------------------------------------------------------


def heartbeat(group_id: str, generation: int, member_id: str) -> bytes:
    """The frame of a heartbeat."""
    message = HeartbeatRequest(group_id=group_id, generation_id=generation, member_id=member_id)
    return _frame(message, _HEARTBEAT_VERSION)


def check_heartbeat(payload: bytes) -> None:
    """Raise if a heartbeat was answered with an error."""
    _, answer = decode_response(HeartbeatResponse, _HEARTBEAT_VERSION, payload)
    _expect_none([answer.error_code])


def heartbeat_sizes(group_id: str, member_id: str) -> tuple[int, int]:
    """The sizes of a heartbeat and its answer."""
    answer = encode_response(HeartbeatResponse(), _HEARTBEAT_VERSION, CORRELATION_ID)
    return len(heartbeat(group_id, 1, member_id)), len(answer)


# -- commits ---------------------------------------------------------------------------------------


def commit(
    group_id: str, generation: int, member_id: str, partitions: Iterable[int], offset: int
) -> bytes:
    """The frame that commits one offset for some partitions."""
    committed = tuple(
        OffsetCommitRequestPartition(
            partition_index=partition, committed_offset=offset, committed_metadata=""
        )
        for partition in partitions
    )
    message = OffsetCommitRequest(
        group_id=group_id,
        generation_id_or_member_epoch=generation,
        member_id=member_id,
        topics=(OffsetCommitRequestTopic(name=TOPIC, partitions=committed),),
    )
    return _frame(message, _COMMIT_VERSION)


def check_commit(payload: bytes) -> None:
    """Raise if a commit was refused for any partition."""
    _, answer = decode_response(OffsetCommitResponse, _COMMIT_VERSION, payload)
    _expect_none([p.error_code for topic in answer.topics for p in topic.partitions])


def commit_sizes(group_id: str, member_id: str, partitions: int) -> tuple[int, int]:
    """The sizes of a commit and its answer."""
    results = tuple(OffsetCommitResponsePartition(partition_index=p) for p in range(partitions))
    topics = (OffsetCommitResponseTopic(name=TOPIC, partitions=results),)
    message = OffsetCommitResponse(topics=topics)
    answer = encode_response(message, _COMMIT_VERSION, CORRELATION_ID)
    return len(commit(group_id, 1, member_id, range(partitions), 1)), len(answer)


def _expect_none(error_codes: Iterable[int]) -> None:
    errors = {ErrorCode(code).name for code in error_codes if code}
    if errors:
        raise AssertionError(f"answered with {', '.join(sorted(errors))}")


# -- single requests -------------------------------------------------------------------------------


def make_ready(port: int, partitions: int) -> None:
    """Create the topic, and wait until the server has it and coordinates groups."""
    what = f"the server on port {port} is ready"
    for true in (_is_created, _is_ready):
        eventually(partial(true, port, partitions), what, _TIMEOUT_S, _AGAIN_S)


def _is_created(port: int, partitions: int) -> bool:
    """Whether the topic is there now: a worker that has just begun may not know who makes it."""
    topic = CreatableTopic(
        name=TOPIC, num_partitions=partitions, replication_factor=1, assignments=(), configs=()
    )
    created = _ask(port, CreateTopicsRequest(topics=(topic,)), 5, CreateTopicsResponse)
    errors = {result.error_code for result in created.topics}
    _expect_none(errors - {ErrorCode.NOT_CONTROLLER})
    return not errors & {ErrorCode.NOT_CONTROLLER}


def _is_ready(port: int, partitions: int) -> bool:
    return _coordinates(port) and _has_partitions(port, partitions)


def _coordinates(port: int) -> bool:
    """Whether there is a coordinator that serves groups.

    Kafka creates its offsets topic at the first request, and reads it after it has named itself.
    """
    if _ask(port, FindCoordinatorRequest(key="any"), 2, FindCoordinatorResponse).error_code:
        return False
    beat = HeartbeatRequest(group_id="any", generation_id=1, member_id="unknown")
    answer = _ask(port, beat, _HEARTBEAT_VERSION, HeartbeatResponse)
    return answer.error_code == ErrorCode.UNKNOWN_MEMBER_ID


def _has_partitions(port: int, partitions: int) -> bool:
    message = MetadataRequest(
        topics=(MetadataRequestTopic(name=TOPIC),), allow_auto_topic_creation=False
    )
    (topic,) = _ask(port, message, 5, MetadataResponse).topics
    ready = [partition for partition in topic.partitions if not partition.error_code]
    return not topic.error_code and len(ready) == partitions


def nodes(port: int) -> list[int]:
    """The ports of all nodes."""
    message = MetadataRequest(topics=(), allow_auto_topic_creation=False)
    return [broker.port for broker in _ask(port, message, 5, MetadataResponse).brokers]


def coordinator_of(port: int, group_id: str) -> int:
    """The port of the node that coordinates a group, as a node says that is asked on another."""
    deadline = time.monotonic() + _TIMEOUT_S
    while True:
        found = _ask(port, FindCoordinatorRequest(key=group_id), 2, FindCoordinatorResponse)
        if not found.error_code:
            return found.port
        if time.monotonic() > deadline:
            raise AssertionError(f"{group_id} has no coordinator after {_TIMEOUT_S:g} s")
        time.sleep(_AGAIN_S)


def has_offsets(port: int, group_id: str, partitions: int) -> bool:
    """Whether the server answers with all offsets of a group."""
    topics = (OffsetFetchRequestTopics(name=TOPIC, partition_indexes=tuple(range(partitions))),)
    group = OffsetFetchRequestGroup(group_id=group_id, topics=topics)
    try:
        answer = _ask(
            port, OffsetFetchRequest(groups=(group,)), _FETCH_VERSION, OffsetFetchResponse
        )
    except OSError:
        return False
    (found,) = answer.groups
    if found.error_code:
        return False
    return all(p.committed_offset >= 0 for topic in found.topics for p in topic.partitions)


def _ask(port: int, message: Any, version: int, answer: type[M]) -> M:
    """Send one request on a new connection."""
    with socket.create_connection((_HOST, port), timeout=_TIMEOUT_S) as connection:
        connection.sendall(_frame(message, version))
        with connection.makefile("rb") as stream:
            size = int.from_bytes(_whole(stream.read(4), 4), "big")
            return decode_response(answer, version, _whole(stream.read(size), size))[1]


def _whole(data: bytes, size: int) -> bytes:
    if len(data) < size:
        raise ConnectionResetError("the server closed the connection")
    return data
