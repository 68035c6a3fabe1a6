"""The same scenarios with a real Kafka broker and with Coterie: their transcripts agree."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Final

import pytest

from tests.interop.differential.differences import ALL
from tests.interop.differential.scenario import SCENARIOS, Scenario, Stage
from tests.interop.differential.scenarios import every
from tests.interop.differential.theatre import Theatre
from tests.interop.differential.transcript import compare

pytestmark = pytest.mark.interop

_DOCUMENT: Final = Path(__file__).parents[3] / "docs" / "kafka-compatibility.md"
_SECTION: Final = re.compile(r"^### .*\{#(?P<name>[a-z-]+)\}$", re.MULTILINE)

assert every.__all__
_BY_STAGE: Final = sorted(SCENARIOS.values(), key=lambda s: list(Stage).index(s.stage))


@pytest.mark.parametrize("scenario", _BY_STAGE, ids=lambda scenario: scenario.name)
def test_scenario(theatre: Theatre, scenario: Scenario) -> None:
    """Kafka and Coterie answer alike, but for the differences that the scenario declares."""
    outcome = theatre.outcome(scenario)
    if outcome is None:
        assert scenario.needs is not None
        api, version = scenario.needs
        pytest.skip(f"this Kafka does not speak {api.title} v{version}")
    problems = compare(outcome.kafka, outcome.coterie)
    assert not problems, "\n".join([scenario.sentence, *problems])


def test_every_difference_is_met(theatre: Theatre) -> None:
    """Each deliberate difference shows in a scenario, unless it says why it can't."""
    if not theatre.is_complete:
        pytest.skip("not all scenarios were played")
    expected = {name for name, difference in ALL.items() if not difference.not_shown}
    assert {difference.name for difference in theatre.declared} == expected


def test_every_difference_is_documented() -> None:
    """The document has a section for each difference, with its reason, and no other."""
    sections = _sections(_DOCUMENT.read_text(encoding="utf-8"))
    assert list(sections) == sorted(sections, key=list(ALL).index)
    assert sections.keys() == ALL.keys()
    for name, difference in ALL.items():
        assert difference.reason in sections[name], name


def test_there_are_many_scenarios() -> None:
    """A stage or a module that is no longer collected would go unnoticed."""
    functions = {re.sub(r"-v\d+$", "", name) for name in SCENARIOS}
    assert len(functions) >= 120
    assert {scenario.stage for scenario in SCENARIOS.values()} == set(Stage)


def _sections(text: str) -> dict[str, str]:
    """The text of each section about a difference, its lines joined."""
    starts = list(_SECTION.finditer(text))
    ends = [start.start() for start in starts[1:]] + [len(text)]
    return {
        start["name"]: " ".join(text[start.end() : end].split())
        for start, end in zip(starts, ends, strict=True)
    }
