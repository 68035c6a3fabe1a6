"""What kafka-python needs from those who use it."""

from __future__ import annotations

from kafka import KafkaConsumer
from kafka.errors import KafkaConnectionError

__all__ = ["poll_on"]


def poll_on(consumer: KafkaConsumer, timeout_ms: float) -> object:
    """Poll, and go on in two cases in which kafka-python 3.0 does not by itself.

    It forgets a join that a poll was too short for, if its leader joined again because topics
    changed: once it has made an assignment, nothing is left to tell it that it has not taken it
    over.  Then it neither owns anything nor sends heartbeats, until its session is over.

    And it raises that a node refused its connection, if it looks for its coordinator while that is
    started again.  The next poll looks again.
    """
    coordinator = consumer._coordinator  # noqa: SLF001  # nothing public tells or does this
    if coordinator.rejoining:
        coordinator.request_rejoin()
    try:
        return consumer.poll(timeout_ms=timeout_ms)
    except KafkaConnectionError:
        return {}
