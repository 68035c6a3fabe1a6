"""Tells what happens: to the log, the counters and the user's hook."""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from itertools import groupby
from typing import Any, NoReturn, TypeAlias

from coterie_client.counters import GroupCounters
from coterie_client.log import ROOT, Log, in_a_line, is_power_of_ten
from coterie_client.membership.events import CoordinatorLost, Event, RetryPlanned, Severity
from coterie_client.wire.addresses import TopicPartition

__all__ = ["OnEvent", "Reporter", "brief"]

OnEvent: TypeAlias = Callable[[Event], object]


class Reporter:
    """Passes events on, and lets no error out that is raised where they go."""

    def __init__(self, group: str, counters: GroupCounters, hook: OnEvent | None = None) -> None:
        self._log = Log(f"{ROOT}.group", group=group)
        self._counters = counters
        self._hook = hook
        #: Whether the hook has asked for the end of the program.
        self._is_exiting = False
        #: How often each kind of attempt has failed since a coordinator last served.
        self._retries: Counter[str] = Counter()

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        self._counters.count(event)
        details, failure = event.details(), event.untold
        severity = event.severity if self._is_news(event) else Severity.DEBUG
        self._log.write(severity, event.text, _readable(details), failure)
        if self._hook is None:
            return
        try:
            self._hook(event)
        except (SystemExit, KeyboardInterrupt) as error:
            self._exit(error)
        except BaseException as error:  # noqa: BLE001  # the user's own code; no task is cancelled
            self._counters.hook_failures += 1
            self.unraised("the on_event hook failed", error, of=type(event).__name__)

    def _exit(self, error: BaseException) -> None:
        """Have the program end by this, as soon as what is being done now has been done.

        Another one would only keep its end from being orderly.
        """
        if not self._is_exiting:
            self._is_exiting = True
            asyncio.get_running_loop().call_soon(_let_out, error)

    def _is_news(self, event: Event) -> bool:
        """Whether an event is more than a repetition.

        Of failed attempts at one thing, the 1st, 10th, 100th and so on are news, counted from when
        a coordinator last served.  That one was found does not reset the count: a node without its
        store is found and lost every second.
        """
        match event:
            case CoordinatorLost(had_served=had_served):
                what = "use the coordinator"
                if had_served:
                    self._retries.clear()
            case RetryPlanned(what=what):
                pass
            case _:
                return True
        self._retries[what] += 1
        return is_power_of_ten(self._retries[what])

    def crash(self, error: BaseException) -> None:
        """Tell of a bug in the client, whose error will be raised."""
        self._log.error("the client has a fault, and the group stops", error=in_a_line(error))

    def unraised(self, text: str, error: BaseException, **details: object) -> None:
        """Tell of an error that is raised nowhere."""
        self._log.write("error", text, {**details, "error": in_a_line(error)}, error)


def _let_out(error: BaseException) -> NoReturn:
    raise error


def _readable(details: Mapping[str, Any]) -> dict[str, Any]:
    readable = dict(details)
    for name in ("partitions", "added", "revoked", "standbys", "warm_ups", "ended"):
        if isinstance(readable.get(name), tuple):  # elsewhere it is their number
            readable[name] = brief(readable[name])
    if "partition" in readable:
        readable["partition"] = brief([readable["partition"]])
    return readable


def brief(partitions: Iterable[TopicPartition]) -> str:
    """Write partitions in short, such as `orders[0-3,7] users[1]`."""
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
