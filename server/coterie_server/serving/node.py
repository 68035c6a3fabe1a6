"""The node: which shard gets which request, and when something is due.

Requests about groups go to the shard of the group, those about topics to the catalogue.  The few
that ask many shards are divided, and their answers put together again.
"""

from __future__ import annotations

import asyncio
import zlib
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_server.group import CommitOrder, GroupCoordinator
from coterie_server.log.limits import LimitLog
from coterie_server.log.logger import get_logger
from coterie_server.serving import (
    CATALOGUE_SHARD,
    CatalogueShard,
    GroupShard,
    LeaseKeeper,
    LeaseTerms,
    LeaseTrust,
    NodeContext,
    TopicCounts,
    discovery,
)
from coterie_server.serving.clock import Ticker
from coterie_server.serving.fan_out import ask_all, divide
from coterie_server.serving.group_shard import fire_due, tell_of_topics
from coterie_server.serving.shard import call_soon
from coterie_server.storage import StoreError

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from coterie_protocol.journal import Event
    from coterie_server.address import Address
    from coterie_server.group import Config, Group, IdSource
    from coterie_server.journal import AcknowledgedState
    from coterie_server.net import Exchange
    from coterie_server.serving import Meter, PendingRequest
    from coterie_server.serving.clock import Clock
    from coterie_server.storage import Lease, Store
    from coterie_server.topics import Catalogue, PartitionEnds

__all__ = ["Node", "NodeOptions"]

_log = get_logger(__name__)

#: More generations than a store can have lost: a group would have to rebalance every second for
#: eleven days.
_GENERATIONS_SKIPPED: Final = 1_000_000


@dataclass(frozen=True, slots=True)
class NodeOptions:
    """What a node is called, where it is reached, and how it divides its groups."""

    node_id: int
    #: Where clients find it, for those who ask who has a shard.
    address: Address
    shards: int
    lease_ms: int
    #: Go on with a store that has lost something that was acknowledged.
    accept_loss: bool = False
    #: The host and the port on which the node answers HTTP, if it does.
    http: tuple[str, int] | None = None

    @property
    def owner(self) -> str:
        """The name under which it holds its shards."""
        return f"node-{self.node_id}"


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
        self._ticker = Ticker(clock, observe)
        #: How many partitions each topic has.
        self.topics = TopicCounts()
        self._shard_count = options.shards
        #: The shards of groups, by number.
        self.shards: list[GroupShard] = []
        self._catalogue: CatalogueShard | None = None
        self._trust = LeaseTrust(clock.elapsed_s)
        terms = LeaseTerms(options.owner, str(options.address), options.lease_ms)
        self._keeper = LeaseKeeper(store, terms, self._trust, clock.date_ms, self)
        self._context = NodeContext(
            store,
            clock,
            self._trust,
            self._keeper.lost,
            meter,
            LimitLog(),
            observe=observe,
            arm=self._arm,
        )
        self._alarm: asyncio.TimerHandle | None = None
        self._alarm_ms = 0
        self._routes = self._make_routes()

    # -- life ----------------------------------------------------------------------------------

    async def start(self, topics: dict[str, int] | None = None) -> None:
        """Claim the shards, read them, and be ready to serve."""
        self._ticker.start()
        await self._store.reserve(self._options.owner)
        await self._agree_on_shards()
        leases = await self._keeper.claim_all((CATALOGUE_SHARD, *range(self._shard_count)))
        ids = self._make_ids(leases[CATALOGUE_SHARD].epoch)
        self._catalogue = self._make_catalogue_shard(leases.pop(CATALOGUE_SHARD))
        await self._catalogue.load()
        self.shards = [self._make_group_shard(lease, ids) for _, lease in sorted(leases.items())]
        self._keeper.start()
        for shard in self.shards:
            await shard.load()
        if self._options.accept_loss:
            for shard in self.shards:
                if not await shard.until_durable():
                    raise StoreError(f"shard {shard.shard} can't be stored; the log says why")
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
        self._shard_count = int(await self._store.agree("shards", str(wanted)))
        if self._shard_count != wanted:
            _log.warning(
                "the store keeps its number of shards", shards=self._shard_count, set=wanted
            )

    def _make_catalogue_shard(self, lease: Lease) -> CatalogueShard:
        return CatalogueShard(
            lease,
            self._context,
            self._make_catalogue,
            counts=self.topics,
            on_change=self._topics_changed,
            until_told=self._until_told,
        )

    def _make_group_shard(self, lease: Lease, ids: IdSource) -> GroupShard:
        order = CommitOrder()  # of all the lives that the shard has in this process
        return GroupShard(
            lease,
            self._context,
            lambda: GroupCoordinator(
                self._config,
                ids,
                self.topics,
                self.count_groups,
                commit_order=order,
                date_of=self._clock.date_of,
                topic_changed_at=self.topics.changed_at,
            ),
            generations_lost=_GENERATIONS_SKIPPED if self._options.accept_loss else 0,
        )

    async def stop(self) -> None:
        """Wait until what was begun is durable, refuse what is parked, and give the shards up."""
        self._ticker.stop()
        if self._alarm is not None:
            self._alarm.cancel()
        for shard in self.all_shards():
            await shard.close()
        await self._keeper.stop()

    # -- leases --------------------------------------------------------------------------------

    def _shard(self, number: int) -> CatalogueShard | GroupShard:
        if number == CATALOGUE_SHARD and self._catalogue is not None:
            return self._catalogue
        return self.shards[number]

    def all_shards(self) -> list[CatalogueShard | GroupShard]:
        """The shards of groups by number, then the catalogue."""
        catalogue = [] if self._catalogue is None else [self._catalogue]
        return [*self.shards, *catalogue]

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
        """It can't be found out whether the leases hold: refuse what waits for that."""
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
        fire_due(self.shards, self._clock.now_ms())
        due = [at_ms for shard in self.shards if (at_ms := shard.next_deadline()) is not None]
        if due and self._trust.holds:  # or `confirmed` comes back to it
            self._arm(min(due))

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        self._routes[type(exchange.message)](exchange)

    def try_heartbeat(self, message: m.HeartbeatRequest) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled."""
        return self.shards[self._shard_of(message.group_id)].try_heartbeat(message)

    def _make_routes(self) -> dict[type[Any], Callable[[Exchange], None]]:
        node_id = self._options.node_id
        return {
            m.ApiVersionsRequest: self._tell_versions,
            m.CreatePartitionsRequest: self._to_topics,
            m.CreateTopicsRequest: self._to_topics,
            m.DeleteGroupsRequest: self._to_several,
            m.DeleteTopicsRequest: self._to_topics,
            m.DescribeGroupsRequest: self._to_several,
            m.FetchRequest: self._to_topics,
            m.FindCoordinatorRequest: lambda e: e.reply(
                discovery.find_coordinator(e.message, e.version, node_id, e.advertised)
            ),
            m.HeartbeatRequest: self._to_group,
            m.JoinGroupRequest: self._to_group,
            m.LeaveGroupRequest: self._to_group,
            m.ListGroupsRequest: self._to_all,
            m.ListOffsetsRequest: self._to_topics,
            m.MetadataRequest: self._to_topics,
            m.OffsetCommitRequest: self._to_group,
            m.OffsetDeleteRequest: self._to_group,
            m.OffsetFetchRequest: lambda e: (
                self._to_several(e) if e.message.groups else self._to_group(e)
            ),
            m.ProduceRequest: self._to_topics,
            m.SaslAuthenticateRequest: lambda e: e.reply(discovery.authenticate(e.message)),
            m.SaslHandshakeRequest: lambda e: e.reply(discovery.handshake(e.message)),
            m.SyncGroupRequest: self._to_group,
        }

    def _tell_versions(self, exchange: Exchange) -> None:
        http = discovery.http_address_for(exchange.host, self._options.http)
        exchange.reply(discovery.api_versions(exchange.message, exchange.version, http))

    def _shard_of(self, group_id: str) -> int:
        return zlib.crc32(group_id.encode()) % self._shard_count

    def _to_group(self, exchange: Exchange) -> None:
        self.shards[self._shard_of(exchange.message.group_id)].handle(exchange)

    def _to_several(self, exchange: Exchange) -> None:
        divide(exchange, self._shard_of, self._hand_out, call_soon)

    def _to_all(self, exchange: Exchange) -> None:
        counts = [shard.group_count for shard in self.shards]
        ask_all(exchange, counts, self._hand_out, call_soon)

    def _hand_out(self, shard: int, part: PendingRequest) -> None:
        self.shards[shard].handle(part)

    def _to_topics(self, exchange: Exchange) -> None:
        if self._catalogue is None:
            raise AssertionError("a request before the node was started")
        self._catalogue.handle(exchange)

    # -- what happens besides ------------------------------------------------------------------

    def _topics_changed(self, changes: Mapping[str, str]) -> None:
        """Tell the coordinators what became of topics."""
        tell_of_topics(self.shards, changes, self._context.turns)
        if self._config.rebalance_on_topic_change and self._catalogue is not None:
            self._catalogue.wake(changes)

    async def _until_told(self) -> None:
        """Wait until what the groups were told of topics is durable."""
        for shard in self.shards:
            await shard.until_told()

    def find_loss(self, journal: AcknowledgedState) -> str | None:
        """What a journal knows and the groups do not, in words; None if nothing is missing."""
        return journal.find_loss(self._generation_of, self._committed_at, self._forgot_at)

    def _generation_of(self, group_id: str) -> int:
        coordinator = self._coordinator(group_id)
        return coordinator.generation_of(group_id) if coordinator else 0

    def _committed_at(self, group_id: str, topic: str, partition: int) -> int | None:
        group = self.group(group_id)
        row = group.offsets.get((topic, partition)) if group else None
        return row.committed_at_ms if row else None

    def _forgot_at(self, group_id: str) -> int:
        coordinator = self._coordinator(group_id)
        return coordinator.table.floor.forgot_at_ms if coordinator else -1

    # -- what there is, to be shown and not to be changed --------------------------------------

    def _coordinator(self, group_id: str) -> GroupCoordinator | None:
        return self.shards[self._shard_of(group_id)].core

    def group(self, group_id: str) -> Group | None:
        """A group."""
        coordinator = self._coordinator(group_id)
        return coordinator.groups.get(group_id) if coordinator else None

    def groups(self) -> list[Group]:
        """All groups."""
        return [g for shard in self.shards if shard.core for g in shard.core.groups.values()]

    def group_names(self) -> list[str]:
        """The names of all groups."""
        return [name for shard in self.shards if shard.core for name in shard.core.groups]

    def count_groups(self) -> int:
        """How many groups there are."""
        return sum(shard.group_count for shard in self.shards)

    @property
    def parked_fetches(self) -> int:
        """How many requests for records wait, as there never are any."""
        return self._catalogue.parked if self._catalogue else 0

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        coordinator = self._coordinator(group.id)
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
        await self.shards[self._shard_of(group_id)].force_rebalance(group_id)
