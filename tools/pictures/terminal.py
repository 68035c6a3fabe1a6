"""Screens of a terminal, put together into one SVG that plays by itself.

It holds no script: each piece of text is there once, and CSS shows and hides it.  So it plays where
pages show it as an image, on code forges as well.
"""

from __future__ import annotations

import html
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import groupby
from typing import Final, TypeAlias

from rich.cells import cell_len
from rich.color import Color
from rich.color_triplet import ColorTriplet
from rich.console import Console, RenderableType
from rich.style import Style
from rich.terminal_theme import TerminalTheme

__all__ = ["Frame", "Run", "Screen", "Terminal", "animation", "screen"]


@dataclass(frozen=True, slots=True)
class Terminal:
    """What the picture is of, in columns and lines."""

    columns: int
    lines: int


@dataclass(frozen=True, slots=True, order=True)
class Run:
    """Some characters in one style, with no more than one space between words."""

    line: int
    column: int
    text: str
    #: CSS declarations of the text, and the colour behind it, if any.
    style: str
    ground: str = ""


Screen: TypeAlias = frozenset[Run]


@dataclass(frozen=True, slots=True)
class Frame:
    """What is on the screen from a moment on."""

    at_s: float
    screen: Screen


# -- reading a screen ------------------------------------------------------------------------------


_GROUND: Final = "#0d1117"
_THEME: Final = TerminalTheme(
    (13, 17, 23),
    (201, 209, 217),
    [
        (72, 79, 88),
        (248, 81, 73),
        (63, 185, 80),
        (210, 153, 34),
        (88, 166, 255),
        (188, 140, 255),
        (57, 197, 207),
        (177, 186, 196),
    ],
)
#: How much of the colour is left of dim text.
_DIM: Final = 0.62

#: How opaque a block is whose character stands for a shade.
_SHADES: Final = {"█": "1", "▒": ".5", "░": ".28"}
#: Blocks of one kind, or words.
_PIECES: Final = re.compile(r"█+|▒+|░+|[^\s█▒░]+(?: [^\s█▒░]+)*")


def screen(console: Console, shown: RenderableType) -> Screen:
    """What a console shows, as runs."""
    runs: list[Run] = []
    for number, line in enumerate(console.render_lines(shown, pad=False)):
        column = 0
        for style, segments in groupby(line, key=lambda segment: segment.style or Style()):
            text = "".join(segment.text for segment in segments)
            runs += _runs(number, column, text, style)
            column += cell_len(text)
    return frozenset(runs)


def _runs(line: int, column: int, text: str, style: Style) -> Iterator[Run]:
    colour, ground = _colours(style)
    css = f"fill:{colour}"
    css += ";font-weight:700" if style.bold else ""
    css += ";font-style:italic" if style.italic else ""
    if ground != _GROUND:
        yield Run(line, column, text, css, ground)
        return
    for piece in _PIECES.finditer(text):
        yield Run(line, column + cell_len(text[: piece.start()]), piece[0], css)


def _colours(style: Style) -> tuple[str, str]:
    """The colours of text and ground."""
    colour = _triplet(style.color, _THEME.foreground_color)
    ground = _triplet(style.bgcolor, _THEME.background_color)
    if style.reverse:
        colour, ground = ground, colour
    if style.dim:
        mixed = (round(g + (c - g) * _DIM) for c, g in zip(colour, ground, strict=True))
        colour = ColorTriplet(*mixed)
    return colour.hex, ground.hex


def _triplet(color: Color | None, default: ColorTriplet) -> ColorTriplet:
    return default if color is None or color.is_default else color.get_truecolor(_THEME)


# -- drawing ---------------------------------------------------------------------------------------


_CELL: Final = (8.4, 18)
_BASELINE: Final = 13.5
_PAD: Final = 14
_FONT: Final = "ui-monospace,SFMono-Regular,Menlo,Consolas,'DejaVu Sans Mono',monospace"

#: The frames in which something is shown, each from its first one to before its last one.
_Spans: TypeAlias = tuple[tuple[int, int], ...]


def animation(
    terminal: Terminal, frames: Sequence[Frame], *, ends_s: float, still: Screen, title: str
) -> str:
    """One SVG that shows the frames again and again.

    Where nothing moves, because the reader wants it so or the viewer can't, `still` is shown, which
    is one of the screens.
    """
    spans = _spans(frames)
    styles = {style: f"s{n}" for n, style in enumerate(sorted({run.style for run in spans}))}
    moving = sorted({each for each in spans.values() if each != ((0, len(frames)),)})
    names = {each: f"m{n}" for n, each in enumerate(moving)}
    starts_s = [*(frame.at_s for frame in frames), ends_s]
    css = [
        ".h{visibility:hidden}",
        *(f".{name}{{{style}}}" for style, name in styles.items()),
        *(_keyframes(name, each, starts_s) for each, name in names.items()),
        "@media (prefers-reduced-motion:reduce){g{animation:none!important}}",
    ]
    groups = []
    for each in sorted(set(spans.values())):
        runs = sorted(run for run, when in spans.items() if when == each)
        # Of what comes and goes together, some may be in the still picture and some not.
        for hides in ("", "h"):
            drawn = "".join(_drawn(r, styles) for r in runs if (r in still) != bool(hides))
            if drawn:
                classes = " ".join(filter(None, (names.get(each), hides)))
                groups.append(f'<g class="{classes}">{drawn}</g>' if classes else drawn)
    return _document(terminal, title, css, groups)


def _document(terminal: Terminal, title: str, css: Sequence[str], groups: Sequence[str]) -> str:
    width = f"{terminal.columns * _CELL[0] + 2 * _PAD:g}"
    height = f"{terminal.lines * _CELL[1] + 2 * _PAD:g}"
    opening = (
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {width} {height}" role="img"'
        f' width="{width}" height="{height}" font-family="{_FONT}" font-size="14">'
    )
    window = f'<rect width="{width}" height="{height}" rx="8" fill="{_GROUND}" stroke="#30363d"/>'
    heading = (f"<title>{html.escape(title)}</title>", "<style>", *css, "</style>")
    return "\n".join([opening, *heading, window, *groups, "</svg>\n"])


def _spans(frames: Sequence[Frame]) -> dict[Run, _Spans]:
    """When each run is on the screen."""
    found: dict[Run, list[tuple[int, int]]] = {}
    for number, frame in enumerate(frames):
        for run in frame.screen:
            spans = found.setdefault(run, [])
            if spans and spans[-1][1] == number:
                spans[-1] = (spans[-1][0], number + 1)
            else:
                spans.append((number, number + 1))
    return {run: tuple(spans) for run, spans in found.items()}


def _keyframes(name: str, spans: _Spans, starts_s: Sequence[float]) -> str:
    """What shows and hides a group, and the group's reference to it."""
    changes = {0: "hidden"}
    for first, end in spans:
        changes[first] = "visible"
        if end < len(starts_s) - 1:
            changes[end] = "hidden"
    steps = "".join(
        f"{starts_s[number] / starts_s[-1] * 100:.2f}".rstrip("0").rstrip(".")
        + f"%{{visibility:{value}}}"
        for number, value in changes.items()
    )
    playing = f"animation:{name} {starts_s[-1]:g}s step-end infinite"
    return f".{name}{{{playing}}}@keyframes {name}{{{steps}}}"


def _drawn(run: Run, styles: dict[str, str]) -> str:
    cell_width, cell_height = _CELL
    x, y = _PAD + run.column * cell_width, _PAD + run.line * cell_height
    width = cell_len(run.text) * cell_width
    name = styles[run.style]
    box = f'x="{x:.5g}" y="{y:g}" width="{width:.5g}" height="{cell_height}"'
    if run.text[:1] in _SHADES:
        return f'<rect class="{name}" {box} fill-opacity="{_SHADES[run.text[0]]}"/>'
    ground = f'<rect {box} fill="{run.ground}"/>' if run.ground else ""
    words = run.text.strip()
    if not words:
        return ground
    x += (len(run.text) - len(run.text.lstrip())) * cell_width
    # The reader's font may be wider or narrower than a cell.
    length = f' textLength="{cell_len(words) * cell_width:.5g}"' if len(words) > 1 else ""
    return (
        f'{ground}<text class="{name}" x="{x:.5g}" y="{y + _BASELINE:g}"{length}'
        f">{html.escape(words, quote=False)}</text>"
    )
