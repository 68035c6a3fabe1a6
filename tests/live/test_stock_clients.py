"""The stock clients of Python against a live daemon, each in processes of its own.

They all go through `tests/live/lifecycle.py` once, at the same time; each test looks at one phase.
"""

from __future__ import annotations

import pytest

from tests.live.daemon import Daemon
from tests.live.lifecycle import Lifecycle, run_lifecycles
from tests.live.lifecycle_tests import *  # noqa: F403 - the tests
from tests.live.member import CLIENTS, Client
from tests.live.topic_growth import *  # noqa: F403 - the test
from tests.live.topic_growth import Growth, grow_under

pytestmark = pytest.mark.parametrize("client", CLIENTS, ids=str)


@pytest.fixture(scope="module")
def lifecycles(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Lifecycle]:
    """Take all clients through the lifecycle."""
    return run_lifecycles(CLIENTS, daemon, tmp_path_factory.mktemp("members"))


@pytest.fixture
def lifecycle(client: Client, lifecycles: dict[str, Lifecycle]) -> Lifecycle:
    """What one client saw."""
    return lifecycles[client.name]


@pytest.fixture(scope="module")
def growths(daemon: Daemon, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Growth]:
    """Let the topics of all clients grow."""
    return grow_under(CLIENTS, daemon, tmp_path_factory.mktemp("growing"))


@pytest.fixture
def growth(client: Client, growths: dict[str, Growth]) -> Growth:
    """What one client did."""
    return growths[client.name]
