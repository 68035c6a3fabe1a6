"""What the tests of what is told of groups share: a coordinator, and a history of it."""

from __future__ import annotations

import pytest

from coterie_server.history import History
from tests.support.watched_world import Observe, WatchedWorld


@pytest.fixture
def history() -> History:
    """A history that remembers ten rebalances of each group."""
    return History(10)


@pytest.fixture
def observers(history: History) -> list[Observe]:
    """What is handed every event; a module may have others."""
    return [history.observe]


@pytest.fixture
def world(observers: list[Observe]) -> WatchedWorld:
    """A coordinator of a topic with four partitions that does not delay first rebalances."""
    return WatchedWorld(*observers, initial_rebalance_delay_ms=0)
