"""Produce: refused, because records are kept elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)
from coterie_server.topics.step import HangUp

if TYPE_CHECKING:
    from coterie_protocol.messages import PartitionProduceData, ProduceRequest
    from coterie_server.step import Request
    from coterie_server.topics.step import Step

__all__ = ["NO_RECORDS_HERE", "produce"]

NO_RECORDS_HERE: Final = (
    "Coterie coordinates groups and stores no records; produce to where your data is kept."
)


def produce(_step: Step, request: Request) -> ProduceResponse | HangUp:
    """Refuse records, with an error after which no producer tries again.

    A producer that asks for no acknowledgement reads no response.  Its connection is closed, or it
    would never learn; Kafka does the same when something is wrong.
    """
    message: ProduceRequest = request.message
    if message.acks == 0:
        return HangUp(NO_RECORDS_HERE)
    return ProduceResponse(
        responses=tuple(
            TopicProduceResponse(
                name=topic.name,
                partition_responses=tuple(_refused(p) for p in topic.partition_data),
            )
            for topic in message.topic_data
        )
    )


def _refused(partition: PartitionProduceData) -> PartitionProduceResponse:
    return PartitionProduceResponse(
        index=partition.index,
        error_code=ErrorCode.POLICY_VIOLATION,
        base_offset=-1,
        error_message=NO_RECORDS_HERE,
    )
