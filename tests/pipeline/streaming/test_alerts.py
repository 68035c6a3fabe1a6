"""What is alarming, by scenarios with known alarms: one journal, in which each has its group."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from pyspark.sql import Row, SparkSession

from coterie_pipeline.session import quick_session
from coterie_pipeline.streaming.alerts import Storm, alerts, overlap_alerts
from tests.pipeline.streaming.scenarios import Scenario, bronze_of

pytestmark = pytest.mark.slow

CALM_MS = 60_000
STORM = Storm(rebalances=4, within_ms=CALM_MS)

#: When scenarios begin.
BEGINNING_MS = 1_700_000_000_000

SCENARIOS: dict[str, Scenario] = {}

Alerts = dict[str, list[Row]]


def scenario(write: Callable[[Scenario], None]) -> Callable[[Scenario], None]:
    """Have a scenario told, about a group that is called as the function is."""
    told = SCENARIOS[write.__name__] = Scenario(group=write.__name__, node=write.__name__)
    write(told)
    return write


@pytest.fixture(scope="module")
def found(spark: SparkSession) -> Alerts:
    """The alerts of each scenario, the earliest first."""
    lines = [line for each in SCENARIOS.values() for line in each.lines]
    rows = alerts(bronze_of(quick_session(spark), lines), STORM).collect()
    rows.sort(key=lambda row: (row["at_ms"], row["key"]))
    return {group: [row for row in rows if row["group"] == group] for group in SCENARIOS}


@scenario
def calm(it: Scenario) -> None:
    """Partitions are let go of before others get them."""
    it.rebalance({"a": (0, 1)}, {})
    it.rebalance({"a": (0,), "b": (1,)}, {"a": (0,)})


def test_rebalance_in_good_order_gives_no_alert(found: Alerts) -> None:
    assert found["calm"] == []


@scenario
def double(it: Scenario) -> None:
    """An assignor gives partitions to two members."""
    it.rebalance({"a": (0, 1, 2), "b": (1, 2)}, {})


def test_a_partition_that_is_given_to_two_members(found: Alerts) -> None:
    # It has two owners for certain; partitions that share that are told together.
    (alert,) = found["double"]
    assert (alert["kind"], alert["at_ms"]) == ("overlap", BEGINNING_MS + 3_000)
    sentence = "2023-11-14 22:13:23.000 UTC: double: t[1,2] given to both a and b."
    assert alert["sentence"] == sentence
    assert alert["evidence"]["cause"] == "assigned_twice"


@scenario
def double_for_long(it: Scenario) -> None:
    """The same, and it goes on."""
    it.rebalance({"a": (0, 1, 2), "b": (1, 2)}, {})
    it.rebalance({"a": (0, 1, 2), "b": (1, 2)}, {"a": (0, 1, 2), "b": (1, 2)})


def test_an_alert_keeps_its_key(found: Alerts) -> None:
    (short,), (long,) = found["double"], found["double_for_long"]
    assert short["key"].replace("double", "double_for_long") == long["key"]


@scenario
def hasty(it: Scenario) -> None:
    """A member says that it goes on with a partition, and another one gets it."""
    it.rebalance({"a": (0, 1)}, {})
    it.rebalance({"a": (0,), "b": (1,)}, {"a": (0, 1)})


def test_a_partition_that_is_given_away_while_it_is_held(found: Alerts) -> None:
    # It is unknown for how long its former owner went on.
    (alert,) = found["hasty"]
    assert alert["kind"] == "possible_overlap"
    assert alert["sentence"].endswith(": hasty: t[1] given to b before a had let go.")


def test_two_processes_of_one_static_member_are_told_by_their_ids() -> None:
    row = {
        "group": "g", "topic": "t", "partition": 0, "from_ms": BEGINNING_MS, "sure_ms": 0,
        "cause": "replaced", "began": "replaced", "holder": "i", "next_holder": "i",
        "member": "i-1", "next_member": "i-2",
    }  # fmt: skip
    (alert,) = overlap_alerts([row])
    assert "t[0] went to i-2, and i-1 may work on" in alert["sentence"]


@scenario
def put_out(it: Scenario) -> None:
    """A member is put out while its session lasts."""
    it.rebalance({"a": (0,), "b": (1,)}, {})
    it.start()
    it.lose("a", "rebalance_expired", silent_ms=1_000, session_timeout_ms=45_000)
    it.rebalance({"b": (0, 1)}, {"b": (1,)})


def test_a_member_that_may_work_on(found: Alerts) -> None:
    (alert,) = found["put_out"]
    assert alert["kind"] == "possible_overlap"
    assert "put_out: t[0] went to b, and a may work on" in alert["sentence"]


@scenario
def storm(it: Scenario) -> None:
    """Seven rebalances within half a minute."""
    for _ in range(7):
        it.rebalance({"a": (0,)}, {"a": (0,)}, cause="session_expired")


def test_storm_is_one_alert_at_its_beginning(found: Alerts) -> None:
    (alert,) = found["storm"]
    assert (alert["kind"], alert["at_ms"]) == ("rebalance_storm", BEGINNING_MS + 10_000)
    assert alert["sentence"].endswith("storm: rebalanced 4 times within 60 s (session_expired).")


@scenario
def storms(it: Scenario) -> None:
    """Two storms, the first one with a short lull."""
    for pause_ms in (0, CALM_MS // 2, 2 * CALM_MS):
        it.now_ms += pause_ms
        for _ in range(4):
            it.rebalance({"a": (0,)}, {"a": (0,)})


def test_storm_after_a_long_enough_calm_is_another_alert(found: Alerts) -> None:
    # A calm as long as it is counted in ends it; a shorter one does not.
    assert [alert["kind"] for alert in found["storms"]] == ["rebalance_storm"] * 2


@scenario
def restless(it: Scenario) -> None:
    """A rebalance a minute."""
    for _ in range(5):
        it.rebalance({"a": (0,)}, {"a": (0,)})
        it.now_ms += CALM_MS


def test_rebalances_now_and_then_are_no_storm(found: Alerts) -> None:
    assert found["restless"] == []


def test_lives_of_a_node_are_not_mixed(spark: SparkSession) -> None:
    """A node began anew with nothing, and the journals of both lives are followed."""
    lives = [Scenario(), Scenario(now_ms=BEGINNING_MS + 3_600_000)]
    for number, life in enumerate(lives):
        for _ in range(4):
            life.rebalance({f"{number}": (0, 1)}, {})
    quick = quick_session(spark)
    former, later = (
        bronze_of(quick, life.lines, folder) for life, folder in zip(lives, "ab", strict=True)
    )
    both = alerts(former.unionByName(later), STORM, ["g"]).collect()
    assert both == alerts(later, STORM, ["g"]).collect()
    assert [row["kind"] for row in both] == ["rebalance_storm"]
