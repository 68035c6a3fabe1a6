"""The one coordinator that all these tests have."""

from __future__ import annotations

import re
from collections.abc import Iterator
from pathlib import Path

import pytest

pytest.register_assert_rewrite(
    "tests.live.lifecycle_tests",
    "tests.live.coterie_scaling",
    "tests.live.coterie_mixed",
    "tests.live.coterie_static",
)

from coterie_server.journal import verify  # noqa: E402 - see above
from tests.docker.container import Container  # noqa: E402 - see above
from tests.live.group import LiveGroup  # noqa: E402 - see above


@pytest.fixture(scope="session")
def container(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Container]:
    """Give the coordinator; in the end its journal has to be whole."""
    with Container(tmp_path_factory.mktemp("container")) as container:
        yield container
    report = verify(container.data_dir / "journal")
    assert report.is_whole, report


@pytest.fixture(scope="session")
def address(container: Container) -> str:
    """Give the address of the coordinator."""
    return container.address


@pytest.fixture
def live_group(
    container: Container, request: pytest.FixtureRequest, tmp_path: Path
) -> Iterator[LiveGroup]:
    """Give a group of its own to the test."""
    name = re.sub(r"[^A-Za-z0-9]+", "-", request.node.name)
    with LiveGroup(container, name, tmp_path) as live_group:
        yield live_group
