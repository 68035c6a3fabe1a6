"""The scenarios that are to be played, and what came of those that were."""

from __future__ import annotations

from collections.abc import Sequence

from tests.interop.differential.differences import Difference
from tests.interop.differential.scenario import SCENARIOS, Scenario, Stage
from tests.interop.differential.stage import Outcome, Pair

__all__ = ["Theatre"]


class Theatre:
    """Plays each stage once, with all of its scenarios at the same time."""

    def __init__(self, pair: Pair, scenarios: Sequence[Scenario]) -> None:
        """Play `scenarios` with a pair that is not open yet."""
        self._pair = pair
        self._scenarios = scenarios
        self._played: set[Stage] = set()
        self._outcomes: dict[str, Outcome] = {}
        self._declared: set[Difference] = set()

    @property
    def is_complete(self) -> bool:
        """Whether all the scenarios there are have been played or could not be."""
        return len(self._scenarios) == len(SCENARIOS) and self._played == set(Stage)

    @property
    def declared(self) -> set[Difference]:
        """The deliberate differences that were met so far."""
        return self._declared

    def outcome(self, scenario: Scenario) -> Outcome | None:
        """What came of a scenario; None if this Kafka does not speak what it needs."""
        if scenario.stage not in self._played:
            self._play(scenario.stage)
        return self._outcomes.get(scenario.name)

    def _play(self, stage: Stage) -> None:
        self._played.add(stage)
        self._pair.open(stage)
        scenarios = [
            each
            for each in self._scenarios
            if each.stage is stage and (each.needs is None or self._pair.kafka_speaks(*each.needs))
        ]
        outcomes = self._pair.play(scenarios)
        self._outcomes |= outcomes
        for outcome in outcomes.values():
            self._declared.update(outcome.coterie.declared())
