"""The floor for writing: one function per message and version, as one writes it by hand.

Each takes the tuple that its counterpart in `by_hand_decode` answers, and makes the whole frame.
Nothing is checked; what `struct` cannot pack fails without saying which field it was.
"""

from __future__ import annotations

from collections.abc import Callable
from struct import Struct
from typing import Any, Final

__all__ = ["ENCODERS"]

_FRAME: Final = Struct(">ihhih").pack
_RESPONSE_FRAME: Final = Struct(">ii").pack
_INT16: Final = Struct(">h").pack
_INT32: Final = Struct(">i").pack
_INT32_INT16: Final = Struct(">ih").pack
_INT32_TWICE: Final = Struct(">ii").pack
_INT32_TWICE_INT16: Final = Struct(">iih").pack
_INT64_INT32: Final = Struct(">qi").pack
_JOINED_5: Final = Struct(">ihih").pack
_JOINED_9: Final = Struct(">ihi").pack
_PARTITION_3: Final = Struct(">iqh").pack
_PARTITION_9: Final = Struct(">iqi").pack


def _varint(value: int) -> bytes:
    out = bytearray()
    while value > 127:
        out.append(value & 127 | 128)
        value >>= 7
    out.append(value)
    return bytes(out)


#: Compact lengths that are ready made; `_varint` makes the others.
_SMALL: Final = [_varint(value) for value in range(256)]


def _heartbeat_0(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id, member_id = message
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    member = member_id.encode()
    size = 18 + len(client) + len(group) + len(member)
    return b"".join(
        (
            _FRAME(size, api, version, correlation_id, client_size),
            client,
            _INT16(len(group)),
            group,
            _INT32_INT16(generation_id, len(member)),
            member,
        )
    )


def _heartbeat_3(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id, member_id, instance_id = (
        message
    )
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    member = member_id.encode()
    instance = b"" if instance_id is None else instance_id.encode()
    size = 20 + len(client) + len(group) + len(member) + len(instance)
    return b"".join(
        (
            _FRAME(size, api, version, correlation_id, client_size),
            client,
            _INT16(len(group)),
            group,
            _INT32_INT16(generation_id, len(member)),
            member,
            _INT16(-1 if instance_id is None else len(instance)),
            instance,
        )
    )


def _heartbeat_4(message: tuple[Any, ...]) -> bytes:
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
            _SMALL[n_group] if n_group < 256 else _varint(n_group),
            group,
            _INT32(generation_id),
            _SMALL[n_member] if n_member < 256 else _varint(n_member),
            member,
            _SMALL[n_instance] if n_instance < 256 else _varint(n_instance),
            instance,
            b"\0",
        )
    )
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _join_5(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id = message[:5]
    session_timeout_ms, rebalance_timeout_ms, member_id = message[5:8]
    instance_id, protocol_type, protocols = message[8:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    member = member_id.encode()
    instance = b"" if instance_id is None else instance_id.encode()
    kind = protocol_type.encode()
    pieces = [
        client,
        _INT16(len(group)),
        group,
        _INT32_TWICE_INT16(session_timeout_ms, rebalance_timeout_ms, len(member)),
        member,
        _INT16(-1 if instance_id is None else len(instance)),
        instance,
        _INT16(len(kind)),
        kind,
        _INT32(len(protocols)),
    ]
    for name, metadata in protocols:
        data = name.encode()
        pieces += (_INT16(len(data)), data, _INT32(len(metadata)), metadata)
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _join_9(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id = message[:5]
    session_timeout_ms, rebalance_timeout_ms, member_id = message[5:8]
    instance_id, protocol_type, protocols, reason = message[8:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    n_group = len(group) + 1
    member = member_id.encode()
    n_member = len(member) + 1
    instance = b"" if instance_id is None else instance_id.encode()
    n_instance = 0 if instance_id is None else len(instance) + 1
    kind = protocol_type.encode()
    n_kind = len(kind) + 1
    count = len(protocols) + 1
    pieces = [
        client,
        b"\0",
        _SMALL[n_group] if n_group < 256 else _varint(n_group),
        group,
        _INT32_TWICE(session_timeout_ms, rebalance_timeout_ms),
        _SMALL[n_member] if n_member < 256 else _varint(n_member),
        member,
        _SMALL[n_instance] if n_instance < 256 else _varint(n_instance),
        instance,
        _SMALL[n_kind] if n_kind < 256 else _varint(n_kind),
        kind,
        _SMALL[count] if count < 256 else _varint(count),
    ]
    for name, metadata in protocols:
        data = name.encode()
        n = len(data) + 1
        m = len(metadata) + 1
        pieces += (
            _SMALL[n] if n < 256 else _varint(n),
            data,
            _SMALL[m] if m < 256 else _varint(m),
            metadata,
            b"\0",
        )
    why = b"" if reason is None else reason.encode()
    n = 0 if reason is None else len(why) + 1
    pieces += (_SMALL[n] if n < 256 else _varint(n), why, b"\0")
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _joined_5(message: tuple[Any, ...]) -> bytes:
    correlation_id, throttle_time_ms, error_code, generation_id = message[:4]
    protocol_name, leader, member_id, members = message[4:]
    protocol = protocol_name.encode()
    leading = leader.encode()
    member = member_id.encode()
    pieces = [
        _JOINED_5(throttle_time_ms, error_code, generation_id, len(protocol)),
        protocol,
        _INT16(len(leading)),
        leading,
        _INT16(len(member)),
        member,
        _INT32(len(members)),
    ]
    for each_id, instance_id, metadata in members:
        each = each_id.encode()
        instance = b"" if instance_id is None else instance_id.encode()
        pieces += (
            _INT16(len(each)),
            each,
            _INT16(-1 if instance_id is None else len(instance)),
            instance,
            _INT32(len(metadata)),
            metadata,
        )
    body = b"".join(pieces)
    return _RESPONSE_FRAME(4 + len(body), correlation_id) + body


def _joined_9(message: tuple[Any, ...]) -> bytes:
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
        _JOINED_9(throttle_time_ms, error_code, generation_id),
        _SMALL[n_kind] if n_kind < 256 else _varint(n_kind),
        kind,
        _SMALL[n_protocol] if n_protocol < 256 else _varint(n_protocol),
        protocol,
        _SMALL[n_leading] if n_leading < 256 else _varint(n_leading),
        leading,
        b"\1" if skip_assignment else b"\0",
        _SMALL[n_member] if n_member < 256 else _varint(n_member),
        member,
        _SMALL[count] if count < 256 else _varint(count),
    ]
    for each_id, instance_id, metadata in members:
        each = each_id.encode()
        n = len(each) + 1
        instance = b"" if instance_id is None else instance_id.encode()
        m = 0 if instance_id is None else len(instance) + 1
        k = len(metadata) + 1
        pieces += (
            _SMALL[n] if n < 256 else _varint(n),
            each,
            _SMALL[m] if m < 256 else _varint(m),
            instance,
            _SMALL[k] if k < 256 else _varint(k),
            metadata,
            b"\0",
        )
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _RESPONSE_FRAME(5 + len(body), correlation_id) + b"\0" + body


def _sync_3(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id = message[:6]
    member_id, instance_id, assignments = message[6:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    member = member_id.encode()
    instance = b"" if instance_id is None else instance_id.encode()
    pieces = [
        client,
        _INT16(len(group)),
        group,
        _INT32_INT16(generation_id, len(member)),
        member,
        _INT16(-1 if instance_id is None else len(instance)),
        instance,
        _INT32(len(assignments)),
    ]
    for each_id, assignment in assignments:
        each = each_id.encode()
        pieces += (_INT16(len(each)), each, _INT32(len(assignment)), assignment)
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _sync_5(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id = message[:6]
    member_id, instance_id, protocol_type, protocol_name, assignments = message[6:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    n_group = len(group) + 1
    member = member_id.encode()
    n_member = len(member) + 1
    instance = b"" if instance_id is None else instance_id.encode()
    n_instance = 0 if instance_id is None else len(instance) + 1
    kind = b"" if protocol_type is None else protocol_type.encode()
    n_kind = 0 if protocol_type is None else len(kind) + 1
    protocol = b"" if protocol_name is None else protocol_name.encode()
    n_protocol = 0 if protocol_name is None else len(protocol) + 1
    count = len(assignments) + 1
    pieces = [
        client,
        b"\0",
        _SMALL[n_group] if n_group < 256 else _varint(n_group),
        group,
        _INT32(generation_id),
        _SMALL[n_member] if n_member < 256 else _varint(n_member),
        member,
        _SMALL[n_instance] if n_instance < 256 else _varint(n_instance),
        instance,
        _SMALL[n_kind] if n_kind < 256 else _varint(n_kind),
        kind,
        _SMALL[n_protocol] if n_protocol < 256 else _varint(n_protocol),
        protocol,
        _SMALL[count] if count < 256 else _varint(count),
    ]
    for each_id, assignment in assignments:
        each = each_id.encode()
        n = len(each) + 1
        m = len(assignment) + 1
        pieces += (
            _SMALL[n] if n < 256 else _varint(n),
            each,
            _SMALL[m] if m < 256 else _varint(m),
            assignment,
            b"\0",
        )
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _commit_3(message: tuple[Any, ...]) -> bytes:
    api, version, correlation_id, client_id, group_id, generation_id = message[:6]
    member_id, retention_time_ms, topics = message[6:]
    client = b"" if client_id is None else client_id.encode()
    client_size = -1 if client_id is None else len(client)
    group = group_id.encode()
    member = member_id.encode()
    pieces = [
        client,
        _INT16(len(group)),
        group,
        _INT32_INT16(generation_id, len(member)),
        member,
        _INT64_INT32(retention_time_ms, len(topics)),
    ]
    for name, partitions in topics:
        data = name.encode()
        pieces += (_INT16(len(data)), data, _INT32(len(partitions)))
        for index, offset, metadata in partitions:
            if metadata is None:
                pieces.append(_PARTITION_3(index, offset, -1))
            else:
                data = metadata.encode()
                pieces += (_PARTITION_3(index, offset, len(data)), data)
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


def _commit_9(message: tuple[Any, ...]) -> bytes:
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
        _SMALL[n_group] if n_group < 256 else _varint(n_group),
        group,
        _INT32(generation_id),
        _SMALL[n_member] if n_member < 256 else _varint(n_member),
        member,
        _SMALL[n_instance] if n_instance < 256 else _varint(n_instance),
        instance,
        _SMALL[count] if count < 256 else _varint(count),
    ]
    for name, partitions in topics:
        data = name.encode()
        n = len(data) + 1
        count = len(partitions) + 1
        pieces += (
            _SMALL[n] if n < 256 else _varint(n),
            data,
            _SMALL[count] if count < 256 else _varint(count),
        )
        for index, offset, epoch, metadata in partitions:
            data = b"" if metadata is None else metadata.encode()
            n = 0 if metadata is None else len(data) + 1
            pieces += (
                _PARTITION_9(index, offset, epoch),
                _SMALL[n] if n < 256 else _varint(n),
                data,
                b"\0",
            )
        pieces.append(b"\0")
    pieces.append(b"\0")
    body = b"".join(pieces)
    return _FRAME(10 + len(body), api, version, correlation_id, client_size) + body


#: By the name of the message's class, and version.
ENCODERS: Final[dict[tuple[str, int], Callable[[tuple[Any, ...]], bytes]]] = {
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
