"""The pictures of the pages are whole, and what makes them makes them still."""

from __future__ import annotations

import io
import re
from pathlib import Path
from xml.etree import ElementTree as ET

import pytest
from rich.console import Console, Group
from rich.text import Text

from coterie_cli.demo.scenario import STEPS
from coterie_pipeline.report.page import page
from tests.ground.documented import ROOT
from tests.pipeline.report.samples import HOSTILE, detail, report
from tools.draw_pictures import PICTURES
from tools.pictures import console as console_pictures
from tools.pictures.chromium import WHY_NONE, chromium
from tools.pictures.demo import record
from tools.pictures.report import picture_of
from tools.pictures.terminal import Frame, Screen, Terminal, animation, screen

SVG = "{http://www.w3.org/2000/svg}"
BYTES_MAX = 300_000


def parsed(picture: str) -> ET.Element:
    """A picture that is well-formed, plays by itself and fetches nothing."""
    root = ET.fromstring(picture)  # noqa: S314  # our own picture
    assert root.tag == f"{SVG}svg"
    assert root.find(f"{SVG}title") is not None
    assert not [each for each in root.iter() if each.tag.endswith("script")]
    attributes = [name for each in root.iter() for name in each.attrib]
    assert not [name for name in attributes if name.startswith("on") or name.endswith("href")]
    assert "url(http" not in picture
    assert len(picture.encode()) < BYTES_MAX
    return root


def visible(picture: str, share: float | None) -> set[str]:
    """The words that can be read at a share of the playing time, or if nothing plays."""
    root = parsed(picture)
    percent = None if share is None else share * 100
    style = root.findtext(f"{SVG}style") or ""
    keyframes = {
        name: [(float(at), value) for at, value in re.findall(r"([\d.]+)%{visibility:(\w+)}", body)]
        for name, body in re.findall(r"@keyframes (\w+){((?:[^{}]*{[^{}]*})*)}", style)
    }
    played = dict(re.findall(r"\.(\w+){animation:(\w+) [\d.]+s step-end infinite}", style))
    found: set[str] = set()
    for child in root:
        classes = child.get("class", "").split() if child.tag == f"{SVG}g" else []
        is_visible = "h" not in classes
        for name in classes:
            if percent is not None and name in played:
                values = [value for at, value in keyframes[played[name]] if at <= percent]
                is_visible = values[-1] == "visible"
        if is_visible:
            found |= {text.text or "" for text in child.iter(f"{SVG}text")}
    return found


def console() -> Console:
    """A terminal of which a screen is taken."""
    return Console(
        file=io.StringIO(), width=40, height=5, force_terminal=True, color_system="standard"
    )


def words(*lines: str) -> Screen:
    """A screen with these lines."""
    return screen(console(), Group(*(Text(line) for line in lines)))


def test_screen_is_read_as_runs() -> None:
    shown = Text.assemble(
        "two words   apart ", ("bold", "bold"), " ", (" 7", "cyan reverse"), " ▒▒ ▒"
    )
    runs = sorted(screen(console(), shown))
    assert [(run.column, run.text) for run in runs] == [
        (0, "two words"),
        (12, "apart"),
        (18, "bold"),
        (23, " 7"),
        (26, "▒▒"),
        (29, "▒"),
    ]
    assert "font-weight:700" in runs[2].style
    assert [bool(run.ground) for run in runs] == [False, False, False, True, False, False]


def test_animation_shows_each_frame_at_its_time() -> None:
    texts = [("first", "always"), ("second", "always"), ("first", "always", "<last>")]
    frames = [Frame(at_s, words(*text)) for at_s, text in zip((0, 1, 3), texts, strict=True)]
    still = frames[1].screen
    picture = animation(Terminal(40, 5), frames, ends_s=4, still=still, title="three screens")
    times = {0.0: 0, 0.2: 0, 0.25: 1, 0.7: 1, 0.75: 2, 0.99: 2}
    assert {share: visible(picture, share) for share in times} == {
        share: set(texts[number]) for share, number in times.items()
    }
    assert visible(picture, None) == set(texts[1])


def test_blocks_are_drawn_and_not_written() -> None:
    frames = [Frame(0, words("▒▒ ends"))]
    picture = animation(Terminal(40, 5), frames, ends_s=1, still=frames[0].screen, title="a block")
    (block,) = (each for each in parsed(picture).iter(f"{SVG}rect") if each.get("fill-opacity"))
    assert block.get("width") == "16.8"
    assert visible(picture, 0) == {"ends"}


@pytest.mark.parametrize("name", ["demo.svg", "report.svg"])
def test_picture_of_a_page_is_whole(name: str) -> None:
    parsed((PICTURES / name).read_text(encoding="utf-8"))
    assert f"docs/pictures/{name}" in (ROOT / "README.md").read_text(encoding="utf-8")


@pytest.mark.parametrize("name", console_pictures.PICTURES)
def test_picture_of_the_console_is_whole(name: str) -> None:
    parsed((PICTURES / name).read_text(encoding="utf-8"))
    pages = [ROOT / "docs" / "how-to" / page for page in ("console.md", "past.md")]
    assert any(f"../pictures/{name}" in page.read_text(encoding="utf-8") for page in pages)


@pytest.mark.slow
def test_pictures_of_the_console_are_taken(tmp_path: Path) -> None:
    if (executable := chromium()) is None:
        pytest.skip(WHY_NONE)
    pictures = console_pictures.take(tmp_path, executable)
    assert tuple(pictures) == console_pictures.PICTURES
    for picture in pictures.values():
        parsed(picture)
    assert "cooperative-sticky" in pictures["console-group.svg"]
    assert "importer" in pictures["console.svg"]
    assert "had no owner" in pictures["console-past.svg"]


def test_still_picture_of_the_demo_is_its_end() -> None:
    picture = (PICTURES / "demo.svg").read_text(encoding="utf-8")
    assert {"coterie demo", STEPS[-1].name} <= visible(picture, None)
    assert "$ coterie demo" in visible(picture, 0)
    assert "partition-seconds" in visible(picture, 0.99)


@pytest.mark.slow
def test_demo_is_recorded(tmp_path: Path) -> None:
    picture = record(tmp_path, speed=10, steps=STEPS[:2])
    assert {"$ coterie demo"} == visible(picture, 0)
    assert {"coterie demo", "cooperative", "eager"} <= visible(picture, None)
    assert list((tmp_path / "journal").iterdir())


def test_report_becomes_a_picture() -> None:
    picture = picture_of(page(report(detail(HOSTILE), detail("billing"))), "billing")
    root = parsed(picture)
    lanes = [each for each in root.iter() if "lane" in each.get("class", "").split()]
    assert len(lanes) > 3
    assert "Who owned what" in picture
