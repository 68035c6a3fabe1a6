"""Our client and the stock clients of Python in one group."""

from tests.live.coterie_mixed import *  # noqa: F403 - the tests
