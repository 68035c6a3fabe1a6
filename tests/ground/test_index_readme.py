"""The README that goes to a package index, where there are no other files of the project."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tools.index_readme import for_index


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("the [quick start](docs/quick-start.md) takes", "the quick start takes"),
        ("[limits](docs/limits.md#time), too", "limits, too"),
        ("[`why`](docs/why.md)", "`why`"),
        ("[Kafka](https://example.org)", "[Kafka](https://example.org)"),
        ("[below](#status)", "[below](#status)"),
        ("Before.\n\n![The demo](docs/demo.svg)\n\nAfter.", "Before.\n\nAfter."),
        ("Before.\n\n![A](a.svg)\n\n*The `demo`.*\n\nAfter.", "Before.\n\nAfter."),
        ("![A](a.svg)\n\n**After** it.", "**After** it."),
        ("[![The demo](docs/demo.svg)](docs/demo.md)\nAfter.", "After."),
        ("![A badge](https://example.org/b.svg)\n", "![A badge](https://example.org/b.svg)\n"),
        ("```python\ntable[row](column)\n```\n", "```python\ntable[row](column)\n```\n"),
    ],
)
def test_links_to_files_become_text(text: str, shown: str) -> None:
    assert for_index(text) == shown


def test_readme_loses_nothing_but_links_and_pictures(root: Path) -> None:
    readme = (root / "README.md").read_text(encoding="utf-8")
    shown = for_index(readme)
    assert [line for line in readme.splitlines() if line.startswith(("#", "```"))] == [
        line for line in shown.splitlines() if line.startswith(("#", "```"))
    ]
    assert "picture" not in shown
    assert not re.search(r"^\*[^*]", shown, re.MULTILINE), "a caption without its picture"
    prose = re.sub(r"^```.*?^```$", "", shown, flags=re.MULTILINE | re.DOTALL)
    assert "docs/" not in re.sub(r"`[^`]*`", "", prose)
