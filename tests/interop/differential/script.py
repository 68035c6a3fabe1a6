"""The language of the scenarios: clients that do something, and steps that note what came of it.

    @scenario()
    async def the_leader_joins_again(s: Script) -> None:
        '''The leader's join starts a rebalance though nothing has changed.'''
        a, b = await cast(s, "a", "b")
        await stable(a, b)
        join = await a.join().parked()   # sends, notes that there is no answer yet
        await b.join()                   # sends, awaits the answer, notes it
        reply = await join               # awaits and notes the answer
        reply.differs(...)               # declares where, how and why the brokers differ in it

Whatever is awaited becomes a step of the transcript, in the order of the script, so the same
script gives comparable transcripts with every broker.
"""

from __future__ import annotations

import asyncio
import re
import time
from collections.abc import Awaitable, Callable, Generator, Sequence
from typing import Any, Final

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from tests.interop.differential.differences import Difference
from tests.interop.differential.transcript import Declared, Names, Step, Transcript
from tests.interop.differential.users import USERS, log_in
from tests.interop.differential.wire import CLOSED, Connection, api_of

__all__ = ["ANSWER_S", "SETTLE_S", "Address", "Exchange", "Reply", "Script", "ScriptError"]

#: How long an answer may take. Generous: nothing is measured here.
ANSWER_S: Final = 25.0
#: How long a request must stay without an answer to count as parked.
SETTLE_S: Final = 0.3
_POLL_S: Final = 0.1
_OTHERS_TOPIC: Final = re.compile(r"[a-z0-9-]+\.")

Address = tuple[str, int]


class ScriptError(Exception):
    """A scenario can't go on; its transcript says how far it got."""


class Reply:
    """An answer, as a step of the transcript and as the message it was."""

    def __init__(self, step: Step, message: Any) -> None:
        """Keep both."""
        self._step = step
        self.message = message

    @property
    def error(self) -> ErrorCode:
        """The error code at the top of the answer."""
        return ErrorCode(self.message.error_code)

    def differs(self, difference: Difference, path: str = "", *, kafka: Any, coterie: Any) -> Reply:
        """Declare that the brokers differ here on purpose, and how."""
        self._step.declared.append(Declared(difference, path, kafka, coterie))
        return self


class Exchange:
    """A request that was sent, and its answer, which may take its time."""

    def __init__(
        self,
        script: Script,
        label: str,
        future: asyncio.Future[Any],
        heed: Callable[[Any], None],
    ) -> None:
        """Await `future`; `heed` is told the answer when it is noted."""
        self._script = script
        self._label = label
        self._future = future
        self._heed = heed

    def __await__(self) -> Generator[Any, None, Reply]:
        """Await the answer and note it."""
        return self._answer().__await__()

    async def quietly(self) -> Any:
        """Await the answer without a step in the transcript."""
        message = await self._within(ANSWER_S)
        self._heed(message)
        return message

    async def parked(self) -> Exchange:
        """Note that there is no answer yet."""
        await asyncio.wait([self._future], timeout=SETTLE_S)
        value = self._plain(self._future.result()) if self._future.done() else "parked"
        self._script.transcript.add(f"{self._label} parks", value)
        return self

    async def or_silence(self, seconds: float) -> Reply:
        """Note the answer, or that there is none for so long."""
        await asyncio.wait([self._future], timeout=seconds)
        if self._future.done():
            return await self
        step = self._script.transcript.add(self._label, "silence")
        return Reply(step, None)

    async def _answer(self) -> Reply:
        message = await self._within(ANSWER_S)
        step = self._script.transcript.add(self._label, self._plain(message))
        if message is not CLOSED:
            self._heed(message)
        return Reply(step, message)

    async def _within(self, seconds: float) -> Any:
        await asyncio.wait([self._future], timeout=seconds)
        if not self._future.done():
            self._script.transcript.add(self._label, f"no answer in {seconds:g} s")
            raise ScriptError(f"{self._label}: no answer in {seconds:g} s")
        return self._future.result()

    def _plain(self, message: Any) -> Any:
        if message is CLOSED:
            return "closed"
        return self._script.plain(message)


class Script:
    """One scenario with one broker."""

    def __init__(
        self, name: str, address: Address, *, shared_topic: str, has_users: bool = False
    ) -> None:
        """Prepare a scenario called `name` for the broker at an address.

        With users, clients that are called as one of them log in.
        """
        self.group = name
        self.topic = shared_topic
        self.transcript = Transcript(Names(address[1]))
        self._address = address
        self._has_users = has_users
        self._connections: list[Connection] = []
        self._speakers: dict[str, Connection] = {}
        #: Set by the code that restarts the broker under running scenarios.
        self.at_restart: Callable[[], Awaitable[None]] | None = None

    # -- connections ---------------------------------------------------------------------------

    async def connect(self, client_id: str | None) -> Connection:
        """Open one more connection."""
        connection = await Connection.open(*self._address, client_id)
        self._connections.append(connection)
        if self._has_users and client_id in USERS:
            await log_in(connection, client_id)
        return connection

    async def close(self) -> None:
        """Close all connections."""
        for connection in self._connections:
            await connection.close()
        self._connections.clear()
        self._speakers.clear()

    def send(
        self,
        who: str,
        connection: Connection,
        message: Any,
        version: int,
        heed: Callable[[Any], None] = lambda _message: None,
    ) -> Exchange:
        """Send a request on a connection."""
        label = f"{who}: {api_of(message).title} v{version}"
        return Exchange(self, label, connection.send(message, version), heed)

    async def ask(self, message: Any, version: int, who: str = "admin") -> Reply:
        """Send a request as a client that is no member, and note the answer."""
        return await (await self._exchange(message, version, who))

    async def learn(self, message: Any, version: int) -> Any:
        """Ask something that is not part of the transcript."""
        return await (await self._exchange(message, version, "admin")).quietly()

    async def _exchange(self, message: Any, version: int, who: str) -> Exchange:
        if who not in self._speakers:
            self._speakers[who] = await self.connect(who)
        return self.send(who, self._speakers[who], message, version)

    # -- the transcript ------------------------------------------------------------------------

    def plain(self, message: Any) -> Any:
        """An answer as data; of what belongs to all scenarios only this one's part is left."""
        names = self.transcript.names
        value = names.plain(message)
        if isinstance(message, m.ListGroupsResponse):
            value["groups"] = [g for g in value["groups"] if self._is_mine(g["group_id"])]
        elif isinstance(message, m.MetadataResponse):
            value["topics"] = [t for t in value["topics"] if self._is_of_interest(t["name"])]
        return value

    def _is_mine(self, group_id: str) -> bool:
        return group_id == self.group or group_id.startswith(f"{self.group}+")

    def _is_of_interest(self, topic: str | None) -> bool:
        """Whether a topic is not another scenario's, nor one of Kafka's own books."""
        if topic is None or topic.startswith(f"{self.group}."):
            return True
        return not topic.startswith("__") and _OTHERS_TOPIC.match(topic) is None

    def note(self, label: str, value: Any) -> Reply:
        """Note something that is no answer."""
        return Reply(self.transcript.add(label, value), None)

    # -- what most scenarios begin with --------------------------------------------------------

    async def new_topic(self, name: str, partitions: int = 1) -> str:
        """Create a topic of this scenario's own and wait until it can be used."""
        topic = m.CreatableTopic(
            name=(full := f"{self.group}.{name}"),
            num_partitions=partitions,
            replication_factor=1,
            assignments=(),
            configs=(),
        )
        await self.learn(m.CreateTopicsRequest(topics=(topic,)), 5)
        await self.until_partitions(full, partitions)
        return full

    async def until_partitions(self, topic: str, partitions: int) -> None:
        """Wait until a topic has so many partitions, which Kafka's broker learns a bit later."""
        asked = m.MetadataRequest(
            topics=(m.MetadataRequestTopic(name=topic),), allow_auto_topic_creation=False
        )

        async def is_there() -> bool:
            (told,) = (await self.learn(asked, 5)).topics
            return len(told.partitions) == partitions

        await self.until(is_there, f"{topic} has {partitions} partitions")

    async def until(self, holds: Callable[[], Any], what: str) -> None:
        """Wait until something holds."""
        deadline = time.monotonic() + ANSWER_S
        while not await holds():
            if time.monotonic() > deadline:
                raise ScriptError(f"after {ANSWER_S:g} s it is still not so that {what}")
            await asyncio.sleep(_POLL_S)

    async def until_state(self, state: str, group: str | None = None) -> Reply:
        """Wait until the group is in a state; note its description."""
        asked = m.DescribeGroupsRequest(groups=(group or self.group,))

        async def is_in_it() -> bool:
            (described,) = (await self.learn(asked, 5)).groups
            return bool(described.group_state == state)

        await self.until(is_in_it, f"{group or self.group} is {state}")
        return await self.ask(asked, 5)

    async def restarted(self) -> None:
        """Let the broker be restarted, together with all other scenarios that want it."""
        await self.close()
        assert self.at_restart is not None
        await self.at_restart()

    # -- what administrators ask ---------------------------------------------------------------

    async def describe(self, *groups: str, version: int = 6, **fields: Any) -> Reply:
        """Describe groups, the scenario's own unless others are named."""
        message = m.DescribeGroupsRequest(groups=groups or (self.group,), **fields)
        return await self.ask(message, version)

    async def list_groups(
        self, states: Sequence[str] = (), types: Sequence[str] = (), version: int = 5
    ) -> Reply:
        """List the scenario's groups."""
        message = m.ListGroupsRequest(states_filter=tuple(states), types_filter=tuple(types))
        return await self.ask(message, version)

    async def delete_groups(self, *groups: str, version: int = 2) -> Reply:
        """Delete groups, the scenario's own unless others are named."""
        return await self.ask(m.DeleteGroupsRequest(groups_names=groups or (self.group,)), version)

    async def fetch_offsets(
        self, topics: dict[str, Sequence[int]] | None = None, version: int = 9, **fields: Any
    ) -> Reply:
        """Fetch a group's offsets, all of them unless topics are named."""
        group = fields.pop("group", self.group)
        if version < 8:
            asked = (
                None
                if topics is None
                else tuple(
                    m.OffsetFetchRequestTopic(name=name, partition_indexes=tuple(indexes))
                    for name, indexes in topics.items()
                )
            )
            return await self.ask(
                m.OffsetFetchRequest(group_id=group, topics=asked, **fields), version
            )
        many = (
            None
            if topics is None
            else tuple(
                m.OffsetFetchRequestTopics(name=name, partition_indexes=tuple(indexes))
                for name, indexes in topics.items()
            )
        )
        one = m.OffsetFetchRequestGroup(group_id=group, topics=many)
        return await self.ask(m.OffsetFetchRequest(groups=(one,), **fields), version)

    async def delete_offsets(self, topics: dict[str, Sequence[int]], group: str = "") -> Reply:
        """Delete offsets."""
        message = m.OffsetDeleteRequest(
            group_id=group or self.group,
            topics=tuple(
                m.OffsetDeleteRequestTopic(
                    name=name,
                    partitions=tuple(
                        m.OffsetDeleteRequestPartition(partition_index=i) for i in indexes
                    ),
                )
                for name, indexes in topics.items()
            ),
        )
        return await self.ask(message, 0)
