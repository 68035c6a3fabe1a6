"""Pieces are merged, and whatever cuts that short changes nothing that is read."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from coterie_pipeline.streaming.pieces import Pieces, piece_name
from coterie_pipeline.warehouse import bronze_schema


class Shelf:
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
def shelf(spark: SparkSession, tmp_path: Path) -> Shelf:
    """An empty one."""
    return Shelf(spark, tmp_path / "out")


def test_pieces_are_merged(shelf: Shelf) -> None:
    """All but the latest, which may be added once more."""
    shelf.add(0, 1, 2, 3)
    shelf.pieces.merge(at_least=3)
    assert shelf.names == ["piece=level0-0000000003", "piece=level1-0000000002"]
    shelf.add(3)
    assert shelf.lines == [0, 1, 2, 3]


def test_few_pieces_stay(shelf: Shelf) -> None:
    """Merging costs more than it saves then."""
    shelf.add(0, 1, 2)
    shelf.pieces.merge(at_least=3)
    assert len(shelf.names) == 3


@pytest.mark.parametrize("void", [["level1-0000000001"], ["level0-0000000000"]])
def test_a_merge_that_was_cut_off(shelf: Shelf, void: list[str]) -> None:
    """What was not noted does not count, be it the whole or its parts."""
    shelf.add(0)
    shelf.pieces.add("level1-0000000001", shelf.pieces.bronze())
    shelf.pieces.note(shelf.pieces.claim("follow") | {"merge": {"void": void}})
    assert shelf.lines == [0]
    shelf.pieces.mend()
    assert (shelf.lines, len(shelf.names)) == ([0], 1)
    assert shelf.pieces.claim("follow")["merge"] is None
