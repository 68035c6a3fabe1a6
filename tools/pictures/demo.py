"""The moving picture of `coterie demo`: its own screens, as it plays with real workers."""

from __future__ import annotations

import asyncio
import io
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from rich.console import Console, Group
from rich.text import Text

from coterie_cli.connection import silenced
from coterie_cli.demo.scenario import STEPS, Demo, Step
from coterie_cli.demo.screen import Layout, picture, totals
from coterie_cli.demo.summary import Summary
from tools.pictures.terminal import Frame, Terminal, animation, screen

__all__ = ["record"]

_TERMINAL: Final = Terminal(columns=80, lines=24)
_LOOK_S: Final = 0.25
#: How much faster than the demo its picture is.
_FASTER: Final = 2.0
#: How long the prompt and the sums at the end are shown, in the picture's time.
_PROMPT_S: Final = 1.0
_SUMS_S: Final = 7.0
_TITLE: Final = (
    "coterie demo: a cooperative group keeps working while workers come, leave, crash and restart;"
    " an eager group next to it stops each time"
)


def record(
    journal: Path | None = None, *, speed: float = 1.0, steps: Sequence[Step] = STEPS
) -> str:
    """Play the demo once, and return its picture; the coordinator's journal goes to a folder."""
    console = Console(
        file=io.StringIO(),
        width=_TERMINAL.columns,
        height=_TERMINAL.lines,
        force_terminal=True,
        color_system="standard",
        legacy_windows=False,
        _environ={},
    )
    with silenced():
        frames, sums = asyncio.run(_play(Demo(speed, data_dir=journal), console, steps))
    faster = _FASTER / speed if speed < _FASTER else 1.0
    prompt = Text("$ coterie demo")
    played = [Frame(_PROMPT_S + each.at_s / faster, each.screen) for each in frames]
    ended_s = played[-1].at_s + 1.0
    every = [
        Frame(0.0, screen(console, prompt)),
        *played,
        Frame(ended_s, screen(console, Group(prompt, sums))),
    ]
    return animation(
        _TERMINAL, every, ends_s=ended_s + _SUMS_S, still=played[-1].screen, title=_TITLE
    )


async def _play(demo: Demo, console: Console, steps: Sequence[Step]) -> tuple[list[Frame], Group]:
    frames: list[Frame] = []
    async with demo:
        playing = asyncio.create_task(demo.play(steps), name="the scenario")
        while True:
            shown = screen(console, picture(demo, console))
            if not frames or shown != frames[-1].screen:
                frames.append(Frame(demo.now_s, shown))
            if playing.done():
                break
            await asyncio.wait([playing], timeout=_LOOK_S)
        playing.result()
        return frames, Group(totals(Summary.of(demo), Layout.of(console)))
