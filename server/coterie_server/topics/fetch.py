"""Fetch: there are no records.

There never are records, so a consumer waits as long as it is willing to: an empty answer that
comes at once makes every client ask again at once.  Where Kafka answers at once, so does this: when
no byte is asked for, when no partition that is asked for exists, and when a client names another
leader epoch than there is, since such a client is to look again before it asks again.
"""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import FetchableTopicResponse, FetchResponse, PartitionData
from coterie_server.topics.checks import check_epoch
from coterie_server.topics.step import Later

if TYPE_CHECKING:
    from collections.abc import Collection

    from coterie_protocol.messages import FetchPartition, FetchRequest, FetchTopic
    from coterie_server.step import Request
    from coterie_server.topics.step import Step

__all__ = ["WAIT_MAX_MS", "fetch", "outdated"]

#: However long a client is ready to wait, it is answered after this: the longest that librdkafka's
#: `fetch.wait.max.ms` can be.  Clients ask for 500 ms unless they are told otherwise, and give up
#: on a request after 30 s to 60 s.  An answer that comes early only makes them ask again.
WAIT_MAX_MS: Final = 300_000

#: The session epochs of requests that name all their partitions: those without a session, and
#: those that ask for one.  All others go on with a session, and there are none here.
_WHOLE: Final = frozenset({-1, 0})

#: Not null, which clients can't read: librdkafka refuses the size of -1, aiokafka and kafka-python
#: ask for the length of None.
_NO_RECORDS: Final = b""

#: Clients that read uncommitted records need not be told which were aborted.
_READ_COMMITTED: Final = 1

#: From this version on topics are asked for by their ids.
_BY_ID_FROM: Final = 13
#: The name of a topic whose id is not known; no topic can have it.
_UNKNOWN: Final = ""


#: What a partition can say without having been read.
_NOT_READ: Final = frozenset(
    {ErrorCode.NONE, ErrorCode.UNKNOWN_TOPIC_OR_PARTITION, ErrorCode.UNKNOWN_TOPIC_ID}
)


def fetch(step: Step, request: Request) -> FetchResponse | Later:
    """Answer every partition asked for, after the time that the client is ready to wait.

    That is at most `WAIT_MAX_MS`.
    """
    message: FetchRequest = request.message
    if message.session_epoch not in _WHOLE:
        return FetchResponse(error_code=ErrorCode.FETCH_SESSION_ID_NOT_FOUND, responses=())
    answer = FetchResponse(
        responses=tuple(_topic(step, request, topic) for topic in message.topics)
    )
    wait_ms = min(max(message.max_wait_ms, 0), WAIT_MAX_MS)
    if wait_ms and min(message.min_bytes, message.max_bytes) > 0 and _is_worth_waiting_for(answer):
        return Later(answer, wait_ms)
    return answer


def _is_worth_waiting_for(answer: FetchResponse) -> bool:
    """Whether there is a partition that records could come for, and none that Kafka reads in vain.

    Kafka sorts out the partitions that do not exist first, and reads the others: what goes wrong
    then is told at once.
    """
    errors = {each.error_code for topic in answer.responses for each in topic.partitions}
    return ErrorCode.NONE in errors and errors <= _NOT_READ


def outdated(message: FetchResponse, topics: Collection[str]) -> FetchResponse:
    """The same response, saying that what the client knows about topics is out of date.

    No error says exactly that.  With this one all clients ask for Metadata again, at once, and
    none gives up anything.
    """
    return replace(
        message,
        responses=tuple(
            replace(
                each,
                partitions=tuple(
                    replace(partition, error_code=ErrorCode.NOT_LEADER_OR_FOLLOWER)
                    for partition in each.partitions
                ),
            )
            if each.topic in topics
            else each
            for each in message.responses
        ),
    )


def _topic(step: Step, request: Request, asked: FetchTopic) -> FetchableTopicResponse:
    """The answer for a topic; it has the name as well where only the id is sent."""
    name = asked.topic
    if request.version >= _BY_ID_FROM:
        row = step.table.by_id(asked.topic_id)
        name = _UNKNOWN if row is None else row.name
    return FetchableTopicResponse(
        topic=name,
        topic_id=asked.topic_id,
        partitions=tuple(_one(step, request, name, each) for each in asked.partitions),
    )


def _one(step: Step, request: Request, topic: str, partition: FetchPartition) -> PartitionData:
    error = _check(step, request, topic, partition)
    if error is not None:
        is_unknown = error is not ErrorCode.UNKNOWN_LEADER_EPOCH
        return PartitionData(
            partition_index=partition.partition,
            error_code=error,
            high_watermark=-1,
            aborted_transactions=() if is_unknown else None,
            records=_NO_RECORDS,
        )
    # Whatever offset a client is at, nothing more comes.  Were it told that it is beyond the end,
    # it would start over, and its next commit would write over the offset that it had.  Were it
    # told of a higher end, such as ListOffsets tells, it would miss the records in between:
    # kafka-go takes the answer for cut off and connects again, for ever.
    end = max(partition.fetch_offset, 0)
    return PartitionData(
        partition_index=partition.partition,
        high_watermark=end,
        last_stable_offset=end,
        log_start_offset=0,
        aborted_transactions=() if request.message.isolation_level == _READ_COMMITTED else None,
        records=_NO_RECORDS,
    )


def _check(step: Step, request: Request, topic: str, partition: FetchPartition) -> ErrorCode | None:
    if topic == _UNKNOWN and request.version >= _BY_ID_FROM:
        return ErrorCode.UNKNOWN_TOPIC_ID
    if not step.table.has_partition(topic, partition.partition):
        return ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
    return check_epoch(partition.current_leader_epoch)
