"""The node: which shard gets which request, and when something is due.

Requests about groups go to the shard of the group, those about topics to the catalogue.  The few
that ask many shards are divided, and their answers put together again.  What other nodes have is
refused as Kafka does, so that clients ask for the right one.
"""

from __future__ import annotations

import asyncio
from functools import partial
from typing import TYPE_CHECKING, Final

from coterie_server.group import CommitOrder, GroupCoordinator
from coterie_server.log.limits import LimitLog
from coterie_server.log.logger import get_logger
from coterie_server.serving import (
    CATALOGUE_SHARD,
    Cluster,
    Directory,
    GroupShard,
    LeaseKeeper,
    LeaseTrust,
    NodeContext,
    NodeNote,
    TopicCounts,
    TopicService,
    ask_node,
    wake,
)
from coterie_server.serving.accepted_loss import accept_loss, tell_of_lost_topics
from coterie_server.serving.clock import Alarm, Ticker
from coterie_server.serving.group_shard import fire_due, load_all, tell_of_topics
from coterie_server.serving.node_options import NodeOptions
from coterie_server.serving.router import Router
from coterie_server.serving.strays import refuse_strays
from coterie_server.storage.agreed import agreed_number

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Mapping

    from coterie_protocol import messages as m
    from coterie_protocol.journal import Event
    from coterie_server.group import Config, Group, IdSource
    from coterie_server.group.step import Step
    from coterie_server.net import Exchange
    from coterie_server.net.fast_path import Sender
    from coterie_server.security.records import Credentials
    from coterie_server.serving import (
        AskNode,
        CatalogueShard,
        Meter,
        TopicsVersion,
    )
    from coterie_server.serving.clock import Clock
    from coterie_server.storage import Lease, Store
    from coterie_server.topics import Catalogue, PartitionEnds

__all__ = ["Node", "NodeOptions"]

_log = get_logger(__name__)

#: Under what name a store keeps the number of its shards.
_SHARDS: Final = "shards"


class Node:
    """Serves its share of the shards of a store."""

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
        #: The date, and that of a moment of the time that the groups go by.
        self.date_ms, self.date_of = clock.date_ms, clock.date_of
        self._make_ids = make_ids
        self._make_catalogue = make_catalogue
        #: How other nodes are asked.
        self.ask: AskNode = ask_node
        #: Told which groups went to another node.
        self.forget: Callable[[Collection[str]], None] = lambda _: None
        self._ticker, self._alarm = Ticker(clock, observe), Alarm(clock, self._fire)
        #: How many partitions each topic has.
        self.topics, self._shard_count = TopicCounts(), options.shards
        #: The shards of groups, by number, this node's and others'.
        self.shards: list[GroupShard] = []
        self._router: Router | None = None
        self.node_id = options.node_id
        self.cluster = Cluster(options.owner, options.lease_ms / 1000, clock.elapsed_s)
        self._addresses = dict(options.addresses) or {"": options.address}
        self._directory = Directory(self.cluster, options.node_id, self._addresses)
        self.trust = LeaseTrust(clock.elapsed_s)
        self._keeper = LeaseKeeper(store, options.lease_terms, self.trust, self.cluster, self)
        self._context = NodeContext(
            store,
            clock,
            self.trust,
            self._keeper.lost,
            self._keeper.claim_again,
            meter,
            LimitLog(),
            options.access,
            is_shared=options.look_every_ms is not None,
            count_shards=lambda: self._shard_count,
            observe=observe,
            forget=lambda groups: self.forget(groups),  # noqa: PLW0108  # it is set later
            arm=self._alarm.arm,
        )
        self._has_joined, self.listeners = False, self._context.listeners

    # -- life ----------------------------------------------------------------------------------

    async def start(
        self, topics: dict[str, int] | None = None, users: Credentials | None = None
    ) -> None:
        """Claim this node's share of the shards, read them, and be ready to serve."""
        self._ticker.start()
        await self._agree_on_shards()
        self.shards = [self._make_group_shard(shard) for shard in range(self._shard_count)]
        service = self._make_topic_service()
        http, look_soon = self._options.http_addresses, self._keeper.look_soon
        self._router = Router(self.shards, service, self._directory, http, look_soon)
        leases = await self._keeper.join((CATALOGUE_SHARD, *range(self._shard_count)))
        self._has_joined = True
        if CATALOGUE_SHARD in leases:
            await service.catalogue.load()
        else:
            await service.read()
        self._keeper.start()
        await load_all(shard for shard in self.shards if shard.shard in leases)
        if self._options.accept_loss:
            await accept_loss(self._store, self.shards)
        await service.beginning.begin(topics or {}, users or {})
        if self._options.accept_loss:
            tell_of_lost_topics(self.shards, self.topics)
        self._clock.start()

    async def _agree_on_shards(self) -> None:
        """A store keeps the number of shards that it was begun with."""
        wanted = self._options.shards
        agreed = await self._store.agree(_SHARDS, str(wanted))
        count = self._shard_count = agreed_number(self._store.url, _SHARDS, agreed)
        if count != wanted:
            _log.warning("the store keeps its number of shards", shards=count, set=wanted)

    def _make_topic_service(self) -> TopicService:
        context, make = self._context, self._make_catalogue
        service = TopicService(context, make, self.topics, self._directory, self, self.ask)
        service.announce = self._keeper.announce
        return service

    def _make_group_shard(self, shard: int) -> GroupShard:
        order = CommitOrder()  # of all the lives that the shard has in this process
        return GroupShard(
            shard,
            self._context,
            lambda: GroupCoordinator(
                self._config,
                self._make_ids(self.shards[shard].fence_number),
                self.topics,
                self.count_groups,
                count_owned=lambda owner: sum(each.groups_of(owner) for each in self.shards),
                commit_order=order,
                date_of=self._clock.date_of,
            ),
            is_lossy=self._options.accept_loss,
            check=partial(refuse_strays, self._store.url, shard, self._shard_count),
            know_topics=self._know_topics,
        )

    async def _know_topics(self) -> None:
        """Know the topics that other nodes' groups knew."""
        if not self._serving.topics.catalogue.may_answer:
            await self._serving.topics.copy.refresh()

    async def leave(self) -> None:
        """Give the shards to other nodes, if there are any, and serve them until then."""
        await self._keeper.leave()

    async def stop(self) -> None:
        """Wait until what was begun is durable, refuse what is parked, and give the shards up."""
        self._keeper.claim_no_more()
        self._ticker.stop()
        self._alarm.cancel()
        await asyncio.gather(*(shard.close() for shard in self.shards))
        if self._router is not None:
            await self._router.close()
        await self._keeper.stop()

    # -- leases --------------------------------------------------------------------------------

    def all_shards(self) -> list[CatalogueShard | GroupShard]:
        """The shards of groups by number, then the catalogue."""
        return [] if self._router is None else [*self.shards, self._router.topics.catalogue]

    def note(self, *, is_settled: bool, is_leaving: bool = False) -> bytes:
        """What the node tells the others."""
        service, tls = self._serving.topics, self._options.http_tls
        fences = ((each.shard, each.recovered_under) for each in self.shards)
        recovered = {shard: fence for shard, fence in fences if fence is not None}
        return NodeNote(
            self._options.node_id,
            self._addresses,
            is_settled,
            is_leaving,
            service.made,
            service.seen,
            recovered,
            self._options.peer_http,
            "" if tls is None else tls.fingerprint,
            self._options.has_tls,
            self._options.wants_proof,
            service.beginning.is_over,
            self._options.access.authorizer is not None,
            self._options.lease_ms,
        ).to_bytes()

    def lost(self, shard: int) -> None:
        """Another node has a shard: stop serving it."""
        if shard == CATALOGUE_SHARD:
            self._serving.topics.lost()
        else:
            self.shards[shard].fence()

    def gained(self, lease: Lease, how: str, former_owner: str) -> None:
        """A shard is this node's: serve it."""
        how = how if self._has_joined else "start"  # which reads it
        if lease.shard == CATALOGUE_SHARD:
            self._serving.topics.gained(lease, how, former_owner)
        elif how == "start":
            self.shards[lease.shard].own(lease, how, former_owner)
        else:
            self.shards[lease.shard].take_over(lease, how, former_owner)

    def is_forming(self, shard: int) -> bool:
        """Whether members wait for a group of a shard to begin, which would wait anew elsewhere."""
        return shard != CATALOGUE_SHARD and self.shards[shard].is_forming

    async def give_up(self, shard: int) -> None:
        """Serve a shard no longer, and return when nothing more is written to it."""
        if shard == CATALOGUE_SHARD:
            await self._serving.topics.give_up()
        else:
            await self.shards[shard].give_up()

    async def wake_others(self) -> None:
        """Have the other nodes look at once, as there is something for them to claim."""
        await wake(self.cluster.others, self.ask)

    def looked(self) -> None:
        """The other nodes may not be what they were."""
        self._serving.topics.looked()

    def confirmed(self) -> None:
        """The leases hold: go on with what was held meanwhile, then with what is due."""
        have_held = [shard.trusted() for shard in self.all_shards()]
        # What was held may be heartbeats, which are heard in the next turns.
        self._alarm.go_on(have_waited=any(have_held))

    def doubted(self) -> None:
        """It can't be found out whether the leases hold: refuse what waits for that."""
        self._alarm.doubt()
        if self._context.meter is not None:
            self._context.meter.store_failed()
        is_followed = any(not note.is_leaving for note in self.cluster.others)
        for shard in self.all_shards():
            shard.doubted(is_followed=is_followed)

    @property
    def trouble(self) -> str:
        """Why not all requests can be served just now, in a sentence; empty if they can."""
        shards = self.all_shards()
        if unserved := [shard for shard in shards if shard.is_owned and not shard.is_served]:
            failures = (f": {shard.failure}" for shard in unserved if shard.failure)
            why = next(failures, " yet")  # those that are being read
            return f"{len(unserved)} of {len(shards)} shards can't be served{why}."
        lapse = "" if self.trust.holds else "The node's leases on its shards have run out."
        return self._keeper.troubles.sentence or lapse

    # -- time ----------------------------------------------------------------------------------

    def _fire(self) -> bool:
        fire_due(self.shards, self._clock.now_ms())
        due = [at_ms for shard in self.shards if (at_ms := shard.next_deadline()) is not None]
        if due and self.trust.holds:  # or `confirmed` comes back to it
            self._alarm.arm(min(due))
        return self.trust.holds

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request."""
        self._serving.routes[type(exchange.message)](exchange)

    def try_heartbeat(
        self, message: m.HeartbeatRequest, sender: Sender
    ) -> m.HeartbeatResponse | None:
        """The answer to a heartbeat, if it can be given at once; None if it is to be handled."""
        return self._serving.try_heartbeat(message, sender)

    @property
    def _serving(self) -> Router:
        if self._router is None:
            raise AssertionError("the node was not started")
        return self._router

    # -- what happens besides ------------------------------------------------------------------

    def topics_changed(self, changes: Mapping[str, str]) -> None:
        """Tell the coordinators what became of topics."""
        tell_of_topics(self.shards, changes, self._context.turns)
        if self._config.rebalance_on_topic_change:
            self._serving.topics.wake(changes)

    async def until_told(self) -> None:
        """Wait until what the groups were told of topics is durable."""
        for shard in self.shards:
            await shard.until_told()

    def groups_know(self, version: TopicsVersion) -> bool:
        """Whether the groups of all nodes know the topics at this version, durably."""
        return all(self._knows(shard, version) for shard in self.shards)

    def _knows(self, shard: GroupShard, version: TopicsVersion) -> bool:
        if shard.is_owned:
            return shard.has_recovered
        return self.cluster.groups_know(shard.shard, version)

    def are_unread(self) -> bool:
        """Whether groups are on their way from one node to another, and known to none."""
        return any(
            not shard.is_served and not shard.failure
            for shard in self.shards
            if shard.is_owned or shard.shard not in self.cluster.owners
        )

    # -- what there is, to be shown and not to be changed --------------------------------------

    @property
    def serves_all(self) -> bool:
        """Whether all groups are this node's, and in memory."""
        return all(shard.is_served for shard in self.shards)

    def group_shard(self, group_id: str) -> GroupShard:
        """The shard that a group is in, whether or not this node has it."""
        return self._serving.group_shard(group_id)

    def coordinator(self, group_id: str) -> GroupCoordinator | None:
        """The coordinator that a group has, or would have; None if this node has none for it."""
        return self._serving.group_shard(group_id).core

    def group(self, group_id: str) -> Group | None:
        """A group."""
        coordinator = self.coordinator(group_id)
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
        return self._router.topics.parked if self._router is not None else 0

    def phase_deadline(self, group: Group) -> int | None:
        """When the present phase of a group's rebalance ends at the latest."""
        coordinator = self.coordinator(group.id)
        return coordinator.phase_deadline(group) if coordinator else None

    async def ensure_topic(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        await self._serving.topics.beginning.ensure(name, partitions)

    async def operate(self, group_id: str, operation: Callable[[Step], None]) -> None:
        """Do what an operator asks of a group, durably; may raise `Refusal`."""
        await self._serving.group_shard(group_id).operate(operation)
