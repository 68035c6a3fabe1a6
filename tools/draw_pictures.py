"""Make the pictures of the README and the documentation from what the programs show.

`python -m tools.draw_pictures` plays the demo once, which takes a minute, records its screens, has
the pipeline make a report of what its coordinator wrote down, which needs Java, and looks at the
console with the system's Chromium.  `python -m tools.draw_pictures console` does the last only.
"""

from __future__ import annotations

import sys
import tempfile
from pathlib import Path
from typing import Final

from tools.pictures import console, demo, report
from tools.pictures.chromium import chromium

__all__ = ["PICTURES", "main"]

PICTURES: Final = Path(__file__).resolve().parents[1] / "docs" / "pictures"

#: The group that has more to show: the demo's groups are named after their assignors.
_EAGER: Final = "range"


def main() -> int:
    """Write the pictures."""
    PICTURES.mkdir(exist_ok=True)
    if sys.argv[1:] != ["console"]:
        _draw_demo_and_report()
    if (executable := chromium()) is None:
        print("There is no Chromium, so the pictures of the console stay as they are.")
        return 1
    with tempfile.TemporaryDirectory() as folder:
        for name, picture in console.take(Path(folder), executable).items():
            _write(name, picture)
    return 0


def _draw_demo_and_report() -> None:
    with tempfile.TemporaryDirectory() as folder:
        data = Path(folder) / "data"
        print("Playing the demo ...")
        _write("demo.svg", demo.record(data))
        page = report.report_of(data / "journal", Path(folder))
        _write("report.svg", report.picture_of(page, _EAGER))


def _write(name: str, picture: str) -> None:
    path = PICTURES / name
    path.write_text(picture, encoding="utf-8")
    print(f"{path}: {len(picture.encode()) // 1000} kB")


if __name__ == "__main__":
    sys.exit(main())
