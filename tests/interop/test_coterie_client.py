"""Coterie's client on a real Kafka broker, with the tests of `tests/live`."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.interop.kafka_broker import KafkaBroker
from tests.live.coterie_mixed import *  # noqa: F403 - the tests
from tests.live.coterie_scaling import *  # noqa: F403 - the tests
from tests.live.coterie_static import *  # noqa: F403 - the tests

pytestmark = pytest.mark.interop


class _Backend(KafkaBroker):
    """A broker that may be killed."""

    @property
    def address(self) -> str:
        """Its address."""
        return self.bootstrap

    def crash(self) -> None:
        """Kill it, and start it again with the same data."""
        self.kill()
        self.start()


@pytest.fixture(scope="module")
def backend(
    kafka_toolchain: None,  # noqa: ARG001 - asked for its skip
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[_Backend]:
    """Give a broker of its own."""
    with _Backend(tmp_path_factory.mktemp("kafka") / "broker") as broker:
        yield broker


@pytest.fixture(scope="module")
def address(backend: _Backend) -> str:
    """The broker's address, for groups that end with their test."""
    return backend.address
