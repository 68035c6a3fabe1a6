"""Two coordinators on one store, for the tests of fail-over."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from uuid import uuid4

import pytest

pytest.register_assert_rewrite("tests.ha.nodes", "tests.ha.raw_group")

from tests.ha.nodes import Nodes, running_nodes  # noqa: E402 - see above

#: How many cases of each test are among the slow ones; all of them take a quarter of an hour.
CASES_AMONG_THE_SLOW = 2

TOPIC = "work"
PARTITIONS = 6


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Leave most cases of each test to `make failover`: those in the middle."""
    here = [item for item in items if item.path.is_relative_to(Path(__file__).parent)]
    by_test: dict[str, list[pytest.Item]] = {}
    for item in here:
        by_test.setdefault(item.nodeid.partition("[")[0], []).append(item)
    for cases in by_test.values():
        for case in cases[1 : len(cases) - CASES_AMONG_THE_SLOW + 1]:
            case.add_marker("failover")


@pytest.fixture(params=["sqlite", "postgres"])
def store(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of an empty store that several processes can use."""
    if request.param == "sqlite":
        return f"sqlite:{tmp_path / 'shared.db'}"
    url: str = request.getfixturevalue("postgres").url(schema=f"ha_{uuid4().hex[:12]}")
    return url


@pytest.fixture
def nodes(store: str, tmp_path: Path) -> Iterator[Nodes]:
    """Two nodes that have shared out the shards."""
    with running_nodes(store, tmp_path, {TOPIC: PARTITIONS}) as nodes:
        nodes.wait_until_shared()
        yield nodes
        for node in nodes.both:
            assert bugs_in(node.log()) == [], node.log()


def bugs_in(log: str) -> list[str]:
    """The lines of a log that tell of bugs, or that are none of a log."""
    found = []
    for line in log.splitlines():
        told = json.loads(line) if line.startswith("{") else {"event": "a bug: no line of a log"}
        if told["event"].startswith("a bug") or "exception" in told:
            found.append(line)
    return found
