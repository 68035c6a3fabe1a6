"""Playing the selected scenarios, stage by stage, for the tests that compare what came of them."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.differential.scenario import Scenario
from tests.interop.differential.stage import Pair
from tests.interop.differential.theatre import Theatre


@pytest.fixture(scope="session")
def theatre(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    request: pytest.FixtureRequest,
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Theatre]:
    """Give what plays scenarios; a stage is played as a whole when it is first asked for."""
    pair = Pair(tmp_path_factory.mktemp("differential"))
    try:
        yield Theatre(pair, _selected(request.session.items))
    finally:
        pair.close()


def _selected(items: list[pytest.Item]) -> list[Scenario]:
    """The scenarios whose tests are to be run."""
    parameters = (getattr(item, "callspec", None) for item in items)
    values = (spec.params.get("scenario") for spec in parameters if spec is not None)
    return [value for value in values if isinstance(value, Scenario)]
