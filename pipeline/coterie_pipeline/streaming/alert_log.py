"""Alerts as they are kept: each once, however often a micro-batch is done over."""

from __future__ import annotations

from collections.abc import Iterable

from pyspark.sql import DataFrame, Row, SparkSession

from coterie_pipeline.files import Files
from coterie_pipeline.streaming.alerts import ALERTS

__all__ = ["AlertLog"]


class AlertLog:
    """The table `alerts` of a directory, in pieces: what each micro-batch added."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self._files = Files(spark, out)
        rows = self.read().select("key", "piece").collect()
        self._piece_of = {row["key"]: row["piece"] for row in rows}

    def read(self) -> DataFrame:
        """All alerts, with the piece that each is in."""
        schema = f"{ALERTS.ddl}, piece STRING"
        if not self._files.names(ALERTS.name):
            return self._spark.createDataFrame([], schema)
        return self._spark.read.schema(schema).parquet(self._files.path(ALERTS.name))

    def add(self, piece: str, found: Iterable[Row]) -> list[Row]:
        """Keep alerts that no other piece has, and return them, the earliest first.

        A piece that is added once more replaces what it was.
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
