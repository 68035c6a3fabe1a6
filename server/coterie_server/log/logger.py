"""The server's loggers.

Where structlog is configured, as the daemon does and as an application with a coordinator inside
may, lines go there, with tracebacks as text.  Elsewhere they go to the standard library's loggers
`coterie_server...`: an unconfigured structlog would print all of them, with the values of local
variables.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Callable
from functools import partial
from typing import Any, Final, cast

import structlog
from structlog.typing import EventDict

__all__ = ["get_logger", "is_heard", "shortened"]

_render: Final = structlog.processors.KeyValueRenderer()
#: The method that structlog gives to its loggers for lines below their level.
_UNHEARD: Final = structlog.make_filtering_bound_logger(logging.CRITICAL).debug


def get_logger(name: str) -> structlog.stdlib.BoundLogger:
    """The logger of a module; it checks with each line whether structlog is configured."""
    return cast(structlog.stdlib.BoundLogger, _Logger(name))


def is_heard(write: Callable[..., object]) -> bool:
    """Whether lines of a level, given by its method, may be written: `is_heard(log.debug)`."""
    return write is not _ignore


def shortened(text: str, most: int) -> str:
    """What is logged of a text that a client made up, which could fill the disk otherwise."""
    return text if len(text) <= most else f"{text[:most]}..."


class _Logger:
    """Passes each line to structlog or to the standard library."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._plain = structlog.wrap_logger(
            logging.getLogger(name),
            processors=[structlog.stdlib.filter_by_level, _for_logging],
            wrapper_class=structlog.stdlib.BoundLogger,
        )

    def __getattr__(self, name: str) -> Any:  # noqa: ANN401  # any method of a logger
        if structlog.is_configured():
            if getattr(structlog.get_config()["wrapper_class"], name, None) is _UNHEARD:
                return _ignore  # a logger would be made only to find that out
            return partial(_to_structlog, structlog.get_logger(self._name), name)
        return getattr(self._plain, name)


def _ignore(_event: str, **_details: object) -> None:
    """Write nothing."""


def _to_structlog(
    logger: Any,  # noqa: ANN401  # whatever the application configured
    severity: str,
    event: str,
    **details: Any,  # noqa: ANN401
) -> None:
    """Write a line; a traceback goes as text, lest a formatter show the values of variables."""
    error = details.pop("exc_info", None)
    if severity == "exception":
        severity, error = "error", sys.exception()
    if error is not None:
        details["exception"] = "".join(traceback.format_exception(error)).rstrip()
    getattr(logger, severity)(event, **details)


def _for_logging(
    logger: object, method: str, event: EventDict
) -> tuple[tuple[str, ...], dict[str, Any]]:
    """The arguments for the standard library's method."""
    text, exc_info = event.pop("event"), event.pop("exc_info", None)
    details = {"exc_info": exc_info}
    return (f"{text} %s", str(_render(logger, method, event))) if event else (text,), details
