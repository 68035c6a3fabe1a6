"""The node: which core gets which request, and when it is time for what.

Requests about groups go to the shard of the group, those about topics to the catalogue, and the
few that ask many shards are split and their answers gathered.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_protocol.journal import TopicChanged
from coterie_server.group import Call, CommitOrder, Coordinator
from coterie_server.log.limits import LimitLog
from coterie_server.log.logger import get_logger
from coterie_server.serving import (
    CATALOGUE_SHARD,
    CatalogueShard,
    GroupShard,
    LeaseKeeper,
    Surroundings,
    Terms,
    TopicCounts,
    Trust,
    discovery,
)
from coterie_server.serving.fan_out import Gathering, split
from coterie_server.serving.pulse import Pulse

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from coterie_protocol.journal import Event
    from coterie_server.group import Config, Group, IdSource
    from coterie_server.journal import AcknowledgedState
    from coterie_server.net import Exchange
    from coterie_server.serving import Meter
    from coterie_server.serving.clock import Clock
    from coterie_server.storage import Lease, Store
    from coterie_server.topics import Catalogue, Change, PartitionEnds

__all__ = ["Node", "NodeOptions"]

_log = get_logger(__name__)


#: More generations than a store can have lost: a group would have to rebalance every second for
#: eleven days.
_GENERATIONS_SKIPPED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is called, where it is reached, and how it divides its groups."""

    node_id: int
    host: str
    port: int
    shards: int
    lease_ms: int
    #: Go on with a store that has lost something that was acknowledged.
    accept_loss: bool = False

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
        make_catalogue: Callable[[PartitionEnds], Catalogue],
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
        self._pulse = Pulse(clock, observe)
        self._topics = TopicCounts()
        self._shards = options.shards
        self._groups: list[GroupShard] = []
        self._catalogue: CatalogueShard | None = None
        self._trust = Trust(clock.elapsed_s)
        terms = Terms(options.owner, options.address, options.lease_ms)
        self._keeper = LeaseKeeper(store, terms, self._trust, clock.date_ms, self)
        self._around = Surroundings(store, clock, self._trust, self._keeper.lost, meter, LimitLog())
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._routes = self._make_routes()

    # -- life ----------------------------------------------------------------------------------

    async def start(self, topics: dict[str, int] | None = None) -> None:
        """Claim the shards, read them, and be ready to serve."""
        self._pulse.start()
        await self._store.reserve(self._options.owner)
        await self._agree_on_shards()
        leases = await self._keeper.claim_all((CATALOGUE_SHARD, *range(self._shards)))
        ids = self._make_ids(leases[CATALOGUE_SHARD].epoch)
        self._catalogue = self._make_catalogue_shard(leases.pop(CATALOGUE_SHARD))
        await self._catalogue.load()
        self._groups = [self._make_group_shard(lease, ids) for _, lease in sorted(leases.items())]
        self._keeper.start()
        for shard in self._groups:
            await shard.load()
        if self._options.accept_loss:
            for shard in self._groups:
                await shard.until_durable()
            await self._store.accept_loss()
            _log.warning(
                "what the store lacks is taken for lost, and all groups begin new generations;"
                " from now on start it without --accept-data-loss",
                generations_skipped=_GENERATIONS_SKIPPED,
            )
        for name, partitions in (topics or {}).items():
            await self._catalogue.ensure(name, partitions)
        self._clock.start()

    async def _agree_on_shards(self) -> None:
        """A store keeps the number of shards that it was begun with."""
        wanted = self._options.shards
        self._shards = int(await self._store.agree("shards", str(wanted)))
        if self._shards != wanted:
            _log.warning("the store keeps its number of shards", shards=self._shards, set=wanted)

    def _make_catalogue_shard(self, lease: Lease) -> CatalogueShard:
        return CatalogueShard(
            lease,
            self._around,
            self._make_catalogue,
            counts=self._topics,
            on_change=self._tell_change,
            until_told=self._until_told,
        )

    def _make_group_shard(self, lease: Lease, ids: IdSource) -> GroupShard:
        order = CommitOrder()  # of all the lives that the shard has in this process
        return GroupShard(
            lease,
            self._around,
            lambda: Coordinator(
                self._config,
                ids,
                self._topics,
                self.count_groups,
                commit_order=order,
                date_of=self._clock.date_of,
                topic_changed_at=self._topics.changed_at,
            ),
            observe=self._observe,
            arm=self._arm,
            generations_lost=_GENERATIONS_SKIPPED if self._options.accept_loss else 0,
        )

    async def stop(self) -> None:
        """Answer what is parked, see that all that was begun is durable, give the shards up."""
        self._pulse.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for shard in self.all_shards():
            await shard.close()
        await self._keeper.stop()

    # -- leases --------------------------------------------------------------------------------

    def _shard(self, number: int) -> CatalogueShard | GroupShard:
        if number == CATALOGUE_SHARD and self._catalogue is not None:
            return self._catalogue
        return self._groups[number]

    def all_shards(self) -> list[CatalogueShard | GroupShard]:
        """Whatever is served: the shards of groups by number, then the catalogue."""
        catalogue = [] if self._catalogue is None else [self._catalogue]
        return [*self._groups, *catalogue]

    def lost(self, shard: int) -> None:
        """Another node has a shard: stop serving it."""
        self._shard(shard).fence()

    def gained(self, lease: Lease) -> None:
        """A shard that was lost is this node's again: serve it."""
        self._shard(lease.shard).take_over(lease)

    def confirmed(self) -> None:
        """The leases hold: go on with what was held meanwhile, then with what is due."""
        for shard in self.all_shards():
            shard.trusted()
        self._fire()

    def doubted(self) -> None:
        """Nobody knows whether the leases hold: let nobody wait for that."""
        for shard in self.all_shards():
            shard.doubted()

    @property
    def trouble(self) -> str:
        """Why not all requests can be served just now, in a sentence; empty if they can."""
        shards = self.all_shards()
        unserved = [shard for shard in shards if not shard.is_served]
        if unserved:
            what = f"{len(unserved)} of {len(shards)} shards can't be served"
            why = next((shard.failure for shard in unserved if shard.failure), "")
            return f"{what}: {why}." if why else f"{what}; the log says why."
        if self._keeper.trouble:
            return f"The node's leases on its shards can't be renewed: {self._keeper.trouble}."
        return "" if self._trust.holds else "The node's leases on its shards have run out."

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
        if self._alarm is not None:
            self._alarm.cancel()
        self._alarm = None
        now_ms = self._clock.now_ms()
        for shard in self._groups:
            shard.fire_due(now_ms)
        due = [at_ms for shard in self._groups if (at_ms := shard.next_deadline()) is not None]
        if due and self._trust.holds:  # or `confirmed` comes back to it
            self._arm(min(due))

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        self._routes[type(exchange.request.message)](exchange)

    def hear(self, message: m.HeartbeatRequest) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled."""
        return self._groups[self._shard_of(message.group_id)].hear(message)

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
        shard = self._groups[self._shard_of(request.message.group_id)]
        shard.submit(exchange, _call(exchange, request.message))

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
            self._groups[shard].submit(exchange, _call(exchange, part))
            return
        gathering = Gathering(exchange.request.message, exchange, len(parts))
        for shard, part in parts.items():
            self._groups[shard].submit(gathering.part(), _call(exchange, part))

    def _to_topics(self, exchange: Exchange) -> None:
        if self._catalogue is None:
            raise AssertionError("a request before the node was started")
        self._catalogue.submit(exchange)

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
        self._observe(self._clock.date_ms(), event)
        for shard in self._groups:
            shard.topic_changed(change.topic, change.change)
        if self._config.rebalance_on_topic_change and self._catalogue is not None:
            self._catalogue.wake(change.topic)

    async def _until_told(self) -> None:
        """Wait until what the groups were told of topics is durable."""
        for shard in self._groups:
            await shard.settled()

    def find_loss(self, journal: AcknowledgedState) -> str | None:
        """What a journal knows and the groups do not, in words; None if nothing is missing."""
        return journal.find_loss(self._generation_of, self._committed_at, self._forgot_at)

    def _generation_of(self, group_id: str) -> int:
        coordinator = self._groups[self._shard_of(group_id)].coordinator
        return coordinator.generation_of(group_id) if coordinator else 0

    def _committed_at(self, group_id: str, topic: str, partition: int) -> int | None:
        group = self.group(group_id)
        row = group.offsets.get((topic, partition)) if group is not None else None
        return row.committed_at_ms if row is not None else None

    def _forgot_at(self, group_id: str) -> int:
        coordinator = self._groups[self._shard_of(group_id)].coordinator
        return coordinator.forgot_at_ms if coordinator else -1

    def group(self, group_id: str) -> Group | None:
        """A group, to be shown and not to be changed."""
        coordinator = self._groups[self._shard_of(group_id)].coordinator
        return coordinator.groups.get(group_id) if coordinator else None

    def groups(self) -> list[Group]:
        """All groups, to be shown and not to be changed."""
        coordinators = (shard.coordinator for shard in self._groups)
        return [group for c in coordinators if c for group in c.groups.values()]

    def group_names(self) -> list[str]:
        """The names of all groups."""
        coordinators = (shard.coordinator for shard in self._groups)
        return [name for c in coordinators if c for name in c.groups]

    @property
    def shards(self) -> Sequence[GroupShard]:
        """The shards of groups, by number; not to be changed."""
        return self._groups

    def count_groups(self) -> int:
        """How many groups there are."""
        return sum(len(c.groups) for shard in self._groups if (c := shard.coordinator))

    @property
    def topics(self) -> TopicCounts:
        """How many partitions each topic has."""
        return self._topics

    @property
    def parked_fetches(self) -> int:
        """How many requests for records wait, as there never are any."""
        return self._catalogue.parked if self._catalogue else 0

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        coordinator = self._groups[self._shard_of(group.id)].coordinator
        return coordinator.phase_deadline(group) if coordinator else None

    def date_of(self, now_ms: int) -> int:
        """The date of a moment of the time that the groups go by."""
        return self._clock.date_of(now_ms)

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        if self._catalogue is None:
            raise AssertionError("the node was not started")
        await self._catalogue.ensure(name, partitions)

    async def force_rebalance(self, group_id: str) -> None:
        """Start one rebalance of a group of static members, or raise `Refusal`."""
        await self._groups[self._shard_of(group_id)].force_rebalance(group_id)


def _call(exchange: Exchange, message: Any) -> Call:  # noqa: ANN401  # any request
    request = exchange.request
    return Call(message, request.api_version, request.client_id or "", exchange.peer_host)
