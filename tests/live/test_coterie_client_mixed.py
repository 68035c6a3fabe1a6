"""Our client on a live daemon, in groups with the stock clients of Python."""

from __future__ import annotations

import pytest

from tests.live.coterie_mixed import *  # noqa: F403 - the tests
from tests.live.daemon import Daemon

pytestmark = pytest.mark.slow


@pytest.fixture(scope="module")
def address(daemon: Daemon) -> str:
    """Give the address of the shared daemon."""
    return daemon.address
