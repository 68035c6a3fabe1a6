"""How the client logs: through the application's logging, which it does not configure.

A line goes to the standard library's logger of the module that writes it, below `coterie_client`,
or to structlog if the application has configured that.  Nothing is printed from here.  So the
application decides what is kept; by default, the standard library shows warnings and errors on
standard error, as it does for every library, and drops the rest.

Tracebacks never include the values of local variables.  The standard library gets the exception,
and prints it without them.  structlog's default formatter would show them, so structlog gets the
traceback as text, under `stack`, where it does the rendering itself.
"""

from __future__ import annotations

import logging
import sys
import traceback
from collections.abc import Iterable, Mapping
from typing import Any, Final, final

__all__ = ["ROOT", "Log", "in_a_line", "is_power_of_ten"]

#: The parent of all the client's loggers: its level, handlers and `propagate` apply to them.
ROOT: Final = "coterie_client"

_LEVELS: Final = {
    "debug": logging.DEBUG,
    "info": logging.INFO,
    "warning": logging.WARNING,
    "error": logging.ERROR,
}

#: The last processors of applications that use structlog in front of the standard library.
_STDLIB_RENDERERS: Final = ("render_to_log_kwargs", "render_to_log_args_and_kwargs")


@final
class Log:
    """A logger that writes an event and its details; `context` is added to every line."""

    __slots__ = ("_context", "_logger")

    def __init__(self, name: str, **context: object) -> None:
        self._logger = logging.getLogger(name)
        self._context = context

    def debug(self, event: str, **details: object) -> None:
        """Write what only matters when looking for a fault."""
        self.write("debug", event, details)

    def info(self, event: str, **details: object) -> None:
        """Write what happens in normal operation."""
        self.write("info", event, details)

    def warning(self, event: str, **details: object) -> None:
        """Write what should be rare."""
        self.write("warning", event, details)

    def error(self, event: str, **details: object) -> None:
        """Write what needs attention."""
        self.write("error", event, details)

    def write(
        self,
        severity: str,
        event: str,
        details: Mapping[str, object],
        failure: BaseException | None = None,
    ) -> None:
        """Write a line, with the traceback of a failure if there is one.

        Exceptions of the application's logging are caught here: a full disk must not end a group.
        """
        structlog = _configured_structlog()
        details = self._context | dict(details)
        if structlog is None:
            self._to_logging(severity, event, details, failure)
        elif self._is_wanted(_LEVELS[severity]):
            try:
                _to_structlog(structlog, self._logger.name, severity, event, details, failure)
            except Exception as error:  # noqa: BLE001  # the application's processors
                self._to_logging(severity, event, details, failure)
                self._to_logging("error", "structlog failed", {"error": repr(error)}, None)

    def _to_logging(
        self,
        severity: str,
        event: str,
        details: Mapping[str, object],
        failure: BaseException | None,
    ) -> None:
        level = _LEVELS[severity]
        if not self._logger.isEnabledFor(level):
            return
        try:
            # The format string stays constant per event, so that lines can be counted by it.
            self._logger.log(
                level,
                f"{event} %s" if details else event,
                *((_formatted(details),) if details else ()),
                exc_info=failure,
                extra={"coterie": {"event": event, **details}},
            )
        except Exception:  # noqa: BLE001  # from a filter of the application; handlers catch their own
            if logging.raiseExceptions and sys.stderr is not None:
                traceback.print_exc()

    def _is_wanted(self, level: int) -> bool:
        """Whether no level set for the client, or for all logging, is above this one.

        structlog has no loggers by name, so this is how to silence the client alone there.
        """
        logger: logging.Logger | None = self._logger
        if logger is not None and logger.manager.disable >= level:
            return False
        while logger is not None and logger is not logging.root:
            if logger.level:
                return level >= logger.level
            logger = logger.parent
        return True


def _configured_structlog() -> Any:  # noqa: ANN401  # the module, which may not be installed
    """The module structlog, if the application has imported and configured it."""
    structlog = sys.modules.get("structlog")
    is_configured = getattr(structlog, "is_configured", None)
    return structlog if is_configured is not None and is_configured() else None


def _to_structlog(
    structlog: Any,  # noqa: ANN401  # a module
    name: str,
    severity: str,
    event: str,
    details: Mapping[str, object],
    failure: BaseException | None,
) -> None:
    logger = structlog.get_logger(name)
    if failure is None:
        trace: dict[str, object] = {}
    elif _leaves_rendering(structlog.get_config()["processors"]):
        trace = {"exc_info": failure}
    else:
        trace = {"stack": "".join(traceback.format_exception(failure)).rstrip()}
    getattr(logger, severity)(event, **details, **trace)


def _leaves_rendering(processors: Iterable[object]) -> bool:
    """Whether structlog leaves rendering to the standard library's formatters."""
    return any(getattr(each, "__name__", "") in _STDLIB_RENDERERS for each in processors)


def _formatted(details: Mapping[str, object]) -> str:
    return " ".join(f"{name}={_value(each)}" for name, each in details.items())


def _value(value: object) -> str:
    """A value for a log line, quoted if needed; foreign names must not begin a new line."""
    text = str(value)
    is_plain = text.isprintable() and not any(each in text for each in " =\"'")
    return text if is_plain and text else repr(text)


def is_power_of_ten(count: int) -> bool:
    """Whether a repetition is worth a line: the 1st is, the 10th, the 100th and so on."""
    return str(count).rstrip("0") == "1"


def in_a_line(error: BaseException) -> str:
    """An error's class and message; with users' own classes, `str` itself may raise."""
    try:
        return f"{type(error).__name__}: {error}"
    except Exception as another:  # noqa: BLE001  # whatever a `__str__` raises
        return f"{type(error).__name__} (its str() raises {type(another).__name__})"
