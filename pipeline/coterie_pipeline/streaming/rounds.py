"""Tables of one moment after the other, of which only what changed is made again.

The rows of tables about groups are in files by bucket, a number that follows from the group.  A
round makes the rows of groups that have new lines, and writes the buckets that these are in; the
files of all other buckets are those of the moment before, under a second name.  So each moment is
complete, and what a killed driver left of one touches no other.

The moment's `latest.json` says how far it goes, so the next round may be that of another driver.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.files import Files, literal
from coterie_pipeline.layout import DAY, Counted, is_by_day, write_table
from coterie_pipeline.steps import CLOCKS, Making
from coterie_pipeline.steps.lines import of_entangled, of_groups, readable
from coterie_pipeline.tables import ADVICE, REBALANCES, TABLES

__all__ = ["BUCKETS", "Changes", "Rounds", "bucket_of", "has_buckets"]

#: In how many parts the rows of groups are stored.
BUCKETS: Final = 16

#: As Spark divides rows by `repartition`, so that a file's number is its bucket.
_BUCKET: Final = f"pmod(hash(`group`), {BUCKETS})"

#: How Spark names a file of a table: by the number of its part.
_PART: Final = re.compile(r"part-([0-9]+)-")

#: Advice about nodes is made again each time.
_NO_GROUP: Final = ""

_BY_GROUP: Final = (CLOCKS, *(table.name for table in TABLES if "group" in table.names))


@dataclass(frozen=True, slots=True)
class Changes:
    """Which groups have to be made again since a moment."""

    #: None stands for all.
    groups: Sequence[str] | None
    #: What the rows of all groups depend on.
    shared: Mapping[str, Any]
    #: For each table, the number of rows of each bucket as of the moment before.
    counts: Mapping[str, Sequence[int]] = field(default_factory=dict)

    @classmethod
    def since(
        cls,
        former: Mapping[str, Any] | None,
        bronze: DataFrame,
        making: Making,
        fresh: Iterable[str],
    ) -> Changes:
        """What pieces that the former moment did not have, or not as they are, say of groups."""
        rows = (
            readable(bronze)
            .where(F.col("piece").isin(*fresh))
            .select("node", "group")
            .distinct()
            .collect()
        )
        shared = {
            # Any group may have owned a topic that is gone.
            "deletions": {
                topic: list(map(list, each)) for topic, each in making.facts.deletions.items()
            },
            # Files in other folders are of no use.
            "by_day": is_by_day(bronze.sparkSession),
            "is_of_one_node": making.whole.is_of_one_node,
        }
        if former is None or any(former.get(name) != value for name, value in shared.items()):
            return cls(None, shared)
        groups = {row.group for row in rows}
        groups |= _entangled(bronze, making, {row.node for row in rows})
        # A rebalance that hangs goes on until the end of the journal.
        groups |= set(former.get("hanging", ())) if rows else set()
        return cls(sorted(groups - {_NO_GROUP}), shared, former["buckets"])


def _entangled(bronze: DataFrame, making: Making, nodes: set[str]) -> set[str]:
    """The groups of lines that may not count any more because of new lines of these nodes."""
    doubtful = [each for each in making.segments if each.is_entangled and each.node in nodes]
    if not doubtful:
        return set()
    rows = of_entangled(readable(bronze), doubtful).select("group").distinct().collect()
    return {row.group for row in rows}


def bucket_of(file: str) -> int | None:
    """The bucket of a file, by its name; None if it is no part of a table."""
    match = _PART.match(file.rpartition("/")[2])
    return None if match is None else int(match[1])


def has_buckets(files: Files, folder: str, counts: Mapping[str, Sequence[int]]) -> bool:
    """Whether there is a file for each bucket that has rows."""
    for name in _BY_GROUP:
        there = set(map(bucket_of, _parts(files, f"{folder}/{name}")))
        if any(count and bucket not in there for bucket, count in enumerate(counts.get(name, ()))):
            return False
    return True


def _parts(files: Files, table: str) -> Iterator[str]:
    """The names of a table's files, with the folders of days."""
    for name in files.names(table):
        if name.startswith(f"{DAY}="):
            yield from (f"{name}/{file}" for file in files.names(f"{table}/{name}"))
        else:
            yield name


class Rounds:
    """Writes the tables of a moment into a folder, with what is still right of the one before."""

    def __init__(self, files: Files, folder: str, former: str | None, changes: Changes) -> None:
        self._files = files
        self._folder = folder
        self._former = former
        self._changes = changes
        #: How many rows each bucket of each table has.
        self.counts: dict[str, list[int]] = {}

    def store(self, name: str, rows: DataFrame) -> None:
        """Write a table, of which there are the rows of the groups that changed."""
        if name not in _BY_GROUP:
            self._write(name, rows, range(1))
            return
        groups, former = self._changes.groups, self._former
        if groups is None or former is None:
            self._write(name, rows, range(BUCKETS))
            return
        changed = (*groups, _NO_GROUP) if name == ADVICE.name else groups
        touched = _buckets(rows, changed)
        kept = self._kept(rows, f"{former}/{name}", touched, changed)
        self._write(name, rows if kept is None else rows.unionByName(kept), touched)
        self._take_over(f"{former}/{name}", f"{self._folder}/{name}", touched)

    def _take_over(self, former: str, table: str, touched: Sequence[int]) -> None:
        """Have the files of all other buckets."""
        for file in _parts(self._files, table):
            # Spark writes a file for part 0 even if that is empty.
            if bucket_of(file) == 0 and 0 not in touched:
                self._files.delete(f"{table}/{file}")
        for file in _parts(self._files, former):
            bucket = bucket_of(file)
            if bucket is not None and bucket not in touched:
                self._files.link(f"{former}/{file}", f"{table}/{file}")

    def read(self, name: str, rows: DataFrame) -> DataFrame:
        """A table that was written, with the columns of some rows."""
        spark = rows.sparkSession
        path = literal(self._files.path(f"{self._folder}/{name}"))
        return spark.read.schema(rows.schema).parquet(path)

    def hanging(self, spark: SparkSession) -> list[str]:
        """The groups in which a rebalance goes on."""
        table = self.read(REBALANCES.name, spark.createDataFrame([], REBALANCES.ddl))
        rows = table.where("outcome = 'running'").select("group").distinct().collect()
        return sorted(row.group for row in rows)

    def _kept(
        self, rows: DataFrame, table: str, touched: Sequence[int], changed: Sequence[str]
    ) -> DataFrame | None:
        """What is still right in buckets that are written again."""
        paths = [
            literal(self._files.path(f"{table}/{file}"))
            for file in _parts(self._files, table)
            if bucket_of(file) in touched
        ]
        if not paths:
            return None
        former = rows.sparkSession.read.schema(rows.schema).parquet(*paths)
        return of_groups(former, changed, is_other=True)

    def _write(self, name: str, rows: DataFrame, touched: Iterable[int]) -> None:
        is_by_group = name in _BY_GROUP
        bucket = F.expr(_BUCKET) if is_by_group else F.lit(0)
        counted = Observation()
        each = [F.count_if(bucket == number).alias(f"n{number}") for number in touched]
        write_table(
            name,
            rows,
            self._files.path(f"{self._folder}/{name}"),
            Counted(counted, (F.count(F.lit(1)).alias("rows"), *each)),
            buckets=BUCKETS if is_by_group else None,
        )
        counts = list(self._changes.counts.get(name, [0] * BUCKETS))
        for number in touched:
            counts[number] = counted.get[f"n{number}"]
        self.counts[name] = counts


def _buckets(rows: DataFrame, groups: Iterable[str]) -> list[int]:
    named = rows.sparkSession.createDataFrame([(group,) for group in groups], "`group` STRING")
    found = named.selectExpr(f"{_BUCKET} AS bucket").distinct().collect()
    return sorted(row.bucket for row in found)
