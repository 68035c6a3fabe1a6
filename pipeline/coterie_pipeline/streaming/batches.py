"""What is done with each micro-batch: its lines are stored, and searched for alerts."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final

from pyspark.sql import DataFrame, Observation, Row, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.files import Files, literal
from coterie_pipeline.schema import struct_of
from coterie_pipeline.session import quick_session
from coterie_pipeline.steps.arrow import no_rows
from coterie_pipeline.steps.parsing import CONTROL, DAMAGED
from coterie_pipeline.streaming.alerts import ALERTS, Storm, alerts
from coterie_pipeline.streaming.pieces import Pieces, piece_name

__all__ = ["AlertLog", "Batches", "Stopping"]


class AlertLog:
    """The table `alerts` of a directory, in pieces, one for each micro-batch with alerts.

    Each alert is stored once, even if a micro-batch is repeated.
    """

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._files = Files(spark, out)
        rows = self.read().select("key", "piece").collect()
        self._piece_of = {row["key"]: row["piece"] for row in rows}

    def read(self) -> DataFrame:
        """All alerts, with their pieces."""
        schema = struct_of(f"{ALERTS.ddl}, piece STRING")
        if not self._files.names(ALERTS.name):
            return no_rows(self._spark, schema)
        path = literal(self._files.path(ALERTS.name))
        return self._spark.read.schema(schema).parquet(path)

    def add(self, piece: str, found: Iterable[Row]) -> list[Row]:
        """Store the alerts that no other piece has, and return them, the earliest first.

        A piece of the same name is replaced.
        """
        fresh = [row for row in found if self._piece_of.get(row["key"], piece) == piece]
        fresh.sort(key=lambda row: (row["at_ms"], row["key"]))
        if fresh:
            (
                self._spark.createDataFrame(fresh, ALERTS.ddl)
                .coalesce(1)
                .write.mode("overwrite")
                .parquet(self._files.path(f"{ALERTS.name}/piece={piece}"))
            )
            self._piece_of.update((row["key"], piece) for row in fresh)
        return fresh


# -- the batches -----------------------------------------------------------------------------------


#: Naming more groups than this in a query costs more than reading all of them.
_GROUPS_MAX: Final = 500


class Stopping(Exception):  # noqa: N818  # no error: the batch is repeated later
    """A micro-batch is refused because following is about to stop."""


class Batches:
    """Handles micro-batches, which are identified by their numbers, in a thread of Spark's.

    If the driver dies before Spark has recorded a batch, the batch comes again and replaces itself.
    """

    def __init__(
        self,
        spark: SparkSession,
        pieces: Pieces,
        storm: Storm,
        on_alert: Callable[[Row], None],
        on_damaged: Callable[[list[str]], None] = lambda _: None,
    ) -> None:
        self._on_damaged = on_damaged
        self._pieces = pieces
        self._quick = pieces.quick()
        self._alert_log = AlertLog(quick_session(spark), pieces.out)
        self._storm = storm
        self._on_alert = on_alert
        self._is_stopping = False
        self.taken = 0
        self.lines = 0
        #: The exception raised here, which Spark wraps into long texts.
        self.failure: Exception | None = None

    def take(self, raw: DataFrame, number: int) -> None:
        """Handle one micro-batch."""
        with self._pieces.lock:
            if self._is_stopping:
                raise Stopping
            try:
                self._take(raw, piece_name(number))
            except Exception as error:
                self.failure = error
                raise
            self.taken += 1

    def finish(self) -> None:
        """Wait for the one that is being handled, and refuse all others."""
        with self._pieces.lock:
            self._is_stopping = True

    def _take(self, raw: DataFrame, piece: str) -> None:
        seen = Observation()
        is_about_group = (F.col("part") == CONTROL) & (F.col("group") != "")
        is_damaged = F.col("why") == DAMAGED

        def watch(others: DataFrame) -> DataFrame:
            watched.append(seen)
            return others.observe(
                seen,
                F.count_if(~F.coalesce(is_damaged, F.lit(False))).alias("lines"),
                F.collect_set(F.when(is_damaged, F.col("segment"))).alias("damaged"),
                F.collect_set(F.when(is_about_group, F.col("group"))).alias("groups"),
            )

        watched: list[Observation] = []
        self.lines += self._pieces.add_lines(piece, raw, watch)
        if not watched:
            return
        self.lines += seen.get["lines"]
        if seen.get["damaged"]:
            self._on_damaged(sorted(seen.get["damaged"]))
        if seen.get["groups"]:
            self._alert(seen.get["groups"], piece)

    def _alert(self, groups: list[str], piece: str) -> None:
        control = self._quick.bronze((CONTROL,))
        named = groups if len(groups) <= _GROUPS_MAX else None
        found = alerts(control, self._storm, named).collect()
        for alert in self._alert_log.add(piece, found):
            self._on_alert(alert)
