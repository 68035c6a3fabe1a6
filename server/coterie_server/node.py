"""The node: which core gets which request, and when it is time for what.

Requests about groups go to the shard of the group, those about topics to the catalogue, and the
few that ask many shards are split and their answers gathered.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import structlog

from coterie_protocol import messages as m
from coterie_protocol.journal import TopicChanged
from coterie_server import discovery
from coterie_server.gathering import Gathering, split
from coterie_server.group import Call, CommitOrder, Coordinator
from coterie_server.limit_log import LimitLog
from coterie_server.runner import ShardRunner
from coterie_server.topic_runner import CATALOGUE_SHARD, TopicCounts, TopicRunner

if TYPE_CHECKING:
    from collections.abc import Callable

    from coterie_protocol.journal import Event
    from coterie_server.clock import Clock
    from coterie_server.group import Config, Group, IdSource
    from coterie_server.net import Exchange
    from coterie_server.pump import Meter
    from coterie_server.store import Lease, Store
    from coterie_server.topics import Catalogue, Change

__all__ = ["Node", "NodeOptions", "ShardsTakenError"]

_log = structlog.get_logger(__name__)

#: A lease is renewed this many times before it would run out.
_RENEWALS_PER_LEASE = 3


class ShardsTakenError(Exception):
    """Another node holds shards of this store."""


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is called, where it is reached, and how it divides its groups."""

    node_id: int
    host: str
    port: int
    shards: int
    lease_ms: int

    @property
    def owner(self) -> str:
        """The name under which it holds its shards."""
        return f"node-{self.node_id}"

    @property
    def address(self) -> str:
        """Where clients find it."""
        return f"{self.host}:{self.port}"


class Node:
    """Serves all the shards of a store."""

    def __init__(
        self,
        options: NodeOptions,
        config: Config,
        store: Store,
        clock: Clock,
        *,
        make_ids: Callable[[int], IdSource],
        make_catalogue: Callable[[], Catalogue],
        observe: Callable[[int, Event], None],
        meter: Meter | None = None,
    ) -> None:
        self._options = options
        self._config = config
        self._store = store
        self._clock = clock
        self._make_ids = make_ids
        self._make_catalogue = make_catalogue
        self._observe = observe
        self._meter = meter
        self._limit_log = LimitLog()
        self._topics = TopicCounts()
        self._shards = options.shards
        self._runners: list[ShardRunner] = []
        self._topic_runner: TopicRunner | None = None
        self._leases: list[Lease] = []
        self._renewal: asyncio.Task[None] | None = None
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._routes = self._make_routes()

    # -- life ----------------------------------------------------------------------------------

    async def start(self, topics: dict[str, int] | None = None) -> None:
        """Claim the shards, read them, and be ready to serve."""
        await self._agree_on_shards()
        await self._claim()
        by_shard = {lease.shard: lease for lease in self._leases}
        ids = self._make_ids(by_shard[CATALOGUE_SHARD].epoch)
        self._topic_runner = TopicRunner(
            by_shard.pop(CATALOGUE_SHARD),
            self._store,
            self._make_catalogue,
            self._clock,
            counts=self._topics,
            on_change=self._tell_change,
            meter=self._meter,
            limit_log=self._limit_log,
        )
        await self._topic_runner.load()
        runners = [self._make_runner(lease, ids) for _, lease in sorted(by_shard.items())]
        self._runners = runners
        for runner in self._runners:
            await runner.load()
        for name, partitions in (topics or {}).items():
            await self._topic_runner.ensure(name, partitions)
        self._renewal = asyncio.get_running_loop().create_task(self._renew())

    async def _agree_on_shards(self) -> None:
        """A store keeps the number of shards that it was begun with."""
        wanted = self._options.shards
        self._shards = int(await self._store.agree("shards", str(wanted)))
        if self._shards != wanted:
            _log.warning("the store keeps its number of shards", shards=self._shards, set=wanted)

    async def _claim(self) -> None:
        options = self._options
        for shard in (CATALOGUE_SHARD, *range(self._shards)):
            lease = await self._store.claim(
                shard, options.owner, options.address, self._clock.now_ms(), options.lease_ms
            )
            if lease is None:
                others = {
                    f"{held.owner} at {held.address}"
                    for held in await self._store.leases()
                    if held.owner not in ("", options.owner)
                }
                raise ShardsTakenError(
                    f"{self._store.url} is in use by {', '.join(sorted(others))}."
                    " Stop that node, or give this one a store of its own."
                )
            self._leases.append(lease)

    def _make_runner(self, lease: Lease, ids: IdSource) -> ShardRunner:
        order = CommitOrder()  # of all the lives that the shard has in this process
        return ShardRunner(
            lease,
            self._store,
            lambda: Coordinator(self._config, ids, self._topics, self.count_groups, order),
            self._clock,
            observe=self._observe,
            arm=self._arm,
            meter=self._meter,
            limit_log=self._limit_log,
        )

    async def _renew(self) -> None:
        pause_s = self._options.lease_ms / 1000 / _RENEWALS_PER_LEASE
        while True:
            await asyncio.sleep(pause_s)
            try:
                held = await self._store.renew(
                    self._leases, self._clock.now_ms(), self._options.lease_ms
                )
            except Exception as error:  # noqa: BLE001  # the appends will tell, if it lasts
                _log.warning("leases can't be renewed", error=str(error))
            else:
                self._leases = held

    async def stop(self) -> None:
        """Answer what is parked, see that all that was begun is durable, give the shards up."""
        if self._renewal is not None:
            self._renewal.cancel()
        if self._alarm is not None:
            self._alarm.cancel()
        for runner in self._runners:
            await runner.close()
        if self._topic_runner is not None:
            await self._topic_runner.close()
        for lease in self._leases:
            await self._store.release(lease)

    # -- time ----------------------------------------------------------------------------------

    def _arm(self, due_ms: int) -> None:
        """One timer for all: the earliest deadline of any shard."""
        if self._alarm is not None and self._alarm_ms <= due_ms:
            return
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm_ms = due_ms
        wait_s = max(due_ms - self._clock.now_ms(), 0) / 1000
        self._alarm = asyncio.get_running_loop().call_later(wait_s, self._fire)

    def _fire(self) -> None:
        self._alarm = None
        now_ms = self._clock.now_ms()
        for runner in self._runners:
            runner.fire_due(now_ms)
        due = [at_ms for r in self._runners if (at_ms := r.next_deadline()) is not None]
        if due:
            self._arm(min(due))

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        self._routes[type(exchange.request.message)](exchange)

    def hear(self, message: m.HeartbeatRequest) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled."""
        return self._runners[self._shard_of(message.group_id)].hear(message)

    def _make_routes(self) -> dict[type[Any], Callable[[Exchange], None]]:
        one_group = (
            m.HeartbeatRequest,
            m.JoinGroupRequest,
            m.LeaveGroupRequest,
            m.OffsetCommitRequest,
            m.OffsetDeleteRequest,
            m.SyncGroupRequest,
        )
        about_topics = (
            m.CreatePartitionsRequest,
            m.CreateTopicsRequest,
            m.DeleteTopicsRequest,
            m.FetchRequest,
            m.ListOffsetsRequest,
            m.MetadataRequest,
            m.ProduceRequest,
        )
        return {
            **dict.fromkeys(one_group, self._to_group),
            **dict.fromkeys(about_topics, self._to_topics),
            m.ApiVersionsRequest: self._to_api_versions,
            m.DeleteGroupsRequest: self._to_many,
            m.DescribeGroupsRequest: self._to_many,
            m.FindCoordinatorRequest: self._to_find_coordinator,
            m.ListGroupsRequest: self._to_all,
            m.OffsetFetchRequest: self._to_offset_fetch,
            m.SaslAuthenticateRequest: lambda e: e.reply(discovery.authenticate(e.request.message)),
            m.SaslHandshakeRequest: lambda e: e.reply(discovery.handshake(e.request.message)),
        }

    def _shard_of(self, group_id: str) -> int:
        return zlib.crc32(group_id.encode()) % self._shards

    def _to_group(self, exchange: Exchange) -> None:
        request = exchange.request
        runner = self._runners[self._shard_of(request.message.group_id)]
        runner.submit(exchange, _call(exchange, request.message))

    def _to_offset_fetch(self, exchange: Exchange) -> None:
        if exchange.request.message.groups:
            self._to_many(exchange)
        else:
            self._to_group(exchange)

    def _to_many(self, exchange: Exchange) -> None:
        message = exchange.request.message
        parts = split(message, self._shard_of) or {0: message}
        self._gather(exchange, parts)

    def _to_all(self, exchange: Exchange) -> None:
        message = exchange.request.message
        self._gather(exchange, dict.fromkeys(range(self._shards), message))

    def _gather(self, exchange: Exchange, parts: dict[int, Any]) -> None:
        if len(parts) == 1:
            ((shard, part),) = parts.items()
            self._runners[shard].submit(exchange, _call(exchange, part))
            return
        gathering = Gathering(exchange.request.message, exchange, len(parts))
        for shard, part in parts.items():
            self._runners[shard].submit(gathering.part(), _call(exchange, part))

    def _to_topics(self, exchange: Exchange) -> None:
        if self._topic_runner is None:
            raise AssertionError("a request before the node was started")
        self._topic_runner.submit(exchange)

    def _to_api_versions(self, exchange: Exchange) -> None:
        request = exchange.request
        exchange.reply(discovery.api_versions(request.message, request.api_version))

    def _to_find_coordinator(self, exchange: Exchange) -> None:
        request, options = exchange.request, self._options
        answer = discovery.find_coordinator(
            request.message, request.api_version, options.node_id, options.host, options.port
        )
        exchange.reply(answer)

    # -- what happens besides ------------------------------------------------------------------

    def _tell_change(self, change: Change) -> None:
        """Tell the coordinators, and the journal, that a topic is not what it was."""
        event = TopicChanged(
            topic=change.topic,
            change=change.change,
            partitions_before=change.before,
            partitions=change.after,
        )
        self._observe(self._clock.now_ms(), event)
        for runner in self._runners:
            runner.topic_changed(change.topic, change.change)
        if self._config.rebalance_on_topic_change and self._topic_runner is not None:
            self._topic_runner.wake(change.topic)

    def group(self, group_id: str) -> Group | None:
        """A group, to be shown and not to be changed."""
        coordinator = self._runners[self._shard_of(group_id)].coordinator
        return coordinator.groups.get(group_id) if coordinator else None

    def groups(self) -> list[Group]:
        """All groups, to be shown and not to be changed."""
        coordinators = (runner.coordinator for runner in self._runners)
        return [group for c in coordinators if c for group in c.groups.values()]

    def count_groups(self) -> int:
        """How many groups there are."""
        return sum(len(c.groups) for runner in self._runners if (c := runner.coordinator))

    @property
    def topics(self) -> TopicCounts:
        """How many partitions each topic has."""
        return self._topics

    @property
    def unserved_shards(self) -> list[int]:
        """The shards that can't be served just now."""
        return [runner.shard for runner in self._runners if runner.coordinator is None]

    @property
    def parked_fetches(self) -> int:
        """How many requests for records wait, as there never are any."""
        return self._topic_runner.parked if self._topic_runner else 0

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        coordinator = self._runners[self._shard_of(group.id)].coordinator
        return coordinator.phase_deadline(group) if coordinator else None

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        if self._topic_runner is None:
            raise AssertionError("the node was not started")
        await self._topic_runner.ensure(name, partitions)

    async def force_rebalance(self, group_id: str) -> None:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        await self._runners[self._shard_of(group_id)].force_rebalance(group_id)


def _call(exchange: Exchange, message: Any) -> Call:  # noqa: ANN401  # any request
    request = exchange.request
    return Call(message, request.api_version, request.client_id or "", exchange.peer_host)
