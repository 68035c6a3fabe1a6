"""What kafka-python needs from those who use it."""

from __future__ import annotations

from kafka import KafkaConsumer

__all__ = ["poll_on"]


def poll_on(consumer: KafkaConsumer, timeout_ms: float) -> object:
    """Poll, and let a join that a poll was too short for be finished by the next one.

    kafka-python 3.0 forgets it if its leader joined again because topics changed: once it has
    made an assignment, nothing is left to tell it that it has not taken it over.  Then it neither
    owns anything nor sends heartbeats, until its session is over.
    """
    coordinator = consumer._coordinator  # noqa: SLF001  # nothing public tells or does this
    if coordinator.rejoining:
        coordinator.request_rejoin()
    return consumer.poll(timeout_ms=timeout_ms)
