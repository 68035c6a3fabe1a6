"""By which names a node may be asked."""

from __future__ import annotations

import pytest

from coterie_server.http import (
    AllowedHosts,
)


@pytest.mark.parametrize(
    "host",
    [
        None,
        "localhost",
        "LOCALHOST:9080",
        "coterie.localhost",
        "127.0.0.1:9080",
        "10.1.2.3",
        "[::1]:9080",
        "[2001:db8::1]",
        "coordinator.example:9080",
        "Coordinator.example.",
    ],
)
def test_own_names(host: str | None) -> None:
    assert AllowedHosts(["coordinator.example"]).allow(host)


@pytest.mark.parametrize(
    "host",
    ["", "evil.example", "localhost.evil.example", "127.0.0.1.evil.example", "x.coordinator", ":1"],
)
def test_names_of_others(host: str) -> None:
    assert not AllowedHosts(["coordinator", ""]).allow(host)


def test_any_name() -> None:
    """For nodes whose address is guarded by other means."""
    assert AllowedHosts(["*"]).allow("evil.example")
