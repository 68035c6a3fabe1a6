"""Runs the selected scenarios, setup by setup, for the tests that compare their transcripts."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.differential.broker_pair import BrokerPair, ScenarioRunner
from tests.interop.differential.scenario import Scenario


@pytest.fixture(scope="session")
def runner(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[ScenarioRunner]:
    """Runs scenarios; a setup is run as a whole when it is first asked for."""
    pair = BrokerPair(tmp_path_factory.mktemp("differential"))
    try:
        yield ScenarioRunner(pair, _selected(request.session.items))
    finally:
        pair.close()


def _selected(items: list[pytest.Item]) -> list[Scenario]:
    """The scenarios of the selected tests."""
    parameters = (getattr(item, "callspec", None) for item in items)
    values = (spec.params.get("scenario") for spec in parameters if spec is not None)
    return [value for value in values if isinstance(value, Scenario)]
