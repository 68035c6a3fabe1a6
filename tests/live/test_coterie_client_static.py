"""Our client on a live daemon: static members, and members that change their assignors."""

from __future__ import annotations

import pytest

from tests.live.coterie_static import *  # noqa: F403 - the tests
from tests.live.daemon import Daemon

pytestmark = pytest.mark.slow


@pytest.fixture
def address(daemon: Daemon) -> str:
    """Give the address of the shared daemon."""
    return daemon.address
