"""Spark for commands, and something to look at while it works."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from rich.console import Console

from coterie_cli.doing.connecting import MISUSED, give_up
from coterie_cli.pipeline import Engine

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

__all__ = ["progress", "started"]

_err: Final = Console(stderr=True, highlight=False)


@contextmanager
def progress() -> Iterator[Callable[[str], None]]:
    """Something to look at while Spark works, for who sits at a terminal."""
    with _err.status("...") as status:
        yield lambda what: status.update(what.removeprefix("_").replace("_", " "))


@contextmanager
def started(
    engine: Engine, tell: Callable[[str], None], defaults: Mapping[str, str] | None = None
) -> Iterator[SparkSession]:
    """Start Spark, and stop it in the end; the user's settings override `defaults`."""
    try:
        from coterie_pipeline.java import NoJavaError  # noqa: PLC0415  # an extra
        from coterie_pipeline.session import spark_session  # noqa: PLC0415
    except ImportError:
        give_up("Spark is not installed: pip install 'coterie[pipeline]'.", MISUSED)
    settings = {**(defaults or {}), **_settings(engine)}
    tell("starting Spark")
    try:
        session = spark_session(engine.master, settings, memory=engine.memory)
    except NoJavaError as error:
        give_up(str(error), MISUSED)
    try:
        yield session
    finally:
        session.stop()


def _settings(engine: Engine) -> dict[str, str]:
    settings = {}
    for text in engine.conf or ():
        key, equals, value = text.partition("=")
        if not equals:
            give_up(f"--conf {text}: expected KEY=VALUE.", MISUSED)
        settings[key] = value
    return settings
