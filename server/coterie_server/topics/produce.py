"""Produce: that records are kept elsewhere."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    PartitionProduceResponse,
    ProduceResponse,
    TopicProduceResponse,
)

if TYPE_CHECKING:
    from coterie_protocol.messages import PartitionProduceData, ProduceRequest
    from coterie_server.topics.turn import Turn

__all__ = ["NO_RECORDS_HERE", "produce"]

NO_RECORDS_HERE: Final = (
    "Coterie coordinates groups and stores no records; produce to where your data is kept."
)


def produce(turn: Turn, message: ProduceRequest) -> ProduceResponse | None:
    """Refuse records, with an error that no producer tries again after.

    A producer that asks for no acknowledgement reads no answer either; like Kafka, which does so
    when something is wrong, its connection is closed, or it would never learn.
    """
    if message.acks == 0:
        turn.close = NO_RECORDS_HERE
        return None
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
