"""What the tests of the live daemon share."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Final

import pytest

pytest.register_assert_rewrite(
    "tests.live.lifecycle_tests",
    "tests.live.coterie_scaling",
    "tests.live.coterie_mixed",
    "tests.live.coterie_static",
    "tests.live.topic_growth",
)

from tests.live.daemon import Daemon  # noqa: E402 - see above
from tests.live.group import ALL, TOPIC, LiveGroup  # noqa: E402 - see above

#: Groups need not wait for more members, and tests not for silent ones.
SETTINGS: Final = {"group.initial.rebalance.delay.ms": 0, "group.min.session.timeout.ms": 100}


@pytest.fixture(scope="session")
def daemon(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Daemon]:
    """Give a running daemon that the tests of a process share.

    They keep apart by the names of groups and topics and leave it running; a test that stops it
    starts it again.
    """
    folder = tmp_path_factory.mktemp("daemon")
    with Daemon(folder, settings=SETTINGS, topics={TOPIC: len(ALL)}) as daemon:
        yield daemon
    assert errors_in(daemon.whole_log()) == []


def errors_in(log: str) -> list[str]:
    """The lines of a daemon's log that speak of errors, and what it printed besides its log."""
    found = []
    for line in log.splitlines():
        if not line.startswith("{"):
            if " is ready on " not in line:
                found.append(line)
        elif json.loads(line)["level"] in ("error", "critical"):
            found.append(line)
    return found


@pytest.fixture
def live_group(
    daemon: Daemon, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[LiveGroup]:
    """Give a group of its own to the test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    with LiveGroup(daemon, name, tmp_path) as live_group:
        yield live_group
