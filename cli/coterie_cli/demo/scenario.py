"""What happens in the demo: the steps of the scenario, and a coordinator to play them on."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final, Self

from coterie_cli.demo.group import NAMES, PARTITIONS, SESSION_S, TOPIC, DemoGroup, Figures
from coterie_protocol.journal import Event, RebalanceCompleted
from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions

__all__ = ["SCENARIO", "STEPS", "WITH_STATE", "Chapter", "Demo", "Narration", "Scenario", "Step"]

#: Workers that join together are to be in one generation.
_INITIAL_DELAY_MS: Final = 500

#: How long a group may take to share out everything, on a slow machine as well.
_SETTLE_S: Final = 60.0

#: How long it takes to restore a partition's state, where work needs any.
_RESTORE_S: Final = 3.0

#: How long people get to look at the result of a step.
_LOOK_S: Final = 2.0


@dataclass(frozen=True, slots=True)
class Step:
    """A step of the scenario."""

    #: A few words, for a table.
    name: str
    play: Callable[[Demo], Awaitable[None]]


@dataclass(frozen=True, slots=True)
class Scenario:
    """Two groups, and what happens to both."""

    #: The kinds of groups, and the assignor of each.
    assignors: Mapping[str, str]
    steps: Sequence[Step]
    #: How long it takes to restore a partition's state; 0 if work needs none.
    restore_s: float = 0.0


@dataclass(slots=True)
class Chapter:
    """A step that is being played, or was."""

    name: str
    began_s: float
    ended_s: float = math.inf

    @property
    def is_over(self) -> bool:
        """Whether it has ended."""
        return self.ended_s < math.inf


@dataclass(frozen=True, slots=True)
class Narration:
    """A sentence about what happens."""

    at_s: float
    text: str


class Demo:
    """A coordinator of its own and two groups, to whom the same things happen.

    With a `data_dir`, the coordinator keeps its journal there.
    """

    def __init__(
        self, speed: float, *, scenario: Scenario | None = None, data_dir: Path | None = None
    ) -> None:
        self._speed = speed
        self._scenario = scenario or SCENARIO
        settings = Settings(
            group_initial_rebalance_delay_ms=_INITIAL_DELAY_MS,
            group_min_session_timeout_ms=1000,
        )
        self._server = Server(
            ServerOptions(
                settings=settings,
                listeners=(ListenerOptions(Address("127.0.0.1", 0)),),
                store="memory:",
                data_dir=data_dir,
                topics={TOPIC: PARTITIONS},
            )
        )
        self.groups: tuple[DemoGroup, ...] = ()
        self.chapters: list[Chapter] = []
        self.narrations: list[Narration] = []
        self.is_finished = False
        self.began_s = time.monotonic()

    async def __aenter__(self) -> Self:
        self._server.add_observer(self)
        await self._server.start()
        bootstrap = str(self._server.address)
        self.groups = tuple(
            DemoGroup(kind, assignor, bootstrap, self._speed, restore_s=self._scenario.restore_s)
            for kind, assignor in self._scenario.assignors.items()
        )
        self.began_s = time.monotonic()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.on_both(DemoGroup.close)
        await self._server.stop()

    def observe(self, ts_ms: int, event: Event) -> None:
        """Count the rebalances that the coordinator completes."""
        del ts_ms
        if isinstance(event, RebalanceCompleted):
            for group in self.groups:
                if group.group_id == event.group:
                    group.count_rebalance()

    # -- for the steps -------------------------------------------------------------------------

    async def play(self, steps: Sequence[Step]) -> None:
        """Play all steps, and give people a moment to look at the result of each."""
        for step in steps:
            chapter = Chapter(step.name, time.monotonic())
            self.chapters.append(chapter)
            try:
                await step.play(self)
                await asyncio.sleep(_LOOK_S / self._speed)
            finally:
                chapter.ended_s = time.monotonic()
        self.is_finished = True

    def narrate(self, text: str) -> None:
        """Say what happens, and why."""
        self.narrations.append(Narration(self.now_s, text))

    async def on_both(self, do: Callable[[DemoGroup], Awaitable[None]]) -> None:
        """Do something to both groups at the same time."""
        await asyncio.gather(*(do(group) for group in self.groups))

    async def start(self, *names: str) -> None:
        """Have workers join, as soon as those of both groups are loaded."""
        await self.on_both(lambda group: group.load(*names))
        await self.on_both(lambda group: group.join(*names))

    async def replace(self, name: str) -> None:
        """Have a worker leave, and a static member of the same name join right after it."""

        async def roll(group: DemoGroup) -> None:
            await group.stop(name)
            await group.join(name)

        await self.on_both(lambda group: group.load(name, is_static=True))
        await self.on_both(roll)

    async def settle(self) -> None:
        """Wait until both groups have shared out everything."""
        await self.on_both(lambda group: group.settle(_SETTLE_S))

    # -- for those who watch -------------------------------------------------------------------

    @property
    def steps(self) -> Sequence[Step]:
        """All steps of the scenario."""
        return self._scenario.steps

    @property
    def now_s(self) -> float:
        """Seconds since the beginning."""
        return time.monotonic() - self.began_s

    def figures(self, group: DemoGroup, chapter: Chapter | None = None) -> Figures:
        """What a chapter cost a group, or all chapters together."""
        now_s = time.monotonic()
        if chapter is None:
            ended_s = self.chapters[-1].ended_s if self.chapters else now_s
            return group.figures(self.began_s, min(ended_s, now_s))
        return group.figures(chapter.began_s, min(chapter.ended_s, now_s))


# -- the steps -------------------------------------------------------------------------------------


_FIRST: Final = NAMES[:3]
#: The workers that are there in the end.
_LAST: Final = ("ann", "cat", "dan")


async def _start(demo: Demo) -> None:
    demo.narrate(
        "ann, ben and cat start, and share the twelve partitions of a topic. Each is a process of"
        " its own, works on its partitions in small steps, and commits after each."
    )
    await demo.start(*_FIRST)
    await demo.settle()


async def _come(demo: Demo) -> None:
    demo.narrate(
        "dan starts. Left, three partitions end their step and go to dan; nobody else stops."
        " Right, everybody ends everything before it is shared out anew, also what will stay."
    )
    await demo.start("dan")
    await demo.settle()


async def _leave(demo: Demo) -> None:
    demo.narrate(
        "ben is asked to stop: it ends its steps, commits and leaves. Left, only what it had goes"
        " elsewhere. Right, all others end their work, too."
    )
    await demo.on_both(lambda group: group.stop("ben"))
    await demo.settle()


async def _crash(demo: Demo) -> None:
    demo.narrate(
        f"kill -9 for cat. It can't say goodbye, so what it had stands still on both sides until"
        f" its session is over, {SESSION_S:g} s after its last heartbeat."
    )
    await demo.on_both(lambda group: group.kill("cat"))
    await demo.settle()
    demo.narrate("cat is started again. To the coordinator it is a new member.")
    await demo.start("cat")
    await demo.settle()


async def _roll(demo: Demo) -> None:
    demo.narrate(
        "A new version is rolled out, one worker after the other: the old one leaves, and the new"
        " one, loaded already, joins as a new member. Each time the group rebalances."
    )
    for name in _LAST:
        await _restart(demo, name)


async def _roll_by_name(demo: Demo) -> None:
    demo.narrate(
        "The next version. The last one gave each worker a name (group.instance.id), so now the"
        " coordinator knows who comes back: no rebalance, on either side. Only what the worker has"
        " stops, for a moment."
    )
    for name in _LAST:
        await _restart(demo, name)


async def _restart(demo: Demo, name: str) -> None:
    await demo.replace(name)
    await demo.settle()


STEPS: Final = (
    Step("three workers start", _start),
    Step("one more comes", _come),
    Step("one leaves", _leave),
    Step("one is killed", _crash),
    Step("all restart in turn", _roll),
    Step("the same, with names", _roll_by_name),
)

SCENARIO: Final = Scenario({"cooperative": "cooperative-sticky", "eager": "range"}, STEPS)


# -- work with state -------------------------------------------------------------------------------


async def _start_with_state(demo: Demo) -> None:
    demo.narrate(
        "Work on a partition needs state, which takes seconds to restore. ann, ben and cat start;"
        " there is no state anywhere yet, so on both sides all restore it before they work."
    )
    await demo.start(*_FIRST)
    await demo.settle()


async def _come_with_state(demo: Demo) -> None:
    demo.narrate(
        "dan starts. Left, it restores copies while the others work on, and takes partitions over"
        " when it has caught up. Right, it gets three at once, and they stand still until it has"
        " restored their state."
    )
    await demo.start("dan")
    await demo.settle()


WITH_STATE: Final = Scenario(
    dict.fromkeys(("warm", "cold"), "cooperative-sticky"),
    (
        Step("three workers start", _start_with_state),
        Step("one more comes", _come_with_state),
    ),
    restore_s=_RESTORE_S,
)
