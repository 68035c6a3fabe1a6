"""The contract of the administrator's client, with a server of ours in this process."""

from __future__ import annotations

from collections.abc import AsyncIterator

import pytest_asyncio

from coterie_server.config.settings import Settings
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.client.admin.contract import AdminContract


class TestCoterie(AdminContract):
    """Coterie keeps to the contract."""

    @pytest_asyncio.fixture
    async def address(self) -> AsyncIterator[str]:
        """Start a server."""
        settings = Settings(group_initial_rebalance_delay_ms=0)
        options = ServerOptions(settings, listeners=(ListenerOptions(Address("127.0.0.1", 0)),))
        async with Server(options) as server:
            yield str(server.address)
