"""A coordinator whose pages a directory asks."""

from __future__ import annotations

import pytest

from tests.server.http.pages import Node
from tests.support.watched_world import WatchedWorld


@pytest.fixture
def world() -> WatchedWorld:
    """A coordinator in virtual time."""
    return WatchedWorld()


@pytest.fixture
def node(world: WatchedWorld) -> Node:
    """Its node."""
    return Node(world)
