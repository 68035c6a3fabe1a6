"""A server with several listeners: each client is told the address of the one it came in by."""

from __future__ import annotations

import asyncio
from typing import Any, Final

import pytest

from coterie_protocol import API_VERSIONS, ApiKey
from coterie_protocol import messages as m
from coterie_server.server import Address, ListenerOptions, Server, ServerError, ServerOptions
from tests.live.wire import Wire

pytestmark = pytest.mark.asyncio

ANYWHERE: Final = Address("127.0.0.1", 0)
INSIDE: Final = Address("coordinator", 9092)
OUTSIDE: Final = Address("machine.example", 19092)
OPTIONS: Final = ServerOptions(
    listeners=(
        ListenerOptions(ANYWHERE, INSIDE),
        ListenerOptions(ANYWHERE, OUTSIDE, "OUTSIDE"),
        ListenerOptions(ANYWHERE, name="ITSELF"),
    )
)


async def ask(server: Server, listener: str, message: Any, version: int) -> Any:
    """Ask a server by one of its listeners."""
    wire = await Wire.open(server.addresses[listener].port)
    try:
        async with asyncio.timeout(60):
            return await wire.ask(message, version)
    finally:
        wire.close()


def versions_of(api: ApiKey) -> range:
    """All versions that are spoken."""
    return range(API_VERSIONS[api].first, API_VERSIONS[api].last + 1)


async def test_metadata_name_the_listeners_address() -> None:
    request = m.MetadataRequest(topics=())
    async with Server(OPTIONS) as server:
        told = {"default": INSIDE, "OUTSIDE": OUTSIDE, "ITSELF": server.addresses["ITSELF"]}
        for version in versions_of(ApiKey.METADATA):
            for listener, address in told.items():
                (broker,) = (await ask(server, listener, request, version)).brokers
                assert Address(broker.host, broker.port) == address


async def test_coordinator_is_found_at_the_listeners_address() -> None:
    async with Server(OPTIONS) as server:
        told = {"default": INSIDE, "OUTSIDE": OUTSIDE, "ITSELF": server.addresses["ITSELF"]}
        for version in versions_of(ApiKey.FIND_COORDINATOR):
            for listener, address in told.items():
                keys = {"coordinator_keys": ("g",)} if version >= 4 else {"key": "g"}
                request = m.FindCoordinatorRequest(**keys)
                answer = await ask(server, listener, request, version)
                found = answer.coordinators[0] if version >= 4 else answer
                assert Address(found.host, found.port) == address


async def test_advertised_port_0_is_the_port_listened_on() -> None:
    listener = ListenerOptions(ANYWHERE, Address("machine.example", 0))
    async with Server(ServerOptions(listeners=(listener,))) as server:
        answer = await ask(server, "default", m.MetadataRequest(topics=()), 1)
        assert answer.brokers[0].port == server.address.port


async def test_address_in_use_is_named_and_the_others_are_given_back() -> None:
    async with Server(OPTIONS) as first:
        listeners = (
            ListenerOptions(ANYWHERE),
            ListenerOptions(first.addresses["ITSELF"], name="TAKEN"),
        )
        second = Server(ServerOptions(listeners=listeners))
        with pytest.raises(ServerError, match=r"can't listen on TAKEN://.*: Address already in us"):
            await second.start()
        with pytest.raises(ConnectionRefusedError):
            await ask(second, "default", m.MetadataRequest(topics=()), 1)
