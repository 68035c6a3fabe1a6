"""Bootstrap addresses, as people write them."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_client.errors import ConfigurationError
from coterie_client.wire import parse_bootstrap
from coterie_client.wire.addresses import NodeAddress


@pytest.mark.parametrize(
    ("written", "read"),
    [
        ("one:1", [("one", 1)]),
        ("one:1, two:2,", [("one", 1), ("two", 2)]),
        ("[::1]:9092,10.0.0.1:9093", [("::1", 9092), ("10.0.0.1", 9093)]),
        (["one:1", "two:2,three:3"], [("one", 1), ("two", 2), ("three", 3)]),
        (NodeAddress("one", 1), [("one", 1)]),
        ([NodeAddress("::1", 1), "two:2"], [("::1", 1), ("two", 2)]),
        ("one:1,one:1", [("one", 1)]),
    ],
)
def test_strings_lists_and_addresses_are_parsed(written: Any, read: list[tuple[str, int]]) -> None:
    assert parse_bootstrap(written) == tuple(NodeAddress(*pair) for pair in read)


@pytest.mark.parametrize(
    ("written", "complaint"),
    [
        ("", "at least one address"),
        ([], "at least one address"),
        (" , ", "at least one address"),
        ("host", "bootstrap must be HOST:PORT"),
        (":9092", "bootstrap must be HOST:PORT"),
        ("host:", "bootstrap must be HOST:PORT"),
        ("host:http", "bootstrap must be HOST:PORT"),
        ("host:٣", "bootstrap must be HOST:PORT"),
        ("[]:9092", "bootstrap must be HOST:PORT"),
        ("host:0", "port from 1 to 65535"),
        ("host:65536", "port from 1 to 65535"),
        ("host:" + "9" * 5000, "port from 1 to 65535"),
        ("::1:9092", "in brackets"),
        ("http://host:9092", "with no protocol before it, got 'http://host:9092'"),
        (9092, "bootstrap must be HOST:PORT, or several of that, got 9092"),
        (b"host:1", "got b'host:1'"),
        ([None], "each of bootstrap must be HOST:PORT, got None"),
        (NodeAddress("", 1), "the host in bootstrap"),
        (NodeAddress("host", port=True), "the port in bootstrap .*, got True"),
    ],
)
def test_invalid_addresses_are_refused(written: Any, complaint: str) -> None:
    with pytest.raises(ConfigurationError, match=complaint):
        parse_bootstrap(written)


@pytest.mark.parametrize("address", ["host:9092", "[::1]:9092"])
def test_address_prints_as_it_was_written(address: str) -> None:
    assert str(parse_bootstrap(address)[0]) == address
