"""Members of different libraries in one group."""

from __future__ import annotations

from tests.live.group import LiveGroup
from tests.live.member import (
    CONFLUENT,
    CONFLUENT_COOPERATIVE,
    KAFKA_PYTHON,
    KAFKA_PYTHON_COOPERATIVE,
)


def test_cooperative_members_of_two_libraries_share(live_group: LiveGroup) -> None:
    members = [
        live_group.start(client, f"{client}-{number}")
        for number in range(2)
        for client in (KAFKA_PYTHON_COOPERATIVE, CONFLUENT_COOPERATIVE)
    ]
    group = live_group.settle(*members)
    assert group["protocol"] == "cooperative-sticky"
    assert sorted(len(member.owned) for member in members) == [1, 1, 2, 2]


def test_cooperative_group_survives_the_death_of_one_library(live_group: LiveGroup) -> None:
    staying = live_group.start(CONFLUENT_COOPERATIVE, "staying")
    dying = live_group.start(KAFKA_PYTHON_COOPERATIVE, "dying", session_ms=3000)
    live_group.settle(staying, dying)
    said = len(staying.lines)
    dying.die()
    live_group.settle(staying)
    assert staying.given_up(said) == set()


def test_eager_members_of_two_libraries_share(live_group: LiveGroup) -> None:
    members = live_group.start(KAFKA_PYTHON, "one"), live_group.start(CONFLUENT, "two")
    group = live_group.settle(*members)
    assert group["protocol"] == "range"
