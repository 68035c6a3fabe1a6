"""How scenarios of a few lines become one journal.

Each scenario is about a group of its own, on nodes of its own, so that all of them make one journal
that Spark has to read only once.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from tests.support.journal_builder import JournalBuilder

__all__ = ["ScenarioList", "write_scenarios"]

_Scenario = Callable[[], JournalBuilder]


@dataclass(frozen=True, slots=True)
class ScenarioList:
    """The scenarios of a module; as a decorator, it takes one in."""

    scenarios: list[_Scenario] = field(default_factory=list)

    def __call__(self, build: _Scenario) -> _Scenario:
        """Take a scenario in."""
        self.scenarios.append(build)
        return build


def write_scenarios(lists: Iterable[ScenarioList], folder: Path) -> list[Path]:
    """Write the journal of all scenarios."""
    scribes = [build() for scenario_list in lists for build in scenario_list.scenarios]
    _check_apart(scribes)
    return [path for builder in scribes for path in builder.write(folder)]


def _check_apart(scribes: Iterable[JournalBuilder]) -> None:
    # Two scenarios of one name would be one scenario, and two of one file would lose one.
    seen: set[str] = set()
    for builder in scribes:
        names = {builder.group, *builder.files}
        assert not names & seen, f"another scenario is called so: {sorted(names & seen)}"
        seen |= names
