"""What clients leave behind when they go, which is nothing, without Python's garbage collector.

The daemon lets it look seldom, and at what has been there for a while as good as never.  Until then
all stays that is in a cycle, with what its client has sent.
"""

from __future__ import annotations

import asyncio
import gc
import json
import threading
import time
from collections import Counter
from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Final

import pytest
import uvloop
from cryptography.hazmat.primitives.asymmetric import rsa
from jwt.algorithms import RSAAlgorithm

from coterie_server.config.settings import Settings
from coterie_server.config.sources import OfListener
from coterie_server.security import SecurityProtocol
from coterie_server.server import Address, ListenerOptions, Server, ServerOptions
from tests.support.certificates import Authority
from tests.support.leaving_clients import (
    CLIENTS,
    FEW,
    HOST,
    HTTP,
    HTTPS,
    OPEN,
    PATIENCE_S,
    SASL,
    TLS,
    Client,
    Serving,
)
from tests.support.uncollected import uncollected

#: How often each client comes: what only the last one leaves could be kept for the next.
TIMES: Final = 3
#: Objects of classes from here are made for some client.
MODULES: Final = (
    *(f"coterie_server.{part}" for part in ("http", "net", "security")),
    "aiohttp",
    "asyncio.sslproto",
    "ssl",
    "_ssl",
)
#: The last one is kept; of those of rights, too, which a node reads again when it was held up for
#: longer than its lease; and small ones, which are aiohttp's own.
KEPT: Final = {
    *("NetStats", "Rights", "Acls", "ScramCredential"),
    *("HTTPNotFound", "HTTPMethodNotAllowed", "SystemRoute"),
}
LISTENERS: Final = {
    OPEN: SecurityProtocol.PLAINTEXT,
    FEW: SecurityProtocol.PLAINTEXT,
    SASL: SecurityProtocol.SASL_PLAINTEXT,
    TLS: SecurityProtocol.SSL,
}

Loop = Callable[[], asyncio.AbstractEventLoop]


@pytest.fixture(scope="module")
def authority(tmp_path_factory: pytest.TempPathFactory) -> Authority:
    return Authority(tmp_path_factory.mktemp("authority"))


@pytest.fixture(
    scope="module",
    params=[
        pytest.param(asyncio.new_event_loop, id="asyncio", marks=pytest.mark.slow),
        pytest.param(uvloop.new_event_loop, id="uvloop"),
    ],
)
def serving(
    request: pytest.FixtureRequest, authority: Authority, tmp_path_factory: pytest.TempPathFactory
) -> Iterator[Serving]:
    """Two servers in a thread, one of which answers HTTP over TLS."""
    folder = tmp_path_factory.mktemp("serving")
    (folder / "users").write_text("ann:pencil\n")
    key = RSAAlgorithm.to_jwk(rsa.generate_private_key(65_537, 2_048).public_key(), as_dict=True)
    (folder / "keys").write_text(json.dumps({"keys": [{**key, "kid": "one"}]}))
    ports: dict[str, int] = {}
    with _in_thread(request.param, lambda: _served(folder, authority, ports)):
        yield Serving(ports, authority)


@contextmanager
def _in_thread(new_loop: Loop, serve: Callable[[], AsyncIterator[None]]) -> Iterator[None]:
    started, ended = threading.Event(), threading.Event()

    async def run() -> None:
        async with asynccontextmanager(serve)():
            started.set()
            await asyncio.to_thread(ended.wait)

    def play() -> None:
        with asyncio.Runner(loop_factory=new_loop) as runner:
            runner.run(run())

    thread = threading.Thread(target=play)
    thread.start()
    try:
        assert started.wait(PATIENCE_S)
        yield
    finally:
        ended.set()
        thread.join()


async def _served(folder: Path, authority: Authority, ports: dict[str, int]) -> AsyncIterator[None]:
    both = str(authority.issue().both)
    anywhere = Address(HOST, 0)
    settings = Settings(
        bootstrap_users_file=str(folder / "users"),
        sasl_enabled_mechanisms="PLAIN,SCRAM-SHA-256,OAUTHBEARER",
        sasl_oauthbearer_jwks_endpoint_url=f"file://{folder / 'keys'}",
        ssl_keystore_location=both,
        connection_max_handshakes=10,
        group_min_session_timeout_ms=100,
        group_initial_rebalance_delay_ms=0,
        connection_failed_authentication_delay_ms=10,
        of_listeners=(OfListener(FEW.lower(), "max_connections", 2),),
    )
    listeners = tuple(
        ListenerOptions(anywhere, name=name, protocol=protocol)
        for name, protocol in LISTENERS.items()
    )
    secured = ServerOptions(
        settings=Settings(http_ssl_keystore_location=both),
        listeners=(ListenerOptions(anywhere),),
        http=anywhere,
    )
    async with (
        Server(ServerOptions(settings=settings, listeners=listeners, http=anywhere)) as server,
        Server(secured) as other,
    ):
        ports.update({name: address.port for name, address in server.addresses.items()})
        for name, each in ((HTTP, server), (HTTPS, other)):
            assert each.http_address is not None
            ports[name] = each.http_address.port
        yield


@pytest.mark.parametrize("client", CLIENTS)
def test_client_leaves_nothing(client: Client, serving: Serving) -> None:
    client(serving)  # What is made once stays.
    with uncollected():
        gc.freeze()  # until the end of the run: looking at what other tests keep would take long
        for _ in range(TIMES):
            client(serving)
        ends_at = time.monotonic() + PATIENCE_S
        while (left := _left_behind()) and time.monotonic() < ends_at:
            time.sleep(0.01)
        assert not left


def _left_behind() -> Counter[str]:
    kinds = [each for each in map(type, gc.get_objects()) if each.__module__.startswith(MODULES)]
    return Counter(each.__qualname__ for each in kinds if each.__qualname__ not in KEPT)
