"""A coordinator inside a program that works in groups: then no daemon is needed.

Each program runs a node beside its `Group`, and all of them share one store.  Each group is
coordinated by one of these nodes; when that ends, another one takes over.

    async with EmbeddedNode("postgresql://db.example/coterie") as node:
        async with Group(node.bootstrap, "billing", topics=["orders"]) as group:
            await group.run(work)

The node runs in the program's event loop.  Work that blocks the loop blocks the coordinator too,
and after `shard.lease.ms` another node takes its groups.
"""

from __future__ import annotations

import asyncio
import contextlib
import ipaddress
import resource
import secrets
import socket
from collections.abc import Mapping
from dataclasses import fields, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

from coterie_server.address import Address
from coterie_server.config.listeners import ListenerError, ListenerOptions
from coterie_server.config.options import ServerOptions
from coterie_server.config.setting import SettingsError
from coterie_server.config.settings import Settings
from coterie_server.config.sources import nearest_known
from coterie_server.server import Server
from coterie_server.storage import StoreError
from coterie_server.storage.urls import hosts_of, take_place

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["EmbeddedNode"]

#: Node ids are numbers that clients take for signed ones of 32 bits.
_NODE_IDS: Final = 2**31
#: Asking by which address another machine is reached sends nothing, so any port does.
_ANY_PORT: Final = 9
#: Where a node is reached whose store is on this machine.
_LOOPBACK: Final = "127.0.0.1"


class EmbeddedNode:
    """A coordinator in this process, which shares a store with those in other processes.

    `store` is the URL of a store that all of them use: `postgresql://...`, or `sqlite:PATH` for
    processes of one machine.

    `host` is the name or the address by which the other processes, and clients, reach this one; a
    name has to lead to an address of IPv4.  Without it, that is the address by which this machine
    reaches the store's, or 127.0.0.1 for a store on this machine.  `port` 0 stands for any that is
    free.

    `settings` are settings of the server by their names, such as `{"shard_lease_ms": 5000}`.
    `journal` is a directory for the node's journal; without one, none is kept.

    A node that has stopped can be started again.
    """

    def __init__(
        self,
        store: str,
        *,
        host: str | None = None,
        port: int = 0,
        topics: Mapping[str, int] | None = None,
        settings: Mapping[str, Any] | None = None,
        journal: Path | str | None = None,
    ) -> None:
        _require_store(store)
        self._options = ServerOptions(
            settings=_within_open_files(_settings({} if settings is None else settings)),
            listeners=(_listener(host, port),),
            store=store,
            data_dir=None if journal is None else Path(journal),
            topics=_topics(topics or {}),
        )
        #: Whether it finds out by itself where it is reached.
        self._seeks_address = host is None
        self._server: Server | None = None
        #: Held while it starts or stops: who does either at the same time would undo half of it.
        self._turn = asyncio.Lock()

    @property
    def bootstrap(self) -> str:
        """Where a `Group` of this process, or any other client, finds the nodes."""
        if self._server is None or not self._server.addresses:
            raise RuntimeError("The node does not run: start it first, as `async with` does.")
        (advertised,) = self._server.advertised.values()
        return str(advertised)

    async def start(self) -> None:
        """Take this node's share of the groups, and serve them."""
        if self._server is not None:
            raise RuntimeError("The node runs already: make another one, or stop it first.")
        server = self._server = Server(self._options)
        self._turn = asyncio.Lock()  # a new one, as the event loop may be another
        async with self._turn:
            try:
                if self._seeks_address:
                    server.options = await self._addressed()
                await server.start()
            except BaseException:
                self._server = None
                raise

    async def _addressed(self) -> ServerOptions:
        """The options, with the address by which this machine reaches the store's now."""
        (listener,) = self._options.listeners
        # In a thread, as it may wait for the name of the store's machine.
        own = await asyncio.to_thread(own_address, self._options.store or "")
        return replace(
            self._options, listeners=(replace(listener, bind=_address(own, listener.bind.port)),)
        )

    async def stop(self) -> None:
        """Leave the groups to the other nodes, and go at once, unless `shutdown_linger_ms` is set.

        A node that is just starting, or stopped by somebody else already, is waited for.  A
        cancellation while it stops is raised when that is done.
        """
        server = self._server
        if server is None:
            return
        async with self._turn:
            if self._server is server:  # or there is nothing left to stop
                try:
                    await server.stop("the program ends")
                finally:
                    self._server = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()


def _require_store(store: object) -> None:
    """Refuse what names none, such as a variable that is not set.

    Without a store, each process would have groups of its own.
    """
    if not isinstance(store, str) or not store:
        raise StoreError(
            "store must be postgresql://USER@HOST/DATABASE, or sqlite:PATH for processes of one"
            f" machine, got {store!r:.60}"
        )


def _topics(topics: object) -> dict[str, int]:
    if not isinstance(topics, Mapping):
        raise SettingsError(
            "topics must be names with their numbers of partitions, such as {'orders': 12},"
            f" got {topics!r:.60}"
        )
    return dict(topics)


def _settings(chosen: object) -> Settings:
    names = {each.name: each.name for each in fields(Settings)}
    if not isinstance(chosen, Mapping):
        raise SettingsError(
            "settings must be names with their values, such as {'shard_lease_ms': 5000},"
            f" got {chosen!r:.60}"
        )
    for name in chosen.keys() - names.keys():
        hint = nearest_known(str(name).lower().replace(".", "_"), names)
        raise SettingsError(f"unknown setting {name!r:.60}{hint}")
    # Members beside such nodes are `Group`s, which carry on wherever their group has gone.
    own = {"node_id": secrets.randbelow(_NODE_IDS), "shutdown_linger_ms": 0}
    return Settings(**(own | dict(chosen)))


def _within_open_files(settings: Settings) -> Settings:
    """The settings, with no more connections than half of the files that may be open.

    The limit is the program's, so it stays as it is.
    """
    files = resource.getrlimit(resource.RLIMIT_NOFILE)[0]
    if files == resource.RLIM_INFINITY or settings.max_connections <= files // 2:
        return settings
    return replace(settings, max_connections=max(files // 2, 1))


def _listener(host: str | None, port: int) -> ListenerOptions:
    if host is None:
        return ListenerOptions(_address(_LOOPBACK, port))
    told = _address(host, port)
    # As asked for, it is reached by a name, or through another machine.
    every = "::" if ":" in told.host else "0.0.0.0"  # noqa: S104
    return ListenerOptions(Address(every, told.port), advertise=told)


def _address(host: str, port: int) -> Address:
    try:
        found = Address.parse(str(Address(host, port)))
        if ":" in found.host:
            ipaddress.IPv6Address(found.host)
    except (TypeError, ValueError) as error:
        why = f"the node can't be reached at host {host!r} and port {port!r}: {error}"
        raise ListenerError(why) from None
    return found


def own_address(store: str, towards: Callable[[str], str] | None = None) -> str:
    """The address of this machine on the way to the store's machine, the first that is known."""
    towards = towards or _address_towards
    with contextlib.suppress(ValueError):
        for host, _ in hosts_of(take_place(store)[0]) if "://" in store else ():
            with contextlib.suppress(OSError):
                return towards(host)
    return _LOOPBACK


def _address_towards(host: str) -> str:
    ((family, _, _, _, address), *_) = socket.getaddrinfo(host, _ANY_PORT, type=socket.SOCK_DGRAM)
    with socket.socket(family, socket.SOCK_DGRAM) as probe:
        probe.connect(address)
        own: str = probe.getsockname()[0]
        return own
