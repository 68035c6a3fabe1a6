"""The picture of the pipeline's report: the charts of one group, as the page has them.

The page is HTML.  An SVG may hold HTML, with the page's own style sheet, so nothing is drawn anew.
"""

from __future__ import annotations

import html
import re
import subprocess
import sys
from pathlib import Path
from typing import Final
from xml.etree import ElementTree as ET

__all__ = ["picture_of", "report_of"]

_WIDTH: Final = 960
_FRAME: Final = (
    "padding:20px;background:var(--ground);border:1px solid var(--line);border-radius:8px"
)
#: What the style sheet makes of everything but the charts' lanes: headings, the summary, margins.
_REST_HEIGHT: Final = 285
_SVG: Final = "http://www.w3.org/2000/svg"
_XHTML: Final = "http://www.w3.org/1999/xhtml"
_TITLE: Final = (
    "A report of the pipeline: the rebalances of a group and their causes, who owned which"
    " partition when, and its members"
)


def report_of(journal: Path, folder: Path) -> str:
    """Run the pipeline over a journal, and return the page that it writes."""
    command = (Path(sys.executable).with_name("coterie"), "pipeline")
    tables, page = folder / "tables", folder / "report.html"
    subprocess.run([*command, "run", journal, "--out", tables], check=True)
    subprocess.run([*command, "report", tables, "--output", page], check=True)
    return page.read_text(encoding="utf-8")


def picture_of(page: str, group_name: str) -> str:
    """An SVG of what the page says of a group, down to the last chart."""
    style = page.partition("<style>")[2].partition("</style>")[0]
    # Only script and style are no XML.
    body = re.sub(r"<script>.*?</script>", "", page.partition("</head>")[2], flags=re.DOTALL)
    root = ET.fromstring(body.removesuffix("</html>\n"))  # noqa: S314  # the pipeline's own page
    group = _found(root, f"section[@data-name='{group_name}']")
    shown = [
        _found(root, "svg[@class='patterns']"),
        _found(group, "h2"),
        _found(group, "p[@class='summary']"),
        _found(group, "div[@class='charts']"),
    ]
    for part in shown:
        _fit(part)
    height = _REST_HEIGHT + sum(_height(lane) for lane in shown[-1].iter("div"))
    inside = "".join(ET.tostring(part, encoding="unicode") for part in shown)
    style += f".picture{{height:{height}px;{_FRAME}}}"
    return (
        f'<svg xmlns="{_SVG}" viewBox="0 0 {_WIDTH} {height}" width="{_WIDTH}" height="{height}"'
        f' role="img">\n<title>{html.escape(_TITLE)}</title>\n'
        f"<style>{html.escape(style, quote=False)}</style>\n"
        f'<foreignObject width="{_WIDTH}" height="{height}"><body xmlns="{_XHTML}">\n'
        f'<div class="picture">{inside}</div>\n</body></foreignObject>\n</svg>\n'
    )


def _found(where: ET.Element, path: str) -> ET.Element:
    found = where.find(f".//{path}")
    if found is None:
        raise ValueError(f"the report has no {path}")
    return found


def _height(lane: ET.Element) -> int:
    """How high a lane is; other elements have none of their own."""
    window = lane.find("svg") if "lane" in lane.get("class", "").split() else None
    return 0 if window is None else max(16, int(window.get("height", "0")))


def _fit(part: ET.Element) -> None:
    """Make a part of the page a part of an image: in namespaces, and nothing to point at."""
    for each in list(part.iter()):
        for tooltip in each.findall("title"):
            each.remove(tooltip)
        for name in list(each.attrib):
            if name in ("href", "tabindex") or name.startswith("data-"):
                del each.attrib[name]
        if each.tag == "svg":
            each.set("xmlns", _SVG)
