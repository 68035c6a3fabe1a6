"""The floor for reading: one function per message and version, as one writes it by hand.

Each reads exactly one version from a payload into a tuple, in straight code, with the `struct`
module.  What a decoder for strangers' bytes needs is left out: no length is checked, no error says
what is wrong, and the results are tuples without names.  They read every message of their version
all the same, nulls and unknown tagged fields included; lengths of two bytes, common among many
members, are written out.
"""

# ruff: noqa: C901, PLR0915  # straight code without helper functions is the point

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

__all__ = ["DECODERS"]

_HEADER: Final = Struct(">hhih").unpack_from
_INT16: Final = Struct(">h").unpack_from
_INT32: Final = Struct(">i").unpack_from
_INT32_UINT8: Final = Struct(">iB").unpack_from
_INT32_INT16: Final = Struct(">ih").unpack_from
_INT32_TWICE_INT16: Final = Struct(">iih").unpack_from
_INT32_TWICE_UINT8: Final = Struct(">iiB").unpack_from
_INT64_INT32: Final = Struct(">qi").unpack_from
_JOINED_5: Final = Struct(">iihih").unpack_from
_JOINED_9: Final = Struct(">ihiB").unpack_from
_PARTITION_3: Final = Struct(">iqh").unpack_from
_PARTITION_9: Final = Struct(">iqiB").unpack_from


def _varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[pos]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        pos += 1
    return value | byte << shift, pos + 1


def _skip_tagged(data: bytes, pos: int) -> int:
    count, pos = _varint(data, pos)
    for _ in range(count):
        _, pos = _varint(data, pos)
        size, pos = _varint(data, pos)
        pos += size
    return pos


def _heartbeat_0(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_INT16(data, stop)
    pos = stop + 6
    member_id = data[pos : pos + n].decode()
    return api, version, correlation_id, client_id, group_id, generation_id, member_id


def _heartbeat_3(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_INT16(data, stop)
    pos = stop + 6
    stop = pos + n
    member_id = data[pos:stop].decode()
    (n,) = _INT16(data, stop)
    pos = stop + 2
    instance_id = None if n < 0 else data[pos : pos + n].decode()
    return api, version, correlation_id, client_id, group_id, generation_id, member_id, instance_id


def _heartbeat_4(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_UINT8(data, stop)
    pos = stop + 5
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
    return api, version, correlation_id, client_id, group_id, generation_id, member_id, instance_id


def _join_5(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    group_id = data[pos:stop].decode()
    session_timeout_ms, rebalance_timeout_ms, n = _INT32_TWICE_INT16(data, stop)
    pos = stop + 10
    stop = pos + n
    member_id = data[pos:stop].decode()
    (n,) = _INT16(data, stop)
    pos = stop + 2
    instance_id = None
    if n >= 0:
        stop = pos + n
        instance_id = data[pos:stop].decode()
        pos = stop
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    protocol_type = data[pos:stop].decode()
    (count,) = _INT32(data, stop)
    pos = stop + 4
    protocols = []
    for _ in range(count):
        (n,) = _INT16(data, pos)
        pos += 2
        stop = pos + n
        name = data[pos:stop].decode()
        (n,) = _INT32(data, stop)
        pos = stop + 4
        stop = pos + n
        protocols.append((name, data[pos:stop]))
        pos = stop
    header = api, version, correlation_id, client_id
    timeouts = session_timeout_ms, rebalance_timeout_ms
    return *header, group_id, *timeouts, member_id, instance_id, protocol_type, protocols


def _join_9(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    session_timeout_ms, rebalance_timeout_ms, n = _INT32_TWICE_UINT8(data, stop)
    pos = stop + 9
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    protocol_type = data[pos:stop].decode()
    count = data[stop]
    pos = stop + 1
    if count > 127:
        count, pos = _varint(data, stop)
    protocols = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _varint(data, pos - 1)
        stop = pos + n - 1
        name = data[pos:stop].decode()
        n = data[stop]
        pos = stop + 1
        if n > 127:
            n += (data[pos] << 7) - 128
            pos += 1
            if n > 16383:
                n, pos = _varint(data, stop)
        stop = pos + n - 1
        protocols.append((name, data[pos:stop]))
        pos = _skip_tagged(data, stop) if data[stop] else stop + 1
    n, pos = (data[pos], pos + 1) if data[pos] < 128 else _varint(data, pos)
    reason = data[pos : pos + n - 1].decode() if n else None
    header = api, version, correlation_id, client_id
    timeouts = session_timeout_ms, rebalance_timeout_ms
    return *header, group_id, *timeouts, member_id, instance_id, protocol_type, protocols, reason


def _joined_5(data: bytes) -> tuple[Any, ...]:
    correlation_id, throttle_time_ms, error_code, generation_id, n = _JOINED_5(data)
    pos = 16
    stop = pos + n
    protocol_name = data[pos:stop].decode()
    (n,) = _INT16(data, stop)
    pos = stop + 2
    stop = pos + n
    leader = data[pos:stop].decode()
    (n,) = _INT16(data, stop)
    pos = stop + 2
    stop = pos + n
    member_id = data[pos:stop].decode()
    (count,) = _INT32(data, stop)
    pos = stop + 4
    members = []
    for _ in range(count):
        (n,) = _INT16(data, pos)
        pos += 2
        stop = pos + n
        each_id = data[pos:stop].decode()
        (n,) = _INT16(data, stop)
        pos = stop + 2
        instance_id = None
        if n >= 0:
            stop = pos + n
            instance_id = data[pos:stop].decode()
            pos = stop
        (n,) = _INT32(data, pos)
        pos += 4
        stop = pos + n
        members.append((each_id, instance_id, data[pos:stop]))
        pos = stop
    numbers = correlation_id, throttle_time_ms, error_code, generation_id
    return *numbers, protocol_name, leader, member_id, members


def _members_9(data: bytes, pos: int, count: int) -> list[tuple[Any, ...]]:
    members = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _varint(data, pos - 1)
        stop = pos + n - 1
        each_id = data[pos:stop].decode()
        n = data[stop]
        pos = stop + 1
        if n > 127:
            n, pos = _varint(data, stop)
        instance_id = None
        if n:
            stop = pos + n - 1
            instance_id = data[pos:stop].decode()
            pos = stop
        n = data[pos]
        pos += 1
        if n > 127:
            n += (data[pos] << 7) - 128
            pos += 1
            if n > 16383:
                n, pos = _varint(data, pos - 2)
        stop = pos + n - 1
        members.append((each_id, instance_id, data[pos:stop]))
        pos = _skip_tagged(data, stop) if data[stop] else stop + 1
    return members


def _joined_9(data: bytes) -> tuple[Any, ...]:
    (correlation_id,) = _INT32(data)
    pos = _skip_tagged(data, 4) if data[4] else 5
    throttle_time_ms, error_code, generation_id, n = _JOINED_9(data, pos)
    pos += 11
    if n > 127:
        n, pos = _varint(data, pos - 1)
    protocol_type = None
    if n:
        stop = pos + n - 1
        protocol_type = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    protocol_name = None
    if n:
        stop = pos + n - 1
        protocol_name = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    leader = data[pos:stop].decode()
    skip_assignment = data[stop] != 0
    pos = stop + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    count = data[stop]
    pos = stop + 1
    if count > 127:
        count, pos = _varint(data, stop)
    members = _members_9(data, pos, count)
    numbers = correlation_id, throttle_time_ms, error_code, generation_id
    protocol = protocol_type, protocol_name
    return *numbers, *protocol, leader, skip_assignment, member_id, members


def _sync_3(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_INT16(data, stop)
    pos = stop + 6
    stop = pos + n
    member_id = data[pos:stop].decode()
    (n,) = _INT16(data, stop)
    pos = stop + 2
    instance_id = None
    if n >= 0:
        stop = pos + n
        instance_id = data[pos:stop].decode()
        pos = stop
    (count,) = _INT32(data, pos)
    pos += 4
    assignments = []
    for _ in range(count):
        (n,) = _INT16(data, pos)
        pos += 2
        stop = pos + n
        each_id = data[pos:stop].decode()
        (n,) = _INT32(data, stop)
        pos = stop + 4
        stop = pos + n
        assignments.append((each_id, data[pos:stop]))
        pos = stop
    header = api, version, correlation_id, client_id
    return *header, group_id, generation_id, member_id, instance_id, assignments


def _assignments_5(data: bytes, pos: int, count: int) -> list[tuple[Any, ...]]:
    assignments = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _varint(data, pos - 1)
        stop = pos + n - 1
        each_id = data[pos:stop].decode()
        n = data[stop]
        pos = stop + 1
        if n > 127:
            n += (data[pos] << 7) - 128
            pos += 1
            if n > 16383:
                n, pos = _varint(data, stop)
        stop = pos + n - 1
        assignments.append((each_id, data[pos:stop]))
        pos = _skip_tagged(data, stop) if data[stop] else stop + 1
    return assignments


def _sync_5(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_UINT8(data, stop)
    pos = stop + 5
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    protocol_type = None
    if n:
        stop = pos + n - 1
        protocol_type = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    protocol_name = None
    if n:
        stop = pos + n - 1
        protocol_name = data[pos:stop].decode()
        pos = stop
    count = data[pos]
    pos += 1
    if count > 127:
        count, pos = _varint(data, pos - 1)
    assignments = _assignments_5(data, pos, count)
    header = api, version, correlation_id, client_id
    protocol = protocol_type, protocol_name
    return *header, group_id, generation_id, member_id, instance_id, *protocol, assignments


def _commit_3(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    (n,) = _INT16(data, pos)
    pos += 2
    stop = pos + n
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_INT16(data, stop)
    pos = stop + 6
    stop = pos + n
    member_id = data[pos:stop].decode()
    retention_time_ms, count = _INT64_INT32(data, stop)
    pos = stop + 12
    topics = []
    for _ in range(count):
        (n,) = _INT16(data, pos)
        pos += 2
        stop = pos + n
        name = data[pos:stop].decode()
        (count_here,) = _INT32(data, stop)
        pos = stop + 4
        partitions = []
        for _ in range(count_here):
            index, offset, n = _PARTITION_3(data, pos)
            pos += 14
            metadata = None
            if n >= 0:
                stop = pos + n
                metadata = data[pos:stop].decode()
                pos = stop
            partitions.append((index, offset, metadata))
        topics.append((name, partitions))
    header = api, version, correlation_id, client_id
    return *header, group_id, generation_id, member_id, retention_time_ms, topics


def _commit_9(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _HEADER(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    generation_id, n = _INT32_UINT8(data, stop)
    pos = stop + 5
    if n > 127:
        n, pos = _varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
        pos = stop
    count = data[pos]
    pos += 1
    if count > 127:
        count, pos = _varint(data, pos - 1)
    topics = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _varint(data, pos - 1)
        stop = pos + n - 1
        name = data[pos:stop].decode()
        count_here = data[stop]
        pos = stop + 1
        if count_here > 127:
            count_here, pos = _varint(data, stop)
        partitions = []
        for _ in range(count_here - 1):
            index, offset, epoch, n = _PARTITION_9(data, pos)
            pos += 17
            if n > 127:
                n, pos = _varint(data, pos - 1)
            metadata = None
            if n:
                stop = pos + n - 1
                metadata = data[pos:stop].decode()
                pos = stop
            pos = _skip_tagged(data, pos) if data[pos] else pos + 1
            partitions.append((index, offset, epoch, metadata))
        topics.append((name, partitions))
        pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    header = api, version, correlation_id, client_id
    return *header, group_id, generation_id, member_id, instance_id, topics


#: By the name of the message's class, and version.
DECODERS: Final[dict[tuple[str, int], Callable[[bytes], tuple[Any, ...]]]] = {
    ("HeartbeatRequest", 0): _heartbeat_0,
    ("HeartbeatRequest", 3): _heartbeat_3,
    ("HeartbeatRequest", 4): _heartbeat_4,
    ("JoinGroupRequest", 5): _join_5,
    ("JoinGroupRequest", 9): _join_9,
    ("JoinGroupResponse", 5): _joined_5,
    ("JoinGroupResponse", 9): _joined_9,
    ("SyncGroupRequest", 3): _sync_3,
    ("SyncGroupRequest", 5): _sync_5,
    ("OffsetCommitRequest", 3): _commit_3,
    ("OffsetCommitRequest", 9): _commit_9,
}
