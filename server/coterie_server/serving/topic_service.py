"""Topics, on a node that has the catalogue and on one that has not.

One node has the catalogue, and it alone creates, extends and deletes topics.  The others keep a
copy of what is stored, read it again when the owner says that it has changed, and answer from that
what only tells of topics.  What changes them, they pass on to the owner.

A deletion is over when the groups of all nodes have forgotten the topic.  So each node says up to
which change its groups know the topics, durably.
"""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, Final, Protocol

from coterie_protocol import ApiKey
from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_server.log.logger import get_logger
from coterie_server.serving.catalogue_shard import CatalogueShard
from coterie_server.serving.cluster import CATALOGUE_SHARD, TopicsVersion
from coterie_server.serving.failures import failure
from coterie_server.serving.parked_fetches import ParkedFetches
from coterie_server.serving.peers import PeerError
from coterie_server.topics import HangUp, Later, TopicRefusal, from_stored

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie_protocol.journal import TopicChanged
    from coterie_server.net import Exchange
    from coterie_server.serving.cluster import Directory, NodeNote
    from coterie_server.serving.context import NodeContext
    from coterie_server.serving.peers import AskNode
    from coterie_server.serving.topic_counts import TopicCounts
    from coterie_server.storage import Lease
    from coterie_server.topics import Catalogue, PartitionEnds

__all__ = ["TopicService"]

_log = get_logger(__name__)

#: What only the owner of the catalogue can do.
_CHANGES: Final = (m.CreatePartitionsRequest, m.CreateTopicsRequest, m.DeleteTopicsRequest)

#: The versions in which other nodes are asked.
_CREATE_PARTITIONS_VERSION: Final = 3
_CREATE_TOPICS_VERSION: Final = 7
_METADATA_VERSION: Final = 9
_LIST_OFFSETS_VERSION: Final = 8

#: How long other nodes are asked for a topic that this one needs to start: until one that died has
#: lost its leases, at least.
_PATIENCE_S: Final = 30.0
_TIMEOUT_MS: Final = 5_000
_LATEST: Final = -1


class Groups(Protocol):
    """The groups of this node, and what is known of those of the others."""

    def topic_changed(self, change: TopicChanged) -> None:
        """Let this node's groups know what has become of a topic; it is durable."""

    async def until_told(self) -> None:
        """Wait until what they were told is durable."""

    def groups_know(self, version: TopicsVersion) -> bool:
        """Whether the groups of all nodes know the topics at this version, durably."""


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
        self._store = context.store
        self._clock = context.clock
        self._ends = context.ends
        self._make = make
        self._counts = counts
        self._directory = directory
        self._cluster = directory.cluster
        self._groups = groups
        self._ask = ask
        self.catalogue = CatalogueShard(
            context,
            self._make_catalogue,
            counts=counts,
            on_change=groups.topic_changed,
            until_told=self._until_all_told,
        )
        #: What is stored, as far as this node has read it; None if it has not.
        self._copy: Catalogue | None = None
        self._parked = ParkedFetches(asyncio.get_running_loop().call_later)
        self._copied = TopicsVersion()
        self._looked = asyncio.Event()
        self._copying: asyncio.Task[None] | None = None
        self._tasks: set[asyncio.Task[None]] = set()
        #: Told when the others have to hear something new of this node.
        self.announce: Callable[[], None] = lambda: None

    def _make_catalogue(self, ends: PartitionEnds) -> Catalogue:
        catalogue = self._make(ends)
        catalogue.nodes = self._directory
        return catalogue

    # -- what the others are told --------------------------------------------------------------

    @property
    def made(self) -> TopicsVersion:
        """How far this node has brought the topics, if it has the catalogue."""
        return self.catalogue.version

    @property
    def seen(self) -> TopicsVersion:
        """Up to which change this node's groups know the topics, durably."""
        return max(self._copied, self.catalogue.version)

    @property
    def parked(self) -> int:
        """How many requests for records wait, as there never are any."""
        return len(self._parked) + self.catalogue.parked

    # -- life ----------------------------------------------------------------------------------

    async def read(self) -> None:
        """Know the topics from here on, though another node has the catalogue."""
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        await self._copy_topics(owner.made if owner is not None else TopicsVersion())

    def gained(self, lease: Lease, before: str) -> None:
        """Serve the catalogue, which another node had `before`, if that is known."""
        self.catalogue.take_over(lease)
        if before and before != lease.owner:
            self.catalogue.hold_back(self._until_all_told())
        self.announce()

    def lost(self) -> None:
        """Another node has the catalogue."""
        self._copied = max(self._copied, self.catalogue.version)
        self.catalogue.fence()
        self._begin(self._copy_topics(self._copied))

    async def give_up(self) -> None:
        """Let another node have the catalogue."""
        self._copied = max(self._copied, self.catalogue.version)
        await self._copy_topics(self._copied)
        await self.catalogue.give_up()

    def looked(self) -> None:
        """See what the other nodes say by now."""
        before, self._looked = self._looked, asyncio.Event()
        before.set()
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        is_behind = owner is not None and owner.made > self.seen
        if owner is not None and is_behind and (self._copying is None or self._copying.done()):
            self._copying = self._begin(self._copy_topics(owner.made))

    async def close(self) -> None:
        """Answer who waits for records, and end what is under way."""
        self._parked.answer_all()
        await self.catalogue.close()
        for task in list(self._tasks):
            task.cancel()

    def _begin(self, work: Coroutine[Any, Any, None]) -> asyncio.Task[None]:
        task = asyncio.get_running_loop().create_task(self._guarded(work))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)
        return task

    async def _guarded(self, work: Coroutine[Any, Any, None]) -> None:
        try:
            await work
        except Exception as error:  # noqa: BLE001  # whatever it is, it is tried again
            _log.warning("the topics can't be read", error=str(error) or repr(error))

    async def ensure(self, name: str, partitions: int) -> None:
        """Have a topic with so many partitions, or raise `TopicRefusal`."""
        loop = asyncio.get_running_loop()
        give_up_s = loop.time() + _PATIENCE_S
        while True:
            try:
                await self._ensure(name, partitions)
            except (PeerError, TimeoutError) as error:
                if loop.time() >= give_up_s:
                    why = (
                        f"Topic '{name}' can't be created or extended: {str(error) or 'no answer'}."
                    )
                    raise TopicRefusal("not_available", why) from error
                await self._looked.wait()
            else:
                return

    async def _ensure(self, name: str, partitions: int) -> None:
        if self.catalogue.is_owned:
            await self.catalogue.ensure(name, partitions)
            return
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        if owner is None:
            raise PeerError("no node has the topics just now")
        known = self._counts.get(name, 0)
        if known > partitions:
            raise TopicRefusal("shrink", f"Topic '{name}' has {known} partitions and can't shrink.")
        if known == partitions:
            return
        problem = await (self._extend if known else self._create)(owner, name, partitions)
        if problem:
            raise TopicRefusal(
                "refused", f"Topic '{name}' can't have {partitions} partitions: {problem}"
            )

    async def _create(self, owner: NodeNote, name: str, partitions: int) -> str:
        topic = m.CreatableTopic(
            name=name, num_partitions=partitions, replication_factor=-1, assignments=(), configs=()
        )
        asked = m.CreateTopicsRequest(topics=(topic,), timeout_ms=_TIMEOUT_MS)
        answer = await self._ask(owner, ApiKey.CREATE_TOPICS, asked, _CREATE_TOPICS_VERSION)
        (result,) = answer.topics
        is_there = result.error_code in (ErrorCode.NONE, ErrorCode.TOPIC_ALREADY_EXISTS)
        return "" if is_there else str(result.error_message)

    async def _extend(self, owner: NodeNote, name: str, partitions: int) -> str:
        topic = m.CreatePartitionsTopic(name=name, count=partitions, assignments=None)
        asked = m.CreatePartitionsRequest(
            topics=(topic,), timeout_ms=_TIMEOUT_MS, validate_only=False
        )
        answer = await self._ask(owner, ApiKey.CREATE_PARTITIONS, asked, _CREATE_PARTITIONS_VERSION)
        (result,) = answer.results
        return str(result.error_message) if result.error_code else ""

    def wake(self, topic: str) -> None:
        """Tell all who wait for records of a topic that it is not what it was."""
        self.catalogue.wake(topic)
        self._parked.wake(topic)

    # -- the copy ------------------------------------------------------------------------------

    async def _copy_topics(self, version: TopicsVersion) -> None:
        """Read the topics, which are at least at this version, and let the groups know them."""
        stored = await self._store.load(CATALOGUE_SHARD)
        copy = self._make_catalogue(self._ends)
        copy.recover(from_stored(key, value) for key, value in stored)
        copy.only_tell()
        self._copy = copy
        if not self.catalogue.is_owned:
            for change in self._counts.read(copy.topics):
                if change.change == "deleted":
                    self._ends.forget(change.topic)
                self._groups.topic_changed(change)
        await self._groups.until_told()
        self._copied = max(self._copied, version)
        self.announce()

    async def _until_all_told(self) -> None:
        """Wait until the groups of all nodes know, durably, what has become of topics by now."""
        version = self.catalogue.version
        await self._groups.until_told()
        self.announce()
        while not self._groups.groups_know(version):
            await self._looked.wait()

    # -- requests ------------------------------------------------------------------------------

    def handle(self, exchange: Exchange) -> None:
        """Take a request; it is answered now or later, exactly once."""
        is_shared = bool(self._cluster.others)
        if is_shared and self._asks_for_ends(exchange.message):
            self._begin_answer(exchange, self._tell_ends(exchange))
        elif self.catalogue.is_served or self._copy is None:
            self.catalogue.handle(exchange)
        elif isinstance(exchange.message, _CHANGES):
            self._begin_answer(exchange, self._pass_on(exchange))
        elif missing := self._to_be_made(exchange.message):
            self._begin_answer(exchange, self._have_made(exchange, missing))
        else:
            self._answer_from_copy(exchange)

    def _begin_answer(self, exchange: Exchange, answer: Coroutine[Any, Any, None]) -> None:
        task = asyncio.get_running_loop().create_task(self._answer(exchange, answer))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _answer(self, exchange: Exchange, answer: Coroutine[Any, Any, None]) -> None:
        try:
            await answer
        except asyncio.CancelledError:
            exchange.close("the node is stopping")
            raise
        except (PeerError, TimeoutError) as error:
            _log.warning("another node can't be asked", error=str(error) or "it takes too long")
            self._refuse(exchange)
        except Exception:  # noqa: BLE001  # a bug must not leave a client waiting
            _log.exception("a bug: a request could not be answered")
            self._refuse(exchange)

    def _refuse(self, exchange: Exchange) -> None:
        if isinstance(exchange.message, _CHANGES):
            controller = ErrorCode.NOT_CONTROLLER
            exchange.reply(failure(exchange.message, exchange.version, controller))
        else:
            exchange.close("topics can't be told just now")

    def _answer_from_copy(self, exchange: Exchange) -> None:
        if self._copy is None:
            exchange.close("topics can't be read just now")
            return
        outcome = self._copy.handle(exchange, self._clock.date_ms())
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
        """Have the owner of the catalogue answer."""
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        if owner is None:
            self._refuse(exchange)
            return
        api, version = exchange.request.api_key, exchange.version
        exchange.reply(await self._ask(owner, api, exchange.message, version))

    def _to_be_made(self, message: Any) -> list[str]:  # noqa: ANN401  # any request
        """The topics that Metadata asks for and that would be made for it."""
        if not isinstance(message, m.MetadataRequest) or not message.allow_auto_topic_creation:
            return []
        names = (topic.name for topic in message.topics or () if topic.name is not None)
        return [name for name in dict.fromkeys(names) if name not in self._counts]

    async def _have_made(self, exchange: Exchange, names: list[str]) -> None:
        """Have the owner make topics, as it does for its own clients, and tell them then."""
        owner = self._cluster.owner_of(CATALOGUE_SHARD)
        if owner is not None:
            topics = tuple(m.MetadataRequestTopic(name=name) for name in names)
            asked = m.MetadataRequest(topics=topics, allow_auto_topic_creation=True)
            await self._ask(owner, ApiKey.METADATA, asked, _METADATA_VERSION)
            await self._copy_topics(self._copied)
        self._answer_from_copy(exchange)

    def _asks_for_ends(self, message: Any) -> bool:  # noqa: ANN401  # any request
        return (
            isinstance(message, m.ListOffsetsRequest)
            and not message.by_itself
            and any(
                each.timestamp == _LATEST for topic in message.topics for each in topic.partitions
            )
        )

    async def _tell_ends(self, exchange: Exchange) -> None:
        """Ask all nodes how far their groups have committed."""
        asked = m.ListOffsetsRequest(
            replica_id=-1,
            by_itself=True,
            topics=tuple(
                m.ListOffsetsTopic(
                    name=topic.name,
                    partitions=tuple(
                        m.ListOffsetsPartition(
                            partition_index=each.partition_index, timestamp=_LATEST
                        )
                        for each in topic.partitions
                    ),
                )
                for topic in exchange.message.topics
            ),
        )
        answers = await asyncio.gather(
            *(
                self._ask(node, ApiKey.LIST_OFFSETS, asked, _LIST_OFFSETS_VERSION)
                for node in self._cluster.others
            )
        )
        for answer in answers:
            for topic in answer.topics:
                for each in topic.partitions:
                    if not each.error_code:
                        self._ends.raise_to(topic.name, each.partition_index, each.offset)
        if self.catalogue.is_served:
            self.catalogue.handle(exchange)
        else:
            self._answer_from_copy(exchange)
