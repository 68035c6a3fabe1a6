"""The options that say which Spark to use, and a session of it."""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.interrupts import cutting_off_interrupts
from coterie_cli.options import Variable, expand_options
from coterie_cli.output import FAILED, MISUSED, fail

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["Engine", "require_files", "require_tables", "running_spark", "with_engine"]

#: Of an address, or of a pattern.
_OTHER: Final = re.compile(r"^[A-Za-z][A-Za-z0-9+.-]*:|[*?\[{\\]")


@dataclass(frozen=True, slots=True)
class Engine:
    """The Spark to work with."""

    master: str
    memory: str | None
    conf: Sequence[str] | None


def _engine_options(
    *,
    master: Annotated[
        str,
        typer.Option(
            envvar=Variable.SPARK_MASTER,
            help="Spark: local[N] for N processors of this machine, or a cluster's address.",
        ),
    ] = "local[*]",
    memory: Annotated[
        str | None, typer.Option(help="Memory for Spark in this process, such as 4g.")
    ] = None,
    conf: Annotated[
        list[str] | None, typer.Option(metavar="KEY=VALUE", help="A setting of Spark's.")
    ] = None,
) -> None:
    """What `engine` expands to."""


#: Gives a command the options that make up its `engine`.
with_engine: Final = expand_options("engine", Engine, _engine_options)


@contextmanager
def running_spark(
    engine: Engine,
    show: Callable[[str], None],
    defaults: Mapping[str, str] | None = None,
    inputs: Sequence[str] | None = None,
    check: Callable[[Engine], None] = lambda _engine: None,
) -> Iterator[SparkSession]:
    """Start Spark, and stop it in the end; the user's settings override `defaults`.

    `inputs` are all that is to be read, if that is known.  As Spark takes its time, `check` says
    before what can't be done anyway.
    """
    from coterie_pipeline.failures import FAILURES, reason_of
    from coterie_pipeline.java import NoJavaError
    from coterie_pipeline.session import BRIEF_BYTES, holds_at_most, spark_session

    settings = {**(defaults or {}), **_settings(engine)}
    check(engine)
    show("starting Spark")
    with cutting_off_interrupts():
        try:
            session = spark_session(
                engine.master,
                settings,
                memory=engine.memory,
                is_brief=inputs is not None and holds_at_most(inputs, BRIEF_BYTES),
            )
        except NoJavaError as error:
            fail(str(error), MISUSED)
        except FAILURES as error:
            # Spark itself may have said more, in lines of its own.
            fail(f"Spark can't start on {engine.master!r}: {reason_of(error)}", FAILED)
        try:
            yield session
        except (*FAILURES, OSError) as error:
            said = _explained(error)
            if said is None:
                raise
            fail(said, FAILED)
        finally:
            session.stop()


def require_files(engine: Engine, paths: Sequence[str]) -> None:
    """Refuse paths of this machine where there is nothing."""
    missing = [path for path in paths if _is_of_this_machine(engine, path) and not _exists(path)]
    if missing:
        fail(f"There is no {', '.join(missing)}.", MISUSED)


def require_tables(engine: Engine, out: str) -> None:
    """Refuse a directory of this machine without tables."""
    from coterie_pipeline.warehouse import NoTablesError, require_latest

    if _is_of_this_machine(engine, out):
        try:
            require_latest(out)
        except NoTablesError as error:
            fail(str(error), MISUSED)


def _is_of_this_machine(engine: Engine, path: str) -> bool:
    """Whether a path means a file here, and no pattern for the names of many."""
    is_elsewhere = (
        not engine.master.startswith("local")
        or "HADOOP_CONF_DIR" in os.environ
        or any("fs.defaultFS" in each for each in engine.conf or ())
    )
    return not is_elsewhere and not _OTHER.search(path)


def _exists(path: str) -> bool:
    try:
        return Path(path).exists()
    except (OSError, ValueError):  # too long, or with a zero byte
        return False


def _explained(error: Exception) -> str | None:
    """Why a job failed, if an operator can do something about it."""
    from coterie_pipeline.failures import what_is_gone, why_not_written

    reason, gone = why_not_written(error), what_is_gone(error)
    if reason is not None:
        return (
            f"{reason}, where the tables go or where Spark keeps its temporary files "
            "(spark.local.dir). The former tables are whole: make room, and start the command "
            "again."
        )
    if isinstance(error, PermissionError):
        return f"{error.filename or error}: {error.strerror}."
    if gone is not None:
        return (
            f"There is no {gone}. If `run` or `follow` made new tables twice in the meantime, "
            "those that were being read were deleted: start the command again."
        )
    return None


def _settings(engine: Engine) -> dict[str, str]:
    settings = {}
    for text in engine.conf or ():
        key, equals, value = text.partition("=")
        if not equals:
            fail(f"--conf {text}: expected KEY=VALUE.", MISUSED)
        settings[key] = value
    return settings
