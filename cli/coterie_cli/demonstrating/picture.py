"""The stage as a person sees it, at one moment."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import Final

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from coterie_cli.demonstrating.chart import chart
from coterie_cli.demonstrating.diary import Stint
from coterie_cli.demonstrating.marks import Marks
from coterie_cli.demonstrating.script import STORY
from coterie_cli.demonstrating.side import NAMES, PARTITIONS, Side
from coterie_cli.demonstrating.stage import Stage
from coterie_cli.demonstrating.summary import Summary

__all__ = ["picture"]

_COLOURS: Final = dict(zip(NAMES, ("cyan", "green", "magenta", "yellow"), strict=True))
#: So many lines anything that is told has room in; what is below it stays where it is.
_NARRATION_LINES: Final = 3
_DIM: Final = Style(dim=True)
_STOPPED: Final = Style(color="red")


def picture(stage: Stage, console: Console) -> RenderableType:
    """All of it, as large as the terminal is now."""
    marks = Marks.of(console)
    parts: list[RenderableType] = [
        _title(stage),
        Text(),
        _sides(stage, marks),
        _legend(marks),
        Text(),
    ]
    parts += [*_narration(stage, console, marks.width), Text(), chart(Summary.of(stage), marks)]
    return Group(*parts)


def _title(stage: Stage) -> Text:
    minutes, seconds = divmod(int(stage.now_s), 60)
    title = Text.assemble(("coterie demo", "bold"), f"  {minutes}:{seconds:02}")
    if stage.chapters:
        title.append(f"  {len(stage.chapters)} of {len(STORY)}: {stage.chapters[-1].name}")
    return title


def _legend(marks: Marks) -> Text:
    cell = marks.cell_width
    return Text.assemble(
        marks.name(""),
        ("7".rjust(cell), Style(reverse=True)),
        " at work  ",
        marks.ending * cell,
        " finishes its step  ",
        (marks.stopped * cell, _STOPPED),
        " off: nobody works on it",
        style=_DIM,
    )


def _narration(stage: Stage, console: Console, width: int) -> list[Text]:
    text = Text(stage.story[-1].text if stage.story else "", style="italic")
    lines = list(text.wrap(console, width))
    return lines + [Text()] * (_NARRATION_LINES - len(lines))


# -- the two sides ---------------------------------------------------------------------------------


def _sides(stage: Stage, marks: Marks) -> Table:
    both = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in stage.sides:
        both.add_column(width=marks.side_width, no_wrap=True)
    for lines in zip(*(_side(stage, side, marks) for side in stage.sides), strict=True):
        both.add_row(*lines)
    return both


def _side(stage: Stage, side: Side, marks: Marks) -> Iterator[Text]:
    """The lines of one side, always as many."""
    figures = stage.figures(side)
    yield Text.assemble((side.kind, "bold"), (f"  {side.assignor}", _DIM))
    current = side.diary.current
    for name in NAMES:
        mine = {number: stint for number, stint in current.items() if stint.who == name}
        if mine:
            cells = {number: _cell(number, stint, marks) for number, stint in mine.items()}
            yield from _row(name, cells, marks)
        else:
            yield from _row(name, {}, marks, side.whereabouts[name])
    off = _Cell(marks.stopped, _STOPPED)
    yield from _row("off", dict.fromkeys(side.diary.idle, off), marks)
    stopped, rebalances = f"{figures.stopped_s:.1f} s", str(figures.rebalances)
    yield Text.assemble("stopped ", (stopped, "bold"), ", rebalances ", (rebalances, "bold"))


@dataclass(frozen=True, slots=True)
class _Cell:
    """What stands for a partition."""

    fill: str
    style: Style
    label: str = ""

    def line(self, number: int, width: int) -> Text:
        """One of its lines; a label is in the first one."""
        return Text((self.label if number == 0 else "").rjust(width, self.fill), self.style)


_BLANK: Final = _Cell(" ", Style())


def _cell(number: int, stint: Stint, marks: Marks) -> _Cell:
    colour = _COLOURS[stint.who]
    if stint.is_ending:
        return _Cell(marks.ending, Style(color=colour))
    return _Cell(" ", Style(color=colour, reverse=True), str(number))


def _row(name: str, cells: Mapping[int, _Cell], marks: Marks, instead: str = "") -> Iterator[Text]:
    """A row of cells, or some words instead, in as many lines as a cell has."""
    for line in range(marks.cell_height):
        text = Text(marks.name("" if line else name), style="" if cells else _DIM)
        shown = (cells.get(number, _BLANK) for number in range(PARTITIONS))
        drawn = Text(" ").join(cell.line(line, marks.cell_width) for cell in shown)
        yield text.append_text(Text("" if line else instead) if instead else drawn)
