"""The pipeline's tables of what a real broker logged, against what the members saw."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from itertools import groupby, pairwise
from typing import Any, Final

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.batch import run
from coterie_pipeline.report import write_report
from coterie_pipeline.warehouse import Warehouse
from tests.interop.kafka_tale import CLIENTS, PARTITIONS, SESSION_MS, TOPIC, Tale
from tests.live.judge import Stint
from tests.support.embedded_spark import spark

__all__ = ["spark"]

#: How far two clocks of one machine, read one after the other, can be apart.
_CLOCK_MS: Final = 50
#: A member hears of its assignment after it was written down.
_LATER_MS: Final = 5_000
#: A member tells that it gave something up right before it joins again, or right after it heard.
_LATE_MS: Final = 1_000

pytestmark = [
    pytest.mark.interop,
    pytest.mark.parametrize("group", [client.name for client in CLIENTS]),
]


@dataclass(frozen=True, slots=True)
class Told:
    """What the tables say, and the report."""

    tables: Mapping[str, list[dict[str, Any]]]
    page: str

    def of(self, table: str, group: str) -> list[dict[str, Any]]:
        """A group's rows."""
        return [row for row in self.tables[table] if row["group"] == group]

    def names(self, group: str) -> dict[str, str]:
        """What the clients call themselves, by the ids of their members."""
        return {row["member"]: row["client_id"] for row in self.of("member_sessions", group)}


@pytest.fixture(scope="module")
def told(tale: Tale, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Told:
    """Make the tables of the journal that was imported, and the report of them."""
    folder = tmp_path_factory.mktemp("tables")
    run(spark, [str(tale.out)], str(folder / "out"))
    tables = Warehouse(spark, str(folder / "out")).tables()
    write_report(tables, folder / "report.html")
    return Told(
        {
            name: [row.asDict(recursive=True) for row in table.collect()]
            for name, table in tables.items()
        },
        (folder / "report.html").read_text(encoding="utf-8"),
    )


def _stints(tale: Tale, group: str) -> list[Stint]:
    everybody = tale.crews[group].everybody.values()
    stints = [stint for member in everybody for stint in member.stints()]
    return sorted(stints, key=lambda stint: (stint.partition, stint.began_s))


def test_intervals_are_what_the_members_had(tale: Tale, told: Told, group: str) -> None:
    """Each time that a member was given a partition has its interval, and was over in time."""
    owned = sorted(told.of("ownership", group), key=lambda row: (row["partition"], row["from_ms"]))
    stints = _stints(tale, group)
    names = told.names(group)
    assert [(row["partition"], names[row["member"]]) for row in owned] == [
        # Kafka calls a static member by its instance.
        (stint.partition, "carl" if stint.member == "carla" else stint.member)
        for stint in stints
    ]
    for row, stint in zip(owned, stints, strict=True):
        assert -_CLOCK_MS <= tale.ms(stint.began_s) - row["from_ms"] <= _LATER_MS
        if row["ended"] not in ("open", "replaced"):  # whoever was replaced did not know it yet
            assert tale.ms(stint.ended_s) <= row["released_ms"] + _LATE_MS


def test_nobody_shared_a_partition(told: Told, group: str) -> None:
    """No overlap, certain or possible."""
    faults = told.of("ownership_faults", group)
    assert faults
    assert {row["fault"] for row in faults} == {"gap"}


def test_memberships_ended_as_they_did(told: Told, group: str) -> None:
    """One said goodbye, one was killed and given up, and one came back under its name."""
    ended = {(row["client_id"], row["ended"]) for row in told.of("member_sessions", group)}
    assert ended == {
        ("bert", "left"),
        ("anna", "session_expired"),
        ("carl", "replaced"),
        ("carl", "open"),
    }


def test_causes_are_what_was_done(tale: Tale, told: Told, group: str) -> None:
    """Each rebalance goes back to one of the chapters; giving up follows in a cooperative group."""
    rebalances = told.of("rebalances", group)
    roots = [row["root_cause"] for row in rebalances if row["root"] == row["rebalance"]]
    assert roots == [*["member_joined"] * 3, "member_left", "session_expired"]
    has_followed = any(row["cause"] == "revocation_follow_up" for row in rebalances)
    assert has_followed == tale.crews[group].client.is_cooperative
    (death,) = [row for row in rebalances if row["cause"] == "session_expired"]
    assert death["detection_ms"] == SESSION_MS


def test_standstill_is_no_more_than_the_members_saw(tale: Tale, told: Told, group: str) -> None:
    """What the tables count is a lower bound of what the members missed, and not nothing."""
    missed_ms = sum(
        (after.began_s - before.ended_s) * 1000
        for _, stints in groupby(_stints(tale, group), key=lambda stint: stint.partition)
        for before, after in pairwise(stints)
    )
    stopped_ms = sum(row["stopped_partition_ms"] for row in told.of("rebalances", group))
    assert 0 < stopped_ms <= missed_ms + len(PARTITIONS) * _CLOCK_MS


def test_commits_are_those_that_were_made(tale: Tale, told: Told, group: str) -> None:
    """One member committed once, what it had; the topic tells no member with it."""
    carl = tale.crews[group].seen["commit"][1]["carl"]
    commits = {(row["topic"], row["partition"]): row for row in told.of("commits", group)}
    assert {(TOPIC, number) for number in carl} <= set(commits)
    for number in carl:
        assert commits[TOPIC, number]["last_offset"] == 7


def test_page_shows_the_group(told: Told, group: str) -> None:
    """The report names the group and all who were in it."""
    assert group in told.page
    for member in told.names(group):
        assert member in told.page
