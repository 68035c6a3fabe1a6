"""Tells what happens: to the log, the counters and the user's hook."""

from __future__ import annotations

import asyncio
import inspect
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, TypeAlias

import structlog

from coterie_client.counters import GroupCounters
from coterie_client.errors import ConfigurationError
from coterie_client.membership import TopicPartition
from coterie_client.membership.events import Event

__all__ = ["OnEvent", "Reporter", "brief"]

OnEvent: TypeAlias = Callable[[Event], object]


class Reporter:
    """Takes events and passes them on; nothing that others do with them comes back."""

    def __init__(self, group: str, counters: GroupCounters, hook: OnEvent | None = None) -> None:
        if hook is not None and inspect.iscoroutinefunction(hook):
            raise ConfigurationError(
                "on_event is called and not awaited: give a plain function, which may put the"
                " event into a queue."
            )
        self._log = structlog.stdlib.get_logger("coterie.client", group=group)
        self._counters = counters
        self._hook = hook

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        self._counters.count(event)
        details = _readable(event.details())
        exception = getattr(event, "exception", None)
        if exception is not None and exception.__traceback__ is not None:
            details["exc_info"] = exception
        self._write(event.severity, event.text, **details)
        if self._hook is None:
            return
        try:
            self._hook(event)
        except Exception as error:  # noqa: BLE001  # the user's own code
            self._counters.hook_failures += 1
            name = type(event).__name__
            self._write("error", "the on_event hook failed", of=name, exc_info=error)

    def crash(self, error: BaseException) -> None:
        """Tell of an error that should not have been possible."""
        self._write("error", "the client has a fault, and the group stops", exc_info=error)

    def _write(self, severity: str, text: str, **details: Any) -> None:  # noqa: ANN401
        try:
            getattr(self._log, severity)(text, **details)
        except Exception as error:  # noqa: BLE001  # a log that is full ends no group
            context = {"message": f"coterie can't log: {text}", "exception": error}
            asyncio.get_running_loop().call_exception_handler(context)


def _readable(details: Mapping[str, Any]) -> dict[str, Any]:
    readable = dict(details)
    for name in ("partitions", "added", "revoked"):
        if isinstance(readable.get(name), tuple):  # elsewhere it is their number
            readable[name] = brief(readable[name])
    if "partition" in readable:
        readable["partition"] = brief([readable["partition"]])
    return readable


def brief(partitions: Iterable[TopicPartition]) -> str:
    """Write partitions as people would, such as `orders[0-3,7] users[1]`."""
    topics = groupby(sorted(partitions), key=lambda each: each[0])
    return " ".join(f"{topic}[{_ranges(each[1] for each in group)}]" for topic, group in topics)


def _ranges(numbers: Iterable[int]) -> str:
    runs: list[tuple[int, int]] = []
    for number in numbers:
        if runs and number == runs[-1][1] + 1:
            runs[-1] = (runs[-1][0], number)
        else:
            runs.append((number, number))
    return ",".join(str(first) if first == last else f"{first}-{last}" for first, last in runs)
