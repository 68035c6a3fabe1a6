"""Playing the scenario and showing it: as a picture, or in lines if there is no room for one."""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Final

from rich.console import Console
from rich.live import Live

from coterie_cli.connection import silenced
from coterie_cli.demo.group import DemoError
from coterie_cli.demo.scenario import SCENARIO, WITH_STATE, Chapter, Demo
from coterie_cli.demo.screen import SMALLEST, Layout, picture, plain_totals, totals
from coterie_cli.demo.summary import Summary
from coterie_cli.interrupts import raising_interrupts
from coterie_cli.output import FAILED, fail, print_json

__all__ = ["show"]

_FRAME_S: Final = 0.1


def show(*, speed: float, as_json: bool, with_state: bool) -> int:
    """Play all of the scenario, print what was counted, and return the exit code."""
    console = Console(stderr=as_json, highlight=False)
    scenario = WITH_STATE if with_state else SCENARIO
    with silenced(), raising_interrupts():
        summary, failure = asyncio.run(_play(Demo(speed, scenario=scenario), console))
    if as_json:
        print_json(summary)
    else:
        has_room = console.width >= SMALLEST[0]
        figures = totals(summary, Layout.of(console), scenario.steps)
        console.print(figures if has_room else plain_totals(summary, scenario.steps))
    if failure is not None:
        fail(failure, FAILED)
    return 0


async def _play(demo: Demo, console: Console) -> tuple[Summary, str | None]:
    """What was counted, and why the demo could not go on if it could not."""
    async with demo:
        with _display(demo, console) as update:
            playing = asyncio.create_task(demo.play(demo.steps), name="the scenario")
            loop = asyncio.get_running_loop()
            for number in (signal.SIGINT, signal.SIGTERM):
                loop.add_signal_handler(number, playing.cancel)
            try:
                while not playing.done():
                    update()
                    await asyncio.wait([playing], timeout=_FRAME_S)
                update()
            finally:
                # Where nobody reads what is shown, it ends before the workers do.
                playing.cancel()
                await asyncio.wait([playing])
        summary = Summary.of(demo)
    try:
        playing.result()
    except DemoError as error:
        return summary, str(error)
    except asyncio.CancelledError:
        pass  # by Ctrl-C, which is no failure
    return summary, None


@contextmanager
def _display(demo: Demo, console: Console) -> Iterator[Callable[[], None]]:
    """Show the demo in the way that suits the terminal; call the result to bring it up to date."""
    columns, lines = SMALLEST
    is_screen = console.is_terminal and not console.is_dumb_terminal
    if not is_screen or console.width < columns or console.height < lines:
        yield _PlainText(demo, console).update
        return
    with Live(console=console, screen=True, auto_refresh=False) as live:
        yield lambda: live.update(picture(demo, console), refresh=True)


class _PlainText:
    """Prints each narration, and at the end of each chapter what it cost."""

    def __init__(self, demo: Demo, console: Console) -> None:
        self._demo = demo
        self._console = console
        self._printed = 0

    def update(self) -> None:
        demo = self._demo
        lines = [(narration.at_s, narration.text) for narration in demo.narrations]
        over = (chapter for chapter in demo.chapters if chapter.is_over)
        lines += [(chapter.ended_s - demo.began_s, self._cost(chapter)) for chapter in over]
        for at_s, text in sorted(lines)[self._printed :]:
            self._console.print(f"{at_s:5.1f} s  {text}", soft_wrap=True, markup=False)
        self._printed = len(lines)

    def _cost(self, chapter: Chapter) -> str:
        costs = (
            f"{self._demo.figures(group, chapter).stopped_s:.1f} {group.kind}"
            for group in self._demo.groups
        )
        return f"({chapter.name}, partition-seconds stopped: {', '.join(costs)})"
