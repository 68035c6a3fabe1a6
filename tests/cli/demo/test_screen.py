"""The demo's picture of a moment, in terminals of different sizes."""

from __future__ import annotations

import io

import pytest
from rich.console import Console

from coterie_cli.demo.group import PARTITIONS, DemoGroup
from coterie_cli.demo.messages import WorkEvent, WorkEventKind
from coterie_cli.demo.scenario import WITH_STATE, Chapter, Demo
from coterie_cli.demo.screen import SMALLEST, picture, plain_totals
from coterie_cli.demo.summary import Summary


@pytest.fixture
def demo() -> Demo:
    """A moment: ann works on all but one partition, and is about to end work on another one."""
    demo = Demo(speed=1.0)
    demo.groups = tuple(
        DemoGroup(kind, kind, "nowhere:1", 1.0) for kind in ("cooperative", "eager")
    )
    demo.chapters.append(Chapter("one leaves", demo.began_s))
    for group in demo.groups:
        for number in range(PARTITIONS):
            group.work_log.add("ann", WorkEvent(WorkEventKind.BEGINS, number, demo.began_s))
        group.work_log.add("ann", WorkEvent(WorkEventKind.ENDING, 7, demo.began_s))
        group.work_log.add("ann", WorkEvent(WorkEventKind.ENDED, 10, demo.began_s))
    return demo


def shown(
    demo: Demo, width: int, height: int, encoding: str = "utf-8", *, is_terminal: bool = False
) -> list[str]:
    """The lines that are shown, with bold and the like only on a terminal."""
    file = io.TextIOWrapper(io.BytesIO(), encoding=encoding)
    console = Console(
        file=file, width=width, height=height, force_terminal=is_terminal, no_color=True
    )
    with console.capture() as capture:
        console.print(picture(demo, console))
    return [line.rstrip() for line in capture.get().splitlines()]


@pytest.mark.parametrize("size", [SMALLEST, (80, 24), (101, 40), (200, 60)])
def test_picture_fits_the_terminal(demo: Demo, size: tuple[int, int]) -> None:
    demo.narrate("a word or two " * 16)
    lines = shown(demo, *size)
    assert max(map(len, lines)) <= size[0]
    assert len(lines) <= size[1]


def test_partition_at_work_shows_its_number_and_others_show_marks(demo: Demo) -> None:
    lines = shown(demo, 80, 24)
    row = next(line for line in lines if line.startswith("ann"))
    off = next(line for line in lines if line.startswith("off"))
    cells = " 0  1  2  3  4  5  6 ▒▒  8  9    11"
    assert row == f"ann {cells}  ann {cells}"
    assert off.split() == ["off", "░░", "off", "░░"]


def test_worker_without_partitions_says_why(demo: Demo) -> None:
    for group in demo.groups:
        group.status["ben"] = "has left"
    assert "ben has left" in "\n".join(shown(demo, 80, 24))


def test_nothing_moves_when_narrations_differ_in_length(demo: Demo) -> None:
    places = set()
    for text in ("", "short", "long " * 40):
        demo.narrate(text)
        lines = shown(demo, 80, 24)
        places.add(next(n for n, line in enumerate(lines) if line.startswith("stopped s")))
    assert len(places) == 1


def test_chart_has_the_steps_of_its_own_scenario() -> None:
    demo = Demo(speed=1.0, scenario=WITH_STATE)
    demo.groups = tuple(DemoGroup(kind, kind, "nowhere:1", 1.0) for kind in WITH_STATE.assignors)
    demo.chapters.append(Chapter("one more comes", demo.began_s))
    text = "\n".join(shown(demo, 80, 24))
    assert "1 of 2: one more comes" in text
    assert "one is killed" not in text


def test_narrow_terminal_gets_all_figures_of_the_summary(demo: Demo) -> None:
    lines = plain_totals(Summary.of(demo), demo.steps).splitlines()
    before_the_sentence = lines[: lines.index("")]
    assert max(map(len, before_the_sentence)) <= 40
    assert lines[lines.index("one leaves") + 1].startswith("  cooperative 0.0 (0), eager 0.0")
    assert lines[lines.index("rebalances") + 1] == "  cooperative 0, eager 0"
    assert lines[lines.index("one is killed") + 1] == "  cooperative -, eager -"


def test_ascii_terminal_gets_ascii_marks(demo: Demo) -> None:
    text = "\n".join(shown(demo, 80, 24, encoding="ascii"))
    assert text.isascii()
    assert "::" in text
    assert "//" in text


def test_work_shows_in_reverse_video_without_colours(demo: Demo) -> None:
    row = next(line for line in shown(demo, 80, 24, is_terminal=True) if line.startswith("ann"))
    assert "\x1b[7m" in row
    assert "\x1b[36" not in row
