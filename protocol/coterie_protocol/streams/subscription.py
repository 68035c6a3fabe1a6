"""SubscriptionInfo: what state a member holds, and how far behind it is."""

from __future__ import annotations

import uuid
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_protocol._compile import codec_of
from coterie_protocol.codec import encode
from coterie_protocol.exceptions import EncodeError, ProtocolError
from coterie_protocol.schema import declaration_of
from coterie_protocol.streams._data import (
    ClientTagData,
    OffsetSumData,
    PlainTaskData,
    SubscriptionInfoData,
    TaskOffsetSumData,
)
from coterie_protocol.streams.tasks import TaskId
from coterie_protocol.streams.versions import (
    EARLIEST_PROBEABLE_VERSION,
    LATEST_VERSION,
    NAMED_TOPOLOGY_VERSION,
    UnknownVersionError,
    read_version,
)

__all__ = [
    "LATEST_OFFSET",
    "UNKNOWN_OFFSET_SUM",
    "SubscriptionInfo",
    "decode_subscription_info",
    "encode_subscription_info",
]

#: In place of an offset sum: the member works on the task, so it is not behind.
LATEST_OFFSET: Final = -2

#: In place of an offset sum: the member holds state of the task, and how much is unknown.
UNKNOWN_OFFSET_SUM: Final = -3

#: Older versions only say which tasks the member worked on and of which others it holds state.
_OFFSET_SUM_VERSION: Final = 7

_SUBJECT: Final = declaration_of(SubscriptionInfoData).subject


@dataclass(frozen=True, slots=True)
class SubscriptionInfo:
    """What a member tells the leader of its group.

    A version without some of the fields drops them silently, as Kafka does, except for the names of
    topologies: without them, tasks could be mistaken for others.
    """

    process_id: uuid.UUID
    #: By task the sum of offsets (in a Coterie group the lag), or one of the constants above.
    #: Versions 1 to 6 know only the constants, and write everything but `LATEST_OFFSET` as unknown.
    task_offset_sums: Mapping[TaskId, int] = field(default_factory=dict)
    #: "host:port" where the process answers queries; since version 2.
    user_endpoint: str | None = None
    #: Since version 8: Kafka's members change it so that their subscription differs from the last.
    unique_field: int = 0
    #: Since version 9.
    error_code: int = 0
    #: Since version 11.
    client_tags: Mapping[str, str] = field(default_factory=dict)
    #: The version in which this is written, or was.
    version: int = LATEST_VERSION
    #: The latest that the member knows; since version 3, and `UNKNOWN_VERSION` from older ones.
    latest_supported_version: int = LATEST_VERSION


def encode_subscription_info(info: SubscriptionInfo) -> bytes:
    """Write a subscription in its version."""
    version, tasks = info.version, info.task_offset_sums
    if version >= EARLIEST_PROBEABLE_VERSION:
        _check_latest(version, info.latest_supported_version)
    if version < NAMED_TOPOLOGY_VERSION:
        _refuse_topologies(tasks, version)
    has_sums = version >= _OFFSET_SUM_VERSION
    active = () if has_sums else (t for t, s in tasks.items() if s == LATEST_OFFSET)
    standby = () if has_sums else (t for t, s in tasks.items() if s != LATEST_OFFSET)
    data = SubscriptionInfoData(
        version=version,
        latest_supported_version=info.latest_supported_version,
        process_id=info.process_id,
        active_tasks=_plain(active),
        standby_tasks=_plain(standby),
        user_endpoint=_utf8(info.user_endpoint or "", version, "user_endpoint"),
        task_offset_sums=_offset_sums(tasks, version) if has_sums else (),
        unique_field=info.unique_field,
        error_code=info.error_code,
        client_tags=tuple(
            ClientTagData(
                key=_utf8(key, version, "client_tags"), value=_utf8(value, version, "client_tags")
            )
            for key, value in info.client_tags.items()
        ),
    )
    return encode(data, version)


def decode_subscription_info(data: bytes, latest: int = LATEST_VERSION) -> SubscriptionInfo:
    """Read a subscription of a version up to `latest`.

    Raises `UnknownVersionError`, which carries what a leader needs to know, for a newer one.  Bytes
    behind the subscription are ignored.
    """
    try:
        version = read_version(data, _SUBJECT, latest)
    except UnknownVersionError as newer:
        _check_claim(newer.version, newer.latest_supported)
        raise
    found: SubscriptionInfoData = codec_of(SubscriptionInfoData, version).decode(data)[0]
    if version >= EARLIEST_PROBEABLE_VERSION:
        _check_claim(version, found.latest_supported_version)
    return SubscriptionInfo(
        process_id=found.process_id,
        task_offset_sums=_task_offset_sums(found),
        user_endpoint=_text(found.user_endpoint, version, "user_endpoint") or None,
        unique_field=found.unique_field,
        error_code=found.error_code,
        client_tags={
            _text(tag.key, version, f"client_tags[{index}].key"): _text(
                tag.value, version, f"client_tags[{index}].value"
            )
            for index, tag in enumerate(found.client_tags)
        },
        version=version,
        latest_supported_version=found.latest_supported_version,
    )


def _plain(tasks: Iterable[TaskId]) -> tuple[PlainTaskData, ...]:
    return tuple(PlainTaskData(subtopology=t.subtopology, partition=t.partition) for t in tasks)


def _offset_sums(tasks: Mapping[TaskId, int], version: int) -> tuple[TaskOffsetSumData, ...]:
    if version >= NAMED_TOPOLOGY_VERSION:
        return tuple(
            TaskOffsetSumData(
                subtopology=task.subtopology,
                partition=task.partition,
                offset_sum=offset_sum,
                topology=task.topology or None,
            )
            for task, offset_sum in tasks.items()
        )
    by_subtopology: dict[int, list[OffsetSumData]] = {}
    for task, offset_sum in tasks.items():
        entry = OffsetSumData(partition=task.partition, offset_sum=offset_sum)
        by_subtopology.setdefault(task.subtopology, []).append(entry)
    return tuple(
        TaskOffsetSumData(subtopology=subtopology, partitions=tuple(entries))
        for subtopology, entries in by_subtopology.items()
    )


def _task_offset_sums(found: SubscriptionInfoData) -> dict[TaskId, int]:
    """What was said of each task; the last word counts, as in Kafka."""
    if found.version >= NAMED_TOPOLOGY_VERSION:
        return {
            TaskId(entry.subtopology, entry.partition, entry.topology or None): entry.offset_sum
            for entry in found.task_offset_sums
        }
    if found.version >= _OFFSET_SUM_VERSION:
        return {
            TaskId(entry.subtopology, inner.partition): inner.offset_sum
            for entry in found.task_offset_sums
            for inner in entry.partitions
        }
    sums = {TaskId(t.subtopology, t.partition): LATEST_OFFSET for t in found.active_tasks}
    for task in found.standby_tasks:
        sums[TaskId(task.subtopology, task.partition)] = UNKNOWN_OFFSET_SUM
    return sums


def _refuse_topologies(tasks: Iterable[TaskId], version: int) -> None:
    for task in tasks:
        if task.topology:
            reason = f"task {task}: names of topologies need version {NAMED_TOPOLOGY_VERSION}"
            raise _cannot_write(reason, version, "task_offset_sums")


def _check_latest(version: int, latest: int) -> None:
    if latest < version:
        reason = f"{latest} can't be the latest version that the writer of version {version} knows"
        raise _cannot_write(reason, version, "latest_supported_version")


def _check_claim(version: int, latest: int) -> None:
    if latest < version:
        raise ProtocolError(
            f"{latest} can't be the latest version that the writer of version {version} knows",
            subject=_SUBJECT,
            version=version,
            field="latest_supported_version",
            offset=4,
        )


def _utf8(text: str, version: int, name: str) -> bytes:
    try:
        return text.encode()
    except UnicodeEncodeError as error:
        raise _cannot_write(f"not UTF-8: {error.reason}", version, name) from None


def _text(data: bytes, version: int, name: str) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError as error:
        reason = f"bad UTF-8: {error.reason}"
        raise ProtocolError(reason, subject=_SUBJECT, version=version, field=name) from None


def _cannot_write(reason: str, version: int, name: str) -> EncodeError:
    return EncodeError(reason, subject=_SUBJECT, version=version, field=name)
