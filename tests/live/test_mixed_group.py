"""Members of different libraries in one group."""

from __future__ import annotations

from tests.live.crew import Crew
from tests.live.member import (
    CONFLUENT,
    CONFLUENT_COOPERATIVE,
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
)


def test_cooperative_members_of_two_libraries_share(crew: Crew) -> None:
    """kafka-python and confluent-kafka, cooperative: in the end each partition is owned once."""
    members = [
        crew.start(client, f"{client}-{number}")
        for number in range(2)
        for client in (KAFKA_PYTHON_COOPERATIVE, CONFLUENT_COOPERATIVE)
    ]
    group = crew.settle(*members)
    assert group["protocol"] == "cooperative-sticky"
    assert sorted(len(member.owned) for member in members) == [1, 1, 2, 2]


def test_cooperative_group_survives_the_death_of_one_library(crew: Crew) -> None:
    """When a member of one library dies, the member of the other gets what it had."""
    staying = crew.start(CONFLUENT_COOPERATIVE, "staying")
    dying = crew.start(KAFKA_PYTHON_COOPERATIVE, "dying", session_ms=3000)
    crew.settle(staying, dying)
    said = len(staying.lines)
    dying.die()
    crew.settle(staying)
    assert staying.given_up(said) == set()


def test_eager_members_of_two_libraries_share(crew: Crew) -> None:
    """kafka-python and confluent-kafka with range: each partition is owned once."""
    members = crew.start(KAFKA_PYTHON, "one"), crew.start(CONFLUENT, "two")
    group = crew.settle(*members)
    assert group["protocol"] == "range"
