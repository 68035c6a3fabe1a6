"""What the tests of the examples share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.live.daemon import Daemon


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a running daemon with the topic that stock clients share; other examples make theirs."""
    # Programs that start together are to be in one generation.
    settings = {"group.initial.rebalance.delay.ms": 1000}
    folder = tmp_path_factory.mktemp("daemon")
    with Daemon(folder, settings=settings, topics={"shards": 6}) as daemon:
        yield daemon
