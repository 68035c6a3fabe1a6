"""The conditions on a virtual network: how long bytes travel, and which hosts can't be reached."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Final

from coterie_testing.virtual.process import Process
from coterie_testing.virtual.scheduler import Scheduler

__all__ = ["RETRY_S", "Conditions", "NetworkOptions"]

#: How often it is tried again to get something through to a host that can't be reached.
RETRY_S: Final = 1.0


@dataclass(frozen=True, slots=True, kw_only=True)
class NetworkOptions:
    """How the network behaves when nothing is wrong with it."""

    #: How long bytes travel, at least and at most.
    latency_s: tuple[float, float] = (0.0002, 0.002)
    #: How often they take much longer, and how much at most.
    straggler_chance: float = 0.0
    straggler_s: float = 0.5
    #: How long an endpoint waits for bytes to be acknowledged before it gives a connection up.
    give_up_s: float = 20.0


@dataclass(slots=True, eq=False)
class _Isolation:
    """Two hosts, or a host and all others, can't reach each other."""

    one: str
    #: None for all others.
    other: str | None

    def separates(self, a: str, b: str) -> bool:
        if self.other is None:
            return self.one in (a, b) and a != b
        return {a, b} == {self.one, self.other}


class Conditions:
    """What all connections of a network go by."""

    def __init__(self, scheduler: Scheduler, options: NetworkOptions | None = None) -> None:
        self.scheduler = scheduler
        self.options = options or NetworkOptions()
        self._isolations: list[_Isolation] = []
        #: Told of bytes that reach a paused process, which can't read them yet.
        self.on_unread: Callable[[Process, bytes], None] | None = None

    def travel_s(self) -> float:
        """Draw how long the next bytes travel."""
        options, chance = self.options, self.scheduler.random
        if options.straggler_chance and chance.random() < options.straggler_chance:
            return chance.uniform(0.0, options.straggler_s)
        return chance.uniform(*options.latency_s)

    def are_isolated(self, a: str, b: str) -> bool:
        """Whether two hosts can't reach each other."""
        return any(each.separates(a, b) for each in self._isolations)

    def isolate(self, one: str, other: str | None = None) -> Callable[[], None]:
        """Let nothing through between two hosts, or a host and all others.

        The function that is returned heals it. What is sent meanwhile is sent again, as TCP does,
        and arrives after that, unless an endpoint has given its connection up by then.
        """
        isolation = _Isolation(one, other)
        self._isolations.append(isolation)
        return partial(self._heal, isolation)

    def _heal(self, isolation: _Isolation) -> None:
        if isolation in self._isolations:
            self._isolations.remove(isolation)
