"""A world in virtual time for the tests of the coordinator's core.

A `World` holds one coordinator, what it has stored, and every answer it owes.  Its clients send
one request at a time, as a test says; `sleep` lets time pass and fires what is due; `crash` throws
the coordinator away and makes a new one of what was stored.  After every step the invariants in
`group_invariants` are checked.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Any, TypeVar

from coterie_protocol import decode, encode
from coterie_protocol.consumer import (
    Assignment,
    encode_assignment,
    group_by_topic,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import CAUSES, Event, Line, RebalanceStarted, read_line, write_line
from coterie_protocol.messages import (
    DeleteGroupsRequest,
    DescribedGroup,
    DescribeGroupsRequest,
    OffsetCommitRequest,
    OffsetCommitRequestPartition,
    OffsetCommitRequestTopic,
    OffsetFetchRequest,
    OffsetFetchRequestGroup,
)
from coterie_server.group import (
    END_OF_TIME_MS,
    Command,
    CommitOrder,
    Config,
    Group,
    GroupCoordinator,
    GroupState,
    OffsetRow,
    Record,
    StoredRow,
    from_stored,
    to_stored,
)
from coterie_server.group.standing_rules import order
from coterie_server.step import LimitHit, Outcome
from tests.support.group_client import Client
from tests.support.group_invariants import (
    Ownership,
    check_all,
    check_owned,
    check_survived,
    saved_rows,
)
from tests.support.offset_rows import one_by_one
from tests.support.requests import Asked
from tests.support.turns import finished

if TYPE_CHECKING:
    from coterie_server.group.step import Step
    from coterie_server.group.table import GroupTable

__all__ = ["Answer", "Client", "World", "assigned", "offsets_of"]

START_MS = 1_700_000_000_000

E = TypeVar("E", bound=Event)


def assigned(topic: str = "t", *partitions: int) -> bytes:
    """What a leader that speaks the consumer protocol gives to one member."""
    entries = group_by_topic((topic, number) for number in partitions)
    return encode_assignment(Assignment(assigned_partitions=entries), 1)


def offsets_of(answer: Answer) -> dict[tuple[str, int], int]:
    """The offsets in an OffsetFetch's answer for one group."""
    (group,) = answer.reply.groups
    return {
        (topic.name, partition.partition_index): partition.committed_offset
        for topic in group.topics
        for partition in topic.partitions
    }


@dataclass(slots=True)
class Answer:
    """What came of a request; at first, perhaps, nothing."""

    asked: Asked
    message: Any = None
    at_ms: int = -1
    lost: bool = False

    @property
    def is_parked(self) -> bool:
        """Whether the coordinator still owes the answer."""
        return self.message is None and not self.lost

    @property
    def reply(self) -> Any:
        """The response."""
        assert self.message is not None, f"no answer yet: {self.asked.message}"
        return self.message

    @property
    def error(self) -> ErrorCode:
        """The error at the top of the response."""
        return ErrorCode(self.reply.error_code)

    @property
    def part_errors(self) -> list[ErrorCode]:
        """The errors of the partitions or members that the response lists."""
        reply = self.reply
        if hasattr(reply, "members"):
            return [ErrorCode(member.error_code) for member in reply.members]
        if hasattr(reply, "results"):
            return [ErrorCode(result.error_code) for result in reply.results]
        return [ErrorCode(p.error_code) for topic in reply.topics for p in topic.partitions]


class CountedIds:
    """Member ids that tell who drew them."""

    def __init__(self) -> None:
        self.drawn = 0

    def member_id(self, group_id: str, client_id: str, host: str, instance_id: str | None) -> str:
        """The next id."""
        assert group_id is not None
        assert host is not None
        self.drawn += 1
        return f"{instance_id or client_id}-{self.drawn}"


class World:
    """A coordinator with its store, its clock and all its clients."""

    def __init__(
        self, topics: Mapping[str, int] | None = None, timeline: int = 0, **settings: Any
    ) -> None:
        self.config = Config(**settings)
        self.topics: dict[str, int] = dict(topics if topics is not None else {"t": 4, "u": 2})
        self.now_ms = START_MS
        #: How far the date is ahead of the running time.
        self.ahead_ms = 0
        self.store: dict[bytes, bytes] = {}
        self.events: list[Event] = []
        self.limit_hits: list[LimitHit] = []
        self.answers: dict[Any, Answer] = {}
        self.generations: dict[str, int] = {}
        self.tokens: dict[str, int] = {}
        self.ids = CountedIds()
        self._clients: dict[Asked, Client] = {}
        self._fresh: list[Answer] = []
        #: Those that came, in order.
        self.delivered: list[Answer] = []
        self.commit_order = CommitOrder()
        #: That of the store's database; 0 if it has none.
        self.timeline = timeline
        self._start()

    # -- the coordinator -----------------------------------------------------------------------

    def _start(self, *, is_lossy: bool = False) -> None:
        rows = [from_stored(*each) for each in sorted(self.store.items())]
        self.coordinator = GroupCoordinator(
            self.config,
            self.ids,
            self.topics,
            commit_order=self.commit_order,
            date_of=lambda now_ms: now_ms + self.ahead_ms,
        )
        self._take(
            self.coordinator.recover(
                rows,
                self.now_ms,
                is_lossy=is_lossy,
                lacks_topics=is_lossy,
                timeline=self.timeline,
            )
        )

    @property
    def table(self) -> GroupTable:
        """The coordinator's memory, for the invariants and for tests of what does not show."""
        return self.coordinator.table

    @property
    def rows(self) -> list[StoredRow | OffsetRow]:
        """What is stored, with a row for each offset."""
        return list(one_by_one(from_stored(*each) for each in sorted(self.store.items())))

    def crash(self, **settings: Any) -> None:
        """Lose all that is not stored, and start again, perhaps with other settings."""
        self.commit_order = CommitOrder()
        self.read_again(**settings)

    def fail_over(self, replica: Mapping[bytes, bytes]) -> None:
        """Go on as after a fail-over of the database, to a replica that may lack the last rows."""
        self.timeline += 1
        self._go_back_to(replica, is_lossy=False)

    def accept_loss(self, copy: Mapping[bytes, bytes]) -> None:
        """Go on with an older copy of the store, or with an empty one, as an operator wants it."""
        self._go_back_to(copy, is_lossy=True)

    def _go_back_to(self, copy: Mapping[bytes, bytes], *, is_lossy: bool) -> None:
        self.store = dict(copy)
        self.commit_order = CommitOrder()
        self.generations.clear()
        self.tokens.clear()
        for answer in self.answers.values():
            answer.lost = answer.lost or answer.message is None
        self._start(is_lossy=is_lossy)

    def read_again(self, **settings: Any) -> None:
        """Lose what is not stored in the same process, whose connections stay."""
        groups = self.coordinator.groups
        before = {group.id: list(saved_rows(group)) for group in groups.values()}
        owned = {group.id: Ownership.of(group) for group in groups.values()}
        for answer in self.answers.values():
            answer.lost = answer.lost or answer.message is None
        self.config = replace(self.config, **settings)
        self._start()
        check_survived(before, self.coordinator.groups, self.topics)
        check_owned(owned, self.coordinator.groups)

    def _take(self, outcome: Outcome[Record]) -> None:
        """Do with an outcome what the node does: store, answer, write down."""
        for key, value in map(to_stored, outcome.records):
            if value is None:
                self.store.pop(key, None)
            else:
                self.store[key] = value
        for asked, message in outcome.replies:
            self._deliver(self.answers[asked], finished(message))
        for event in outcome.events:
            self._note(event)
        self.limit_hits += outcome.limit_hits
        check_all(self)

    def _deliver(self, answer: Answer, message: Any) -> None:
        assert answer.message is None, f"answered twice: {answer.asked.message}"
        assert not answer.lost, "answered after a crash"
        encode(message, answer.asked.version)  # an answer that does not fit its version fails here
        answer.message, answer.at_ms = message, self.now_ms
        self._fresh.append(answer)
        self.delivered.append(answer)
        if answer.asked in self._clients:
            self._clients[answer.asked].receive(message)

    def _note(self, event: Event) -> None:
        line = write_line(Line(self.now_ms, "node", len(self.events), event))
        assert write_line(read_line(line)) == line
        assert not isinstance(event, RebalanceStarted) or event.cause in CAUSES
        self.events.append(event)

    # -- asking --------------------------------------------------------------------------------

    def request(
        self,
        message: Any,
        version: int,
        *,
        client: Client | None = None,
        client_id: str = "admin",
        host: str = "/10.0.0.9",
    ) -> Answer:
        """Send a request as it would come over the wire in a version."""
        travelled = decode(type(message), version, encode(message, version))
        if client is not None:
            client_id, host = client.name, client.host
        asked = Asked(travelled, version, client_id, host)
        answer = self.answers[asked] = Answer(asked)
        if client is not None:
            self._clients[asked] = client
        self._take(self.coordinator.handle(asked, self.now_ms))
        return answer

    def member(self, name: str, **attributes: Any) -> Client:
        """A client that may become a member; it has sent nothing yet."""
        return Client(self, name, **attributes)

    def describe(self, group: str = "g", version: int = 5) -> DescribedGroup:
        """What an administrator is told of a group."""
        answer = self.request(DescribeGroupsRequest(groups=(group,)), version)
        described: DescribedGroup = answer.reply.groups[0]
        return described

    def describe_with_operations(self, group: str = "g") -> DescribedGroup:
        """What an administrator is told of a group who asks for operations, too."""
        answer = self.request(DescribeGroupsRequest(groups=(group,), wants_operations=True), 5)
        described: DescribedGroup = answer.reply.groups[0]
        return described

    def delete(self, *groups: str) -> list[ErrorCode]:
        """Delete groups."""
        return self.request(DeleteGroupsRequest(groups_names=groups), 2).part_errors

    def commit(self, offsets: Mapping[tuple[str, int], int], **fields: Any) -> Answer:
        """Commit as one who is no member, unless the fields say otherwise."""
        version = fields.pop("version", 9)
        client = fields.pop("client", None)
        metadata = fields.pop("metadata", "")
        topics: dict[str, list[OffsetCommitRequestPartition]] = {}
        for (topic, index), offset in offsets.items():
            partition = OffsetCommitRequestPartition(
                partition_index=index, committed_offset=offset, committed_metadata=metadata
            )
            topics.setdefault(topic, []).append(partition)
        entries = tuple(
            OffsetCommitRequestTopic(name=name, partitions=tuple(partitions))
            for name, partitions in topics.items()
        )
        message = OffsetCommitRequest(**{"group_id": "g", "topics": entries} | fields)
        return self.request(message, version, client=client)

    def offsets(self, group: str = "g") -> dict[tuple[str, int], int]:
        """All committed offsets of a group."""
        asked = OffsetFetchRequestGroup(group_id=group, topics=None)
        return offsets_of(self.request(OffsetFetchRequest(groups=(asked,)), 8))

    def force_rebalance(self, group: str = "g") -> None:
        """Ask for a rebalance as an administrator."""
        self._take(self.coordinator.force_rebalance(group, self.now_ms))

    def order(
        self, name: str, client: Client | None = None, group: str = "g", **values: Any
    ) -> None:
        """Order something, about a client's member if one is given."""
        if client is not None:
            values |= {"instance_id": client.static} if client.static else {"member_id": client.id}
        partitions = frozenset(("t", number) for number in values.pop("numbers", ()))
        command = Command(**{"name": name, "partitions": partitions} | values)
        self.operate(partial(order, group_id=group, command=command))

    def operate(self, operation: Callable[[Step], None]) -> None:
        """Have an operator ask for something."""
        self._take(self.coordinator.operate(operation, self.now_ms))

    def change_topic(self, topic: str, change: str, partitions: int = 0) -> None:
        """Create, grow or delete a topic."""
        if change == "deleted":
            self.topics.pop(topic, None)
        else:
            self.topics[topic] = partitions
        self._take(self.coordinator.topics_changed({topic: change}, END_OF_TIME_MS, self.now_ms))

    # -- time ----------------------------------------------------------------------------------

    def sleep(self, ms: int) -> list[Answer]:
        """Let time pass; the answers that came meanwhile, in their order."""
        self._fresh = []
        until_ms = self.now_ms + ms
        while (due_ms := self.coordinator.next_deadline()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self._take(self.coordinator.fire(self.now_ms))
            after_ms = self.coordinator.next_deadline()
            assert after_ms is None or after_ms > self.now_ms, "what is due was not done"
        self.now_ms = until_ms
        return self._fresh

    def sleep_until_due(self) -> None:
        """Let time pass until something is due, and do that."""
        due_ms = self.coordinator.next_deadline()
        assert due_ms is not None
        self.sleep(max(due_ms - self.now_ms, 0))

    def live(self, ms: int, *clients: Client) -> None:
        """Let time pass while these clients send a heartbeat every second."""
        until_ms = self.now_ms + ms
        while self.now_ms < until_ms:
            self.sleep(min(1_000, until_ms - self.now_ms))
            for client in clients:
                client.heartbeat()

    # -- looking -------------------------------------------------------------------------------

    def group(self, group: str = "g") -> Group:
        """A group that exists."""
        return self.coordinator.groups[group]

    def state(self, group: str = "g") -> GroupState:
        """A group's state; Dead if there is none."""
        found = self.coordinator.groups.get(group)
        return found.state if found else GroupState.DEAD

    def seen(self, kind: type[E]) -> list[E]:
        """The events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def causes(self) -> list[str]:
        """The causes of all rebalances so far."""
        return [event.cause for event in self.seen(RebalanceStarted)]

    # -- whole rebalances ----------------------------------------------------------------------

    def form(self, *clients: Client) -> None:
        """Let clients join an empty group together and share a topic's partitions."""
        joins = [client.join() for client in clients]
        while any(join.is_parked for join in joins):
            self.sleep_until_due()
        self.share(*clients)

    def rejoin(self, *clients: Client) -> None:
        """Let clients join a rebalance that is going on, and share again."""
        for client in clients:
            client.join()
        self.share(*clients)

    def share(self, *clients: Client) -> None:
        """Let the leader assign the partitions of the topic `t`, and all members sync."""
        plan = {
            client: assigned("t", *range(index, self.topics.get("t", 0), len(clients)))
            for index, client in enumerate(clients)
        }
        leaders = [client for client in clients if client.id == client.leader]
        for client in [*leaders, *(c for c in clients if c not in leaders)]:
            answer = client.sync(plan if client in leaders else {})
            assert answer.error is ErrorCode.NONE, answer
