"""Commits, which a client repeats with other offsets: their partitions by column, and a decoder.

A consumer commits the same partitions again and again.  Of the frame, only the offsets change then,
with the number that the answer is known by, and the one that Coterie's own client gives each
commit.  `CommitDecoder` knows where in the last frame these were.  If all other bytes are the same,
it reads them at once, and takes everything else from the last message.
"""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator, Sequence
from functools import lru_cache
from operator import attrgetter
from typing import Any, Final, SupportsIndex, cast, final, overload

from coterie_protocol._sequences import ByColumn
from coterie_protocol._twin import copier_of, replaced, twin_of
from coterie_protocol.codec import Request, decode_request, encode_request
from coterie_protocol.messages import (
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
)

__all__ = ["CommitDecoder", "CommittedPartitions"]

#: Of a larger commit nothing is remembered: a client might make each of its connections hold many
#: times the bytes of a request.
_REMEMBERED_MAX_BYTES: Final = 2048
_REMEMBERED_MAX_TOPICS: Final = 8
_REMEMBERED_MAX_PARTITIONS: Final = 64
#: Before this version a partition may have a time of its own.
_WITHOUT_TIMES_FROM: Final = 2
#: Each commit that was remembered for nothing doubles how many are let pass before the next one
#: is, up to 2 to the power of this.
_DOUBLED_MAX: Final = 10

#: Where a payload has the number by which the client knows the answer.
_NUMBER_AT: Final = 4
_NUMBER_BYTES: Final = 4
_LENGTH_BYTES: Final = 4
_OFFSET_BYTES: Final = 8

_OTHER_BITS: Final = re.compile(rb"\xff{8}")
_fields_of: Final = attrgetter(
    "partition_index", "committed_offset", "committed_leader_epoch", "committed_metadata"
)

_TopicTwin: Final = cast(Any, twin_of(OffsetCommitRequestTopic))
_copy_of_message: Final = copier_of(OffsetCommitRequest)
_copy_of_request: Final = copier_of(Request)


@final
class CommittedPartitions(ByColumn[OffsetCommitRequestPartition]):
    """The partitions of a topic in a commit, by column; each is put together when it is asked for.

    They have no times of their own, which only version 1 of the request has.
    """

    __slots__ = ("epochs", "indexes", "metadata", "offsets")

    def __init__(
        self,
        indexes: tuple[int, ...],
        offsets: tuple[int, ...],
        epochs: tuple[int, ...],
        metadata: tuple[str | None, ...],
    ) -> None:
        self.indexes = indexes
        self.offsets = offsets
        self.epochs = epochs
        self.metadata = metadata

    @classmethod
    def of(cls, partitions: Sequence[OffsetCommitRequestPartition]) -> CommittedPartitions:
        """These partitions by column, without times of their own."""
        if isinstance(partitions, CommittedPartitions):
            return partitions
        columns = zip(*map(_fields_of, partitions), strict=True)
        return cls(*cast(Any, tuple(columns) or ((), (), (), ())))

    def __len__(self) -> int:
        return len(self.indexes)

    @overload
    def __getitem__(self, at: SupportsIndex) -> OffsetCommitRequestPartition: ...
    @overload
    def __getitem__(self, at: slice) -> tuple[OffsetCommitRequestPartition, ...]: ...
    def __getitem__(
        self, at: SupportsIndex | slice
    ) -> OffsetCommitRequestPartition | tuple[OffsetCommitRequestPartition, ...]:
        return tuple(self)[at]

    def __iter__(self) -> Iterator[OffsetCommitRequestPartition]:
        columns = self.indexes, self.offsets, self.epochs, self.metadata
        for index, offset, epoch, metadata in zip(*columns, strict=True):
            yield OffsetCommitRequestPartition(
                partition_index=index,
                committed_offset=offset,
                committed_leader_epoch=epoch,
                committed_metadata=metadata,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Sequence) and tuple(self) == tuple(other)

    def __hash__(self) -> int:
        return hash(tuple(self))

    def __repr__(self) -> str:
        return repr(tuple(self))


@final
class CommitDecoder:
    """Decodes the commits of one connection, as `decode_request` does."""

    __slots__ = ("_last_size", "_let_pass", "_template", "_unused")

    def __init__(self) -> None:
        self._template: _Template | None = None
        self._last_size = 0
        #: How many templates were made in a row that fitted nothing.
        self._unused = 0
        #: How many more commits are let pass before the next template is made.
        self._let_pass = 0

    def decode(self, payload: bytes) -> Request:
        """Read a request, most quickly if it is like the last one."""
        template = self._template
        if template is not None:
            if len(payload) == template.size and (request := template.fill(payload)) is not None:
                self._unused = 0
                return request
            self._template = None
        request = decode_request(payload)
        if self._let_pass:
            self._let_pass -= 1
        elif len(payload) == self._last_size:
            self._template = _template_of(payload, request)
            self._let_pass = 2 ** min(self._unused, _DOUBLED_MAX) - 1
            self._unused += 1
        self._last_size = len(payload)
        return request


@final
class _Template:
    """A commit, and where in its bytes the numbers are that its next one has anew."""

    __slots__ = ("_fixed", "_has_sequence", "_layout", "_request", "_topics", "size")

    def __init__(self, payload: bytes, request: Request, places: Sequence[int]) -> None:
        message: OffsetCommitRequest = request.message
        self.size = len(payload)
        # All but the topics, which are kept by column.
        self._request = replaced(request, message=replaced(message, topics=()))
        self._layout = _layout(len(payload), tuple(places))
        self._fixed = self._layout.unpack(payload)[::2]
        self._has_sequence = message.sequence >= 0
        #: Each topic's name, the places of its offsets among the numbers, and its other columns.
        self._topics: list[tuple[str, slice, CommittedPartitions]] = []
        start = 1
        for topic in message.topics:
            stop = start + len(topic.partitions)
            columns = CommittedPartitions.of(topic.partitions)
            self._topics.append((topic.name, slice(start, stop), columns))
            start = stop

    def fill(self, payload: bytes) -> Request | None:
        """The request with these bytes; None if more than the numbers differs."""
        parts = self._layout.unpack(payload)
        if parts[::2] != self._fixed:
            return None
        numbers = parts[1::2]
        topics = []
        for name, where, known in self._topics:
            topic: Any = _TopicTwin()
            topic.name = name
            topic.partitions = CommittedPartitions(
                known.indexes, numbers[where], known.epochs, known.metadata
            )
            topic.__class__ = OffsetCommitRequestTopic
            topics.append(topic)
        # Filled as their twins and then given their classes, as the generated parsers do it.
        message = _copy_of_message(self._request.message)
        message.topics = tuple(topics)
        if self._has_sequence:
            message.sequence = numbers[-1]
        message.__class__ = OffsetCommitRequest
        request = _copy_of_request(self._request)
        request.correlation_id, request.message = numbers[0], message
        request.__class__ = Request
        return cast(Request, request)


def _template_of(payload: bytes, request: Request) -> _Template | None:
    """A template made of a commit; None if later ones can't be held against it.

    Where the numbers are shows if they are encoded with all their bits changed.
    """
    message: OffsetCommitRequest = request.message
    if request.api_version < _WITHOUT_TIMES_FROM or not _is_short(payload, message):
        return None
    if _encoded(request, message) != payload:
        return None  # it is not written as we would do it
    topics = tuple(
        replaced(topic, partitions=_with_other_offsets(topic.partitions))
        for topic in message.topics
    )
    sequence = message.sequence
    is_numbered = sequence >= 0
    other = replaced(message, topics=topics, sequence=~sequence if is_numbered else sequence)
    changed = _encoded(request, other)
    if len(changed) != len(payload):
        return None  # the number of a first commit is left out with all its bits changed
    places = [match.start() for match in _OTHER_BITS.finditer(_difference(payload, changed))]
    return _Template(payload, request, places)


def _is_short(payload: bytes, message: OffsetCommitRequest) -> bool:
    topics = message.topics
    return (
        len(payload) <= _REMEMBERED_MAX_BYTES
        and len(topics) <= _REMEMBERED_MAX_TOPICS
        and sum(len(topic.partitions) for topic in topics) <= _REMEMBERED_MAX_PARTITIONS
    )


def _with_other_offsets(partitions: Sequence[OffsetCommitRequestPartition]) -> CommittedPartitions:
    columns = CommittedPartitions.of(partitions)
    offsets = tuple(~offset for offset in columns.offsets)
    return CommittedPartitions(columns.indexes, offsets, columns.epochs, columns.metadata)


def _difference(one: bytes, other: bytes) -> bytes:
    return (int.from_bytes(one) ^ int.from_bytes(other)).to_bytes(len(one))


def _encoded(request: Request, message: OffsetCommitRequest) -> bytes:
    number, client_id = request.correlation_id, request.client_id
    return encode_request(message, request.api_version, number, client_id)[_LENGTH_BYTES:]


@lru_cache(256)
def _layout(size: int, places: tuple[int, ...]) -> struct.Struct:
    """Bytes and numbers in turns: first what is before the number of the request, then this."""
    form = [f">{_NUMBER_AT}si"]
    end = _NUMBER_AT + _NUMBER_BYTES
    for place in places:
        form.append(f"{place - end}sq")
        end = place + _OFFSET_BYTES
    return struct.Struct("".join((*form, f"{size - end}s")))
