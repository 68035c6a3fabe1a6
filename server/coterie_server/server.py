"""A whole server: store, node, listener, journal and HTTP, started and stopped in good order."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Callable
from contextlib import AsyncExitStack
from dataclasses import dataclass, field
from importlib.metadata import version
from pathlib import Path
from typing import TYPE_CHECKING, Any, Protocol, Self

from coterie_protocol import ApiKey
from coterie_protocol.journal import NodeStarted, NodeStopped
from coterie_server.config.assembly import (
    catalogue_maker,
    connection_limits,
    group_config,
    id_maker,
)
from coterie_server.config.settings import SETTINGS, Settings
from coterie_server.history import History
from coterie_server.http import Hosts, HttpServer, create_app
from coterie_server.http.node_view import NodeView
from coterie_server.journal import JournalWriter, recall
from coterie_server.log import RebalanceLog
from coterie_server.metrics import Metrics, error_of
from coterie_server.net import Listener
from coterie_server.process import hold_directory
from coterie_server.serving.clock import Clock
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import open_store

if TYPE_CHECKING:
    from collections.abc import Mapping

    from coterie_protocol.journal import Event
    from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
    from coterie_server.net import Exchange
    from coterie_server.storage import Store

__all__ = ["Address", "Gate", "Observer", "Server", "ServerError", "ServerOptions"]

_PORT_MAX = 65_535
_NEEDS_ADVERTISING = ("0.0.0.0", "::", "")  # noqa: S104  # not bound to here, only recognised


#: How many rebalances of each group are remembered for whoever asks.
_REBALANCES_KEPT = 20


class ServerError(Exception):
    """A server that can't be started as it was asked for; the sentence says what to do."""


@dataclass(frozen=True, slots=True)
class Address:
    """A host and a port."""

    host: str
    port: int

    @classmethod
    def parse(cls, text: str) -> Address:
        """Read HOST:PORT, with an IPv6 host in brackets."""
        host, colon, port = text.rpartition(":")
        if not colon or not port.isdecimal():
            raise ValueError(f"{text!r} is no HOST:PORT")
        if int(port) > _PORT_MAX:
            raise ValueError(f"{text!r} has no port from 0 to {_PORT_MAX}")
        return cls(host.removeprefix("[").removesuffix("]"), int(port))

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"


@dataclass(frozen=True, slots=True)
class ServerOptions:
    """Where a server listens, where it keeps things, and what it goes by."""

    settings: Settings = field(default_factory=Settings)
    listen: Address = Address("127.0.0.1", 9092)  # frozen
    #: Where clients are told to find it; where it listens if None.
    advertise: Address | None = None
    #: Where it answers HTTP; not at all if None.
    http: Address | None = None
    #: Where groups are kept: `memory:`, `sqlite:PATH`, or a data directory if None.
    store: str | None = None
    #: Where the journal goes, and the store if nothing else is said; no journal if None.
    data_dir: Path | None = None
    #: Topics to be there, with so many partitions, before anybody is served.
    topics: Mapping[str, int] = field(default_factory=dict)
    #: Go on with a store that has lost something that was acknowledged.
    accept_data_loss: bool = False


class Observer(Protocol):
    """Whoever wants to know what happens; it may neither block nor raise."""

    def observe(self, ts_ms: int, event: Event) -> None:
        """Take note of an event that is durable by now."""
        ...


#: Looks at a request before the node does; says whether it has taken it, so that nobody else may.
Gate = Callable[["Exchange"], bool]


class _Door:
    """Stands in for the node until it is ready, so that early clients wait instead of failing."""

    def __init__(self, gate: Gate | None) -> None:
        self._gate = gate
        self._node: Node | None = None
        #: In the order in which they came.
        self._waiting: dict[Exchange, None] = {}

    def handle(self, exchange: Exchange) -> None:
        if self._gate is not None and self._gate(exchange):
            return
        if self._node is None:
            self._waiting[exchange] = None
            exchange.when_gone(self._waiting.pop)
        else:
            self._node.handle(exchange)

    def try_heartbeat(self, message: HeartbeatRequest) -> HeartbeatResponse | None:
        if self._node is None or self._gate is not None:
            return None
        return self._node.try_heartbeat(message)

    def open(self, node: Node) -> None:
        self._node = node
        while self._waiting:
            exchange = next(iter(self._waiting))
            del self._waiting[exchange]
            exchange.when_gone(None)
            node.handle(exchange)


class Server:
    """A server in this process.

    ``async with Server(options) as server:`` serves until the block ends; `server.address` is
    where, with the port that port 0 became.  A `gate` sees each request first, and may keep it:
    that is how test kits make things go wrong.
    """

    def __init__(self, options: ServerOptions | None = None, *, gate: Gate | None = None) -> None:
        self.options = options or ServerOptions()
        self._gate = gate
        self.clock = Clock()
        self.history = History(_REBALANCES_KEPT)
        self.metrics = Metrics(version("coterie"), self.history)
        log = RebalanceLog(self.history)
        self._observers: list[Observer] = [self.history, self.metrics, log]
        #: What happened before the store was found to be the right one; nobody hears of it until
        #: then, lest the journal tell of a past that it is about to refuse.
        self._untold: list[tuple[int, Event]] | None = []
        self._parts = AsyncExitStack()
        self._node: Node | None = None
        self._address: Address | None = None
        self._loop_time = time.monotonic
        self._http_address: Address | None = None

    def add_observer(self, observer: Observer) -> None:
        """Have somebody else told what happens, from now on."""
        self._observers.append(observer)

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        await self.node.ensure_topic(name, partitions)

    @property
    def http_address(self) -> Address | None:
        """Where HTTP is answered; None if it is not."""
        return self._http_address

    @property
    def address(self) -> Address:
        """Where clients are served."""
        if self._address is None:
            raise AssertionError("the server was not started")
        return self._address

    @property
    def node(self) -> Node:
        """The node, while it serves."""
        if self._node is None:
            raise AssertionError("the server was not started")
        return self._node

    def observe(self, ts_ms: int, event: Event) -> None:
        """Tell everybody who wants to know what has happened."""
        if self._untold is not None:
            self._untold.append((ts_ms, event))
            return
        for observer in self._observers:
            observer.observe(ts_ms, event)

    def _tell_all(self) -> None:
        untold, self._untold = self._untold, None
        for ts_ms, event in untold or ():
            self.observe(ts_ms, event)

    def _count_reply(self, api: ApiKey, message: Any, received_ms: int) -> None:  # noqa: ANN401
        took_s = self._loop_time() - received_ms / 1000
        self.metrics.request_done(api, error_of(message), took_s)

    # -- starting ------------------------------------------------------------------------------

    async def start(self) -> None:
        """Start all parts; if one can't, stop those that have started and raise."""
        try:
            await self._start()
        except BaseException:
            await self._parts.aclose()
            raise

    async def _start(self) -> None:
        began = time.monotonic()
        settings = self.options.settings
        store = await self._parts.enter_async_context(self._open_store())
        journal = self._start_journal()
        door = _Door(self._gate)
        self._loop_time = asyncio.get_running_loop().time
        listener = Listener(
            door,
            connection_limits(settings),
            on_reply=self._count_reply,
            at_once={ApiKey.HEARTBEAT: door.try_heartbeat},
        )
        show = NodeView(listener, journal)
        await self._start_http(show)
        self._parts.push_async_callback(listener.close, settings.shutdown_timeout_ms / 1000)
        node_options = await self._listen(listener)
        self._node = node = Node(
            node_options,
            group_config(settings),
            store,
            self.clock,
            make_ids=id_maker(settings),
            make_catalogue=catalogue_maker(settings, node_options),
            observe=self.observe,
            meter=self.metrics,
        )
        self._parts.push_async_callback(node.stop)
        self._parts.callback(listener.stop_accepting)
        self._parts.callback(show.close)
        await node.start(dict(self.options.topics))
        await self._compare_with_journal(node, store)
        self._tell_all()
        self._note_started(node, int((time.monotonic() - began) * 1000))
        if journal is not None and self.options.accept_data_loss:
            # Until it is on disk, the next start holds the lines from before the loss against us.
            await asyncio.to_thread(journal.flush)
        door.open(node)
        show.open(node)

    def _open_store(self) -> Store:
        options = self.options
        if options.data_dir is not None:
            self._parts.enter_context(hold_directory(options.data_dir))
        where = options.store or str(options.data_dir or "memory:")
        return open_store(where, accept_loss=options.accept_data_loss)

    def _start_journal(self) -> JournalWriter | None:
        if self.options.data_dir is None:
            return None
        settings = self.options.settings
        writer = JournalWriter(
            self.options.data_dir / "journal",
            str(settings.node_id),
            segment_bytes=settings.journal_segment_bytes,
            segment_ms=settings.journal_segment_ms,
            retention_ms=settings.journal_retention_ms,
            clock=self.clock.date_ms,
            commits=settings.journal_commits,
        )
        self._observers.append(writer)
        # It may wait for the disk.
        self._parts.push_async_callback(asyncio.to_thread, writer.close)
        return writer

    async def _start_http(self, show: NodeView) -> None:
        self.metrics.watch(show.census)
        if self.options.http is not None:
            http = HttpServer(create_app(show, self.history, self.metrics, self._hosts()))
            try:
                await http.start(self.options.http.host, self.options.http.port)
            except OSError as error:
                why = os.strerror(error.errno) if error.errno else str(error)
                raise ServerError(
                    f"can't answer HTTP on {self.options.http}: {why}. Choose another address with"
                    " --http, or --http off."
                ) from error
            self._parts.push_async_callback(http.close)
            self._http_address = Address(self.options.http.host, http.port)

    def _hosts(self) -> Hosts:
        options = self.options
        addresses = (options.http, options.listen, options.advertise)
        ours = (address.host for address in addresses if address is not None)
        return Hosts((*ours, *options.settings.http_allowed_hosts.split(",")))

    async def _listen(self, listener: Listener) -> NodeOptions:
        options, settings = self.options, self.options.settings
        advertise = options.advertise
        if advertise is None and options.listen.host in _NEEDS_ADVERTISING:
            raise ServerError(
                f"Clients can't connect to {options.listen}: they are told where to find this"
                " server. Say how they reach it with --advertise HOST:PORT."
            )
        await listener.start(options.listen.host, options.listen.port)
        self._address = Address(options.listen.host, listener.addresses[0][1])
        advertise = advertise or self._address
        return NodeOptions(
            node_id=settings.node_id,
            host=advertise.host,
            port=advertise.port or self._address.port,
            shards=settings.shards,
            lease_ms=settings.shard_lease_ms,
            accept_loss=options.accept_data_loss,
        )

    async def _compare_with_journal(self, node: Node, store: Store) -> None:
        """Refuse to serve a store that knows less than this node has written down."""
        options = self.options
        if options.data_dir is None or options.accept_data_loss or not store.is_lasting:
            return
        name = str(options.settings.node_id)
        journal = await asyncio.to_thread(recall, options.data_dir / "journal", name)
        loss = node.find_loss(journal)
        if loss is not None:
            raise ServerError(
                f"{store.url} has lost what was acknowledged: by the journal, {loss}. It may be an"
                " older copy, or another store: restore the right one; or, if what is missing may"
                " be lost, start once with --accept-data-loss. The documentation says more under"
                ' "Recover a store".'
            )

    def _note_started(self, node: Node, load_ms: int) -> None:
        groups = node.groups()
        event = NodeStarted(
            version=version("coterie"),
            groups=len(groups),
            offsets=sum(len(group.offsets) for group in groups),
            load_ms=load_ms,
            settings={setting.key: self.options.settings[setting.key] for setting in SETTINGS},
            accepted_loss=self.options.accept_data_loss,
        )
        self.observe(self.clock.date_ms(), event)

    # -- stopping ------------------------------------------------------------------------------

    async def stop(self, reason: str = "asked to stop") -> None:
        """Answer what is parked, store what was begun, and let go of everything."""
        if self._node is not None:
            self.observe(self.clock.date_ms(), NodeStopped(reason=reason))
        await self._parts.aclose()
        self._node = None

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()
