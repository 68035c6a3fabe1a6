"""A shorter start of Java: the classes that Spark needs, in a file, as Java has them once loaded.

For the first tables Java reads and checks some fifteen thousand classes, which takes longer than
all else that little journals ask for.  It can write down what comes of that as it ends, and take it
from there the next time.  A file that does not suit, as after an update of Java, it passes over.
"""

from __future__ import annotations

import os
import shlex
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from pyspark import SparkContext
from pyspark.sql import SparkSession

from coterie_pipeline.batch import run
from coterie_pipeline.java import java_home
from coterie_pipeline.report.advice import advice_of_all
from coterie_pipeline.session import JAVA_OPTIONS, class_archive, spark_session
from coterie_pipeline.warehouse import Warehouse
from coterie_protocol.journal import GroupEmptied, Line, NodeStarted, OffsetsCommitted, write_line
from coterie_protocol.journal_text import segment_name

__all__ = ["NotPreparedError", "prepare"]

_SAMPLE: Final = (
    NodeStarted(version="0", groups=0, offsets=0, load_ms=0),
    OffsetsCommitted(group="g", member="m", generation=1, offsets={"t": {"0": 1}}),
    GroupEmptied(group="g", generation=1),
)


class NotPreparedError(Exception):
    """Java has written nothing; the message says why that may be."""


def prepare(on_stage: Callable[[str], None], cache: Path | None = None) -> Path:
    """Have later sessions in one process start faster, and return the file that does it.

    Ends Spark in this process.  Raises `NotPreparedError`, and `NoJavaError` if there is no Java.
    """
    archive = class_archive(java_home(cache))
    for left in archive.parent.glob(f"{archive.name}.*"):
        left.unlink()  # by one that was killed
    fresh = archive.with_name(f"{archive.name}.{os.getpid()}")
    on_stage("starting Spark")
    noting = f"-XX:ArchiveClassesAtExit={shlex.quote(str(fresh))} -Xlog:disable"
    spark = spark_session("local[2]", {JAVA_OPTIONS: noting}, cache=cache, is_brief=True)
    try:
        with TemporaryDirectory() as folder:
            _make_sample(spark, Path(folder), on_stage)
        on_stage("writing the classes down")
        _end(spark)
        if not fresh.exists():
            raise NotPreparedError(
                "This Java has kept no classes: it may lack an archive of its own "
                "(lib/server/classes.jsa), or there is no room for them."
            )
        # Java removes a file that it can't write to its end, so this one is whole.
        fresh.replace(archive)
    finally:
        with suppress(FileNotFoundError):
            fresh.unlink()
    return archive


def _make_sample(spark: SparkSession, folder: Path, on_stage: Callable[[str], None]) -> None:
    """Make the tables of a few lines, which takes the same classes as those of many."""
    lines = (Line(1_000 * seq, "1", seq, event) for seq, event in enumerate(_SAMPLE, 1))
    journal, out = folder / "journal", str(folder / "out")
    journal.mkdir()
    text = "".join(f"{write_line(line)}\n" for line in lines)
    (journal / segment_name("1", 1)).write_text(text, encoding="utf-8")
    run(spark, [str(journal)], out, on_stage=on_stage)
    advice_of_all(Warehouse(spark, out).fitting().table("advice"))


def _end(spark: SparkSession) -> None:
    """Stop Spark, and wait until its Java has ended."""
    gateway: Any = SparkContext._gateway  # noqa: SLF001  # nothing public tells of the process
    spark.stop()
    SparkContext._gateway = SparkContext._jvm = None  # noqa: SLF001  # another may be started
    gateway.shutdown()
    gateway.proc.stdin.close()
    gateway.proc.wait()
