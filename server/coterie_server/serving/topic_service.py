"""Topics, on a node that has the catalogue and on one that has not.

One node has the catalogue, and it alone creates, extends and deletes topics.  The others keep a
copy of what is stored, read it again when the owner says that it has changed, and answer from that
what only tells of topics.  What changes them, they pass on to the owner.

A deletion is over when the groups of all nodes have forgotten the topic.  So each node says up to
which change its groups know the topics, durably.
"""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Coroutine
from contextlib import suppress
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.log.logger import get_logger
from coterie_server.log.troubles import TroubleLog
from coterie_server.only_told import to_be_made
from coterie_server.serving.access_control import AccessControl, KnownTopics
from coterie_server.serving.answering import Answering
from coterie_server.serving.beginning import Beginning
from coterie_server.serving.catalogue_shard import CatalogueShard
from coterie_server.serving.cluster import CATALOGUE_SHARD, NO_TOPICS, TopicsVersion
from coterie_server.serving.failures import ABOUT_RIGHTS, CHANGES, failure
from coterie_server.serving.other_ends import OtherEnds
from coterie_server.serving.other_nodes import LATEST, OtherNodes
from coterie_server.serving.parked_fetches import ParkedFetches
from coterie_server.serving.peers import NODE_CLIENT_ID, PeerError
from coterie_server.serving.topic_copy import TopicCopy
from coterie_server.storage import StoreError
from coterie_server.topics import HangUp, Later

if TYPE_CHECKING:
    from collections.abc import Collection, Mapping

    from coterie_server.net import Exchange
    from coterie_server.serving.cluster import Directory
    from coterie_server.serving.context import NodeContext
    from coterie_server.serving.peers import AskNode
    from coterie_server.serving.topic_copy import Groups
    from coterie_server.serving.topic_counts import TopicCounts
    from coterie_server.storage import Lease
    from coterie_server.topics import Catalogue, PartitionEnds

__all__ = ["TopicService"]

_log = get_logger(__name__)

#: How long changes wait for a node that has the catalogue: for longer than leases last by default.
_WITHOUT_OWNER_S: Final = 5.0

Answer = Callable[["Exchange"], Coroutine[Any, Any, None]]
"""Finds the answer to a request; may raise `PeerError` and `StoreError`."""


class TopicService:
    """Answers requests about topics, and tells the groups of this node what becomes of them."""

    def __init__(
        self,
        context: NodeContext,
        make: Callable[[PartitionEnds], Catalogue],
        counts: TopicCounts,
        directory: Directory,
        groups: Groups,
        ask: AskNode,
    ) -> None:
        self._context = context
        self._clock = context.clock
        #: What keeps requests about topics and rights from being answered.
        self.troubles = TroubleLog(context.clock.now_ms)
        self._ends = context.ends
        self._make = make
        self._counts = counts
        self._directory = directory
        self._cluster = directory.cluster
        self._groups = groups
        self._others = OtherNodes(directory.cluster, ask)
        self._other_ends = OtherEnds(self._others.ends, context.ends.raise_to)
        self.catalogue = CatalogueShard(
            context,
            self._make_catalogue,
            counts=counts,
            on_change=self._changed,
            on_rights_change=self._tell_others,
            until_told=self._until_all_told,
        )
        self.copy = TopicCopy(context, self._make_catalogue, counts, self.catalogue, groups)
        self._parked = ParkedFetches(asyncio.get_running_loop().call_later)
        self._copied = TopicsVersion()
        self._looked = asyncio.Event()
        self._copying: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        self._answering = Answering()
        self.beginning = Beginning(
            self.catalogue,
            self.copy,
            self._cluster,
            self._others,
            counts,
            until_looked=self._until_looked,
            announce=self._tell_others,
        )
        #: Told when the others have to hear something new of this node.
        self.announce: Callable[[], None] = lambda: None

    def _make_catalogue(self, ends: PartitionEnds) -> Catalogue:
        catalogue = self._make(ends)
        catalogue.nodes = self._directory
        return catalogue

    def make_access_control(self) -> AccessControl | None:
        """What screens requests, if rights are checked at all."""
        context = self._context
        if context.access.authorizer is None:
            return None
        known = KnownTopics(self.catalogue, self.copy, self._make(self._ends).config)
        authorizer = context.access.authorizer
        return AccessControl(
            authorizer, context.access, known, context.clock, context.turns, self.troubles
        )

    # -- what the others are told --------------------------------------------------------------

    @property
    def made(self) -> TopicsVersion:
        """How far this node has brought the topics, if it has the catalogue."""
        return self.catalogue.version

    @property
    def seen(self) -> TopicsVersion:
        """Up to which change this node's groups know the topics, durably."""
        return self._copied.followed_by(self.catalogue.version)

    @property
    def parked(self) -> int:
        """How many requests for records wait, as there never are any."""
        return len(self._parked) + self.catalogue.parked

    # -- life ----------------------------------------------------------------------------------

    async def read(self) -> None:
        """Know the topics from here on, though another node has the catalogue."""
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        await self._copy_topics(owner.made if owner is not None else TopicsVersion())

    def _changed(self, changes: Mapping[str, str]) -> None:
        """Tell of topics that this node has changed, durably."""
        self._groups.topics_changed(changes)
        self._tell_others()

    def _tell_others(self) -> None:
        """Have the others hear of what has changed here, durably."""
        if self._cluster.others:
            self.announce()

    def gained(self, lease: Lease, how: str, former_owner: str) -> None:
        """Serve the catalogue, which another node had, if that is known."""
        if how == "start":  # which reads it; who had it may have died as it deleted topics
            self.catalogue.own(lease, how, former_owner)
            if former_owner and self._context.is_shared:
                self.catalogue.hold_back(self._until_former_deletions_end())
            return
        self.catalogue.take_over(lease, how, former_owner)
        if former_owner != lease.owner:
            self.catalogue.was_another_nodes()
            if former_owner:
                self.catalogue.hold_back(self._until_former_deletions_end())
        self.announce()

    def lost(self) -> None:
        """Another node has the catalogue."""
        self._copied = self.seen
        self.catalogue.fence()
        self._begin_copy(self._copied)

    async def give_up(self) -> None:
        """Let another node have the catalogue."""
        await self.catalogue.until_deletions_end()
        self._copied = self.seen
        await self._copy_topics(self._copied)
        await self.catalogue.give_up()

    def looked(self) -> None:
        """See what the other nodes say by now."""
        before, self._looked = self._looked, asyncio.Event()
        before.set()
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        made = NO_TOPICS if owner is None else owner.made
        is_behind = made != NO_TOPICS and not self.seen.covers(made)
        if is_behind and (self._copying is None or self._copying.done()):
            self._begin_copy(made)

    async def _until_looked(self) -> None:
        """Wait until the other nodes have been looked at once more."""
        await self._looked.wait()

    async def close(self) -> None:
        """Answer who waits for records, and end what is under way."""
        self._parked.close()
        self.copy.close()
        self._other_ends.close()
        await self.catalogue.close()
        self._answering.close()
        for task in list(self._tasks):
            task.cancel()

    def _begin_copy(self, version: TopicsVersion) -> None:
        self._copying = asyncio.get_running_loop().create_task(self._try_to_copy(version))
        self._tasks.add(self._copying)
        self._copying.add_done_callback(self._tasks.discard)

    async def _try_to_copy(self, version: TopicsVersion) -> None:
        try:
            await self._copy_topics(version)
        except Exception as error:  # noqa: BLE001  # whatever it is, it is tried again
            self.troubles.note("the topics can't be read", str(error) or repr(error))

    def wake(self, topics: Collection[str]) -> None:
        """Tell all who wait for records of topics that they are not what they were."""
        self.catalogue.wake(topics)
        self._parked.wake(topics)

    # -- the copy ------------------------------------------------------------------------------

    async def _copy_topics(self, version: TopicsVersion) -> None:
        """Read the topics, which are at least at this version, and let the groups know them."""
        await self.copy.refresh()
        await self._groups.until_told()
        self._copied = self._copied.followed_by(version)
        self.announce()

    async def _until_all_told(self) -> None:
        """Wait until the groups of all nodes know, durably, what has become of topics by now."""
        version = self.catalogue.version
        await self._groups.until_told()
        self.announce()
        while not self._groups.groups_know(version):
            await self._until_looked()
            # Nobody speaks of versions of a former timeline, and what was read since covers them.
            owner = self._cluster.owner_of(CATALOGUE_SHARD)
            version = version.in_timeline_of(self.made if owner is None else owner.made)

    async def _until_former_deletions_end(self) -> None:
        """Wait until the groups know what a former owner of the catalogue has deleted."""
        while self.catalogue.is_owned and not self.catalogue.is_served:
            await self._until_looked()
        await self._until_all_told()

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request; it is answered now or later, exactly once."""
        message = exchange.message
        if self._cluster.others and _asks_for_ends(message):
            if self._groups.are_unread():
                self._refuse(exchange)
                return
            if not message.by_itself:
                self._begin_answer(exchange, self._tell_ends)
                return
        if self.catalogue.is_served or self.copy.topics is None:
            self.catalogue.handle(exchange)
        elif isinstance(message, CHANGES) and not self._refuses_deletion(message):
            self._begin_answer(exchange, self._pass_on)
        elif _names_topics(message) or isinstance(message, ABOUT_RIGHTS):
            self._begin_answer(exchange, self._tell_topics)
        else:
            self._answer_from_copy(exchange)

    def _begin_answer(self, exchange: Exchange, answer: Answer) -> None:
        self._answering.begin(exchange, partial(self._answer, answer))

    async def _answer(self, answer: Answer, exchange: Exchange) -> None:
        try:
            await answer(exchange)
        except PeerError as error:
            self.troubles.note("another node can't be asked", str(error))
            self._refuse(exchange, in_doubt=error.was_sent)
        except StoreError as error:
            self.troubles.note("the topics can't be read", str(error))
            self._refuse(exchange)
        except Exception:  # noqa: BLE001  # a bug must not leave a client waiting
            _log.exception("a bug: a request could not be answered")
            self._refuse(exchange)

    def _refuse(self, exchange: Exchange, *, in_doubt: bool = False) -> None:
        message = exchange.message
        if isinstance(message, CHANGES):
            error = ErrorCode.REQUEST_TIMED_OUT if in_doubt else ErrorCode.NOT_CONTROLLER
            exchange.reply(failure(message, exchange.version, error))
        elif isinstance(message, m.ListOffsetsRequest):
            # Every client takes this for a reason to ask again.
            error = ErrorCode.NOT_LEADER_OR_FOLLOWER
            exchange.reply(failure(message, exchange.version, error))
        else:
            exchange.close("topics can't be told just now")

    def _refuses_deletion(self, message: Any) -> bool:  # noqa: ANN401  # any request
        """Whether this node deletes no topics; no client's right to delete has been asked then."""
        copy = self.copy.topics
        is_off = copy is not None and not copy.config.delete_enabled
        return is_off and isinstance(message, m.DeleteTopicsRequest)

    def _answer_from_copy(self, exchange: Exchange) -> None:
        if self.copy.topics is None:
            exchange.close("topics can't be read just now")
            return
        outcome = self.copy.topics.handle(exchange, self._clock.date_ms())
        for _, answer in outcome.replies:
            match answer:
                case Later(message, wait_ms):
                    self._parked.park(exchange, message, wait_ms)
                case HangUp(why):
                    exchange.close(why)
                case _:
                    exchange.reply(answer)

    # -- what takes other nodes ----------------------------------------------------------------

    async def _pass_on(self, exchange: Exchange) -> None:
        """Have the owner of the catalogue answer, and wait for one if none is there.

        As with Kafka's brokers, clients need not know who that is, so many don't ask again.  But
        what may have been carried out is not asked for a second time, and another node, which has
        a client that waits, is told at once.
        """
        loop = asyncio.get_running_loop()
        is_passed_on = exchange.client_id == NODE_CLIENT_ID
        patient_until_s = 0.0 if is_passed_on else loop.time() + _WITHOUT_OWNER_S
        moved = failure(exchange.message, exchange.version, ErrorCode.NOT_CONTROLLER)
        while not self.catalogue.is_served:
            is_patient = loop.time() < patient_until_s and not exchange.abandoned
            try:
                async with self._others.turn():
                    if exchange.abandoned:
                        return
                    answer = await self._others.answer(exchange)
            except PeerError as error:
                if error.was_sent or not is_patient:
                    raise
            else:
                if answer != moved or not is_patient:
                    exchange.reply(answer)
                    return
            with suppress(TimeoutError):
                async with asyncio.timeout_at(patient_until_s):
                    await self._until_looked()
        self.catalogue.handle(exchange)

    def _to_be_made(self, message: Any) -> list[str]:  # noqa: ANN401  # any request
        """The topics that Metadata asks for and that would be made for it."""
        if not isinstance(message, m.MetadataRequest):
            return []
        return [name for name in to_be_made(message) if name not in self._counts]

    async def _tell_topics(self, exchange: Exchange) -> None:
        """Tell no client less than any client was told before, by whichever node.

        A leader may have assigned partitions that are too new for this node to have heard of.
        """
        await self.copy.refresh()
        if missing := self._to_be_made(exchange.message):
            await self._have_made(missing)
        if self.catalogue.is_served:
            self.catalogue.handle(exchange)
        else:
            self._answer_from_copy(exchange)

    async def _have_made(self, names: list[str]) -> None:
        """Have the owner make topics, as it does for its own clients, if it can be asked."""
        try:
            if await self._others.make_for_metadata(names):
                await self.copy.refresh()
        except PeerError as error:
            self.troubles.note("topics can't be made just now", str(error))

    async def _tell_ends(self, exchange: Exchange) -> None:
        """Ask all nodes how far their groups have committed."""
        await self._other_ends.learn(exchange.message)
        if self.catalogue.is_served:
            self.catalogue.handle(exchange)
        else:
            self._answer_from_copy(exchange)


def _names_topics(message: Any) -> bool:  # noqa: ANN401  # any request
    """Whether it asks for more than the nodes."""
    return isinstance(message, m.MetadataRequest) and message.topics != ()


def _asks_for_ends(message: Any) -> bool:  # noqa: ANN401  # any request
    return isinstance(message, m.ListOffsetsRequest) and any(
        each.timestamp == LATEST for topic in message.topics for each in topic.partitions
    )
