"""What a client asks before anything else."""

from __future__ import annotations

import pytest

from coterie_protocol import API_VERSIONS
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.address import Address
from coterie_server.serving.cluster import Neighbour
from coterie_server.serving.discovery import (
    HttpAddresses,
    api_versions,
    find_coordinator,
)
from tests.support.turns import finished

HERE = Address("host", 9092)


def here(_group: str) -> Neighbour:
    """A node that has all groups."""
    return Neighbour(7, HERE)


def software(name: str, version: str = "1.0") -> m.ApiVersionsRequest:
    """A client that says what it is."""
    return m.ApiVersionsRequest(client_software_name=name, client_software_version=version)


def test_api_versions_lists_every_api_and_version() -> None:
    """Produce too, by which librdkafka judges what a broker can do."""
    answer = api_versions(m.ApiVersionsRequest(), 0)
    told = {key.api_key: (key.min_version, key.max_version) for key in answer.api_keys}
    assert told == {api: (v.first, v.last) for api, v in API_VERSIONS.items()}


@pytest.mark.parametrize("name", ["", "-kafka", "kafka-", "my client", "\N{SNOWMAN}"])
def test_a_client_must_have_a_proper_name(name: str) -> None:
    """As in Kafka (KIP-511), from version 3 on."""
    assert api_versions(software(name), 3).error_code == ErrorCode.INVALID_REQUEST
    assert api_versions(software("kafka", name), 4).error_code == ErrorCode.INVALID_REQUEST
    assert api_versions(software(name), 2).error_code == ErrorCode.NONE


def test_http_address_is_told_to_those_who_ask() -> None:
    """No stock client finds a field in its answer that it does not know."""
    assert api_versions(software("coterie"), 3, "h:9080").http_address == ""
    asked = m.ApiVersionsRequest(
        client_software_name="coterie", client_software_version="1", wants_http=True
    )
    assert api_versions(asked, 3, "h:9080").http_address == "h:9080"


@pytest.mark.parametrize(
    ("http", "client", "told"),
    [
        (None, "/127.0.0.1", ""),
        (("127.0.0.1", 9080), "/127.0.0.1", "127.0.0.1:9080"),
        (("localhost", 9080), "/0:0:0:0:0:0:0:1", "localhost:9080"),
        (("::1", 9080), "/127.0.0.1", "[::1]:9080"),
        (("127.0.0.1", 9080), "/10.0.0.7", ""),
        (("10.0.0.1", 9080), "/10.0.0.7", "10.0.0.1:9080"),
        (("0.0.0.0", 9080), "/10.0.0.7", ":9080"),  # noqa: S104 - the address that is tested
        (("::", 9080), "/127.0.0.1", ":9080"),
        (("node.example", 9080), "unknown", "node.example:9080"),
    ],
)
def test_http_address_is_one_that_the_client_can_reach(
    http: tuple[str, int] | None, client: str, told: str
) -> None:
    assert HttpAddresses(http).told_to(client, HERE) == told


def test_http_address_is_the_one_that_the_clients_listener_advertises() -> None:
    outside = Address("outside", 9092)
    addresses = HttpAddresses(("0.0.0.0", 9080), {outside: Address("::1", 19080)})  # noqa: S104 - told, not bound
    assert addresses.told_to("/10.0.0.7", outside) == "[::1]:19080"
    assert addresses.told_to("/10.0.0.7", HERE) == ":9080"
    assert HttpAddresses(None, {outside: HERE}).told_to("/10.0.0.7", outside) == ""


def test_in_old_versions_one_group_is_asked_for_and_this_node_told() -> None:
    answer = finished(find_coordinator(m.FindCoordinatorRequest(key="g"), 3, here))
    found = Address(answer.host, answer.port)
    assert (answer.error_code, answer.node_id, found) == (0, 7, HERE)


def test_since_version_4_many_coordinators_are_found_in_order() -> None:
    request = m.FindCoordinatorRequest(coordinator_keys=("b", "a"))
    answer = finished(find_coordinator(request, 4, here))
    assert [(c.key, c.node_id, c.error_code) for c in answer.coordinators] == [
        ("b", 7, 0),
        ("a", 7, 0),
    ]


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_a_group_that_no_node_has_is_to_be_asked_for_again(version: int) -> None:
    request = m.FindCoordinatorRequest(key="g", coordinator_keys=("g",))
    answer = finished(find_coordinator(request, version, lambda _group: None))
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.COORDINATOR_NOT_AVAILABLE, -1)


@pytest.mark.parametrize("version", [1, 3, 4, 6])
def test_transactions_have_no_coordinator_here(version: int) -> None:
    request = m.FindCoordinatorRequest(key="t", key_type=1, coordinator_keys=("t",))
    answer = finished(find_coordinator(request, version, here))
    found = answer.coordinators[0] if version >= 4 else answer
    assert (found.error_code, found.node_id) == (ErrorCode.INVALID_REQUEST, -1)
    assert "consumer groups" in (found.error_message or "")
