"""The demo as a person sees it at one moment: drawn to fit the terminal, with its characters."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Final, Self

from rich.console import Console, Group, RenderableType
from rich.style import Style
from rich.table import Table
from rich.text import Text

from coterie_cli.demo.group import NAMES, PARTITIONS, DemoGroup
from coterie_cli.demo.scenario import STEPS, Demo, Step
from coterie_cli.demo.summary import Summary
from coterie_cli.demo.work_log import Stint

__all__ = ["SMALLEST", "Layout", "picture", "plain_totals", "totals"]

#: Columns and lines that a picture needs.
SMALLEST: Final = (80, 23)

_DIM: Final = Style(dim=True)


# -- how things are drawn --------------------------------------------------------------------------


_NAME_WIDTH: Final = 4
_GUTTER: Final = 2
_CELL_WIDTH_MAX: Final = 6
#: From so many lines on there is room for cells of two lines.
_TALL: Final = 32


@dataclass(frozen=True, slots=True)
class Layout:
    """Sizes that fit a terminal, and characters that it can show."""

    width: int
    cell_width: int
    cell_height: int
    #: What fills the cell of a partition whose work is ending, and of one without a worker.
    ending: str
    stopped: str
    bar: str

    @classmethod
    def of(cls, console: Console) -> Self:
        """The layout for a terminal of its present size."""
        width, height = max(console.width, SMALLEST[0]), console.height
        cell_width = ((width - _GUTTER) // 2 - _NAME_WIDTH + 1) // PARTITIONS - 1
        cell_width = min(cell_width, _CELL_WIDTH_MAX)
        characters = ":/#" if console.options.ascii_only else "▒░█"
        used_width = 2 * (_NAME_WIDTH + (cell_width + 1) * PARTITIONS - 1) + _GUTTER
        return cls(used_width, cell_width, 2 if height >= _TALL else 1, *characters)

    @property
    def group_width(self) -> int:
        """How wide the picture of a group is."""
        return (self.width - _GUTTER) // 2

    def name(self, text: str) -> str:
        """The text before the cells of a row."""
        return text.ljust(_NAME_WIDTH)


# -- the picture -----------------------------------------------------------------------------------


_COLOURS: Final = dict(zip(NAMES, ("cyan", "green", "magenta", "yellow"), strict=True))
#: Any narration fits into so many lines; what is below it stays in its place.
_NARRATION_LINES: Final = 3
_STOPPED: Final = Style(color="red")


def picture(demo: Demo, console: Console) -> RenderableType:
    """All of it, as large as the terminal is now."""
    layout = Layout.of(console)
    return Group(
        _title(demo),
        Text(),
        _groups(demo, layout),
        _legend(layout),
        Text(),
        *_narration(demo, console, layout.width),
        Text(),
        _chart(Summary.of(demo), demo.steps, layout),
    )


def _title(demo: Demo) -> Text:
    minutes, seconds = divmod(int(demo.now_s), 60)
    title = Text.assemble(("coterie demo", "bold"), f"  {minutes}:{seconds:02}")
    if demo.chapters:
        title.append(f"  {len(demo.chapters)} of {len(demo.steps)}: {demo.chapters[-1].name}")
    return title


def _legend(layout: Layout) -> Text:
    cell = layout.cell_width
    return Text.assemble(
        layout.name(""),
        ("7".rjust(cell), Style(reverse=True)),
        " at work  ",
        layout.ending * cell,
        " finishes its step  ",
        (layout.stopped * cell, _STOPPED),
        " off: nobody works on it",
        style=_DIM,
    )


def _narration(demo: Demo, console: Console, width: int) -> list[Text]:
    text = Text(demo.narrations[-1].text if demo.narrations else "", style="italic")
    lines = list(text.wrap(console, width))
    return lines + [Text()] * (_NARRATION_LINES - len(lines))


def _groups(demo: Demo, layout: Layout) -> Table:
    both = Table.grid(padding=(0, 2, 0, 0), pad_edge=False)
    for _ in demo.groups:
        both.add_column(width=layout.group_width, no_wrap=True)
    for lines in zip(*(_group(demo, group, layout) for group in demo.groups), strict=True):
        both.add_row(*lines)
    return both


def _group(demo: Demo, group: DemoGroup, layout: Layout) -> Iterator[Text]:
    """The lines of one group, always as many."""
    figures = demo.figures(group)
    yield Text.assemble((group.kind, "bold"), (f"  {group.assignor}", _DIM))
    current = group.work_log.current
    for name in NAMES:
        own = {number: stint for number, stint in current.items() if stint.worker == name}
        cells = {number: _cell(number, stint, layout) for number, stint in own.items()}
        yield from _row(name, cells, layout, "" if cells else group.status[name])
    off = _Cell(layout.stopped, _STOPPED)
    yield from _row("off", dict.fromkeys(group.work_log.idle, off), layout)
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


def _cell(number: int, stint: Stint, layout: Layout) -> _Cell:
    colour = _COLOURS[stint.worker]
    if stint.is_ending:
        return _Cell(layout.ending, Style(color=colour))
    return _Cell(" ", Style(color=colour, reverse=True), str(number))


def _row(
    name: str, cells: Mapping[int, _Cell], layout: Layout, instead: str = ""
) -> Iterator[Text]:
    """A row of cells, or some words instead, in as many lines as a cell has."""
    for line in range(layout.cell_height):
        text = Text(layout.name("" if line else name), style="" if cells else _DIM)
        shown = (cells.get(number, _BLANK) for number in range(PARTITIONS))
        drawn = Text(" ").join(cell.line(line, layout.cell_width) for cell in shown)
        yield text.append_text(Text("" if line else instead) if instead else drawn)


# -- the figures below it --------------------------------------------------------------------------


_CHAPTER_WIDTH: Final = 22
_NUMBER_WIDTH: Final = 9
_CHART_WIDTH_MAX: Final = 110
_FULL_BAR_S: Final = 4.0
_BAR_COLOURS: Final = ("green", "red")


def _chart(summary: Summary, steps: Sequence[Step], layout: Layout) -> Table:
    """The partition-seconds of each chapter, with a row for those to come as well."""
    table, bar_width = _empty_chart(summary, layout)
    groups = [group.chapters for group in summary.sides.values()]
    # At least so much, lest the first moments fill the whole bar.
    most_s = max([_FULL_BAR_S, *(f.stopped_s for group in groups for f in group.values())])
    heads = [head for name in summary.sides for head in (Text(), Text(name, style="bold"))]
    table.add_row(Text("stopped s (rebalances)", style="bold"), *heads)
    for step in steps:
        cells: list[Text] = []
        for group, colour in zip(groups, _BAR_COLOURS, strict=True):
            if step.name in group:
                figures = group[step.name]
                length = round(figures.stopped_s / most_s * bar_width)
                cells.append(Text(f"{figures.stopped_s:.1f} ({figures.rebalances})"))
                cells.append(Text(layout.bar * length, style=colour))
        table.add_row(Text(step.name, style="" if cells else "dim"), *cells)
    return table


def totals(summary: Summary, layout: Layout, steps: Sequence[Step] = STEPS) -> RenderableType:
    """The chapters, and below them their sums."""
    table = _chart(summary, steps, layout)
    table.add_row()
    for name, values in _sums(summary).items():
        cells = [cell for value in values for cell in (Text(value, style="bold"), Text())]
        table.add_row(Text(name, style="bold"), *cells)
    return Group(table, Text(), Text(summary.sentence()))


def plain_totals(summary: Summary, steps: Sequence[Step]) -> str:
    """The same in lines, for a terminal that has no room for a table."""
    groups = summary.sides.values()
    told = {"stopped s (rebalances)": ["", ""]}
    for step in steps:
        figures = [group.chapters.get(step.name) for group in groups]
        told[step.name] = [f"{f.stopped_s:.1f} ({f.rebalances})" if f else "-" for f in figures]
    lines = []
    for name, values in (told | _sums(summary)).items():
        pairs = zip(summary.sides, values, strict=True)
        lines += [name, "  " + ", ".join(f"{kind} {value}".rstrip() for kind, value in pairs)]
    return "\n".join([*lines, "", summary.sentence()])


def _sums(summary: Summary) -> dict[str, list[str]]:
    """What all chapters together cost the groups."""
    sums = [group.total for group in summary.sides.values()]
    return {
        "partition-seconds": [f"{each.stopped_s:.1f}" for each in sums],
        "longest stop, s": [f"{each.longest_stop_s:.1f}" for each in sums],
        "times work ended": [str(each.endings) for each in sums],
        "rebalances": [str(each.rebalances) for each in sums],
    }


def _empty_chart(summary: Summary, layout: Layout) -> tuple[Table, int]:
    """A table without rows, and how wide its bars may be."""
    width = min(layout.width, _CHART_WIDTH_MAX)
    bar_width = (width - _CHAPTER_WIDTH) // len(summary.sides) - _NUMBER_WIDTH - 3
    table = Table.grid(padding=(0, 1, 0, 0), pad_edge=False)
    table.add_column(width=_CHAPTER_WIDTH, no_wrap=True)
    for _ in summary.sides:
        table.add_column(width=_NUMBER_WIDTH, justify="right", no_wrap=True)
        table.add_column(width=bar_width, no_wrap=True)
    return table, bar_width
