"""The loads of partitions, which members of Coterie tell the leader behind their user data.

They are in a block of their own (`coterie_protocol.blocks`).

A report tells of each partition that the member owns what load it is and for how long the member
has had it, and the same of those that went to other members a while ago.  Times are durations, so
that no two clocks have to agree.
"""

from __future__ import annotations

import struct
from collections.abc import Mapping
from dataclasses import dataclass
from dataclasses import field as default
from math import isfinite
from typing import Final

from coterie_protocol._compile import codec_of
from coterie_protocol.blocks import add_block, take_block
from coterie_protocol.codec import encode
from coterie_protocol.exceptions import ProtocolError
from coterie_protocol.schema import FLOAT64, INT32, STRING, Array, declaration_of, field
from coterie_protocol.schema import struct as structure

__all__ = [
    "LOAD_MAX",
    "Load",
    "LoadReport",
    "join_load_report",
    "split_load_report",
]

#: The highest load; sums of as many as there can be stay exact enough to compare.
LOAD_MAX: Final = 1e15

_AGE_MAX_MS: Final = 2**31 - 1
_UNKNOWN: Final = -1.0

_VERSION: Final = struct.Struct(">h")
_KIND: Final = b"lOAD"

_Key = tuple[str, int]


@dataclass(frozen=True, slots=True)
class Load:
    """What a member tells of a partition."""

    #: The load, in whatever unit the application measures; None if it is not known (yet).
    value: float | None
    #: For how long the member has owned the partition, or has not owned it any more.
    age_ms: int


@dataclass(frozen=True, slots=True)
class LoadReport:
    """What a member tells of its partitions."""

    owned: Mapping[_Key, Load] = default(default_factory=dict)
    #: What it had, and what was assigned to other members, while that is not long ago.
    left: Mapping[_Key, Load] = default(default_factory=dict)


@structure()
class _PartitionLoad:
    partition: int = field(INT32)
    load: float = field(FLOAT64)
    age_ms: int = field(INT32)


@structure()
class _TopicLoads:
    topic: str = field(STRING)
    partitions: tuple[_PartitionLoad, ...] = field(Array(_PartitionLoad))


@structure(versions="0")
class LoadsData:
    owned: tuple[_TopicLoads, ...] = field(Array(_TopicLoads))
    left: tuple[_TopicLoads, ...] = field(Array(_TopicLoads))


def join_load_report(own: bytes, report: LoadReport) -> bytes:
    """Put a report behind an assignor's own user data."""
    body = encode(LoadsData(owned=_by_topic(report.owned), left=_by_topic(report.left)), 0)
    return add_block(own, _KIND, _VERSION.pack(0) + body)


def split_load_report(data: bytes | None) -> tuple[bytes | None, LoadReport | None]:
    """The assignor's own user data, and the report behind it if there is one that can be read."""
    own, block = take_block(data, _KIND)
    return own, None if block is None else _read(block)


def _by_topic(loads: Mapping[_Key, Load]) -> tuple[_TopicLoads, ...]:
    topics: dict[str, list[_PartitionLoad]] = {}
    for (topic, number), load in sorted(loads.items(), key=lambda item: item[0]):
        written = _PartitionLoad(
            partition=number,
            load=_UNKNOWN if load.value is None else load.value,
            age_ms=min(load.age_ms, _AGE_MAX_MS),
        )
        topics.setdefault(topic, []).append(written)
    return tuple(_TopicLoads(topic=t, partitions=tuple(p)) for t, p in topics.items())


def _read(block: bytes) -> LoadReport | None:
    """Read a report of this version or, as far as it is known, of a later one."""
    if len(block) < _VERSION.size or _VERSION.unpack_from(block)[0] < 0:
        return None
    newest = declaration_of(LoadsData).versions.last
    try:
        report, _ = codec_of(LoadsData, newest).decode(block, _VERSION.size)
    except ProtocolError:
        return None
    return LoadReport(_by_partition(report.owned), _by_partition(report.left))


def _by_partition(topics: tuple[_TopicLoads, ...]) -> dict[_Key, Load]:
    return {
        (entry.topic, each.partition): Load(_sound(each.load), max(0, each.age_ms))
        for entry in topics
        for each in entry.partitions
    }


def _sound(load: float) -> float | None:
    """What other members write need not make sense."""
    return load if isfinite(load) and 0 <= load <= LOAD_MAX else None
