"""Fixtures for pytest, loaded as a plugin wherever Coterie is installed.

- `coterie_coordinator`: makes coordinators on loopback ports, for any client.
- `coterie_cluster`: makes clusters in virtual time, for code that uses Coterie's own client.
"""

from __future__ import annotations

import itertools
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from coterie_testing.kit import Cluster, LoopbackCoordinator

__all__ = ["coterie_cluster", "coterie_coordinator"]

# The fixtures import what they need, so that test runs which do not use them pay nothing.


@pytest.fixture
def coterie_coordinator(tmp_path: Path) -> Iterator[Callable[..., LoopbackCoordinator]]:
    """Make coordinators on loopback ports: ``coterie_coordinator({"orders": 4})``."""
    from coterie_testing.kit import LoopbackCoordinator  # noqa: PLC0415

    with ExitStack() as stack:

        def make(
            topics: Mapping[str, int] | None = None,
            **settings: Any,  # noqa: ANN401
        ) -> LoopbackCoordinator:
            folder = tmp_path / f"coterie-{next(numbers)}"
            folder.mkdir()
            coordinator = LoopbackCoordinator(topics, settings=settings, folder=folder)
            return stack.enter_context(coordinator)

        numbers = itertools.count()
        yield make


@pytest.fixture
def coterie_cluster() -> Iterator[Callable[..., Cluster]]:
    """Make clusters in virtual time: ``coterie_cluster({"orders": 4}, seed=7)``."""
    from coterie_testing.kit import Cluster  # noqa: PLC0415

    with ExitStack() as stack:

        def make(
            topics: Mapping[str, int] | None = None,
            *,
            seed: int = 0,
            **settings: Any,  # noqa: ANN401
        ) -> Cluster:
            return stack.enter_context(Cluster(topics, seed=seed, settings=settings))

        yield make
