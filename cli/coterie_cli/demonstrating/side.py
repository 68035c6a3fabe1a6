"""One of the two groups of the demo: its workers, and what becomes of its partitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from coterie_cli.demonstrating.actor import Actor, DemoError
from coterie_cli.demonstrating.diary import Diary
from coterie_cli.demonstrating.lines import Line, Role, What

__all__ = ["HEARTBEAT_S", "NAMES", "PARTITIONS", "SESSION_S", "TOPIC", "Figures", "Side"]

PARTITIONS: Final = 12
TOPIC: Final = "shards"
#: Everybody who appears.
NAMES: Final = ("ann", "ben", "cat", "dan")

#: As in life, a session is several heartbeats, though both are short enough here to be waited for.
HEARTBEAT_S: Final = 0.4
SESSION_S: Final = 2.4
#: Long enough to restart in, which is what a name is for.
_STATIC_SESSION_S: Final = 10.0

#: How long a step of work takes; partitions differ in that, as they do in life.
_STEPS_S: Final = (0.2, 0.45, 0.7, 0.95)


@dataclass(frozen=True, slots=True)
class Figures:
    """What a span of time cost."""

    #: Partition-seconds in which nobody worked.
    stopped_s: float
    longest_stop_s: float
    #: How often work on a partition was ended, or died.
    endings: int
    rebalances: int


class Side:
    """A group of workers in processes of their own."""

    def __init__(self, kind: str, assignor: str, bootstrap: str, speed: float) -> None:
        #: What its members are to each other, in a word.
        self.kind = kind
        self.assignor = assignor
        self.diary = Diary()
        #: Why somebody has no partitions, in a word or two.
        self.whereabouts = dict.fromkeys(NAMES, "is not here yet")
        self._bootstrap = bootstrap
        self._steps_s = tuple(_STEPS_S[n % len(_STEPS_S)] / speed for n in range(PARTITIONS))
        #: All that ever were, so that none is left behind whatever the demo is interrupted in.
        self.everybody: list[Actor] = []
        #: Those that take part, and those that do not yet.
        self._actors: dict[str, Actor] = {}
        self._loaded: dict[str, Actor] = {}
        self._rebalanced_s: list[float] = []
        self._news = asyncio.Event()

    # -- what is told --------------------------------------------------------------------------

    def rebalanced(self) -> None:
        """Take note of a rebalance of ours."""
        self._rebalanced_s.append(time.monotonic())

    def _hear(self, who: str, line: Line | None) -> None:
        if line is not None:
            self.diary.note(who, line)
            if line.what is What.BEGINS:
                self.whereabouts[who] = ""
        self._news.set()

    # -- who comes and goes --------------------------------------------------------------------

    async def load(self, *names: str, is_static: bool = False) -> None:
        """Load some workers, who do not join yet: the group is not to wait for Python."""
        self.whereabouts |= dict.fromkeys(names, "starts")
        for name in names:
            role = self._role(name, is_static=is_static)
            self._loaded[name] = actor = await Actor.start(role, self._hear)
            self.everybody.append(actor)
        for name in names:
            await self._loaded[name].ready()

    def _role(self, name: str, *, is_static: bool) -> Role:
        return Role(
            bootstrap=self._bootstrap,
            group=self.assignor,
            topic=TOPIC,
            assignor=self.assignor,
            name=name,
            is_static=is_static,
            session_s=_STATIC_SESSION_S if is_static else SESSION_S,
            heartbeat_s=HEARTBEAT_S,
            steps_s=self._steps_s,
        )

    async def join(self, *names: str) -> None:
        """Have those that are loaded join."""
        for name in names:
            self._actors[name] = self._loaded.pop(name)
            self._actors[name].join()

    async def stop(self, name: str) -> None:
        """Somebody ends its work in good order, and its process."""
        self.whereabouts[name] = "stops"
        await self._actors.pop(name).leave()
        self.whereabouts[name] = "has left"

    async def kill(self, name: str) -> None:
        """Somebody dies."""
        at_s = await self._actors.pop(name).kill()
        self.diary.die(name, at_s)
        self.whereabouts[name] = "was killed"

    async def close(self) -> None:
        """End all processes; nobody cares any more for what they do."""
        await asyncio.gather(*(actor.kill() for actor in self.everybody))

    # -- how things stand ----------------------------------------------------------------------

    @property
    def is_settled(self) -> bool:
        """Whether each partition is worked on, by those who are there, and each has some."""
        stints = self.diary.current.values()
        is_calm = not any(stint.is_ending for stint in stints)
        workers = {stint.who for stint in stints}
        return len(stints) == PARTITIONS and is_calm and workers == self._actors.keys()

    async def settled(self, within_s: float) -> None:
        """Wait until it is."""
        try:
            async with asyncio.timeout(within_s):
                while not self.is_settled:
                    self._raise_if_lost()
                    self._news.clear()
                    await self._news.wait()
        except TimeoutError:
            raise DemoError(
                f"{self.assignor}: the partitions were not shared out within {within_s:g} s."
                " Is the machine very busy? Try a lower --speed."
            ) from None

    def _raise_if_lost(self) -> None:
        for name, actor in self._actors.items():
            if actor.is_gone:
                raise DemoError(f"{self.assignor}: {name} ended by itself: {actor.complaint}")

    def figures(self, from_s: float, until_s: float) -> Figures:
        """What a span of time cost."""
        stops_s = [stop.lasted_s(from_s, until_s) for stop in self.diary.stops()]
        return Figures(
            stopped_s=round(sum(stops_s), 3),
            longest_stop_s=round(max(stops_s, default=0.0), 3),
            endings=sum(_within(self.diary.endings(), from_s, until_s)),
            rebalances=sum(_within(self._rebalanced_s, from_s, until_s)),
        )


def _within(moments_s: Iterable[float], from_s: float, until_s: float) -> Iterable[bool]:
    return (from_s <= at_s < until_s for at_s in moments_s)
