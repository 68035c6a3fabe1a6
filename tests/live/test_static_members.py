"""Static members of stock clients: a member that comes back is the same member."""

from __future__ import annotations

import pytest

from tests.live.group import LiveGroup
from tests.live.member import CONFLUENT, CONFLUENT_COOPERATIVE, KAFKA_PYTHON, Client

pytestmark = pytest.mark.slow

STATIC = (CONFLUENT, CONFLUENT_COOPERATIVE, KAFKA_PYTHON)


@pytest.mark.parametrize("client", STATIC, ids=str)
def test_killed_static_member_is_replaced_without_a_rebalance(
    live_group: LiveGroup, client: Client
) -> None:
    staying = live_group.start(client, "staying", instance="instance-1")
    leaving = live_group.start(client, "leaving", instance="instance-2")
    before = live_group.calm(staying, leaving)
    had, said = leaving.owned, len(staying.lines)
    leaving.die()
    coming = live_group.start(client, "coming", instance="instance-2")
    after = live_group.settle(staying, coming)
    news = len(after["rebalances"]) - len(before["rebalances"])
    causes = {each["cause"] for each in after["rebalances"][:news]}
    if client.looks_again and causes == {"leader_rejoined"}:
        return  # it had looked at the topics late, and would have joined again in any case
    assert causes == set()
    assert coming.owned == had
    assert staying.changes(said) == []
    assert after["generation"] == before["generation"]
    assert after["rebalances"] == before["rebalances"]


def test_older_process_of_an_instance_id_is_fenced(live_group: LiveGroup) -> None:
    old = live_group.start(CONFLUENT, "old", instance="instance-1")
    live_group.settle(old)
    new = live_group.start(CONFLUENT, "new", instance="instance-1")
    old.wait_for(lambda: any("fenced" in line for line in old.fatal()), "that it was fenced")
    live_group.settle(new)
