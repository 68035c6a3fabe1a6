"""Pieces are merged, and whatever cuts that short changes nothing that is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.streaming.pieces import Pieces, piece_name
from coterie_pipeline.warehouse import bronze_schema

pytestmark = pytest.mark.slow


class LineLookup:
    """Pieces of one line each, whose number it has."""

    def __init__(self, spark: SparkSession, out: Path) -> None:
        self.pieces = Pieces(spark, str(out))
        self.pieces.claim("follow")
        self._spark = spark
        self._out = out

    def add(self, *numbers: int) -> None:
        """Add some."""
        for number in numbers:
            row = {"seq": number, "part": "control"}
            bronze = self._spark.createDataFrame([row], bronze_schema()).coalesce(1)
            self.pieces.add(piece_name(number), bronze)

    @property
    def lines(self) -> list[int]:
        """The numbers of all lines that are read."""
        return sorted(row["seq"] for row in self.pieces.bronze().select("seq").collect())

    @property
    def names(self) -> list[str]:
        """What there is."""
        return sorted(path.name for path in (self._out / "events").glob("piece=*"))


@pytest.fixture
def lookup(spark: SparkSession, tmp_path: Path) -> LineLookup:
    """An empty one."""
    return LineLookup(spark, tmp_path / "out")


def test_pieces_are_merged_except_for_the_latest(lookup: LineLookup) -> None:
    # All but the latest, which may be added once more.
    lookup.add(0, 1, 2, 3)
    lookup.pieces.merge(at_least=3)
    assert lookup.names == ["piece=level0-0000000003", "piece=level1-0000000002"]
    lookup.add(3)
    assert lookup.lines == [0, 1, 2, 3]


def test_few_pieces_are_not_merged(lookup: LineLookup) -> None:
    lookup.add(0, 1, 2)
    lookup.pieces.merge(at_least=3)
    assert len(lookup.names) == 3


@pytest.mark.parametrize("void", [["level1-0000000001"], ["level0-0000000000"]])
def test_merge_that_was_cut_off_changes_no_lines(lookup: LineLookup, void: list[str]) -> None:
    lookup.add(0)
    lookup.pieces.add("level1-0000000001", lookup.pieces.bronze())
    lookup.pieces.note(lookup.pieces.claim("follow") | {"merge": {"void": void}})
    assert lookup.lines == [0]
    lookup.pieces.mend()
    assert (lookup.lines, len(lookup.names)) == ([0], 1)
    assert lookup.pieces.claim("follow")["merge"] is None
