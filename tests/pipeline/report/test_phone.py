"""On a phone nothing is cut off: what is too wide scrolls by itself."""

from __future__ import annotations

import html
import json
import re
import subprocess
from pathlib import Path
from typing import Any

import pytest

from coterie_pipeline.report.page import page
from tests.pipeline.report.samples import detail, report
from tools.pictures.chromium import WHY_NONE, chromium, chromium_arguments

_CHROMIUM = chromium()

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(_CHROMIUM is None, reason=WHY_NONE),
]

#: Of each table: whether it is in a box that scrolls, and where that ends.
_MEASURE = """
document.querySelectorAll("details").forEach(each => { each.open = true; });
const found = [...document.querySelectorAll("table")].map(table => {
  const box = table.parentElement;
  return {
    right: box.getBoundingClientRect().right,
    scrolls: getComputedStyle(box).overflowX === "auto",
  };
});
parent.document.body.textContent = JSON.stringify({ width: innerWidth, tables: found });
"""


def measured(folder: Path, width: int) -> Any:
    """What a browser of this width makes of a page."""
    text = page(report(detail()))
    # A script that the page's own policy would not run.
    text = re.sub(r"<meta http-equiv[^>]*/>", "", text).replace(
        "</body>", f"<script>{_MEASURE}</script></body>"
    )
    # A window can't be as narrow as a phone.
    frame = f'<iframe width="{width}" height="800" srcdoc="{html.escape(text)}"></iframe>'
    path = folder / "page.html"
    path.write_text(f"<!DOCTYPE html><body>{frame}</body>", encoding="utf-8")
    command = [
        *(str(_CHROMIUM), *chromium_arguments(), "--headless", "--disable-gpu", "--dump-dom"),
        *(f"--user-data-dir={folder}/profile", "--window-size=1400,900", path.as_uri()),
    ]
    done = subprocess.run(command, check=True, capture_output=True, text=True, timeout=120)
    body = re.search(r"<body>(.*)</body>", done.stdout, re.DOTALL)
    assert body is not None
    return json.loads(html.unescape(body[1]))


@pytest.mark.parametrize("width", [390, 1280])
def test_tables_scroll_within_the_page(width: int, tmp_path: Path) -> None:
    found = measured(tmp_path, width)
    assert len(found["tables"]) >= 4
    for table in found["tables"]:
        assert table["scrolls"]
        assert table["right"] <= found["width"]
