"""Where a node inside of a program says that it is."""

from __future__ import annotations

import pytest

from coterie_server.embedded import own_address


@pytest.mark.parametrize(
    ("store", "hosts", "address"),
    [
        ("postgresql://ann:s3cret@one.example:6432/x", ["one.example"], "10.0.0.1"),
        ("postgresql://one.example,[::1]:6432/x", ["one.example"], "10.0.0.1"),
        ("postgresql://away.example,one.example/x", ["away.example", "one.example"], "10.0.0.1"),
        ("postgresql://away.example/x", ["away.example"], "127.0.0.1"),
        ("postgresql:///x", [], "127.0.0.1"),
        ("postgresql://o[ne/x", [], "127.0.0.1"),
        ("sqlite:/var/lib/a", [], "127.0.0.1"),
        ("memory:", [], "127.0.0.1"),
    ],
)
def test_own_address_is_that_towards_the_first_server_that_is_known(
    store: str, hosts: list[str], address: str
) -> None:
    asked = []

    def towards(host: str) -> str:
        asked.append(host)
        if host == "away.example":
            raise OSError
        return "10.0.0.1"

    assert own_address(store, towards) == address
    assert asked == hosts
