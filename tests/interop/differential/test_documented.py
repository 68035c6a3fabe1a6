"""What is said of the differences from Kafka, and of the scenarios: this needs no Kafka."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

from tests.interop.differential.differences import ALL
from tests.interop.differential.scenario import SCENARIOS, Setup
from tests.interop.differential.scenarios import every

_DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "kafka-compatibility.md"
_SECTION: Final = re.compile(r"^### .*\{#(?P<name>[a-z-]+)\}$", re.MULTILINE)

assert every.__all__


def test_every_difference_is_documented() -> None:
    sections = _sections(_DOCUMENT.read_text(encoding="utf-8"))
    assert list(sections) == sorted(sections, key=list(ALL).index)
    assert sections.keys() == ALL.keys()
    for name, difference in ALL.items():
        assert difference.reason in sections[name], name


def test_no_scenarios_are_missing() -> None:
    """A setup or a module that is no longer collected would go unnoticed."""
    functions = {re.sub(r"-v\d+$", "", name) for name in SCENARIOS}
    assert len(functions) >= 120
    assert {scenario.setup for scenario in SCENARIOS.values()} == set(Setup)


def _sections(text: str) -> dict[str, str]:
    """The text of each section about a difference, its lines joined."""
    starts = list(_SECTION.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {
        start["name"]: " ".join(text[start.end() : end].split())
        for start, end in zip(starts, ends, strict=True)
    }
