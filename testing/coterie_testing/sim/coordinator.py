"""The simulated coordinator: a real node and real connections, on a virtual machine."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Protocol
from uuid import UUID

from coterie_client.wire.addresses import NodeAddress
from coterie_protocol import ApiKey
from coterie_protocol.journal import Event, Line, read_line, write_line
from coterie_protocol.messages import HeartbeatRequest, HeartbeatResponse
from coterie_server.address import Address
from coterie_server.config.assembly import catalogue_config, connection_limits, group_config
from coterie_server.config.settings import Settings
from coterie_server.net import Connection, Endpoint, Exchange, Registry
from coterie_server.net.fast_path import Sender
from coterie_server.serving.clock import Clock
from coterie_server.serving.node import Node, NodeOptions
from coterie_server.storage import StoreError
from coterie_server.topics import Catalogue, TopicRefusal
from coterie_testing.virtual import (
    Database,
    DatabaseStore,
    Disk,
    DiskStore,
    Network,
    Process,
    Scheduler,
)

__all__ = ["ADDRESS", "RequestObserver", "SimulatedCoordinator", "address_of"]

ADDRESS = NodeAddress("coordinator", 9092)

#: Few shards, so that a node starts quickly; the mechanism is the same for any number.
_SHARDS = 2
_SHARED_SHARDS = 4

#: How often nodes that share a database look what the others do.
_LOOK_EVERY_MS = 300

#: How long it takes until a daemon that could not start is started again.
_RESTART_S = 1.0


def address_of(number: int) -> NodeAddress:
    """Where one of several coordinators listens."""
    return ADDRESS if number == 1 else NodeAddress(f"{ADDRESS.host}-{number}", ADDRESS.port)


def _advertised(address: NodeAddress) -> Address:
    return Address(address.host, address.port)


def _clock_of(process: Process) -> Clock:
    """A node's clock: its machine's two clocks show virtual time, the system's with an error."""
    scheduler = process.scheduler
    return Clock(
        elapsed_ns=lambda: scheduler.now_ms * 1_000_000,
        wall_ns=lambda: process.wall_ms() * 1_000_000,
    )


class _Ids:
    """Ids drawn from the seed."""

    def __init__(self, scheduler: Scheduler) -> None:
        self._scheduler = scheduler

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """The client's name and a random number."""
        del group_id, host
        name = client_id if instance_id is None else instance_id
        return f"{name}-{self._scheduler.random.getrandbits(48):012x}"

    def topic_id(self) -> UUID:
        """A random id."""
        return UUID(int=self._scheduler.random.getrandbits(128), version=4)


class RequestObserver(Protocol):
    """Sees the requests that a coordinator gets, and its answers."""

    def tap(self, exchange: Exchange) -> Exchange:
        """Return what the node is to get in place of a request."""
        ...

    def heartbeat_answered(
        self, request: HeartbeatRequest, response: HeartbeatResponse | None
    ) -> None:
        """A heartbeat was answered at once, or is left to the node."""

    def crashed(self) -> None:
        """The coordinator was killed, and owes no answer any more."""


@dataclass(frozen=True, slots=True)
class _Gated:
    """A node that gets the requests which its gate lets through."""

    node: Node
    gate: Callable[[Exchange], bool] | None
    requests: RequestObserver | None

    def handle(self, exchange: Exchange) -> None:
        if self.gate is None or not self.gate(exchange):
            self.node.handle(self.requests.tap(exchange) if self.requests else exchange)


@dataclass(slots=True)
class SimulatedCoordinator:
    """The coordinator's machine: its disk stays, its process comes and goes."""

    scheduler: Scheduler
    network: Network
    settings: Settings
    topics: Mapping[str, int]
    #: A disk of its own, or a database that it shares with others.
    disk: Disk
    #: Its journal, over all its lives.
    journal: list[Line] = field(default_factory=list)
    process: Process | None = None
    node: Node | None = None
    lives: int = 0
    #: Where others are told to connect to it.
    address: NodeAddress = ADDRESS
    #: Where it listens; clients are told to connect where they are connected.
    addresses: tuple[NodeAddress, ...] = (ADDRESS,)
    #: Whether it has made its topics; what becomes of them then is up to administrators.
    has_served: bool = False
    #: Why it could not make them; it serves without them, after a restart.
    refusal: TopicRefusal | None = None
    #: Sees requests and their answers.
    requests: RequestObserver | None = None
    #: Told of every line of the journal, with the fence under which its writer has the shard.
    on_event: Callable[[int, Event, int], None] | None = None
    #: Called when a life begins.
    on_start: Callable[[], None] | None = None
    #: Sees each request first; the node gets those for which it answers False.
    gate: Callable[[Exchange], bool] | None = None
    #: Changes the node before it starts; how tests plant bugs.
    tamper: Callable[[Node], None] | None = None
    #: The node before it serves, and the highest fence that it had for each shard.
    _begun: Node | None = None
    _fences: dict[int, int] = field(default_factory=dict)
    _stopping: bool = False

    @property
    def name(self) -> str:
        """The machine's name."""
        return self.address.host

    @property
    def _is_shared(self) -> bool:
        return isinstance(self.disk, Database)

    @property
    def is_up(self) -> bool:
        """Whether it serves."""
        return self.process is not None and self.process.is_alive and self.node is not None

    @property
    def shards(self) -> list[int]:
        """The shards for which it may answer."""
        shards = self.node.all_shards() if self.node is not None else ()
        return [each.shard for each in shards if each.may_answer]

    def start(self) -> None:
        """Start its process, which serves as soon as the disk lets it."""
        assert self.process is None or self.process.is_dead
        self.lives += 1
        if self.on_start is not None:
            self.on_start()
        former, self.process = (
            self.process,
            Process(self.scheduler, f"{self.name}/{self.lives}", self.name),
        )
        if self._is_shared:
            self.process.dial = self.network.dialler(self.process)
        if former is not None:
            self.process.clock_error_s = former.clock_error_s  # the machine's
        self.process.create_task(self._serve(self.process))

    def _give_up(self, process: Process) -> None:
        """End a process that could not start; a supervisor starts another one."""
        if process is self.process and process.is_alive:
            self.kill()
            self.scheduler.after(_RESTART_S, self._start_again, process)

    def _start_again(self, process: Process) -> None:
        if process is self.process:
            self.start()

    def kill(self) -> None:
        """`kill -9`."""
        if self.process is not None:
            self.process.kill()
            if self.requests is not None:
                self.requests.crashed()
        self.node, self._stopping = None, False

    def stop(self) -> None:
        """Have it hand its shards over and end, as SIGTERM does."""
        process, node = self.process, self.node
        if process is not None and node is not None and process.is_alive and not self._stopping:
            self._stopping = True
            process.call_soon(lambda: process.create_task(self._stop(process, node)))

    async def _stop(self, process: Process, node: Node) -> None:
        try:
            await node.leave()
            await node.stop()
        except StoreError:
            pass  # its leases run out
        finally:
            self._stopping = False
            process.call_soon(self._end, process)

    def _end(self, process: Process) -> None:
        if process is self.process:
            self.kill()

    async def _serve(self, process: Process) -> None:
        try:
            await self._open(process)
        except StoreError:
            process.call_soon(self._give_up, process)
        except TopicRefusal as refusal:
            # An administrator may have changed its topics, by way of another coordinator.
            self.has_served = refusal.name != "not_available"
            self.refusal = refusal if self.has_served else None
            process.call_soon(self._give_up, process)
        except Exception as error:  # noqa: BLE001  # a bug, told at once and not once it is garbage
            process.call_exception_handler({"message": "it can't start", "exception": error})

    async def _open(self, process: Process) -> None:
        settings = self.settings
        options = NodeOptions(
            node_id=settings.node_id,
            address=_advertised(self.address),
            shards=_SHARED_SHARDS if self._is_shared else _SHARDS,
            lease_ms=settings.shard_lease_ms,
            look_every_ms=_LOOK_EVERY_MS if self._is_shared else None,
        )
        ids, store = _Ids(self.scheduler), self._make_store(process)
        catalogue = catalogue_config(settings, options)
        node = Node(
            options,
            group_config(settings),
            store,
            _clock_of(process),
            make_ids=lambda _epoch: ids,
            make_catalogue=lambda ends: Catalogue(catalogue, ids, ends),
            observe=self._observe,
        )
        if self.tamper is not None:
            self.tamper(node)
        self._begun = node
        self._fences.clear()
        await store.open()
        await node.start({} if self.has_served else dict(self.topics))
        self.has_served = True
        registry = Registry(
            _Gated(node, self.gate, self.requests),
            connection_limits(settings, {}),
            now=process.time,
            call_soon=process.call_soon,
            at_once={ApiKey.HEARTBEAT: self._hear} if self.gate is None else {},
            stopwatch=process.time,
        )
        self.node = node
        for address in self.addresses:
            endpoint = Endpoint(_advertised(address))
            self.network.listen(process, address, partial(Connection, registry, endpoint))

    def _make_store(self, process: Process) -> DiskStore:
        if isinstance(self.disk, Database):
            return DatabaseStore(self.disk, process)
        return DiskStore(self.disk, process)

    def _hear(self, message: HeartbeatRequest, sender: Sender) -> HeartbeatResponse | None:
        answer = self.node.try_heartbeat(message, sender) if self.node is not None else None
        if self.requests is not None:
            self.requests.heartbeat_answered(message, answer)
        return answer

    def _observe(self, ts_ms: int, event: Event) -> None:
        # Through text and back, so that the checks see what a reader of the journal sees.
        text = write_line(Line(ts_ms, str(self.settings.node_id), len(self.journal), event))
        self.journal.append(read_line(text))
        if self.on_event is not None:
            self.on_event(ts_ms, event, self._fence_of(event.group))

    def _fence_of(self, group: str) -> int:
        """The fence under which the node has, or last had, the shard of a group or the topics."""
        node = self._begun
        if node is None or not node.all_shards():
            return 0
        shard = node.group_shard(group) if group else node.all_shards()[-1]
        fence = max(shard.fence_number, self._fences.get(shard.shard, 0))
        self._fences[shard.shard] = fence
        return fence
