"""Who may come in, by their number, their address and their rate."""

from __future__ import annotations

import pytest

from coterie_server.address import Address
from coterie_server.net import Endpoint, Limits, RefuseReason, Terms
from coterie_server.net.admission import Admission, Refusal

INSIDE = Endpoint(Address("inside", 1), Terms("INSIDE"))
OUTSIDE = Endpoint(Address("outside", 1), Terms("OUTSIDE", max_connections=1, max_creation_rate=10))


def test_listener_has_a_limit_of_its_own() -> None:
    admission = Admission(Limits(max_connections=3))
    assert admission.enter("192.0.2.1", OUTSIDE) is None
    refusal = Refusal(RefuseReason.MAX_CONNECTIONS, 1, 1, listener="OUTSIDE")
    assert admission.enter("192.0.2.2", OUTSIDE) == refusal
    assert admission.enter("192.0.2.2", INSIDE) is None
    assert admission.enter("192.0.2.2", INSIDE) is None
    assert admission.enter("192.0.2.2", INSIDE) == Refusal(RefuseReason.MAX_CONNECTIONS, 3, 3)


def test_place_that_is_left_can_be_taken() -> None:
    admission = Admission(Limits(max_connections_per_ip=1))
    assert admission.enter("192.0.2.1", OUTSIDE) is None
    admission.leave("192.0.2.1", OUTSIDE)
    assert admission.enter("192.0.2.1", OUTSIDE) is None


@pytest.mark.parametrize(
    ("address", "allowed"), [("192.0.2.1", 1), ("192.0.2.2", 3), ("192.0.2.3", 0)]
)
def test_some_addresses_have_limits_of_their_own(address: str, allowed: int) -> None:
    overrides = {"192.0.2.2": 3, "192.0.2.3": 0}
    admission = Admission(
        Limits(max_connections_per_ip=1, max_connections_per_ip_overrides=overrides)
    )
    for _ in range(allowed):
        assert admission.enter(address, INSIDE) is None
    refusal = Refusal(RefuseReason.MAX_CONNECTIONS_PER_IP, allowed, allowed, address)
    assert admission.enter(address, INSIDE) == refusal


def test_a_seconds_worth_comes_at_once_and_the_next_ones_wait() -> None:
    admission = Admission(Limits(max_connection_creation_rate=4))
    waits = [admission.wait_s(100.0, INSIDE) for _ in range(7)]
    assert waits == [0, 0, 0, 0, 0, 0.25, 0.5]
    assert admission.wait_s(101.0, INSIDE) == 0


def test_rate_of_a_listener_holds_besides_that_of_all() -> None:
    admission = Admission(Limits(max_connection_creation_rate=1_000))
    waits = [admission.wait_s(100.0, OUTSIDE) for _ in range(12)]
    assert waits[:11] == [0] * 11
    assert waits[11] == pytest.approx(0.1)
    assert admission.wait_s(100.0, INSIDE) == 0


def test_refused_connection_takes_no_turn() -> None:
    admission = Admission(Limits(max_connection_creation_rate=1, first_byte_timeout_ms=1_500))
    waits = [admission.wait_s(0.0, INSIDE) for _ in range(5)]
    assert waits == [0, 0, 1, 2, 2]
