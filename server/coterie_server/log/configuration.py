"""The format of log lines: for people on a terminal, JSON objects elsewhere.

Lines of the standard library's logging, which asyncio and aiohttp use, get the same format.
"""

from __future__ import annotations

import logging
import os
import sys
from collections.abc import Callable
from typing import TYPE_CHECKING, Final, TextIO

import structlog

from coterie_server.log.logger import get_logger
from coterie_server.log.output import Output

if TYPE_CHECKING:
    from structlog.typing import EventDict, Processor

__all__ = ["configure"]

#: The fields that come first in a line; the others follow in the order of the call.
_FIRST: Final = ("timestamp", "level", "event", "logger")


def configure(
    level: str = "info",
    style: str = "auto",
    stream: TextIO | None = None,
    node: int | None = None,
) -> Callable[[], None]:
    """Log to a stream, by default standard error, from this level up; call the result to undo it.

    The style is `console`, `json`, or `auto`, which means `console` if the stream is a terminal.
    Where several processes log to the same stream, `node` says in each line which one it is.
    """
    stream = stream or sys.stderr
    number = logging.getLevelNamesMapping()[level.upper()]
    is_console = style == "console" or (style == "auto" and stream.isatty())
    finish = _for_people(stream) if is_console else _for_machines()
    undo = _remember()
    write = Output(stream, _tell_left_out).write
    structlog.configure(
        processors=[*_shared(node), *finish],
        wrapper_class=structlog.make_filtering_bound_logger(number),
        logger_factory=lambda *name: _Logger(write, *name),
        # A logger that was used before must follow a new configuration, in tests for one.
        cache_logger_on_first_use=False,
    )
    root = logging.getLogger()
    root.addHandler(_Handler(write, finish, node))
    root.setLevel(number)
    return undo


def _tell_left_out(lines: int) -> None:
    get_logger(__name__).warning("log lines were left out, as nothing read them", lines=lines)


def _shared(node: int | None) -> list[Processor]:
    return [
        *([] if node is None else [_of_node(node)]),
        structlog.processors.add_log_level,
        structlog.stdlib.add_logger_name,
        structlog.processors.TimeStamper(fmt="iso", utc=True),
    ]


def _of_node(node: int) -> Processor:
    def add(_logger: object, _method: str, event: EventDict) -> EventDict:
        text = event.pop("event", "")
        return {"event": text, "node": node, **event}

    return add


def _for_people(stream: TextIO) -> list[Processor]:
    colors = stream.isatty() and "NO_COLOR" not in os.environ
    renderer = structlog.dev.ConsoleRenderer(
        colors=colors, sort_keys=False, exception_formatter=structlog.dev.plain_traceback
    )
    return [_without_our_name, _printable, renderer]


def _for_machines() -> list[Processor]:
    return [
        structlog.processors.format_exc_info,
        _in_order,
        structlog.processors.JSONRenderer(),
    ]


def _in_order(_logger: object, _method: str, event: EventDict) -> EventDict:
    first = {name: event[name] for name in _FIRST if name in event}
    return first | dict(event)


def _without_our_name(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Drop the names of our own loggers: people know whose log this is."""
    if str(event.get("logger", "")).startswith("coterie"):
        del event["logger"]
    return event


def _printable(_logger: object, _method: str, event: EventDict) -> EventDict:
    """Escape control characters: names that clients chose must not control the terminal."""
    for name, value in event.items():
        if isinstance(value, str) and not value.isprintable():
            event[name] = value.encode("unicode_escape").decode("ascii")
    return event


def _remember() -> Callable[[], None]:
    root = logging.getLogger()
    handlers, level = list(root.handlers), root.level
    was_configured, before = structlog.is_configured(), structlog.get_config()

    def undo() -> None:
        root.handlers[:] = handlers
        root.setLevel(level)
        if was_configured:
            structlog.configure(**before)
        else:
            structlog.reset_defaults()

    return undo


class _Logger:
    """Gets finished lines from structlog."""

    def __init__(self, write: Callable[[str], None], name: str = "coterie") -> None:
        self.name = name
        self.debug = self.info = self.warning = self.error = self.critical = self.msg = write


class _Handler(logging.Handler):
    """Gets the lines of the standard library's logging."""

    def __init__(
        self, write: Callable[[str], None], finish: list[Processor], node: int | None
    ) -> None:
        super().__init__()
        self._write = write
        self.setFormatter(
            structlog.stdlib.ProcessorFormatter(
                foreign_pre_chain=_shared(node),
                processors=[structlog.stdlib.ProcessorFormatter.remove_processors_meta, *finish],
            )
        )

    def emit(self, record: logging.LogRecord) -> None:
        """Format and write a record."""
        try:
            self._write(self.format(record))
        except Exception:  # noqa: BLE001  # logging's rule: a bad record must not fail its caller
            self.handleError(record)
