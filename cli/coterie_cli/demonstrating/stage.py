"""Where the story is played: a coordinator, two groups, and what was told of them."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Sequence
from dataclasses import dataclass
from types import TracebackType
from typing import Final, Self

from coterie_cli.demonstrating.side import PARTITIONS, TOPIC, Figures, Side
from coterie_protocol.journal import Event, RebalanceCompleted
from coterie_server.config.settings import Settings
from coterie_server.server import Address, Server, ServerOptions

__all__ = ["Act", "Chapter", "Stage", "Told"]

#: The two kinds of members, each with an assignor of that kind.
_ASSIGNORS: Final = {"cooperative": "cooperative-sticky", "eager": "range"}

#: Workers that join together are to be in one generation.
_INITIAL_DELAY_MS: Final = 500

#: What a group may take to share out everything, on whatever machine this is.
_PATIENCE_S: Final = 60.0

_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Act:
    """A part of the story, as it was written."""

    #: A few words, for a table.
    name: str
    play: Callable[[Stage], Awaitable[None]]


@dataclass(slots=True)
class Chapter:
    """A part of the story, as it was played."""

    name: str
    began_s: float
    ended_s: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_s < math.inf


@dataclass(frozen=True, slots=True)
class Told:
    """Something that the narrator said."""

    at_s: float
    text: str


class Stage:
    """A coordinator of our own and two groups, to whom the same things happen."""

    def __init__(self, speed: float) -> None:
        self._speed = speed
        settings = Settings(
            group_initial_rebalance_delay_ms=_INITIAL_DELAY_MS,
            group_min_session_timeout_ms=1000,
        )
        self._server = Server(
            ServerOptions(
                settings=settings,
                listen=Address("127.0.0.1", 0),
                store="memory:",
                topics={TOPIC: PARTITIONS},
            )
        )
        self.sides: tuple[Side, ...] = ()
        self.chapters: list[Chapter] = []
        self.story: list[Told] = []
        self.is_finished = False
        self.began_s = time.monotonic()

    async def __aenter__(self) -> Self:
        self._server.add_observer(self)
        await self._server.start()
        bootstrap = str(self._server.address)
        self.sides = tuple(
            Side(kind, assignor, bootstrap, self._speed) for kind, assignor in _ASSIGNORS.items()
        )
        self.began_s = time.monotonic()
        return self

    async def __aexit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        await self.everywhere(Side.close)
        await self._server.stop()

    def observe(self, ts_ms: int, event: Event) -> None:
        """Count the rebalances, as the coordinator tells of them."""
        del ts_ms
        if isinstance(event, RebalanceCompleted):
            for side in self.sides:
                if side.assignor == event.group:
                    side.rebalanced()

    # -- what the script says ------------------------------------------------------------------

    async def play(self, acts: Sequence[Act]) -> None:
        """Play all acts, and give people a moment to look at what came of each."""
        for act in acts:
            chapter = Chapter(act.name, time.monotonic())
            self.chapters.append(chapter)
            try:
                await act.play(self)
                await self.pause(_LOOK_S)
            finally:
                chapter.ended_s = time.monotonic()
        self.is_finished = True

    def tell(self, text: str) -> None:
        """Say what happens, and why."""
        self.story.append(Told(self.now_s, text))

    async def everywhere(self, do: Callable[[Side], Awaitable[None]]) -> None:
        """Have the same thing happen on both sides at the same moment."""
        await asyncio.gather(*(do(side) for side in self.sides))

    async def start(self, *names: str) -> None:
        """Have workers join on both sides, when they are loaded on both."""
        await self.everywhere(lambda side: side.load(*names))
        await self.everywhere(lambda side: side.join(*names))

    async def replace(self, name: str) -> None:
        """Have a worker leave, and its successor, which has a name, join as soon as it has."""

        async def roll(side: Side) -> None:
            await side.stop(name)
            await side.join(name)

        await self.everywhere(lambda side: side.load(name, is_static=True))
        await self.everywhere(roll)

    async def settle(self) -> None:
        """Wait until both sides have shared out everything."""
        await self.everywhere(lambda side: side.settled(_PATIENCE_S))

    async def pause(self, seconds: float) -> None:
        """Let people read."""
        await asyncio.sleep(seconds / self._speed)

    # -- how things stand ----------------------------------------------------------------------

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began_s

    def figures(self, side: Side, chapter: Chapter | None = None) -> Figures:
        """What a chapter cost one side, or all of them together."""
        now_s = time.monotonic()
        if chapter is None:
            ended_s = self.chapters[-1].ended_s if self.chapters else now_s
            return side.figures(self.began_s, min(ended_s, now_s))
        return side.figures(chapter.began_s, min(chapter.ended_s, now_s))
