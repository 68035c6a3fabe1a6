"""AssignmentInfo: the tasks that a member is given, in which roles, and when to rebalance next."""

from __future__ import annotations

import struct
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol._compile import codec_of
from coterie_protocol.codec import decode, encode
from coterie_protocol.exceptions import EncodeError, ProtocolError
from coterie_protocol.schema import declaration_of
from coterie_protocol.streams._data import (
    AssignmentInfoData,
    HostPartitionsData,
    NumberedHostPartitionsData,
    NumberedPartitionData,
    NumberedTopicData,
    StandbyTaskData,
    TargetData,
    TaskData,
    TaskReferenceData,
    TopicPartitionData,
    WarmData,
)
from coterie_protocol.streams.tasks import TaskId
from coterie_protocol.streams.versions import LATEST_VERSION, read_version

__all__ = [
    "NO_REBALANCE",
    "AssignmentInfo",
    "HostInfo",
    "Partitions",
    "decode_assignment_info",
    "encode_assignment_info",
]

#: In place of the time of the next rebalance: none is planned.
NO_REBALANCE: Final = 2**63 - 1

#: (topic, partition) pairs, each once; Kafka has sets, and their order means nothing.
Partitions = tuple[tuple[str, int], ...]

_SUBJECT: Final = declaration_of(AssignmentInfoData).subject
_INT16: Final = struct.Struct(">h")
#: Of what Coterie writes behind Kafka's assignment.
_WARM_VERSION: Final = 0

#: From this version on, topics are written once and then referred to by numbers.
_NUMBERED_VERSION: Final = 5
_STANDBY_HOSTS_VERSION: Final = 6
_NAMED_HOSTS_VERSIONS: Final = range(2, _NUMBERED_VERSION)


@dataclass(frozen=True, slots=True)
class HostInfo:
    """Where a process answers queries."""

    host: str
    port: int


@dataclass(frozen=True, slots=True)
class AssignmentInfo:
    """What the leader of a group tells a member.

    A version without some of the fields drops them silently, as Kafka does, except for the names of
    topologies: without them, tasks could be mistaken for others.
    """

    active_tasks: tuple[TaskId, ...] = ()
    #: The tasks whose state the member keeps up to date, warm-ups included, and the partitions that
    #: the state of each is of.
    standby_tasks: Mapping[TaskId, Partitions] = field(default_factory=dict)
    #: Since version 2.
    partitions_by_host: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    #: Since version 6.
    standby_partitions_by_host: Mapping[HostInfo, Partitions] = field(default_factory=dict)
    #: Since version 4.
    error_code: int = 0
    #: Since version 7: the time, in milliseconds since 1970, at which the member is to have the
    #: group rebalance; 0 for at once.
    next_rebalance_ms: int = NO_REBALANCE
    #: The version in which this is written, or was.
    version: int = LATEST_VERSION
    #: The latest that all members know; since version 3, and `UNKNOWN_VERSION` from older ones.
    commonly_supported_version: int = LATEST_VERSION
    #: Coterie's own: those of the standby tasks that are to become active once they are caught up.
    #: Like `targets`, this follows the assignment, where Kafka does not look.
    warmups: frozenset[TaskId] = frozenset()
    #: Coterie's own: by task the member id of the member that is to work on it in the end, where
    #: another member works on it now.
    targets: Mapping[TaskId, str] = field(default_factory=dict)


def encode_assignment_info(info: AssignmentInfo) -> bytes:
    """Write an assignment in its version, followed by Coterie's own fields if there are any."""
    version = info.version
    if not info.warmups <= info.standby_tasks.keys():
        raise _cannot_write("warm-ups that are not among the standby tasks", version, "warmups")
    hosts = info.partitions_by_host
    standby_hosts = info.standby_partitions_by_host if version >= _STANDBY_HOSTS_VERSION else {}
    numbers = _topic_numbers(hosts, standby_hosts) if version >= _NUMBERED_VERSION else {}
    data = AssignmentInfoData(
        version=version,
        commonly_supported_version=info.commonly_supported_version,
        active_tasks=tuple(_task_data(task, version, "active_tasks") for task in info.active_tasks),
        standby_tasks=tuple(
            StandbyTaskData(
                task=_task_data(task, version, "standby_tasks"), partitions=_named(partitions)
            )
            for task, partitions in info.standby_tasks.items()
        ),
        hosts=_hosts(hosts) if version in _NAMED_HOSTS_VERSIONS else (),
        topics=tuple(NumberedTopicData(number=n, topic=topic) for topic, n in numbers.items()),
        numbered_hosts=_numbered_hosts(hosts, numbers) if version >= _NUMBERED_VERSION else (),
        standby_hosts=_numbered_hosts(standby_hosts, numbers),
        error_code=info.error_code,
        next_rebalance_ms=info.next_rebalance_ms,
    )
    for name, text in _strange_names(data):
        raise _cannot_write(
            f"{text[:50]!r} is a name that Java writes in another way", version, name
        )
    return encode(data, version) + _encode_warm(info)


def decode_assignment_info(data: bytes, latest: int = LATEST_VERSION) -> AssignmentInfo:
    """Read an assignment of a version up to `latest`.

    Raises `UnknownVersionError` for a newer one.  Bytes behind the assignment are ignored unless
    they are Coterie's own fields.
    """
    version = read_version(data, _SUBJECT, latest)
    found: AssignmentInfoData
    found, end = codec_of(AssignmentInfoData, version).decode(data)
    for name, text in _strange_names(found):
        raise _malformed(f"{text[:50]!r} is a name that Java writes in another way", version, name)
    topics = {entry.number: entry.topic for entry in found.topics}
    hosts = _by_number(found.numbered_hosts, topics, version, "numbered_hosts")
    standby_hosts = _by_number(found.standby_hosts, topics, version, "standby_hosts")
    standby_tasks = {
        _task(each.task, version, "standby_tasks"): _pairs(each.partitions)
        for each in found.standby_tasks
    }
    warmups, targets = _decode_warm(data[end:], standby_tasks)
    return AssignmentInfo(
        active_tasks=tuple(_task(task, version, "active_tasks") for task in found.active_tasks),
        standby_tasks=standby_tasks,
        partitions_by_host=hosts or _by_host(found.hosts),
        standby_partitions_by_host=standby_hosts,
        error_code=found.error_code,
        next_rebalance_ms=found.next_rebalance_ms,
        version=version,
        commonly_supported_version=found.commonly_supported_version,
        warmups=warmups,
        targets=targets,
    )


def _strange_names(data: AssignmentInfoData) -> Iterator[tuple[str, str]]:
    """Names for which Java's "modified UTF-8" is not UTF-8, and their fields; Kafka allows none.

    Each is looked at as often as it is written: topics with numbers only once.
    """
    for name, hosts in (
        ("hosts", data.hosts),
        ("numbered_hosts", data.numbered_hosts),
        ("standby_hosts", data.standby_hosts),
    ):
        yield from ((name, each.host) for each in hosts if _is_strange(each.host))
    for name, topics in (
        ("standby_tasks", (pair.topic for each in data.standby_tasks for pair in each.partitions)),
        ("hosts", (pair.topic for each in data.hosts for pair in each.partitions)),
        ("topics", (each.topic for each in data.topics)),
    ):
        yield from ((name, topic) for topic in topics if _is_strange(topic))


def _is_strange(text: str) -> bool:
    return "\0" in text or (not text.isascii() and max(text) > "\uffff")


# Tasks


def _task_data(task: TaskId, version: int, name: str) -> TaskData:
    try:
        encoded = (task.topology or "").encode("utf-16-be")
    except UnicodeEncodeError as error:
        reason = f"task {task!r}: not UTF-16: {error.reason}"
        raise _cannot_write(reason, version, name) from None
    units = struct.unpack(f">{len(encoded) // 2}h", encoded)
    return TaskData(subtopology=task.subtopology, partition=task.partition, topology=units)


def _task(data: TaskData, version: int, name: str) -> TaskId:
    if not data.topology:
        return TaskId(data.subtopology, data.partition)
    try:
        units = struct.pack(f">{len(data.topology)}h", *data.topology)
        return TaskId(data.subtopology, data.partition, units.decode("utf-16-be"))
    except UnicodeDecodeError as error:
        raise _malformed(f"bad UTF-16: {error.reason}", version, name) from None


# Partitions


def _named(partitions: Partitions) -> tuple[TopicPartitionData, ...]:
    return tuple(TopicPartitionData(topic=topic, partition=number) for topic, number in partitions)


def _pairs(partitions: Iterable[TopicPartitionData]) -> Partitions:
    return tuple((each.topic, each.partition) for each in partitions)


def _hosts(by_host: Mapping[HostInfo, Partitions]) -> tuple[HostPartitionsData, ...]:
    return tuple(
        HostPartitionsData(host=host.host, port=host.port, partitions=_named(partitions))
        for host, partitions in by_host.items()
    )


def _by_host(hosts: Iterable[HostPartitionsData]) -> dict[HostInfo, Partitions]:
    return {HostInfo(each.host, each.port): _pairs(each.partitions) for each in hosts}


def _topic_numbers(*by_host: Mapping[HostInfo, Partitions]) -> dict[str, int]:
    """Number the topics in the order in which they come."""
    partitions = (pair for each in by_host for pairs in each.values() for pair in pairs)
    topics = dict.fromkeys(topic for topic, _ in partitions)
    return {topic: number for number, topic in enumerate(topics)}


def _numbered_hosts(
    by_host: Mapping[HostInfo, Partitions], numbers: Mapping[str, int]
) -> tuple[NumberedHostPartitionsData, ...]:
    return tuple(
        NumberedHostPartitionsData(
            host=host.host,
            port=host.port,
            partitions=tuple(
                NumberedPartitionData(topic=numbers[topic], partition=number)
                for topic, number in partitions
            ),
        )
        for host, partitions in by_host.items()
    )


def _by_number(
    hosts: Iterable[NumberedHostPartitionsData],
    topics: Mapping[int, str],
    version: int,
    name: str,
) -> dict[HostInfo, Partitions]:
    try:
        return {
            HostInfo(each.host, each.port): tuple(
                (topics[pair.topic], pair.partition) for pair in each.partitions
            )
            for each in hosts
        }
    except KeyError as missing:
        reason = f"no topic has the number {missing}"
        raise _malformed(reason, version, name) from None


# Coterie's own fields


def _encode_warm(info: AssignmentInfo) -> bytes:
    if not (info.warmups or info.targets):
        return b""
    warm = WarmData(
        warmups=tuple(_reference(task) for task in info.standby_tasks if task in info.warmups),
        targets=tuple(
            TargetData(task=_reference(task), member_id=member_id)
            for task, member_id in info.targets.items()
        ),
    )
    return _INT16.pack(_WARM_VERSION) + encode(warm, _WARM_VERSION)


def _decode_warm(
    data: bytes, standby_tasks: Mapping[TaskId, Partitions]
) -> tuple[frozenset[TaskId], dict[TaskId, str]]:
    """Read what a Coterie leader may have written behind; other bytes are someone else's."""
    nothing: tuple[frozenset[TaskId], dict[TaskId, str]] = frozenset(), {}
    if len(data) < _INT16.size or _INT16.unpack_from(data)[0] != _WARM_VERSION:
        return nothing
    try:
        warm = decode(WarmData, _WARM_VERSION, data[_INT16.size :])
    except ProtocolError:
        return nothing
    warmups = frozenset(_referred(each) for each in warm.warmups)
    if not warmups <= standby_tasks.keys():
        return nothing
    return warmups, {_referred(each.task): each.member_id for each in warm.targets}


def _reference(task: TaskId) -> TaskReferenceData:
    return TaskReferenceData(
        subtopology=task.subtopology, partition=task.partition, topology=task.topology or None
    )


def _referred(data: TaskReferenceData) -> TaskId:
    return TaskId(data.subtopology, data.partition, data.topology or None)


def _malformed(reason: str, version: int, name: str) -> ProtocolError:
    return ProtocolError(reason, subject=_SUBJECT, version=version, field=name)


def _cannot_write(reason: str, version: int, name: str) -> EncodeError:
    return EncodeError(reason, subject=_SUBJECT, version=version, field=name)
