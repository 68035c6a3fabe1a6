"""A server in this process: store, node, listener, journal and HTTP, assembled.

`Server._start` has the order in which the parts start; they stop in the opposite one.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from typing import TYPE_CHECKING, Any, Final, Self

from coterie_protocol import ApiKey
from coterie_protocol.journal import NodeStarted, NodeStopped
from coterie_protocol.version import VERSION
from coterie_server.address import Address
from coterie_server.authenticators import Authenticators, first_credentials
from coterie_server.backfill import Backfill
from coterie_server.config.assembly import (
    access_config,
    catalogue_maker,
    connection_limits,
    group_config,
    id_maker,
)
from coterie_server.config.listeners import ListenerOptions
from coterie_server.config.options import ServerOptions
from coterie_server.config.terms import make_terms, overrides_by_address
from coterie_server.farewell import hand_over
from coterie_server.history import History
from coterie_server.http import NodeView
from coterie_server.http_service import HttpService
from coterie_server.journal import JournalWriter, list_segments, read_acknowledged
from coterie_server.log import EventLog
from coterie_server.log.logger import get_logger
from coterie_server.metrics import Metrics
from coterie_server.net import Listener, Terms
from coterie_server.node_handler import Gate, NodeHandler
from coterie_server.observers import Observer, Observers, have_know
from coterie_server.own_place import start_in_own_place
from coterie_server.security import SecurityProtocol
from coterie_server.server_error import ServerError, why_not
from coterie_server.serving import Asker
from coterie_server.serving.access import Access
from coterie_server.serving.clock import Clock
from coterie_server.serving.discovery import ANY_HOST
from coterie_server.serving.loss import find_loss
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import open_store
from coterie_server.storage.lock import hold_directory
from coterie_server.tls import TlsWatch
from coterie_server.uninterrupted import uninterrupted

if TYPE_CHECKING:
    from coterie_server.storage import Store

__all__ = [
    "Address",
    "Gate",
    "ListenerOptions",
    "Observer",
    "Server",
    "ServerError",
    "ServerOptions",
    "why_not",
]

_log = get_logger(__name__)

#: How many rebalances of each group the history keeps.
_REBALANCES_KEPT: Final = 20


class Server:
    """A server in this process.

    ``async with Server(options) as server:`` serves until the block ends; `server.address` is
    where, with the port that the system chose for port 0.  A `gate` sees each request first, and
    may keep it: test kits use one to inject faults.
    """

    def __init__(self, options: ServerOptions | None = None, *, gate: Gate | None = None) -> None:
        self.options = options or ServerOptions()
        self.clock = Clock()
        self.history = History(_REBALANCES_KEPT)
        self.metrics = Metrics(VERSION, self.history)
        # In this order: the others ask the history.
        self._observers = Observers(self.history, self.metrics, EventLog(self.history))
        self._handler = NodeHandler(gate)
        #: Who may do what, and who is who, as the catalogue has it.
        self.access = Access(access_config(self.options.settings))
        #: What has been started, to be stopped.
        self._parts = AsyncExitStack()
        self._node: Node | None = None
        self._addresses: dict[str, Address] = {}
        self._http: HttpService | None = None
        self._tls = TlsWatch()

    async def __aenter__(self) -> Self:
        await self.start()
        return self

    async def __aexit__(self, *_: object) -> None:
        await self.stop()

    async def start(self) -> None:
        """Start all parts; if one fails, stop those that have started and raise."""
        try:
            await self._start()
        except BaseException:
            await uninterrupted(self._parts.aclose())
            raise

    async def stop(self, reason: str = "asked to stop") -> None:
        """Answer what is parked, store what was begun, and stop all parts, even if cancelled."""
        if self._node is not None:
            self._observers.observe(self.clock.date_ms(), NodeStopped(reason=reason))
        await uninterrupted(self._parts.aclose())
        self._node = None

    @property
    def address(self) -> Address:
        """Where clients are served, by the first listener."""
        if not self._addresses:
            raise AssertionError("the server was not started")
        return next(iter(self._addresses.values()))

    @property
    def addresses(self) -> Mapping[str, Address]:
        """Where clients are served, by the names of the listeners, in their order."""
        return self._addresses

    @property
    def advertised(self) -> Mapping[str, Address]:
        """Where clients are told to connect, by the names of the listeners."""
        return self._advertised()

    @property
    def http_address(self) -> Address | None:
        """Where HTTP is answered; None if it is not."""
        return None if self._http is None else self._http.address

    @property
    def node(self) -> Node:
        """The node, while it serves."""
        if self._node is None:
            raise AssertionError("the server was not started")
        return self._node

    def add_observer(self, observer: Observer) -> None:
        """Tell another observer of all further events."""
        self._observers.add(observer)

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Create or extend a topic to have so many partitions, or raise `TopicRefusal`."""
        await self.node.ensure_topic(name, partitions)

    async def reload(self) -> None:
        """Read certificates, keys and tokens again; connections at hand keep theirs."""
        if self._http is not None:
            self._http.reload()
        await self._tls.reload()

    # -- starting ------------------------------------------------------------------------------

    async def _start(self) -> None:
        began, settings, parts = time.monotonic(), self.options.settings, self._parts
        store = await parts.enter_async_context(self._open_store())
        backfill = self._make_backfill()
        journal = self._start_journal()
        authenticators = await Authenticators.make(self.options, store)
        parts.push_async_callback(authenticators.close)  # when all who log in are answered
        listener = await self._make_listener()
        view = NodeView(listener, journal)
        http = self._http = HttpService(self.options)
        parts.push_async_callback(http.close)
        await http.start(view, backfill, self.metrics)
        # Clients can connect from here on; their requests wait for the node.
        parts.push_async_callback(listener.close, settings.shutdown_timeout_ms / 1000)
        parts.callback(authenticators.logins.close)
        parts.callback(self._handler.close)
        terms = self._make_terms(authenticators)
        node_options = await self._listen(listener, terms, http, is_shared=store.is_shared)
        parts.push_async_callback(self._tls.close)
        self._tls.start()
        node = self._node = self._make_node(store, node_options)
        checks = self.access.authorizer is not None
        secret, tls = authenticators.secret, terms[0].tls
        node.ask = Asker.of(node_options.node_id, secret, tls, always_proves=checks)
        parts.push_async_callback(node.stop)
        parts.callback(listener.stop_accepting)
        # Clients that look for a group's coordinator meanwhile still find it here.
        parts.push_async_callback(hand_over, node, listener, settings.shutdown_linger_ms / 1000)
        parts.callback(view.close)
        users = await first_credentials(settings)
        await start_in_own_place(node, store, node_options, self.options.topics, users)
        if self.access.authorizer is None and node.cluster.others_go_by_acls:
            _log.warning(
                "other nodes on the store go by ACLs, and this one lets its clients do everything:"
                " set authorizer.class.name for it, too"
            )
        if store.is_shared and http.address is not None:
            http.trust_nodes(authenticators.secret.hex())
        await self._compare_with_journal(node, store)
        self._observers.release()
        self._note_started(node, int((time.monotonic() - began) * 1000))
        if journal is not None and self.options.accept_data_loss:
            # Until this is on disk, the next start would hold the store against older lines.
            await asyncio.to_thread(journal.flush)
        authenticators.open(self.access)
        self._handler.open(node)
        view.open(node)

    def _open_store(self) -> Store:
        options, worker = self.options, self.options.worker
        # For its workers, a supervisor holds the directory.
        if options.data_dir is not None and worker is None:
            self._parts.enter_context(hold_directory(options.data_dir))
        return open_store(
            options.store_url,
            accept_loss=options.accept_data_loss,
            is_shared=worker is not None,
            files=1 if worker is None else len(worker.node_ids),
            must_exist=worker is not None and worker.is_again,
        )

    def _make_backfill(self) -> Backfill:
        """Note which files the journal has, before this life's lines begin another."""
        directory = self.options.data_dir
        segments = None if directory is None else list_segments(directory / "journal")
        # A store in a data directory is that of the nodes that write their journals there.
        has_all = self.options.store is None
        backfill = Backfill(self.history, segments, self.clock.date_ms(), has_all=has_all)
        self._parts.push_async_callback(backfill.close)
        return backfill

    def _start_journal(self) -> JournalWriter | None:
        if self.options.data_dir is None:
            return None
        settings, worker = self.options.settings, self.options.worker
        nodes = (settings.node_id,) if worker is None else worker.node_ids
        writer = JournalWriter(
            self.options.data_dir / "journal",
            str(settings.node_id),
            segment_bytes=settings.journal_segment_bytes,
            segment_ms=settings.journal_segment_ms,
            retention_ms=settings.journal_retention_ms,
            clock=self.clock.date_ms,
            commits=settings.journal_commits,
            companions=[*map(str, nodes)],
        )
        self._observers.add(writer)
        # In a thread, as it may wait for the disk.
        self._parts.push_async_callback(asyncio.to_thread, writer.close)
        return writer

    async def _make_listener(self) -> Listener:
        settings = self.options.settings
        overrides = await asyncio.to_thread(
            overrides_by_address, settings.max_connections_per_ip_overrides
        )
        limits = connection_limits(settings, overrides)
        loop_time, answered = asyncio.get_running_loop().time, self.metrics.requests.answered

        def count_reply(api: ApiKey, message: Any, received_ms: int) -> None:  # noqa: ANN401
            answered(api, message, loop_time() - received_ms / 1000)

        return Listener(
            self._handler,
            limits,
            on_reply=count_reply,
            at_once={ApiKey.HEARTBEAT: self._handler.try_heartbeat},
        )

    def _make_terms(self, authenticators: Authenticators) -> list[Terms]:
        """What holds at each listener."""
        settings, listeners = self.options.settings, self.options.listeners
        return [authenticators.add_to(make_terms(settings, each), each) for each in listeners]

    async def _listen(
        self, listener: Listener, terms: Sequence[Terms], http: HttpService, *, is_shared: bool
    ) -> NodeOptions:
        """Begin to listen; only then are the ports known."""
        options, settings, at = self.options, self.options.settings, http.address
        self._tls.add(http.tls)
        for each, of_each in zip(options.listeners, terms, strict=True):
            self._tls.add(of_each.tls)
            try:
                self._addresses[each.name] = await self._listen_on(listener, each, of_each)
            except OSError as error:
                why = f"can't listen on {each}: {why_not(error)}."
                raise ServerError(f"{why} Choose another address.") from error
        return NodeOptions(
            node_id=settings.node_id,
            address=self.address,
            shards=settings.shards,
            lease_ms=settings.shard_lease_ms,
            accept_loss=options.accept_data_loss,
            http=(at.host, at.port) if at else None,
            advertised_http=self._advertised_http(at),
            addresses=self._advertised(),
            look_every_ms=settings.shard_poll_interval_ms if is_shared else None,
            peer_http=self._peer_http(http.own_address),
            http_tls=http.tls,
            companions=() if options.worker is None else options.worker.node_ids,
            access=self.access,
            has_tls=terms[0].protocol.has_tls,
            wants_proof=self.access.authorizer is not None
            or terms[0].protocol is not SecurityProtocol.PLAINTEXT,
        )

    async def _listen_on(self, listener: Listener, each: ListenerOptions, terms: Terms) -> Address:
        bind, shared, worker = each.bind, each.shared, self.options.worker
        bound = await listener.start(
            bind.host,
            bind.port,
            advertise=each.advertise,
            terms=terms,
            shares_port=shared is not None,
        )
        if shared is not None and worker is not None:
            await listener.start(
                shared.host,
                shared.port,
                advertise=each.advertise or bound,
                terms=terms,
                shares_port=True,
                inherited=worker.inherited.get(shared, ()),
            )
        return bound

    def _peer_http(self, own: Address | None) -> Address | None:
        """Where other nodes can ask over HTTP."""
        if own is None or own.host not in ANY_HOST:
            return own
        return Address(next(iter(self._advertised().values())).host, own.port)

    def _advertised(self) -> dict[str, Address]:
        """Where each listener is reached."""
        found: dict[str, Address] = {}
        for each in self.options.listeners:
            bound = self._addresses[each.name]
            wanted = each.advertise or bound
            found[each.name] = Address(wanted.host, wanted.port or bound.port)
        return found

    def _advertised_http(self, http: Address | None) -> dict[Address, Address]:
        """Where clients find HTTP if they came in by a listener that says so, by its address."""
        reached = self._advertised()
        return {
            reached[each.name]: Address(told.host, told.port or http.port)
            for each in self.options.listeners
            if http is not None and (told := each.advertise_http) is not None
        }

    def _make_node(self, store: Store, node_options: NodeOptions) -> Node:
        settings = self.options.settings
        node = Node(
            node_options,
            group_config(settings),
            store,
            self.clock,
            make_ids=id_maker(settings),
            make_catalogue=catalogue_maker(settings, node_options),
            observe=self._observers.observe,
            meter=self.metrics,
        )
        have_know(self.history, node)
        return node

    async def _compare_with_journal(self, node: Node, store: Store) -> None:
        """Refuse to serve a store that knows less than this node's journal."""
        options = self.options
        if options.data_dir is None or options.accept_data_loss or not store.is_lasting:
            return
        if store.is_shared or not node.serves_all:
            return  # other nodes have changed it since, or will
        directory, name = options.data_dir / "journal", str(options.settings.node_id)
        loss = find_loss(node, await asyncio.to_thread(read_acknowledged, directory, name))
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
            version=VERSION,
            groups=len(groups),
            offsets=sum(len(group.offsets) for group in groups),
            load_ms=load_ms,
            settings=self.options.settings.shown(),
            accepted_loss=self.options.accept_data_loss,
        )
        self._observers.observe(self.clock.date_ms(), event)
