"""Heartbeat, JoinGroup and OffsetCommit read and written by hand: the floor for every codec.

One function reads, and one writes, exactly one version of one message: straight code with the
`struct` module, from a payload to a tuple and from that tuple to a frame.  No length is checked, no
error says what is wrong, and the values have no names.  Nulls, unknown tagged fields and lengths of
any size are handled all the same.
"""

# ruff: noqa: PLR0915, C901  # straight code without helper functions is the point

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

__all__ = ["DECODERS", "ENCODERS"]


# -- reading ---------------------------------------------------------------------------------------

_read_header: Final = Struct(">hhih").unpack_from
_read_int32: Final = Struct(">i").unpack_from
_read_int32_uint8: Final = Struct(">iB").unpack_from
_read_join_numbers: Final = Struct(">ihiB").unpack_from
_read_partition: Final = Struct(">iqiB").unpack_from


def _read_varint(data: bytes, pos: int) -> tuple[int, int]:
    value = shift = 0
    while (byte := data[pos]) > 127:
        value |= (byte & 127) << shift
        shift += 7
        pos += 1
    return value | byte << shift, pos + 1


def _skip_tagged(data: bytes, pos: int) -> int:
    count, pos = _read_varint(data, pos)
    for _ in range(count):
        _, pos = _read_varint(data, pos)
        size, pos = _read_varint(data, pos)
        pos += size
    return pos


def _read_heartbeat(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _read_header(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    generation_id, n = _read_int32_uint8(data, stop)
    pos = stop + 5
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _read_varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
    return api, version, correlation_id, client_id, group_id, generation_id, member_id, instance_id


def _read_join_response(data: bytes) -> tuple[Any, ...]:
    (correlation_id,) = _read_int32(data)
    pos = _skip_tagged(data, 4) if data[4] else 5
    throttle_time_ms, error_code, generation_id, n = _read_join_numbers(data, pos)
    pos += 11
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    protocol_type = None
    if n:
        stop = pos + n - 1
        protocol_type = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    protocol_name = None
    if n:
        stop = pos + n - 1
        protocol_name = data[pos:stop].decode()
        pos = stop
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    leader = data[pos:stop].decode()
    skip_assignment = data[stop] != 0
    pos = stop + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    count = data[stop]
    pos = stop + 1
    if count > 127:
        count, pos = _read_varint(data, stop)
    members = _read_members(data, pos, count)
    numbers = correlation_id, throttle_time_ms, error_code, generation_id
    protocol = protocol_type, protocol_name
    return *numbers, *protocol, leader, skip_assignment, member_id, members


def _read_members(data: bytes, pos: int, count: int) -> list[tuple[Any, ...]]:
    members = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _read_varint(data, pos - 1)
        stop = pos + n - 1
        each_id = data[pos:stop].decode()
        n = data[stop]
        pos = stop + 1
        if n > 127:
            n, pos = _read_varint(data, stop)
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
                n, pos = _read_varint(data, pos - 2)
        stop = pos + n - 1
        members.append((each_id, instance_id, data[pos:stop]))
        pos = _skip_tagged(data, stop) if data[stop] else stop + 1
    return members


def _read_commit(data: bytes) -> tuple[Any, ...]:
    api, version, correlation_id, n = _read_header(data)
    pos = 10 + n if n > 0 else 10
    client_id = None if n < 0 else data[10:pos].decode()
    pos = _skip_tagged(data, pos) if data[pos] else pos + 1
    n = data[pos]
    pos += 1
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    group_id = data[pos:stop].decode()
    generation_id, n = _read_int32_uint8(data, stop)
    pos = stop + 5
    if n > 127:
        n, pos = _read_varint(data, pos - 1)
    stop = pos + n - 1
    member_id = data[pos:stop].decode()
    n = data[stop]
    pos = stop + 1
    if n > 127:
        n, pos = _read_varint(data, stop)
    instance_id = None
    if n:
        stop = pos + n - 1
        instance_id = data[pos:stop].decode()
        pos = stop
    count = data[pos]
    pos += 1
    if count > 127:
        count, pos = _read_varint(data, pos - 1)
    topics = []
    for _ in range(count - 1):
        n = data[pos]
        pos += 1
        if n > 127:
            n, pos = _read_varint(data, pos - 1)
        stop = pos + n - 1
        name = data[pos:stop].decode()
        count_here = data[stop]
        pos = stop + 1
        if count_here > 127:
            count_here, pos = _read_varint(data, stop)
        partitions = []
        for _ in range(count_here - 1):
            index, offset, epoch, n = _read_partition(data, pos)
            pos += 17
            if n > 127:
                n, pos = _read_varint(data, pos - 1)
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


# -- writing ---------------------------------------------------------------------------------------

_write_request_header: Final = Struct(">ihhih").pack
_write_response_header: Final = Struct(">ii").pack
_write_int32: Final = Struct(">i").pack
_write_join_numbers: Final = Struct(">ihi").pack
_write_partition: Final = Struct(">iqi").pack


def _write_varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Short compact lengths; `_write_varint` makes the others.
_SMALL: Final = [_write_varint(value) for value in range(256)]


def _write_heartbeat(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id, member_id, instance_id = (
        message
    )
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    n_group = len(group) + 1
    member = member_id.encode()
    n_member = len(member) + 1
    instance = b"" if instance_id is None else instance_id.encode()
    n_instance = 0 if instance_id is None else len(instance) + 1
    body = b"".join(
        (
            client,
            b"\0",
            _SMALL[n_group] if n_group < 256 else _write_varint(n_group),
            group,
            _write_int32(generation_id),
            _SMALL[n_member] if n_member < 256 else _write_varint(n_member),
            member,
            _SMALL[n_instance] if n_instance < 256 else _write_varint(n_instance),
            instance,
            b"\0",
        )
    )
    return _write_request_header(10 + len(body), api, version, correlation_id, client_size) + body


def _write_join_response(message: tuple[Any, ...]) -> bytes:
    correlation_id, throttle_time_ms, error_code, generation_id = message[:4]
    protocol_type, protocol_name, leader, skip_assignment, member_id, members = message[4:]
    kind = b"" if protocol_type is None else protocol_type.encode()
    n_kind = 0 if protocol_type is None else len(kind) + 1
    protocol = b"" if protocol_name is None else protocol_name.encode()
    n_protocol = 0 if protocol_name is None else len(protocol) + 1
    leading = leader.encode()
    n_leading = len(leading) + 1
    member = member_id.encode()
    n_member = len(member) + 1
    count = len(members) + 1
    pieces = [
        _write_join_numbers(throttle_time_ms, error_code, generation_id),
        _SMALL[n_kind] if n_kind < 256 else _write_varint(n_kind),
        kind,
        _SMALL[n_protocol] if n_protocol < 256 else _write_varint(n_protocol),
        protocol,
        _SMALL[n_leading] if n_leading < 256 else _write_varint(n_leading),
        leading,
        b"\1" if skip_assignment else b"\0",
        _SMALL[n_member] if n_member < 256 else _write_varint(n_member),
        member,
        _SMALL[count] if count < 256 else _write_varint(count),
    ]
    for each_id, instance_id, metadata in members:
        each = each_id.encode()
        n = len(each) + 1
        instance = b"" if instance_id is None else instance_id.encode()
        m = 0 if instance_id is None else len(instance) + 1
        k = len(metadata) + 1
        pieces += (
            _SMALL[n] if n < 256 else _write_varint(n),
            each,
            _SMALL[m] if m < 256 else _write_varint(m),
            instance,
            _SMALL[k] if k < 256 else _write_varint(k),
            metadata,
            b"\0",
        )
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _write_response_header(5 + len(body), correlation_id) + b"\0" + body


def _write_commit(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id = message[:6]
    member_id, instance_id, topics = message[6:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    n_group = len(group) + 1
    member = member_id.encode()
    n_member = len(member) + 1
    instance = b"" if instance_id is None else instance_id.encode()
    n_instance = 0 if instance_id is None else len(instance) + 1
    count = len(topics) + 1
    pieces = [
        client,
        b"\0",
        _SMALL[n_group] if n_group < 256 else _write_varint(n_group),
        group,
        _write_int32(generation_id),
        _SMALL[n_member] if n_member < 256 else _write_varint(n_member),
        member,
        _SMALL[n_instance] if n_instance < 256 else _write_varint(n_instance),
        instance,
        _SMALL[count] if count < 256 else _write_varint(count),
    ]
    for name, partitions in topics:
        data = name.encode()
        n = len(data) + 1
        count = len(partitions) + 1
        pieces += (
            _SMALL[n] if n < 256 else _write_varint(n),
            data,
            _SMALL[count] if count < 256 else _write_varint(count),
        )
        for index, offset, epoch, metadata in partitions:
            data = b"" if metadata is None else metadata.encode()
            n = 0 if metadata is None else len(data) + 1
            pieces += (
                _write_partition(index, offset, epoch),
                _SMALL[n] if n < 256 else _write_varint(n),
                data,
                b"\0",
            )
        pieces.append(b"\0")
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _write_request_header(10 + len(body), api, version, correlation_id, client_size) + body


#: By the name of the message's class and its version.
DECODERS: Final[dict[tuple[str, int], Callable[[bytes], tuple[Any, ...]]]] = {
    ("HeartbeatRequest", 4): _read_heartbeat,
    ("JoinGroupResponse", 9): _read_join_response,
    ("OffsetCommitRequest", 9): _read_commit,
}

ENCODERS: Final[dict[tuple[str, int], Callable[[tuple[Any, ...]], bytes]]] = {
    ("HeartbeatRequest", 4): _write_heartbeat,
    ("JoinGroupResponse", 9): _write_join_response,
    ("OffsetCommitRequest", 9): _write_commit,
}
