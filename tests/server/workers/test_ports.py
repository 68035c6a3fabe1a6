"""Which ports workers get, and how they share those that all of them listen on."""

from __future__ import annotations

import asyncio
import contextlib
import os
import pickle
import socket
from collections.abc import Iterator

import pytest

from coterie_server.address import Address
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.settings import Settings
from coterie_server.net import Listener
from coterie_server.net.sockets import can_share_ports, reserved
from coterie_server.server import ServerError, ServerOptions
from coterie_server.workers.ports import PortHolder, options_of_workers
from tests.support.ports import free_ports

HOST = "127.0.0.1"
needs_shared_ports = pytest.mark.skipif(
    not can_share_ports(), reason="the system divides no port among processes"
)


@pytest.fixture
def ports() -> Iterator[PortHolder]:
    """Holds ports until the test ends."""
    holder = PortHolder()
    yield holder
    holder.close()


@pytest.fixture
def base() -> int:
    """A port that is free, as are those behind it."""
    return free_ports(8)


def options(*listeners: ListenerOptions, http: Address | None = None, **more: int) -> ServerOptions:
    """A server with two workers."""
    settings = Settings(workers=2, node_id=5, **more)  # type: ignore[arg-type]  # whole numbers
    return ServerOptions(settings=settings, listeners=listeners, http=http)


def test_own_ports_follow_the_shared_one(ports: PortHolder, base: int) -> None:
    given = options(ListenerOptions(Address(HOST, base)), http=Address(HOST, base + 4))
    first, second = options_of_workers(given, ports)
    assert [each.settings.node_id for each in (first, second)] == [5, 6]
    for number, each in enumerate((first, second), start=1):
        (listener,) = each.listeners
        assert listener.shared == Address(HOST, base)
        assert listener.bind == Address(HOST, base + number)
        assert listener.advertise is None
        assert each.http == Address(HOST, base + 4)
        assert each.worker is not None
        assert each.worker.http == Address(HOST, base + 4 + number)
        assert each.worker.node_ids == (5, 6)


def test_offset_is_set(ports: PortHolder, base: int) -> None:
    given = options(ListenerOptions(Address(HOST, base)), worker_port_offset=3)
    bound = [each.listeners[0].bind.port for each in options_of_workers(given, ports)]
    assert bound == [base + 3, base + 4]


def test_advertised_ports_follow_the_advertised_one(ports: PortHolder, base: int) -> None:
    listeners = (
        ListenerOptions(Address(HOST, base), Address("inside", 9092), "IN"),
        ListenerOptions(Address(HOST, base + 3), Address("outside", 443), "OUT"),
    )
    found = [
        [(each.name, each.advertise) for each in worker.listeners]
        for worker in options_of_workers(options(*listeners), ports)
    ]
    assert found == [
        [("IN", Address("inside", 9093)), ("OUT", Address("outside", 444))],
        [("IN", Address("inside", 9094)), ("OUT", Address("outside", 445))],
    ]


def test_any_port_is_another_for_each(ports: PortHolder) -> None:
    given = options(ListenerOptions(Address(HOST, 0)), http=Address(HOST, 0))
    workers = options_of_workers(given, ports)
    shared = {each.listeners[0].shared for each in workers} | {each.http for each in workers}
    own = {each.listeners[0].bind for each in workers}
    own |= {each.worker.http for each in workers if each.worker and each.worker.http}
    assert (len(shared), len(own)) == (2, 4)
    assert all(address and address.port for address in (*shared, *own))


def test_listeners_that_are_too_close_are_refused(ports: PortHolder, base: int) -> None:
    listeners = (
        ListenerOptions(Address(HOST, base), name="A"),
        ListenerOptions(Address(HOST, base + 1), name="B"),
    )
    with pytest.raises(ServerError, match=f"can't listen on {HOST}:{base + 1}: .*port.offset"):
        options_of_workers(options(*listeners), ports)


def test_options_can_be_sent(ports: PortHolder, base: int) -> None:
    for each in options_of_workers(options(ListenerOptions(Address(HOST, base))), ports):
        assert pickle.loads(pickle.dumps(each)) == each  # noqa: S301  # our own


@needs_shared_ports
def test_port_that_is_held_gets_no_connections_itself(ports: PortHolder, base: int) -> None:
    ports.hold("can't listen on", Address(HOST, base), is_shared=True)
    with pytest.raises(ConnectionRefusedError), socket.create_connection((HOST, base), timeout=5):
        pass


def test_port_that_another_process_listens_on_is_refused() -> None:
    with socket.socket() as other:
        if can_share_ports():  # also if that one would share it
            other.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        other.bind((HOST, 0))
        other.listen()
        with pytest.raises(OSError, match="in use"):
            reserved(HOST, other.getsockname()[1])


def test_all_addresses_of_a_host_have_one_port() -> None:
    try:
        with socket.socket(socket.AF_INET6) as tried:
            tried.bind(("::1", 0))
    except OSError:
        pytest.skip("no IPv6 here")
    found = reserved("localhost", 0)
    with contextlib.ExitStack() as stack:
        for each in found:
            stack.enter_context(each)
        assert len({each.getsockname()[1] for each in found}) == 1


# -- where ports can't be shared -------------------------------------------------------------------


@pytest.mark.asyncio
async def test_shared_sockets_are_inherited_where_they_can_not_be_shared(base: int) -> None:
    holder = PortHolder(can_share=False)
    given = options(ListenerOptions(Address(HOST, base)))
    workers = options_of_workers(given, holder)
    shared = Address(HOST, base)
    listeners = []
    try:
        for each in workers:
            assert each.worker is not None
            inherited = [os.dup(number) for number in each.worker.inherited[shared]]
            listener = Listener(_Handler())
            listeners.append(listener)
            own = each.listeners[0].bind
            await listener.start(own.host, own.port, shares_port=True)
            await listener.start(HOST, base, inherited=inherited)
        for _ in range(4):
            _, writer = await asyncio.open_connection(HOST, base)
            writer.close()
        async with asyncio.timeout(60):
            while sum(each.stats().accepted for each in listeners) < 4:  # noqa: ASYNC110  # counts
                await asyncio.sleep(0.01)
    finally:
        for listener in listeners:
            await listener.close(0)
        holder.close()


class _Handler:
    """Takes no requests."""

    def handle(self, _exchange: object) -> None:
        """Do nothing."""
