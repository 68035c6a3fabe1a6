"""Addresses come out as Kafka prints them."""

from __future__ import annotations

import pytest

from coterie_server.net.addresses import Peer, kafka_host


@pytest.mark.parametrize(
    ("address", "expected"),
    [
        ("127.0.0.1", "/127.0.0.1"),
        ("::1", "/0:0:0:0:0:0:0:1"),
        ("2001:db8::ff00:42:8329", "/2001:db8:0:0:0:ff00:42:8329"),
        ("::ffff:192.0.2.7", "/192.0.2.7"),
        ("fe80::1%eth0", "/fe80:0:0:0:0:0:0:1%eth0"),
        ("unknown", "/unknown"),
        ("not:an:address", "/not:an:address"),
    ],
)
def test_kafka_host(address: str, expected: str) -> None:
    assert kafka_host(address) == expected


@pytest.mark.parametrize(
    ("address", "expected"), [("127.0.0.1", "127.0.0.1:9092"), ("::1", "[::1]:9092")]
)
def test_a_peer_is_told_with_its_port(address: str, expected: str) -> None:
    assert str(Peer(address, 9092)) == expected
