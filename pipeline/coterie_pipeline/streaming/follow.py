"""Following journals: the tables that `run` makes, updated again and again, and alerts at once.

Each micro-batch is parsed and stored as one piece, which replaces what a killed driver may have
left of it.  The tables are made from all pieces by the steps of `run`, so they have the same
content.  They are published in another thread than the micro-batches, so alerts do not wait for
them.
"""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from types import FrameType
from typing import Final

from pyspark import cloudpickle
from pyspark.sql import Row, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

import coterie_pipeline.streaming
from coterie_pipeline.files import Files, shown
from coterie_pipeline.reading import unread_lines
from coterie_pipeline.streaming.alerts import Storm
from coterie_pipeline.streaming.batches import Batches, Stopping
from coterie_pipeline.streaming.checkpoint import CHECKPOINT, newest_commit, unusable_part
from coterie_pipeline.streaming.finding import find, passed_over
from coterie_pipeline.streaming.offsets import Offset, behind_bytes, shorter
from coterie_pipeline.streaming.pieces import TAILS, Pieces
from coterie_pipeline.streaming.source import (
    BATCH_BYTES,
    FORMAT,
    JournalSource,
    SourceError,
    name_of,
    source_options,
    tails,
)
from coterie_pipeline.warehouse import BRONZE
from coterie_protocol.journal import why_unended

__all__ = ["CheckpointError", "FollowOptions", "Oddity", "Progress", "follow"]

#: How often the main thread checks whether it has something to do.
_LOOK_S: Final = 0.2

_SENTENCE: Final = re.compile(r"\bSourceError: (.+)")

#: The micro-batches and the tables take turns on executors that are busy.
_POOL: Final = "spark.scheduler.pool"


class CheckpointError(Exception):
    """Following can't be continued in a directory; the message says what to do."""


@dataclass(frozen=True, slots=True, kw_only=True)
class FollowOptions:
    """How journals are followed."""

    #: How long to wait between looks at the journals.
    every_s: float = 1.0
    #: How long to wait between publications of the tables.
    refresh_s: float = 60.0
    #: About how much text a micro-batch has at most.
    batch_bytes: int = BATCH_BYTES
    #: Whether to stop when everything that was there at the beginning is read.
    once: bool = False
    storm: Storm = field(default_factory=Storm)


@dataclass(frozen=True, slots=True, kw_only=True)
class Progress:
    """How far following has got since it was started."""

    batches: int
    lines: int
    #: About how much text is still to be read.
    behind_bytes: int
    #: How often tables were published.
    published: int


@dataclass(frozen=True, slots=True, kw_only=True)
class Oddity:
    """Files that were found, and were not read as others are."""

    #: Files that are not read, as they have other names than a journal's.
    passed_over: tuple[str, ...] = ()
    #: Compressed files of which only the beginning was read, as the rest can't be unpacked.
    damaged: tuple[str, ...] = ()
    #: Files that are shorter than what was read of them, of which no more is read until they are
    #: longer again: they are being copied once more, or their node began anew.
    shorter: tuple[str, ...] = ()


def follow(
    spark: SparkSession,
    journals: Iterable[str],
    out: str,
    options: FollowOptions | None = None,
    *,
    on_alert: Callable[[Row], None] = lambda _: None,
    on_progress: Callable[[Progress], None] = lambda _: None,
    on_oddity: Callable[[Oddity], None] = lambda _: None,
) -> None:
    """Follow journals until SIGINT or SIGTERM, or to their present ends with `once`.

    `on_alert` gets each new row of `alerts`, from another thread.  An alert of the micro-batch in
    which a driver was killed may be passed again by the next one; it is stored once.  `on_oddity`
    gets files that are not read, or not to their ends, in the same way.

    Raises `CheckpointError` if `out` was made by following other journals,
    `UnusableDirectoryError` if it holds something else or is in use, and `SourceError` if there are
    no journals or they can't be read any further.  Following can always be continued later.
    """
    wanted = options or FollowOptions()
    journals = tuple(_folder(journal) for journal in journals)
    warehouse = Pieces(spark, out)
    with warehouse.alone():
        _claim(warehouse, journals)
        batches = Batches(
            spark,
            warehouse,
            wanted.storm,
            on_alert,
            lambda names: on_oddity(Oddity(damaged=tuple(map(shown, names)))),
        )
        tables = _Tables(spark, warehouse, batches, journals)
        others = _Others(journals, warehouse.files, on_oddity)
        _read_on(tables, wanted, on_progress, others)


def _read_on(
    tables: _Tables,
    options: FollowOptions,
    on_progress: Callable[[Progress], None],
    others: _Others,
) -> None:
    """Read until told to stop, or to the end, and publish what there is then."""
    warehouse, batches = tables.warehouse, tables.batches
    warehouse.mend()
    query = _start(tables, f"{warehouse.out}/{CHECKPOINT}", options)
    try:
        others.tell({})
        _await_beginning(query, batches)
        with _stop_signals() as stop:
            _attend(query, stop, options, tables, on_progress, others)
    finally:
        # Spark would interrupt a micro-batch, which does no harm but wastes its work.
        batches.finish()
        query.stop()
    _complain(query, batches)
    tables.publish()
    others.tell(_reached(query))
    on_progress(tables.progress(query))


def _folder(journal: str) -> str:
    folder = Path(os.path.abspath(journal))  # noqa: PTH100  # without `..`, to know it again
    if not folder.is_dir():
        raise SourceError(
            f"{journal} is no directory: only journals in directories of this machine, or of a "
            "disk that it shares, can be followed."
        )
    return str(folder)


def _claim(warehouse: Pieces, journals: Sequence[str]) -> None:
    """Check that the directory can be continued, and note the journals."""
    state = warehouse.claim("follow")
    names = warehouse.files.names
    if not names(CHECKPOINT) and (names(BRONZE) or names("tables")):
        raise CheckpointError(
            f"{warehouse.out}/{CHECKPOINT} is gone, so it is not known how far the journals were "
            "read: give a new directory."
        )
    if (damaged := unusable_part(warehouse.files)) is not None:
        raise CheckpointError(
            f"{warehouse.out}/{damaged} is damaged, so it is not known how far the journals were "
            "read: put it back as it was, or give a new directory."
        )
    if newest_commit(warehouse.files) > warehouse.newest():
        raise CheckpointError(
            f"{warehouse.out}/{BRONZE} lacks lines that were read before: put them back, or give a "
            "new directory."
        )
    missing = [journal for journal in state.get("journals", ()) if journal not in journals]
    if missing:
        raise CheckpointError(
            f"{warehouse.out} follows other journals: name {', '.join(missing)} as well, or give "
            "another directory."
        )
    warehouse.note(state | {"journals": sorted(journals)})


def _start(tables: _Tables, checkpoint: str, options: FollowOptions) -> StreamingQuery:
    # By value, so that executors need not have this package.
    cloudpickle.register_pickle_by_value(coterie_pipeline.streaming)  # type: ignore[no-untyped-call]
    tables.spark.dataSource.register(JournalSource)
    writer = (
        tables.spark.readStream.format(FORMAT)
        .options(**source_options(tables.journals, options.batch_bytes))
        .load()
        .writeStream.foreachBatch(tables.batches.take)
        .option("checkpointLocation", checkpoint)
    )
    if options.once:
        return writer.trigger(availableNow=True).start()
    return writer.trigger(processingTime=f"{options.every_s} seconds").start()


def _await_beginning(query: StreamingQuery, batches: Batches) -> None:
    """Wait until something was read, or there is nothing.

    Before, there is nothing to publish, and a stream that is stopped while it starts complains.
    """
    while query.isActive and not batches.taken and query.lastProgress is None:
        time.sleep(_LOOK_S)


def _attend(
    query: StreamingQuery,
    stop: threading.Event,
    options: FollowOptions,
    tables: _Tables,
    on_progress: Callable[[Progress], None],
    others: _Others,
) -> None:
    """Publish tables and report progress, while another thread handles micro-batches."""
    reported = None
    due_s = time.monotonic() + options.refresh_s
    while query.isActive and not stop.wait(_LOOK_S):
        # With `once`, the tables are published at the end.
        if not options.once and time.monotonic() >= due_s:
            tables.publish()
            others.tell(_reached(query))
            due_s = time.monotonic() + options.refresh_s
        if tables.steps != reported:
            reported = tables.steps
            on_progress(tables.progress(query))


class _Others:
    """Files that are not read, or no further, each told of once."""

    def __init__(
        self, journals: Sequence[str], made: Files, on_oddity: Callable[[Oddity], None]
    ) -> None:
        self._journals = journals
        self._made = made
        self._on_oddity = on_oddity
        self._told: set[str] = set()

    def tell(self, reached: Offset) -> None:
        """Look for them, and tell of new ones; it is known how far the journals are read."""
        fresh = [
            path
            for path in passed_over(self._journals)
            if path not in self._told and not self._made.holds(name_of(path))
        ]
        if fresh:
            self._told.update(fresh)
            self._on_oddity(Oddity(passed_over=tuple(fresh)))
        short = [path for path in shorter(reached, find(self._journals)) if path not in self._told]
        if short:
            self._told.update(short)
            self._on_oddity(Oddity(shorter=tuple(short)))


class _Tables:
    """The tables of all that was kept, published when there is more of it."""

    def __init__(
        self,
        spark: SparkSession,
        warehouse: Pieces,
        batches: Batches,
        journals: tuple[str, ...],
    ) -> None:
        self.spark = spark
        self.warehouse = warehouse
        self.batches = batches
        self.journals = journals
        self._published = 0
        self._taken: int | None = None

    @property
    def steps(self) -> tuple[int, int]:
        """How much was done so far."""
        return self.batches.taken, self._published

    def publish(self) -> None:
        """Publish them, unless nothing was read since."""
        taken = self.batches.taken
        if taken == self._taken:
            return
        context = self.spark.sparkContext
        context.setLocalProperty(_POOL, "tables")
        try:
            with self.warehouse.lock:
                self._store_tails()
            self.warehouse.merge()
            self.warehouse.refresh()
        finally:
            context.setLocalProperty(_POOL, None)  # type: ignore[arg-type]  # takes it away
        self._published += 1
        self._taken = taken

    def _store_tails(self) -> None:
        """Store what may be torn: the stream reads it when that is certain."""
        found = tails(find(self.journals))
        if found:
            rows = ((name_of(path), text, why_unended(text)) for path, text in found)
            self.warehouse.add_lines(TAILS, unread_lines(self.spark, rows))
        else:
            self.warehouse.drop(TAILS)

    def progress(self, query: StreamingQuery) -> Progress:
        """How far it got."""
        return Progress(
            batches=self.batches.taken,
            lines=self.batches.lines,
            behind_bytes=behind_bytes(_reached(query), find(self.journals)),
            published=self._published,
        )


def _reached(query: StreamingQuery) -> Offset:
    """How far the journals are read, as far as that is known."""
    latest = query.lastProgress
    reached: Offset | None = None
    if latest is not None:
        reached = json.loads(latest.sources[0].endOffset or "null")
    return reached or {}


def _complain(query: StreamingQuery, batches: Batches) -> None:
    """Raise what ended the query, if anything did."""
    if batches.failure is not None:
        raise batches.failure
    error = query.exception()
    if error is None or Stopping.__name__ in str(error):
        return
    sentence = _SENTENCE.search(str(error))
    if sentence is not None:
        raise SourceError(sentence[1]) from error
    raise error


@contextlib.contextmanager
def _stop_signals() -> Iterator[threading.Event]:
    """An event that SIGINT and SIGTERM set; those that come then act as they did before."""
    stop = threading.Event()
    if threading.current_thread() is not threading.main_thread():
        yield stop
        return
    former = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM)}

    def restore() -> None:
        for number, handler in former.items():
            signal.signal(number, handler)

    def on_signal(number: int, frame: FrameType | None) -> None:
        del number, frame
        restore()
        stop.set()

    for number in former:
        signal.signal(number, on_signal)
    try:
        yield stop
    finally:
        restore()
