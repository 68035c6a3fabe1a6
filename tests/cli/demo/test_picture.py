"""What the demo shows of a moment, in terminals of different sizes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie_cli.demonstrating.lines import Line, What
from coterie_cli.demonstrating.marks import SMALLEST
from coterie_cli.demonstrating.picture import picture
from coterie_cli.demonstrating.side import PARTITIONS, Side
from coterie_cli.demonstrating.stage import Chapter, Stage


@pytest.fixture
def stage() -> Stage:
    """A moment: ann has it all, but of one partition the work is ending, and one is off."""
    stage = Stage(speed=1.0)
    stage.sides = tuple(Side(kind, kind, "nowhere:1", 1.0) for kind in ("cooperative", "eager"))
    stage.chapters.append(Chapter("one leaves", stage.began_s))
    for side in stage.sides:
        for number in range(PARTITIONS):
            side.diary.note("ann", Line(What.BEGINS, number, stage.began_s))
        side.diary.note("ann", Line(What.ENDING, 7, stage.began_s))
        side.diary.note("ann", Line(What.ENDED, 10, stage.began_s))
    return stage


def shown(
    stage: Stage, width: int, height: int, encoding: str = "utf-8", *, is_terminal: bool = False
) -> list[str]:
    """The lines that are shown, with bold and the like only on a terminal."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=file, width=width, height=height, force_terminal=is_terminal, no_color=True
    )
    with console.capture() as capture:
        console.print(picture(stage, console))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("size", [SMALLEST, (80, 24), (101, 40), (200, 60)])
def test_it_fits(stage: Stage, size: tuple[int, int]) -> None:
    """Whatever is told, and no line is broken into two."""
    stage.tell("a word or two " * 16)
    lines = shown(stage, *size)
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= size[1]


def test_both_sides_are_rows_of_cells(stage: Stage) -> None:
    """A number where work goes on, a mark where it ends, and another where nobody works."""
    lines = shown(stage, 80, 24)
    row = next(line for line in lines if line.startswith("ann"))
    off = next(line for line in lines if line.startswith("off"))
    cells = " 0  1  2  3  4  5  6 ▒▒  8  9    11"
    assert row == f"ann {cells}  ann {cells}"
    assert off.split() == ["off", "░░", "off", "░░"]


def test_who_has_nothing_says_why(stage: Stage) -> None:
    """In place of the cells."""
    for side in stage.sides:
        side.whereabouts["ben"] = "has left"
    assert "ben has left" in "\n".join(shown(stage, 80, 24))


def test_nothing_jumps_while_the_story_is_told(stage: Stage) -> None:
    """What is below the narration stays in its line, however much is told."""
    places = set()
    for text in ("", "short", "long " * 40):
        stage.tell(text)
        lines = shown(stage, 80, 24)
        places.add(next(n for n, line in enumerate(lines) if line.startswith("stopped s")))
    assert len(places) == 1


def test_terminal_without_our_characters(stage: Stage) -> None:
    """It gets others, which it has."""
    text = "\n".join(shown(stage, 80, 24, encoding="ascii"))
    assert text.isascii()
    assert "::" in text
    assert "//" in text


def test_work_shows_without_colours(stage: Stage) -> None:
    """As a block in reverse video."""
    row = next(line for line in shown(stage, 80, 24, is_terminal=True) if line.startswith("ann"))
    assert "\x1b[7m" in row
    assert "\x1b[36" not in row
