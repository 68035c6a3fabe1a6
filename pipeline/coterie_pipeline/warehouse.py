"""The output directory of the pipeline: the lines it read, and the tables it made of them.

    OUT/
      events/piece=.../part=...   every line that was read, as columns
      tables/000007/<table>/      all tables as of one moment
      latest.json                 which of these moments is the latest
      state.json                  what was read so far

A piece is what was read at one time.  It is written as a whole or not at all, and writing it again
changes nothing.  New tables are written aside and become the latest in one step, so a reader never
finds some of them new and some of them old.
"""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterable, Iterator, Mapping
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Final

from pyspark.sql import DataFrame, Observation, SparkSession
from pyspark.sql import functions as F
from pyspark.sql.types import StringType, StructType

from coterie_pipeline.files import Files, literal
from coterie_pipeline.layout import Counted, folder_of, write_table
from coterie_pipeline.session import is_local, quick_session
from coterie_pipeline.steps import REPLAY, Materialize, make_tables
from coterie_pipeline.steps.arrow import no_rows
from coterie_pipeline.steps.parsing import OTHERS, judged, lines_schema, recognized
from coterie_pipeline.steps.recognizing import RECOGNIZED
from coterie_pipeline.storing import Unread, can_store, store_files
from coterie_pipeline.tables import TABLES
from coterie_pipeline.warehouse_errors import NoTablesError, UnusableDirectoryError

__all__ = [
    "ASIDE",
    "BRONZE",
    "LAYOUT",
    "MAKING",
    "Moment",
    "NoTablesError",
    "UnusableDirectoryError",
    "Warehouse",
    "bronze_schema",
    "piece_of_run",
]


#: The version of the layout; another one's directories are refused.
LAYOUT: Final = 3

BRONZE: Final = "events"

#: What begins the names of pieces that are being written: Spark reads no such folders.
ASIDE: Final = "_"

#: The stage in which it is found out what there is to store.
MAKING: Final = "replaying groups"

#: How many moments are kept, so that readers can finish.
_KEPT: Final = 2

#: With fewer bytes of lines as they are stored, generating code takes longer than it saves.
_LITTLE_BYTES: Final = 8_000_000

#: How many tables are written at once: most are small, and take longer to plan than to write.
_TABLES_AT_ONCE: Final = 2

_NAMES: Final = frozenset(table.name for table in TABLES)

_LATEST: Final = "latest.json"
_STATE: Final = "state.json"


def require_latest(out: str) -> None:
    """Raise `NoTablesError` if a directory of this machine has never had tables."""
    if not Path(out, _LATEST).is_file():
        raise NoTablesError(out)


def piece_of_run(number: int) -> str:
    """The name of the piece with what a run read."""
    return f"run-{number:06}"


def bronze_schema() -> StructType:
    """The columns of `events`."""
    return lines_schema().add("piece", StringType())


@dataclass(frozen=True, slots=True)
class Moment:
    """The tables as of one moment."""

    number: int
    rows: Mapping[str, int]
    #: The number of the last run, or micro-batch, whose lines it is made of.
    through: int
    #: How many groups were made again; None if all were.
    groups: int | None = None


class Warehouse:
    """One directory of lines and tables, which belongs to one kind of runner, `run` or `follow`."""

    def __init__(self, spark: SparkSession, out: str) -> None:
        self._spark = spark
        self.files = Files(spark, out)
        self.out = out.rstrip("/")

    @contextlib.contextmanager
    def alone(self) -> Iterator[None]:
        """Keep other runners on this machine out; `UnusableDirectoryError` if one is at work.

        Two at once would write pieces and moments of the same numbers.
        """
        with contextlib.ExitStack() as stack:
            try:
                stack.enter_context(self.files.held())
            except BlockingIOError:
                raise UnusableDirectoryError(
                    f"Another `coterie pipeline` works in {self.out}: wait until it has ended, or "
                    "give another directory."
                ) from None
            except OSError as error:
                why = f"{self.out} can't be written to: {error.strerror}."
                raise UnusableDirectoryError(why) from error
            yield

    # -- what was read -------------------------------------------------------------------------

    def claim(self, runner: str) -> dict[str, Any]:
        """The state that a runner noted last.

        Raises `UnusableDirectoryError` if the directory is not its own.
        """
        state = self._state()
        if state is None:
            # A run that was killed at its beginning may have left a partial file.
            others = [name for name in self.files.names("") if _STATE not in name]
            if others:
                raise UnusableDirectoryError(
                    f"{self.out} holds something else already: give an empty or a new directory."
                )
            state = {"layout": LAYOUT, "runner": runner}
            self.note(state)
        if state["layout"] != LAYOUT:
            raise UnusableDirectoryError(
                f"{self.out} was made by another version of Coterie: give a new directory, "
                "and read the journals again."
            )
        if state["runner"] != runner:
            raise UnusableDirectoryError(
                f"{self.out} belongs to `coterie pipeline {state['runner']}`: go on with that, "
                "or give another directory."
            )
        return dict(state)

    def _state(self) -> dict[str, Any] | None:
        try:
            state = self.files.read_json(_STATE)
        except ValueError:
            state = ()
        if state is None or (isinstance(state, dict) and {"layout", "runner"} <= state.keys()):
            return state
        raise UnusableDirectoryError(
            f"{self.out}/{_STATE} is damaged, so it is not known what was read: give a new "
            "directory, and read the journals again."
        )

    def require(self, pieces: Iterable[str]) -> None:
        """Check that pieces that were read are still there."""
        # In an object store, a piece without lines may be nothing at all.
        there = self.files.names(BRONZE) if self.files.can_rename else None
        lost = there is not None and {f"piece={piece}" for piece in pieces} - set(there)
        if lost:
            raise UnusableDirectoryError(
                f"{self.out}/{BRONZE} lacks {min(lost)}, lines that were read before: put it back, "
                "or give a new directory, and read the journals again."
            )

    def note(self, state: Mapping[str, Any]) -> None:
        """Store what was read so far."""
        self.files.write_json(_STATE, state)

    def runs(self) -> int:
        """How many runs have read something; what a run adds counts once it is among them."""
        state = self._state() or {}
        return int(state.get("runs", 0))

    def add(self, piece: str, bronze: DataFrame) -> None:
        """Write a piece; one of the same name is replaced."""
        with self._aside(piece) as aside:
            self._append(aside, bronze)

    def add_lines(
        self, piece: str, raw: DataFrame, watch: Callable[[DataFrame], DataFrame] = lambda it: it
    ) -> int:
        """Write a piece of lines as `recognized` takes them; how many commits were recognized.

        `raw` is read once: what is not recognized is stored as it is, and judged then, which
        `watch` may observe.
        """
        with self._aside(piece) as aside:
            is_other = F.col("part") == OTHERS
            counts = F.count_if(is_other).alias("others"), F.count_if(~is_other).alias("commits")
            counted = Observation()
            self._append(aside, recognized(raw).observe(counted, *counts))
            if counted.get["others"]:
                place = f"{aside}/part={OTHERS}"
                rest = raw.sparkSession.read.schema(RECOGNIZED)
                rows = rest.parquet(literal(self.files.path(place)))
                self._append(aside, watch(judged(rows)))
                self.files.delete(place)
        return int(counted.get["commits"])

    def add_files(self, piece: str, sizes: Mapping[str, int]) -> Unread | None:
        """Write a piece of files; None if that needs Spark's readers, or its writers."""
        folder = self.files.local(BRONZE)
        if folder is None or not can_store(sizes):
            return None
        with self._aside(piece) as aside:
            return store_files(self._spark, sizes, folder.parent / aside)

    @contextlib.contextmanager
    def _aside(self, piece: str) -> Iterator[str]:
        """Where a piece is to be written.

        No reader looks there, and it is put in place in one step.  In an object store that would
        copy it, so there it is known by the state alone that it is whole.
        """
        place = f"{BRONZE}/piece={piece}"
        aside = f"{BRONZE}/{ASIDE}{piece}" if self.files.can_rename else place
        self.files.delete(aside)
        yield aside
        if aside != place:
            self.files.replace(aside, place)

    def _append(self, folder: str, bronze: DataFrame) -> None:
        lines = bronze.drop("piece").write.mode("append").partitionBy("part")
        lines.parquet(self.files.path(folder))

    def drop(self, piece: str) -> None:
        """Delete a piece, if it is there."""
        self.files.delete(f"{BRONZE}/piece={piece}")

    def bronze(self, parts: tuple[str, ...] | None = None) -> DataFrame:
        """The lines that were read, each file as of its last reading; all parts or only some."""
        if not self.files.names(BRONZE):
            return no_rows(self._spark, bronze_schema())
        read = self._spark.read.schema(bronze_schema()).parquet(literal(self.files.path(BRONZE)))
        if parts is not None:
            read = read.where(F.col("part").isin(*parts))
        state = self._state() or {}
        if state.get("runner") == "run":
            # What a run that was killed left may be there in part.
            read = read.where(F.col("piece") <= piece_of_run(state.get("runs", 0)))
        stale = state.get("stale", [])
        if not stale:
            return read
        outdated = self._spark.createDataFrame(stale, "segment STRING, piece STRING")
        return read.join(F.broadcast(outdated), ["segment", "piece"], how="left_anti")

    # -- the tables ----------------------------------------------------------------------------

    def quick(self) -> Warehouse:
        """The same directory, by a session for little data."""
        return Warehouse(quick_session(self._spark), self.out)

    def fitting(self) -> Warehouse:
        """The same directory, by a session that suits the amount of data."""
        # On a cluster, its settings decide.
        is_little = is_local(self._spark) and self.files.size(BRONZE) < _LITTLE_BYTES
        return self.quick() if is_little else self

    def refresh(
        self,
        ends: DataFrame | None = None,
        on_stage: Callable[[str], None] = lambda _stage: None,
    ) -> Moment:
        """Make all tables again from what was read, and publish them in one step."""
        return self.fitting()._make(ends, on_stage)

    def _make(self, ends: DataFrame | None, on_stage: Callable[[str], None]) -> Moment:
        former = self._latest()
        number = 1 + (self._highest() if former is None else former["number"])
        folder = folder_of(number)
        on_stage(MAKING)
        self.files.delete(folder)  # what a killed run left
        kept: list[DataFrame] = []

        def keep(name: str, rows: DataFrame) -> DataFrame:
            on_stage(name)
            kept.append(rows.persist())
            return kept[-1]

        try:
            latest = self._fill(folder, former, ends, keep, on_stage)
        finally:
            for rows in kept:
                rows.unpersist()
        noted = {"number": number, **latest}
        self.files.write_json(_LATEST, noted)
        self._forget(number)
        return _moment(noted)

    def _fill(
        self,
        folder: str,
        former: Mapping[str, Any] | None,
        ends: DataFrame | None,
        keep: Materialize,
        on_stage: Callable[[str], None],
    ) -> dict[str, Any]:
        """Write all tables into a folder; what is to be noted about them."""
        del former
        through = self.runs()
        counts: dict[str, Observation] = {}

        def materialize(name: str, rows: DataFrame) -> DataFrame:
            if name not in _NAMES:
                return keep(name, rows) if name == REPLAY else rows
            on_stage(name)
            counts[name] = Observation()
            counted = Counted(counts[name], (F.count(F.lit(1)).alias("rows"),))
            path = self.files.path(f"{folder}/{name}")
            writing.append(pool.submit(write_table, name, rows, path, counted))
            return rows

        writing: list[Future[None]] = []
        with ThreadPoolExecutor(_TABLES_AT_ONCE) as pool:
            make_tables(self.bronze(), ends, materialize)
            for each in writing:
                each.result()
        rows = {name: each.get["rows"] for name, each in counts.items()}
        return {"rows": rows, "through": through}

    def table(self, name: str) -> DataFrame:
        """A table of the latest moment; raises `NoTablesError` if there is none."""
        return self.tables()[name]

    def tables(self) -> dict[str, DataFrame]:
        """All tables of the latest moment."""
        paths = self.paths()
        return {
            table.name: self._spark.read.schema(table.ddl)
            .parquet(literal(paths[table.name]))
            .select(*table.names)
            for table in TABLES
        }

    def paths(self) -> dict[str, str]:
        """The path of each table of the latest moment; raises `NoTablesError` if there is none."""
        latest = self.latest()
        if latest is None:
            raise NoTablesError(self.out)
        folder = folder_of(latest.number)
        return {table.name: self.files.path(f"{folder}/{table.name}") for table in TABLES}

    def latest(self) -> Moment | None:
        """The latest moment; None before the first, or if some of its tables are gone."""
        found = self._latest()
        return None if found is None else _moment(found)

    def _latest(self) -> dict[str, Any] | None:
        try:
            found = self.files.read_json(_LATEST)
        except ValueError:
            return None
        if not isinstance(found, dict) or not {"number", "rows"} <= found.keys():
            return None
        return found if self._is_whole(found) else None

    def _is_whole(self, noted: Mapping[str, Any]) -> bool:
        # In an object store, a table without rows may be nothing at all.
        return not self.files.can_rename or _NAMES.issubset(
            self.files.names(folder_of(noted["number"]))
        )

    def _highest(self) -> int:
        """The number of the latest moment of which anything is left."""
        return max((int(name) for name in self.files.names("tables")), default=0)

    def _forget(self, number: int) -> None:
        for name in self.files.names("tables"):
            if int(name) <= number - _KEPT:
                self.files.delete(f"tables/{name}")


def _moment(noted: Mapping[str, Any]) -> Moment:
    return Moment(noted["number"], noted["rows"], noted.get("through", -1), noted.get("groups"))
