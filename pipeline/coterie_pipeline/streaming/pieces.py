"""The pieces that following writes: many small ones, merged into fewer and larger ones.

Each micro-batch is a piece.  A hundred pieces of one level are merged into one of the next level,
so there are never many.  Whether the pieces count or the merged one is noted in one step, so a
driver that is killed meanwhile loses nothing and counts nothing twice.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F

from coterie_pipeline.layout import folder_of
from coterie_pipeline.session import quick_session
from coterie_pipeline.steps import CLOCKS, REPLAY, Making, Materialize
from coterie_pipeline.streaming.rounds import Changes, Rounds, has_buckets
from coterie_pipeline.tables import TABLES
from coterie_pipeline.warehouse import ASIDE, BRONZE, Warehouse

__all__ = ["TAILS", "Pieces", "number_of", "piece_name"]

#: So many pieces become one.
_MERGED: Final = 100

_LEVELS: Final = range(4)

_PREFIX: Final = "piece="

#: The piece with what follows the last whole line of each node, as of the latest tables.
TAILS: Final = "tails"


def piece_name(number: int, level: int = 0) -> str:
    """The name of a micro-batch's piece, or of a merged piece that ends with it."""
    return f"level{level}-{number:010}"


def number_of(piece: str) -> int:
    """The number of the last micro-batch in a piece; of another piece, one before all others."""
    number = piece.rpartition("-")[2]
    return int(number) if number.isdecimal() else -1


class Pieces(Warehouse):
    """A warehouse that one thread adds to while others read and merge."""

    def __init__(self, spark: SparkSession, out: str, lock: threading.RLock | None = None) -> None:
        super().__init__(spark, out)
        #: Held while pieces are added or removed, and while they are listed.
        self.lock = lock or threading.RLock()

    def quick(self) -> Pieces:
        """The same directory, by a session for little data."""
        return Pieces(quick_session(self._spark), self.out, self.lock)

    def bronze(self, parts: tuple[str, ...] | None = None) -> DataFrame:
        """Every line that was added so far, once."""
        with self.lock:
            read = super().bronze(parts)
            void = self._void()
        return read.where(~F.col("piece").isin(void)) if void else read

    def _fill(
        self,
        folder: str,
        former: Mapping[str, Any] | None,
        ends: DataFrame | None,
        keep: Materialize,
        on_stage: Callable[[str], None],
    ) -> dict[str, Any]:
        """Write all tables, of which only what changed since the former moment is made again."""
        with self.lock:
            # A later piece may be among the lines already; the next round takes it in once more.
            through = self.newest()
            bronze = self.bronze()
        since = -1 if former is None else former["through"]
        fresh = [name for name in self._names() if number_of(name) > since]
        rounds: Rounds | None = None

        def materialize(name: str, rows: DataFrame) -> DataFrame:
            if name == REPLAY:
                return keep(name, rows)
            on_stage(name)
            assert rounds is not None
            rounds.store(name, rows)
            return rounds.read(name, rows) if name == CLOCKS else rows

        making = Making(bronze, materialize, ends)
        changes = Changes.since(former, bronze, making, fresh)
        if changes.groups is not None:
            making.restrict(changes.groups)
        place = None if former is None else folder_of(former["number"])
        rounds = Rounds(self.files, folder, place, changes)
        for table in TABLES:
            materialize(table.name, making.table(table.name))
        return {
            "rows": {table.name: sum(rounds.counts[table.name]) for table in TABLES},
            "groups": None if changes.groups is None else len(changes.groups),
            "buckets": rounds.counts,
            "through": through,
            "hanging": rounds.hanging(bronze.sparkSession),
            **changes.shared,
        }

    def _is_whole(self, noted: Mapping[str, Any]) -> bool:
        # What is missing here would be missing in all later moments.
        buckets = noted.get("buckets", {})
        return super()._is_whole(noted) and has_buckets(
            self.files, folder_of(noted["number"]), buckets
        )

    def newest(self) -> int:
        """The number of the last micro-batch whose lines are there; -1 if there is none."""
        return max(map(number_of, self._names()), default=-1)

    def merge(self, at_least: int = _MERGED) -> None:
        """Merge the pieces of each level that has enough of them, except for the newest piece."""
        self.mend()
        for level in _LEVELS:
            former = self._of_level(level)
            if level == 0:
                # Spark may repeat the latest micro-batch.
                former = former[:-1]
            if len(former) >= at_least:
                self._merge(former, piece_name(int(former[-1].rpartition("-")[2]), level + 1))

    def mend(self) -> None:
        """Finish or undo a merge that was interrupted."""
        with self.lock:
            void = self._void()
            aside = [name for name in self.files.names(BRONZE) if name.startswith(ASIDE)]
            for name in (*(f"{_PREFIX}{piece}" for piece in void), *aside):
                self.files.delete(f"{BRONZE}/{name}")
            if void:
                self._note_merge(None)

    def _merge(self, former: list[str], into: str) -> None:
        self._note_merge({"void": [into]})
        of_former = F.col("piece").isin(former)
        self.add(into, super().bronze().where(of_former))
        with self.lock:
            self._note_merge({"void": former})
            self.mend()

    def _void(self) -> list[str]:
        """Pieces that do not count: an unfinished merge, or what was merged."""
        state = self.claim("follow")
        return list((state.get("merge") or {}).get("void", ()))

    def _note_merge(self, merge: dict[str, list[str]] | None) -> None:
        with self.lock:
            self.note(self.claim("follow") | {"merge": merge})

    def _of_level(self, level: int) -> list[str]:
        prefix = f"{piece_name(0, level).partition('-')[0]}-"
        return [name for name in self._names() if name.startswith(prefix)]

    def _names(self) -> list[str]:
        names = self.files.names(BRONZE)
        return [name.removeprefix(_PREFIX) for name in names if name.startswith(_PREFIX)]
