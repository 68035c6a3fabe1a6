"""What the tests of clients in other languages share."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

pytest.register_assert_rewrite(
    *("tests.live.lifecycle_tests", "tests.live.topic_growth"),
    *("tests.ha.nodes", "tests.ha.raw_group"),
)

from tests.live.conftest import SETTINGS, errors_in  # noqa: E402 - see above
from tests.live.daemon import Daemon  # noqa: E402 - see above
from tests.live.group import ALL, TOPIC  # noqa: E402 - see above


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a running daemon that the tests share, as those of `tests/live` do."""
    folder = tmp_path_factory.mktemp("daemon")
    with Daemon(folder, settings=SETTINGS, topics={TOPIC: len(ALL)}) as daemon:
        yield daemon
    assert errors_in(daemon.whole_log()) == []
