"""The same scenarios with a real Kafka broker and with Coterie: their transcripts agree."""

from __future__ import annotations

from typing import Final

import pytest

from tests.interop.differential.broker_pair import ScenarioRunner
from tests.interop.differential.differences import ALL
from tests.interop.differential.scenario import SCENARIOS, Scenario, Setup
from tests.interop.differential.scenarios import every
from tests.interop.differential.transcript import compare

pytestmark = pytest.mark.interop

assert every.__all__
_BY_STAGE: Final = sorted(SCENARIOS.values(), key=lambda s: list(Setup).index(s.setup))


@pytest.mark.parametrize("scenario", _BY_STAGE, ids=lambda scenario: scenario.name)
def test_scenario(runner: ScenarioRunner, scenario: Scenario) -> None:
    """Kafka and Coterie answer alike, but for the differences that the scenario declares."""
    outcome = runner.outcome(scenario)
    if outcome is None:
        assert scenario.needs is not None
        api, version = scenario.needs
        pytest.skip(f"this Kafka does not speak {api.title} v{version}")
    problems = compare(outcome.kafka, outcome.coterie)
    assert not problems, "\n".join([scenario.sentence, *problems])


def test_every_declared_difference_shows_in_a_scenario(runner: ScenarioRunner) -> None:
    if not runner.is_complete:
        pytest.skip("not all scenarios were played")
    expected = {name for name, difference in ALL.items() if not difference.not_shown}
    assert {difference.name for difference in runner.declared} == expected
