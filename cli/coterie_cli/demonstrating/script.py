"""The story that the demo tells."""

from __future__ import annotations

from typing import Final

from coterie_cli.demonstrating.side import NAMES, SESSION_S
from coterie_cli.demonstrating.stage import Act, Stage

__all__ = ["STORY"]

_FIRST: Final = NAMES[:3]
#: Who is there in the end.
_LAST: Final = ("ann", "cat", "dan")


async def _start(stage: Stage) -> None:
    stage.tell(
        "ann, ben and cat start, and share the twelve partitions of a topic. Each is a process of"
        " its own, works on its partitions in small steps, and commits after each."
    )
    await stage.start(*_FIRST)
    await stage.settle()


async def _come(stage: Stage) -> None:
    stage.tell(
        "dan starts. Left, three partitions end their step and go to dan; nobody else stops."
        " Right, everybody ends everything before it is shared out anew, also what will stay."
    )
    await stage.start("dan")
    await stage.settle()


async def _leave(stage: Stage) -> None:
    stage.tell(
        "ben is asked to stop: it ends its steps, commits and leaves. Left, only what it had goes"
        " elsewhere. Right, all others end their work, too."
    )
    await stage.everywhere(lambda side: side.stop("ben"))
    await stage.settle()


async def _crash(stage: Stage) -> None:
    stage.tell(
        f"kill -9 for cat. It can't say goodbye, so what it had stands still on both sides until"
        f" its session is over, {SESSION_S:g} s after its last heartbeat."
    )
    await stage.everywhere(lambda side: side.kill("cat"))
    await stage.settle()
    stage.tell("cat is started again. To the coordinator it is somebody new.")
    await stage.start("cat")
    await stage.settle()


async def _roll(stage: Stage) -> None:
    stage.tell(
        "A new version is rolled out, one worker after the other: the old one leaves, and the new"
        " one, loaded already, joins as somebody else. Each time the group rebalances."
    )
    for name in _LAST:
        await _restart(stage, name)


async def _roll_by_name(stage: Stage) -> None:
    stage.tell(
        "The next version. The last one gave each worker a name (group.instance.id), so now the"
        " coordinator knows who comes back: no rebalance, on either side. Only what the worker has"
        " stops, for a moment."
    )
    for name in _LAST:
        await _restart(stage, name)


async def _restart(stage: Stage, name: str) -> None:
    await stage.replace(name)
    await stage.settle()


STORY: Final = (
    Act("three workers start", _start),
    Act("one more comes", _come),
    Act("one leaves", _leave),
    Act("one is killed", _crash),
    Act("all restart in turn", _roll),
    Act("the same, with names", _roll_by_name),
)
