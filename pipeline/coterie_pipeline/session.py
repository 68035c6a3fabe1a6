"""Starting Spark sessions: embedded in this process, or on an existing cluster."""

from __future__ import annotations

import contextlib
import locale
import os
import shlex
import signal
import sys
import threading
import zlib
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import Final

from coterie_pipeline.java import java_home
from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    import pyspark
    from pyspark import SparkConf, SparkContext
    from pyspark.sql import SparkSession

from coterie_pipeline.layout import BY_DAY, is_by_day
from coterie_pipeline.packing import text_bytes

__all__ = [
    "BRIEF_BYTES",
    "JAVA_OPTIONS",
    "LITTLE_BYTES",
    "LOCAL",
    "class_archive",
    "holds_at_most",
    "is_local",
    "is_quick",
    "quick_session",
    "spark_session",
]

#: All processors of this machine, in one process.
LOCAL: Final = "local[*]"
_LOCAL_PREFIX: Final = "local"

#: Settings for journals, wherever Spark runs.
_SETTINGS: Final[Mapping[str, str]] = {
    "spark.app.name": "coterie",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.sources.partitionOverwriteMode": "dynamic",
    # Lines are divided into few folders: no need to sort them for that.
    "spark.sql.maxConcurrentOutputFileWriters": "8",
    # State stores of streams: one for each shuffle partition, fixed at the first start.
    "spark.sql.streaming.stateStore.providerClass": (
        "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"
    ),
    "spark.ui.showConsoleProgress": "false",
    # Spark would record where each expression was written, which doubles the time that building the
    # plans takes.
    "spark.python.sql.dataFrameDebugging.enabled": "false",
}

#: For little data: no code is generated, plans are not adapted, and all rows are in one partition,
#: so joins need no shuffle.
_QUICK: Final[Mapping[str, str]] = {
    "spark.sql.adaptive.enabled": "false",
    "spark.sql.codegen.wholeStage": "false",
    "spark.sql.codegen.factoryMode": "NO_CODEGEN",
    "spark.sql.shuffle.partitions": "1",
    "spark.sql.autoBroadcastJoinThreshold": "-1",
}

#: Java is done before its optimizing compiler and its parallel collector are worth what they cost.
_BRIEF_JAVA: Final = "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC"

#: So much text is little data.
LITTLE_BYTES: Final = 16 * 1024 * 1024

#: Up to so much text in this machine's files, Java is better off without optimizing.
BRIEF_BYTES: Final = 256 * 1024 * 1024

#: Spark logs much at its start that is of no use to a person who asked for a table.
_LOGGING: Final = Path(__file__).with_name("log4j2.properties")
JAVA_OPTIONS: Final = "spark.driver.extraJavaOptions"

_LOOPBACK: Final = "127.0.0.1"
#: Within one process there is no need for a web interface and a network.
_LOCAL_SETTINGS: Final[Mapping[str, str]] = {
    "spark.ui.enabled": "false",
    "spark.driver.host": _LOOPBACK,
    "spark.driver.bindAddress": _LOOPBACK,
    "spark.sql.shuffle.partitions": str(os.cpu_count() or 2),
}


def spark_session(
    master: str = LOCAL,
    settings: Mapping[str, str] | None = None,
    *,
    memory: str | None = None,
    cache: Path | None = None,
    is_brief: bool = False,
) -> SparkSession:
    """Start Spark; `settings` override what is set here.

    With `is_brief`, Spark within this process starts sooner, and is slower if there is much to do.

    Raises `NoJavaError` if no Java can be found.  Executors use the same Python as this process
    unless PYSPARK_PYTHON says otherwise.
    """
    home = java_home(cache)
    os.environ["JAVA_HOME"] = str(home)
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    _name_files_alike()
    chosen = dict(_SETTINGS)
    if master.startswith(_LOCAL_PREFIX):
        chosen |= _LOCAL_SETTINGS
        # Or it looks up this machine's own name, which not every machine knows.
        os.environ.setdefault("SPARK_LOCAL_IP", _LOOPBACK)
    if memory is not None:
        chosen["spark.driver.memory"] = memory
    builder = SparkSession.builder.master(master)
    chosen |= settings or {}
    logging = f"-Dlog4j2.configurationFile={_LOGGING.as_uri()}"
    wanted = chosen.get(JAVA_OPTIONS, "")
    own = _own_java(home, wanted, is_brief=is_brief) if master.startswith(_LOCAL_PREFIX) else ""
    chosen[JAVA_OPTIONS] = " ".join(filter(None, (logging, own, wanted)))
    for key, value in chosen.items():
        builder = builder.config(key, value)
    with _same_interrupts():
        SparkContext.getOrCreate(SparkConf().setMaster(master).setAll(list(chosen.items())))
    return builder.getOrCreate()


def _name_files_alike() -> None:
    """Have Java take the names of files for UTF-8 where this Python does.

    In the locale `C`, Python does and Java does not, and fails where a name is not ASCII.
    """
    if sys.getfilesystemencoding() == "utf-8" and locale.getencoding().lower() != "utf-8":
        os.environ["LC_ALL"] = "C.UTF-8"


@contextlib.contextmanager
def _same_interrupts() -> Iterator[None]:
    """Have Ctrl-C do afterwards what it did before.

    Spark would have it talk to Java, also in the middle of an answer of Java's, which then fails.
    """
    former = signal.getsignal(signal.SIGINT)
    try:
        yield
    finally:
        if threading.current_thread() is threading.main_thread():
            signal.signal(signal.SIGINT, former)


def class_archive(home: Path) -> Path:
    """Where the classes are that Spark needs, for a Java as `java_home` found it."""
    spark = zlib.crc32(str(Path(pyspark.__file__).parent).encode())
    return home.with_name(f"{home.name}-spark-{pyspark.__version__}-{spark:08x}.jsa")


def _own_java(home: Path, wanted: str, *, is_brief: bool) -> str:
    """The options of Java within this process, beside those that are wanted."""
    options = [_BRIEF_JAVA] if is_brief else []
    archive = class_archive(home)
    if archive.exists() and "Archive" not in wanted:
        # If it does not suit, Java goes on without it, and is not to say so at each start.
        options += [f"-XX:SharedArchiveFile={shlex.quote(str(archive))}", "-Xlog:cds=off"]
    return " ".join(options)


def holds_at_most(paths: Iterable[str], most: int) -> bool:
    """Whether paths are files and folders of this machine with so many bytes of text at most."""
    left = most
    for path in map(Path, paths):
        if not path.exists():
            return False
        for file in path.rglob("*") if path.is_dir() else (path,):
            with contextlib.suppress(OSError):
                left -= text_bytes(file.name, file.stat().st_size)
            if left < 0:
                return False
    return True


def is_local(spark: SparkSession) -> bool:
    """Whether the session runs within this process."""
    return (spark.sparkContext.master or "").startswith(_LOCAL_PREFIX)


def is_quick(spark: SparkSession) -> bool:
    """Whether every shuffle of the session makes a single partition, in this process."""
    return is_local(spark) and spark.conf.get("spark.sql.shuffle.partitions") == "1"


def quick_session(spark: SparkSession) -> SparkSession:
    """A session for little data, without optimizations that take longer than they save."""
    session = spark.newSession()
    for key, value in _QUICK.items():
        session.conf.set(key, value)
    session.conf.set(BY_DAY, is_by_day(spark))
    return session
