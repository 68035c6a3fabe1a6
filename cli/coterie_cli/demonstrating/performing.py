"""Playing the story, and showing it."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Final

from rich.console import Console
from rich.live import Live

from coterie_cli.demonstrating.actor import DemoError
from coterie_cli.demonstrating.chart import totals
from coterie_cli.demonstrating.marks import SMALLEST, Marks
from coterie_cli.demonstrating.picture import picture
from coterie_cli.demonstrating.script import STORY
from coterie_cli.demonstrating.stage import Stage
from coterie_cli.demonstrating.summary import Summary
from coterie_cli.demonstrating.teller import Teller
from coterie_cli.doing.connecting import FAILED, give_up
from coterie_cli.doing.output import print_json
from coterie_cli.doing.quiet import quiet

__all__ = ["perform"]

_FRAME_S: Final = 0.1


def perform(*, speed: float, as_json: bool) -> int:
    """Play it all, and say in the end what it came to; answer the exit code."""
    console = Console(stderr=as_json, highlight=False)
    with quiet():
        ending = asyncio.run(_perform(Stage(speed), console))
    if as_json:
        print_json(ending.summary)
    else:
        console.print(totals(ending.summary, Marks.of(console)))
    if ending.failure is not None:
        give_up(ending.failure, FAILED)
    return 0


@dataclass(frozen=True, slots=True)
class _Ending:
    """What it came to, and why it could not go on, if it could not."""

    summary: Summary
    failure: str | None


async def _perform(stage: Stage, console: Console) -> _Ending:
    async with stage:
        with _shown(stage, console) as update:
            playing = asyncio.create_task(stage.play(STORY), name="the story")
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, playing.cancel)
            while not playing.done():
                update()
                await asyncio.wait([playing], timeout=_FRAME_S)
            update()
        summary = Summary.of(stage)
    try:
        playing.result()
    except DemoError as error:
        return _Ending(summary, str(error))
    except asyncio.CancelledError:
        pass  # somebody has seen enough
    return _Ending(summary, None)


@contextmanager
def _shown(stage: Stage, console: Console) -> Iterator[Callable[[], None]]:
    """Show it in the way that suits who looks; what is called brings it up to date."""
    columns, lines = SMALLEST
    is_screen = console.is_terminal and not console.is_dumb_terminal
    if not is_screen or console.width < columns or console.height < lines:
        yield Teller(stage, console).update
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda: live.update(picture(stage, console), refresh=True)
