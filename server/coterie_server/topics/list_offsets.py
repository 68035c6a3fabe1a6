"""ListOffsets: where partitions that hold no records begin and end.

They begin at 0, also where the end is higher.  There is nothing in between, but a group that is
new, or is set back to the beginning, has to start at 0: what these offsets count lies elsewhere,
and may all be there still.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    ListOffsetsPartitionResponse,
    ListOffsetsResponse,
    ListOffsetsTopicResponse,
)
from coterie_server.topics.checks import check_epoch
from coterie_server.topics.topic_table import LEADER_EPOCH
from coterie_server.turns import Piece, begin

if TYPE_CHECKING:
    from collections.abc import Mapping
    from collections.abc import Set as AbstractSet

    from coterie_protocol.messages import ListOffsetsPartition, ListOffsetsRequest
    from coterie_server.step import Request
    from coterie_server.topics.step import Step
    from coterie_server.turns import Making, Unfinished

__all__ = ["list_offsets"]

_LATEST: Final = -1
_EARLIEST: Final = -2
_MAX_TIMESTAMP: Final = -3
_EARLIEST_LOCAL: Final = -4

#: The numbers that stand for something else than a time, and the version each came with.
_KNOWN_FROM: Final = {_LATEST: 0, _EARLIEST: 0, _MAX_TIMESTAMP: 7, _EARLIEST_LOCAL: 8}

#: Version 0 asks for a list of offsets.
_LIST_UNTIL: Final = 0
#: From this version on an offset comes with the epoch of the partition's leader.
_EPOCHS_FROM: Final = 4


def list_offsets(step: Step, request: Request) -> ListOffsetsResponse | Unfinished:
    """Tell that every partition begins at 0, and ends where `PartitionEnds` says."""
    message: ListOffsetsRequest = request.message
    asked: dict[str, dict[int, ListOffsetsPartition]] = {}
    repeated: set[tuple[str, int]] = set()
    for topic in message.topics:
        partitions = asked.setdefault(topic.name, {})
        for partition in topic.partitions:
            if partition.partition_index in partitions:
                repeated.add((topic.name, partition.partition_index))
            partitions[partition.partition_index] = partition
    return begin(_tell(step, request, asked, repeated))


def _tell(
    step: Step,
    request: Request,
    asked: Mapping[str, Mapping[int, ListOffsetsPartition]],
    repeated: AbstractSet[tuple[str, int]],
) -> Making[ListOffsetsResponse]:
    piece = Piece()
    topics = []
    for name, partitions in asked.items():
        results = []
        for index, partition in partitions.items():
            is_repeated = (name, index) in repeated
            results.append(_one(step, request, name, partition, is_repeated=is_repeated))
            if piece.is_whole():
                yield
        if results:
            topics.append(ListOffsetsTopicResponse(name=name, partitions=tuple(results)))
    return ListOffsetsResponse(topics=tuple(topics))


def _one(
    step: Step, request: Request, topic: str, partition: ListOffsetsPartition, *, is_repeated: bool
) -> ListOffsetsPartitionResponse:
    error = _check(step, request, topic, partition, is_repeated=is_repeated)
    index = partition.partition_index
    # No record is younger than any time, so nothing is found by time, nor the youngest one.
    is_found = partition.timestamp in {_LATEST, _EARLIEST, _EARLIEST_LOCAL}
    if error is not None or not is_found:
        return ListOffsetsPartitionResponse(
            partition_index=index, error_code=error or ErrorCode.NONE
        )
    offset = step.ends.end(topic, index) if partition.timestamp == _LATEST else 0
    if request.version <= _LIST_UNTIL:
        # As an old broker does, the one asked for and, if there is room, where the log begins.
        offsets = tuple(dict.fromkeys((offset, 0)))[: max(partition.max_num_offsets, 0)]
        return ListOffsetsPartitionResponse(partition_index=index, old_style_offsets=offsets)
    epoch = LEADER_EPOCH if request.version >= _EPOCHS_FROM else -1
    return ListOffsetsPartitionResponse(partition_index=index, offset=offset, leader_epoch=epoch)


def _check(
    step: Step, request: Request, topic: str, partition: ListOffsetsPartition, *, is_repeated: bool
) -> ErrorCode | None:
    if is_repeated:
        return ErrorCode.INVALID_REQUEST
    timestamp = partition.timestamp
    if timestamp < 0 and request.version < _KNOWN_FROM.get(timestamp, request.version + 1):
        return ErrorCode.UNSUPPORTED_VERSION
    if not step.table.has_partition(topic, partition.partition_index):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return check_epoch(partition.current_leader_epoch)
