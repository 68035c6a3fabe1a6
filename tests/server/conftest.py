"""What the tests of a server's observers and pages share."""

from __future__ import annotations

from collections.abc import Iterator, MutableMapping
from typing import Any

import pytest
import structlog

from coterie_server.metrics import Metrics
from tests.support.watched_world import WatchedWorld


@pytest.fixture
def world() -> WatchedWorld:
    """A coordinator in virtual time, and its observers."""
    return WatchedWorld()


@pytest.fixture
def metrics(world: WatchedWorld) -> Metrics:
    """The metrics of that world."""
    return world.metrics


@pytest.fixture
def log() -> Iterator[list[MutableMapping[str, Any]]]:
    """The lines that are logged, which are not printed."""
    with structlog.testing.capture_logs() as lines:
        yield lines
