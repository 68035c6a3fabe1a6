"""Publishing once more makes what changed again, and nothing else."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline import batch
from coterie_pipeline.layout import BY_DAY
from coterie_pipeline.streaming.follow import FollowOptions, follow
from coterie_pipeline.streaming.rounds import BUCKETS, bucket_of
from coterie_pipeline.warehouse import Moment, Warehouse
from coterie_protocol.journal import (
    Event,
    GroupEmptied,
    Line,
    MemberJoined,
    NodeStopped,
    OffsetsCommitted,
    RebalanceCompleted,
    RebalanceStarted,
    TopicChanged,
    write_line,
)
from coterie_protocol.journal_text import segment_name
from tests.pipeline.streaming.growing import rows_of

pytestmark = pytest.mark.spark_slow

ONCE = FollowOptions(once=True)

GROUPS = 40

#: Tables in which every group has a row.
BY_GROUP = ("rebalances", "ownership", "member_sessions", "commits", "group_health")


class Place:
    """A journal of many groups that is followed."""

    def __init__(self, spark: SparkSession, folder: Path) -> None:
        self._spark = spark
        self._journal = folder / "journal"
        self._path = self._journal / segment_name("n", 1)
        self._journal.mkdir()
        self._out = folder / "out"
        self._folder = folder
        self._seq, self._now_ms = 0, 1_000_000
        for number in range(GROUPS):
            self.write(*birth(f"g{number}"))

    def write(self, *events: Event, seq: int | None = None) -> None:
        """Write the next lines; one may have a number that was used before."""
        with self._path.open("a") as file:
            for event in events:
                self._seq += 1
                self._now_ms += 1_000
                line = Line(self._now_ms, "n", seq or self._seq, event)
                file.write(f"{write_line(line)}\n")

    def begin_file(self) -> None:
        """Write into a new file from now on."""
        self._path = self._path.with_name(segment_name("n", self._seq + 1))

    def begin_anew(self) -> None:
        """Begin with an empty journal elsewhere, an hour later; the former one is there, too."""
        self._path = self._journal / "later" / segment_name("n", 1)
        self._path.parent.mkdir()
        self._seq, self._now_ms = 0, self._now_ms + 3_600_000

    def follow(self) -> Moment:
        """Read what is new, and publish."""
        follow(self._spark, [str(self._journal)], str(self._out), ONCE)
        moment = Warehouse(self._spark, str(self._out)).latest()
        assert moment is not None
        return moment

    def check(self) -> None:
        """Check that the tables are those of reading all at once, and as many rows as noted."""
        batch.run(self._spark, [str(self._journal)], str(self._folder / "read"))
        warehouse = Warehouse(self._spark, str(self._out))
        found = rows_of(warehouse)
        assert found == rows_of(Warehouse(self._spark, str(self._folder / "read")))
        moment = warehouse.latest()
        assert moment is not None
        assert moment.rows == {name: len(rows) for name, rows in found.items()}

    def lose(self, moment: Moment, table: str) -> None:
        """Lose one file of a table."""
        folder = self._out / "tables" / f"{moment.number:06}" / table
        max(folder.rglob("*.parquet")).unlink()

    def files(self, moment: Moment) -> dict[tuple[str, int], set[int]]:
        """By table and bucket, which files a moment has on disk."""
        found: dict[tuple[str, int], set[int]] = {}
        for table in BY_GROUP:
            folder = self._out / "tables" / f"{moment.number:06}" / table
            for path in folder.rglob("*.parquet"):
                bucket = bucket_of(path.name)
                if bucket is not None:
                    found.setdefault((table, bucket), set()).add(path.stat().st_ino)
        return found


def birth(group: str) -> list[Event]:
    """A group's first member, and its commit."""
    joined = MemberJoined(
        group=group, member="m", instance=None, client_id="c", host="/h",
        session_timeout_ms=10_000, rebalance_timeout_ms=60_000, protocols=("range",),
        topics=("t",), reason="",
    )  # fmt: skip
    started = RebalanceStarted(
        group=group, generation=0, from_state="Empty", cause="member_joined", detail="",
        awaited=(), deadline=None, follows=None,
    )  # fmt: skip
    completed = RebalanceCompleted(
        group=group, generation=1, cause="member_joined", assigned={"m": {"t": (0,)}}, moved=1,
        revoked=0, needs_rejoin=False, took_ms=1, total_ms=1,
    )  # fmt: skip
    return [joined, started, completed, commit(group, 1)]


def commit(group: str, offset: int) -> Event:
    """A commit of the group's member."""
    return OffsetsCommitted(group=group, member="m", generation=1, offsets={"t": {"0": offset}})


@pytest.fixture
def place(spark: SparkSession, tmp_path: Path) -> Place:
    """A journal that nothing was read of."""
    return Place(spark, tmp_path)


def test_only_groups_with_new_lines_are_made_again(place: Place) -> None:
    first = place.follow()
    assert first.groups is None
    before = place.files(first)
    assert len({bucket for _, bucket in before}) > BUCKETS // 2
    place.write(commit("g7", 5), commit("g7", 3))
    second = place.follow()
    assert second.groups == 1
    after = place.files(second)
    rewritten = {bucket for (table, bucket), own in after.items() if own != before[table, bucket]}
    assert len(rewritten) == 1
    place.write(GroupEmptied(group="g8", generation=1), *birth("new"))
    assert place.follow().groups == 2
    place.check()
    place.write(NodeStopped(reason="asked to"))
    last = place.follow()
    assert last.groups == 0
    assert {len(own) for own in place.files(last).values()} == {1}


def test_group_in_which_a_rebalance_hangs_is_made_again(place: Place) -> None:
    # It goes on until the journal ends, whatever group the last line is about.
    started = birth("g8")[1]
    place.write(*birth("g8")[:2], started)
    place.follow()
    place.write(commit("g7", 5))
    assert place.follow().groups == 2
    place.check()
    place.write(*birth("g8")[2:])
    assert place.follow().groups == 1
    place.write(commit("g7", 6))
    assert place.follow().groups == 1
    place.check()


def test_all_are_made_again_after_a_topic_was_deleted(place: Place) -> None:
    # Any of them may have owned it.
    place.follow()
    place.write(TopicChanged(topic="t", change="deleted", partitions_before=1, partitions=0))
    assert place.follow().groups is None
    place.check()


def test_all_are_made_again_if_some_tables_are_gone(place: Place) -> None:
    # Of the others, what is gone would be missing for ever.
    moment = place.follow()
    place.lose(moment, "commits")
    place.write(commit("g7", 5))
    assert place.follow().groups is None
    place.check()


def test_group_that_loses_a_line_is_made_again(place: Place) -> None:
    # A number is used twice: the line in the later file counts, and the former one no more.
    place.write(commit("g3", 9))
    place.follow()
    former = place._seq  # noqa: SLF001
    place.begin_file()
    place.write(commit("g5", 9), seq=former)
    moment = place.follow()
    assert moment.groups is not None
    assert moment.groups >= 2
    place.check()


def test_a_node_that_begins_anew_takes_nothing_of_its_former_life_along(place: Place) -> None:
    place.follow()
    place.begin_anew()
    place.write(*birth("g3"))
    moment = place.follow()
    assert moment.groups == GROUPS
    assert moment.rows["commits"] == 1
    place.check()


def test_files_of_days_are_taken_over_alike(spark: SparkSession, tmp_path: Path) -> None:
    by_day = spark.newSession()
    by_day.conf.set(BY_DAY, "true")
    place = Place(by_day, tmp_path)
    before = place.files(place.follow())
    place.write(commit("g7", 5))
    second = place.follow()
    assert second.groups == 1
    after = place.files(second)
    rewritten = {bucket for (table, bucket), own in after.items() if own != before[table, bucket]}
    assert len(rewritten) == 1
    place.check()


def test_all_are_made_again_in_another_layout(spark: SparkSession, tmp_path: Path) -> None:
    place = Place(spark, tmp_path)
    place.follow()
    place.write(commit("g7", 5))
    spark.conf.set(BY_DAY, "true")
    try:
        moment = place.follow()
    finally:
        spark.conf.unset(BY_DAY)
    assert moment.groups is None
    place.check()
