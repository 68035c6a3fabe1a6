"""Static members of stock clients: a member that comes back is nobody new."""

from __future__ import annotations

import pytest

from tests.live.crew import Crew
from tests.live.member import CONFLUENT, CONFLUENT_COOPERATIVE, KAFKA_PYTHON, Client

pytestmark = pytest.mark.slow

STATIC = (CONFLUENT, CONFLUENT_COOPERATIVE, KAFKA_PYTHON)


@pytest.mark.parametrize("client", STATIC, ids=str)
def test_replacement_takes_over_without_a_rebalance(crew: Crew, client: Client) -> None:
    """The process of a static member is killed and another comes: nobody else notices."""
    staying = crew.start(client, "staying", instance="instance-1")
    leaving = crew.start(client, "leaving", instance="instance-2")
    before = crew.calm(staying, leaving)
    had, said = leaving.owned, len(staying.lines)
    leaving.die()
    coming = crew.start(client, "coming", instance="instance-2")
    after = crew.settle(staying, coming)
    news = len(after["rebalances"]) - len(before["rebalances"])
    causes = {each["cause"] for each in after["rebalances"][:news]}
    if client.looks_again and causes == {"leader_rejoined"}:
        return  # it had looked at the topics late, and would have joined again in any case
    assert causes == set()
    assert coming.owned == had
    assert staying.changes(said) == []
    assert after["generation"] == before["generation"]
    assert after["rebalances"] == before["rebalances"]


def test_old_process_is_fenced(crew: Crew) -> None:
    """Two processes use one instance id: the older one is told so and gives up."""
    old = crew.start(CONFLUENT, "old", instance="instance-1")
    crew.settle(old)
    new = crew.start(CONFLUENT, "new", instance="instance-1")
    old.wait_for(lambda: any("fenced" in line for line in old.fatal()), "that it was fenced")
    crew.settle(new)
