"""The Spark session: embedded, or on a cluster that is there."""

from __future__ import annotations

import os
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from coterie_pipeline.java import java_home

__all__ = ["LOCAL", "is_local", "is_quick", "quick_session", "spark_session"]

#: All processors of this machine, in one process.
LOCAL: Final = "local[*]"
_LOCAL_PREFIX: Final = "local"

#: What Spark's own defaults get wrong for journals, wherever it runs.
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.app.name": "coterie",
    "spark.sql.session.timeZone": "UTC",
    # Files that are named in tables may have been deleted by their node.
    "spark.sql.files.ignoreMissingFiles": "true",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # State stores of streams: one for each shuffle partition, fixed at the first start.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
    # Spark would note for every expression where it was written, which doubles the time that the
    # plans take to write down.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

#: No code is compiled, no plan is changed on the way, and nothing is spread: with all rows in one
#: place, a join of sorted rows needs no preparation either.
_QUICK: Final[Mapping[str, str]] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}

#: Spark tells much at its start that says nothing to who asked for a table.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
_JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

#: In one process there is nobody to tell and nothing to spread: what makes a cluster robust only
#: costs time here.
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def spark_session(
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    memory: str | None = None,
    cache: Path | None = None,
) -> SparkSession:
    """Start Spark; `settings` override what is set here.

    Raises `NoJavaError` if no Java can be found.  Executors use the same Python as this process
    unless PYSPARK_PYTHON says otherwise.
    """
    os.environ["JAVA_HOME"] = str(java_home(cache))
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    chosen = dict(_SETTINGS)
    if master.startswith(_LOCAL_PREFIX):
        chosen |= _LOCAL_SETTINGS
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    builder = SparkSession.builder.master(master)
    chosen |= settings or {}
    quiet = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    chosen[_JAVA_OPTIONS] = f"{quiet} {chosen.get(_JAVA_OPTIONS, '')}".strip()
    for key, value in chosen.items():
        builder = builder.config(key, value)
    return builder.getOrCreate()


def is_local(spark: SparkSession) -> bool:
    """Whether it runs within this process."""
    return (spark.sparkContext.master or "").startswith(_LOCAL_PREFIX)


def is_quick(spark: SparkSession) -> bool:
    """Whether it spreads nothing: any shuffle would bring all rows to one place of this process."""
    return is_local(spark) and spark.conf.get("spark.sql.shuffle.partitions") == "1"


def quick_session(spark: SparkSession) -> SparkSession:
    """A session for little data: what Spark spends on making much fast is most of the time then."""
    session = spark.newSession()
    for key, value in _QUICK.items():
        session.conf.set(key, value)
    return session
