"""The stock clients of Python, whose coordinator's container is stopped, and then killed."""

from __future__ import annotations

import pytest

from tests.docker.container import Container
from tests.live.lifecycle import Lifecycle, run_lifecycles
from tests.live.lifecycle_tests import *  # noqa: F403 - the tests
from tests.live.member import CLIENTS, Client

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=str)


@pytest.fixture(scope="module")
def lifecycles(
    container: Container, tmp_path_factory: pytest.TempPathFactory
) -> dict[str, Lifecycle]:
    """Take all clients through the lifecycle."""
    return run_lifecycles(CLIENTS, container, tmp_path_factory.mktemp("members"))


@pytest.fixture
def lifecycle(client: Client, lifecycles: dict[str, Lifecycle]) -> Lifecycle:
    """What one client saw."""
    return lifecycles[client.name]
