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
from tests.interop.kafka_history import CLIENTS, PARTITIONS, SESSION_MS, TOPIC, KafkaHistory
from tests.live.ownership import Ownership
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
def told(
    history: KafkaHistory, spark: SparkSession, tmp_path_factory: pytest.TempPathFactory
) -> Told:
    """Make the tables of the journal that was imported, and the report of them."""
    folder = tmp_path_factory.mktemp("tables")
    run(spark, [str(history.out)], str(folder / "out"))
    tables = Warehouse(spark, str(folder / "out")).tables()
    write_report(tables, folder / "report.html")
    return Told(
        {
            name: [row.asDict(recursive=True) for row in table.collect()]
            for name, table in tables.items()
        },
        (folder / "report.html").read_text(encoding="utf-8"),
    )


def _stints(history: KafkaHistory, group: str) -> list[Ownership]:
    everybody = history.groups[group].all_members.values()
    ownerships = [ownership for member in everybody for ownership in member.ownerships()]
    return sorted(ownerships, key=lambda ownership: (ownership.partition, ownership.began_s))


def test_intervals_match_what_members_had(history: KafkaHistory, told: Told, group: str) -> None:
    owned = sorted(told.of("ownership", group), key=lambda row: (row["partition"], row["from_ms"]))
    ownerships = _stints(history, group)
    names = told.names(group)
    assert [(row["partition"], names[row["member"]]) for row in owned] == [
        # Kafka calls a static member by its instance.
        (ownership.partition, "carl" if ownership.member == "carla" else ownership.member)
        for ownership in ownerships
    ]
    for row, ownership in zip(owned, ownerships, strict=True):
        assert -_CLOCK_MS <= history.ms(ownership.began_s) - row["from_ms"] <= _LATER_MS
        if row["ended"] not in ("open", "replaced"):  # a replaced process did not know it yet
            assert history.ms(ownership.ended_s) <= row["released_ms"] + _LATE_MS


def test_no_partition_had_two_owners(told: Told, group: str) -> None:
    faults = {row["fault"] for row in told.of("ownership_faults", group)}
    assert "gap" in faults
    assert faults <= {"gap", "silence"}


def test_memberships_end_as_members_did(told: Told, group: str) -> None:
    ended = {(row["client_id"], row["ended"]) for row in told.of("member_sessions", group)}
    assert ended == {
        ("bert", "left"),
        ("anna", "session_expired"),
        ("carl", "replaced"),
        ("carl", "open"),
    }


def test_causes_are_what_was_done(history: KafkaHistory, told: Told, group: str) -> None:
    rebalances = told.of("rebalances", group)
    roots = [row["root_cause"] for row in rebalances if row["root"] == row["rebalance"]]
    assert roots == [*["member_joined"] * 3, "member_left", "session_expired"]
    has_followed = any(row["cause"] == "revocation_follow_up" for row in rebalances)
    assert has_followed == history.groups[group].client.is_cooperative
    (death,) = [row for row in rebalances if row["cause"] == "session_expired"]
    assert death["detection_ms"] == SESSION_MS


def test_stopped_time_is_a_lower_bound_of_what_members_missed(
    history: KafkaHistory, told: Told, group: str
) -> None:
    missed_ms = sum(
        (after.began_s - before.ended_s) * 1000
        for _, ownerships in groupby(
            _stints(history, group), key=lambda ownership: ownership.partition
        )
        for before, after in pairwise(ownerships)
    )
    stopped_ms = sum(row["stopped_partition_ms"] for row in told.of("rebalances", group))
    assert 0 < stopped_ms <= missed_ms + len(PARTITIONS) * _CLOCK_MS


def test_commits_match_what_members_made(history: KafkaHistory, told: Told, group: str) -> None:
    carl = history.groups[group].seen["commit"][1]["carl"]
    commits = {(row["topic"], row["partition"]): row for row in told.of("commits", group)}
    assert {(TOPIC, number) for number in carl} <= set(commits)
    for number in carl:
        assert commits[TOPIC, number]["last_offset"] == 7


def test_report_names_the_group_and_its_members(told: Told, group: str) -> None:
    assert group in told.page
    for member in told.names(group):
        assert member in told.page
