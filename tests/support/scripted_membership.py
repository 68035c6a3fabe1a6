"""One membership, driven by hand: a test plays the coordinator, the clock and the work.

What must always hold is checked after every step: work is started only where there is none and
taken away only where there is some, a commit is settled once, nothing is sent after the end, and
whatever the member waits for can come.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, TypeVar

from coterie_assignors import Assignor, CooperativeStickyAssignor
from coterie_client.membership import (
    Abandon,
    Action,
    Assign,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    KeepWarm,
    Lose,
    Membership,
    MembershipConfig,
    Phase,
    Position,
    ReportEvent,
    Revoke,
    Role,
    Send,
    Sources,
    Stop,
)
from coterie_client.membership.events import Event
from coterie_client.membership.warm_blocks import (
    Orders,
    ReadReport,
    encode_orders,
    read_report,
)
from coterie_client.wire.addresses import AnyNode, NodeAddress, TopicPartition
from coterie_protocol.consumer import (
    NEEDS_REJOIN,
    Assignment,
    Subscription,
    decode_subscription,
    encode_assignment,
    encode_subscription,
    flatten,
    group_by_topic,
)
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.messages import (
    DescribeGroupsRequest,
    DescribeGroupsResponse,
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    HeartbeatRequest,
    HeartbeatResponse,
    JoinGroupRequest,
    JoinGroupResponse,
    LeaveGroupRequest,
    LeaveGroupResponse,
    MetadataRequest,
    MetadataResponse,
    OffsetCommitRequest,
    OffsetFetchRequest,
    SyncGroupRequest,
    SyncGroupResponse,
)
from coterie_protocol.streams import join_user_data, split_user_data
from tests.support.membership_checks import check
from tests.support.scripted_answers import (
    NODE,
    committed,
    fetched,
    refusal,
    roster,
    told_topics,
)

__all__ = ["NODE", "OTHER", "START_MS", "Script", "report_of", "subscription_of"]

#: Where another coordinator is.
OTHER = NodeAddress("other", 9093)

START_MS = 1_000_000

M = TypeVar("M")
E = TypeVar("E", bound=Event)

COMMIT, FETCH = OffsetCommitRequest, OffsetFetchRequest


def subscription_of(join: JoinGroupRequest, protocol: int = 0) -> Subscription:
    """What a member says when it joins."""
    return decode_subscription(join.protocols[protocol].metadata)


def report_of(join: JoinGroupRequest) -> ReadReport | None:
    """What a member says of its state when it joins."""
    subscription = subscription_of(join)
    _, block = split_user_data(subscription.user_data)
    return None if block is None else read_report(block, subscription.topics)


class Script:
    """A member on its own: the test gives every answer."""

    def __init__(
        self, *topics: str, assignors: Sequence[Assignor] | None = None, **options: Any
    ) -> None:
        self.now_ms = START_MS
        #: What the clock on the wall shows beyond `now_ms`.
        self.wall_shift_ms = 0
        self.topics: dict[str, int | None] = dict.fromkeys(topics or ("t",), 4)
        self.config = MembershipConfig(group="g", **options)
        sources = Sources(lambda: 0.5, lambda: self.now_ms + self.wall_shift_ms)
        self.machine = Membership(self.config, assignors or (CooperativeStickyAssignor(),), sources)
        #: Requests without an answer, the oldest first.
        self.outbox: dict[int, Send] = {}
        self.working: dict[TopicPartition, int] = {}
        self.revoking: set[TopicPartition] = set()
        #: What is kept up to date.
        self.roles: dict[TopicPartition, Role] = {}
        #: What was to be done about partitions, in its order.
        self.told: list[Assign | Revoke | Lose | Abandon] = []
        #: Everything that was to be done, in its order.
        self.actions: list[Action] = []
        self.events: list[Event] = []
        self.results: dict[Any, Committed | Fetched] = {}
        self.keys: set[Any] = set()
        self.stopped: Stop | None = None

    # -- the user's side -----------------------------------------------------------------------

    def start(self, *topics: str) -> Script:
        """Join the group."""
        self.do(self.machine.start(topics or tuple(self.topics), self.now_ms))
        return self

    def subscribe(self, *topics: str) -> None:
        """Want other topics."""
        self.do(self.machine.subscribe(topics, self.now_ms))

    def commit(
        self, key: Any, partition: TopicPartition, offset: int, token: int | None = None
    ) -> None:
        """Commit, in the name of the work that is going on unless another token is given."""
        self.keys.add(key)
        if token is None:
            token = self.working.get(partition, -1)
        self.machine.commit(key, partition, token, Position(offset))
        self.fire()

    def fetch(self, key: Any, partition: TopicPartition) -> None:
        """Ask for a committed offset."""
        self.keys.add(key)
        self.machine.fetch(key, partition, self.working.get(partition))
        self.fire()

    def release(self, *partitions: TopicPartition) -> None:
        """End the work on partitions that are to be revoked: on all of them, if none is named."""
        ended = set(partitions) or set(self.revoking)
        for partition in ended:
            self.revoking.discard(partition)
            self.working.pop(partition, None)
        self.do(self.machine.released(ended, self.now_ms))

    def close(self, *, leave: bool = True, within_ms: int = 10_000) -> None:
        """End the membership."""
        self.do(self.machine.close(self.now_ms, leave=leave, within_ms=within_ms))

    def keep_warm(self, held: Mapping[TopicPartition, int] | None = None) -> Script:
        """Hold state, some of which is on the disk already."""
        self.do(self.machine.keep_warm(lambda: held or {}, self.now_ms))
        return self

    def lag(self, partition: TopicPartition, behind: int) -> None:
        """Tell how far behind a partition's state is."""
        if self.machine.note_lag(partition, behind):
            self.fire()

    # -- time ----------------------------------------------------------------------------------

    def fire(self) -> None:
        """Give the machine a turn, with no time gone by."""
        self.do(self.machine.fire(self.now_ms))

    def sleep(self, ms: int) -> None:
        """Let time pass; what is due in it happens when it is due."""
        until_ms = self.now_ms + ms
        while (due_ms := self.machine.next_deadline()) is not None and due_ms <= until_ms:
            self.now_ms = max(self.now_ms, due_ms)
            self.fire()
        self.now_ms = until_ms

    def jump(self, ms: int) -> None:
        """Be suspended: time passes, and nothing happens in it."""
        self.now_ms += ms

    def due_in(self) -> int | None:
        """How long until the machine wants a turn."""
        due_ms = self.machine.next_deadline()
        return None if due_ms is None else due_ms - self.now_ms

    # -- what it sends -------------------------------------------------------------------------

    def awaited(self, kind: type[Any] | None = None) -> list[Send]:
        """The requests whose answers still matter to the member, but for doubts."""
        outbox = self.machine._outbox  # noqa: SLF001  # what liveness is about
        return [
            send
            for ticket, send in self.outbox.items()
            if outbox.awaits(ticket) and (kind is None or isinstance(send.message, kind))
            if not _is_doubt(send)
        ]

    def doubt(self) -> Send | None:
        """The question to other nodes, because the coordinator is silent, that is under way."""
        return next(filter(_is_doubt, self.outbox.values()), None)

    def doubts(self) -> list[Send]:
        """All such questions so far."""
        return [each for each in self.actions if isinstance(each, Send) and _is_doubt(each)]

    def name(self, node: NodeAddress | None) -> None:
        """Answer that question; None if no node does."""
        doubt = self.doubt()
        assert doubt is not None, self.describe()
        if node is not None:
            found = FindCoordinatorResponse(node_id=1, host=node.host, port=node.port)
            self.answer_ticket(doubt.ticket, found)
        else:
            del self.outbox[doubt.ticket]
            self.do(self.machine.failed(doubt.ticket, Failure(FailureKind.LOST), self.now_ms))

    def asks(self, kind: type[M]) -> M:
        """The one request of a kind that waits for an answer."""
        return self._one(kind).message  # type: ignore[no-any-return]

    def awaits(self, kind: type[Any]) -> bool:
        """Whether a request of a kind waits for an answer."""
        return bool(self.awaited(kind))

    def sent(self, kind: type[M]) -> list[M]:
        """All requests of a kind so far, but for doubts."""
        sends = [each for each in self.actions if isinstance(each, Send) and not _is_doubt(each)]
        return [send.message for send in sends if isinstance(send.message, kind)]

    def _one(self, kind: type[Any]) -> Send:
        found = self.awaited(kind)
        assert len(found) == 1, f"{len(found)} of {kind.__name__} in {self.describe()}"
        return found[0]

    def answer(self, kind: type[Any], message: Any) -> None:
        """Answer the one request of a kind."""
        self.answer_ticket(self._one(kind).ticket, message)

    def answer_ticket(self, ticket: int, message: Any) -> None:
        """Answer a request, awaited or not."""
        self.outbox.pop(ticket, None)
        self.do(self.machine.answered(ticket, message, self.now_ms))

    def fail(
        self,
        kind: type[Any],
        failure: FailureKind = FailureKind.LOST,
        error: Exception | None = None,
    ) -> None:
        """Have the one request of a kind fail."""
        ticket = self._one(kind).ticket
        del self.outbox[ticket]
        self.do(self.machine.failed(ticket, Failure(failure, error), self.now_ms))

    def sleep_until_asked(self, kind: type[Any]) -> None:
        """Let time pass until it asks something of a kind."""
        while not self.awaits(kind):
            self.sleep(1)

    def fail_until_found(self, kind: type[Any], *nodes: NodeAddress) -> None:
        """Let each request of a kind fail; the coordinator is found at these, one after another."""
        for node in nodes:
            self.sleep_until_asked(kind)
            self.fail(kind)
            self.sleep_until_asked(FindCoordinatorRequest)
            self.find(node)

    def refuse(self, kind: type[Any], code: ErrorCode) -> None:
        """Answer the one request of a kind with an error."""
        self.answer(kind, refusal(self.asks(kind), code))

    # -- good answers --------------------------------------------------------------------------

    def find(self, node: NodeAddress = NODE) -> None:
        """Tell where the coordinator is."""
        answer = FindCoordinatorResponse(node_id=1, host=node.host, port=node.port)
        self.answer(FindCoordinatorRequest, answer)

    def tell_topics(self, **others: int | None) -> None:
        """Answer the question for topics; None for one that does not exist."""
        self.topics |= others
        self.answer(MetadataRequest, self.metadata())

    def metadata(self) -> MetadataResponse:
        """What there is to tell of the topics."""
        return told_topics(self.asks(MetadataRequest), self.topics)

    def join(
        self,
        generation: int = 1,
        *,
        leads: bool = False,
        others: Mapping[str, Subscription] | None = None,
        **fields: Any,
    ) -> None:
        """Let it take part in a generation."""
        request = self.asks(JoinGroupRequest)
        values: dict[str, Any] = {
            "member_id": request.member_id or "m-1",
            "generation_id": generation,
            "protocol_name": request.protocols[0].name,
        } | fields
        members = {values["member_id"]: request.protocols[0].metadata}
        members |= {name: encode_subscription(each) for name, each in (others or {}).items()}
        answer = JoinGroupResponse(
            leader=values["member_id"] if leads else "leader",
            members=roster(members) if leads else (),
            **values,
        )
        self.answer(JoinGroupRequest, answer)

    def sync(
        self,
        *partitions: TopicPartition,
        needs_rejoin: bool = False,
        token: int = -1,
        orders: Orders | None = None,
    ) -> None:
        """Tell it what it is assigned, as Coterie does if a token is given."""
        code = NEEDS_REJOIN if needs_rejoin else 0
        block = None
        if orders is not None:
            active, topics = frozenset(partitions), self.machine._state.subscribed  # noqa: SLF001
            block = join_user_data(None, encode_orders(orders, active, topics))
        assignment = Assignment(
            assigned_partitions=group_by_topic(partitions), user_data=block, error_code=code
        )
        data = encode_assignment(assignment)
        answer = SyncGroupResponse(assignment=data, fencing_token=token)
        self.answer(SyncGroupRequest, answer)

    def beat(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the heartbeat."""
        self.answer(HeartbeatRequest, HeartbeatResponse(error_code=code))

    def next_beat(self, code: ErrorCode = ErrorCode.NONE) -> None:
        """Let time pass until the next heartbeat, if there is none yet, and answer it."""
        if not self.awaits(HeartbeatRequest):
            self.sleep(self.config.heartbeat_interval_ms)
        self.beat(code)

    def answer_heartbeat(self) -> None:
        """Answer the heartbeat, if there is one."""
        if self.awaits(HeartbeatRequest):
            self.beat()

    def store(self, *codes: ErrorCode) -> None:
        """Answer the commit: with one code for all partitions, or one for each."""
        self.answer(COMMIT, committed(self.asks(COMMIT), codes or (ErrorCode.NONE,)))

    def tell_offset(self, offset: int, code: ErrorCode = ErrorCode.NONE) -> None:
        """Answer the question for committed offsets with one for all."""
        self.answer(FETCH, fetched(self.asks(FETCH), offset, code))

    # -- whole stretches -----------------------------------------------------------------------

    def settle(self, *partitions: TopicPartition, generation: int = 1, leads: bool = False) -> None:
        """Go on with the join that is under way until the member works on these partitions."""
        if self.awaits(MetadataRequest):
            self.tell_topics()
        if self.awaits(FindCoordinatorRequest):
            self.find()
        self.join(generation, leads=leads)
        if leads:
            self.tell_topics()
        self.sync(*partitions)
        self.answer_heartbeat()

    def survive(self, *partitions: TopicPartition) -> None:
        """Have everything answered kindly until the member is at work again, or at its end."""
        for _ in range(60):
            if self.stopped is not None or (self._is_calm() and not self.revoking):
                return
            self.help_out(*partitions)
        raise AssertionError(f"it never recovers: {self.describe()}")

    def _is_calm(self) -> bool:
        machine = self.machine
        is_content = machine._state.rejoin_reason is None  # noqa: SLF001
        return machine.phase is Phase.STABLE and is_content and not self._is_closing()

    def _is_closing(self) -> bool:
        return self.machine._state.is_closing  # noqa: SLF001

    def help_out(self, *partitions: TopicPartition) -> None:
        """Answer the oldest request kindly, or else end work, or else let time pass."""
        waiting = self.awaited()
        if waiting:
            self.answer_kindly(waiting[0], partitions)
        elif self.revoking:
            self.release()
        else:
            due_in_ms = self.due_in()
            assert due_in_ms is not None, f"it waits for nothing: {self.describe()}"
            self.sleep(max(due_in_ms, 0))

    def answer_kindly(self, send: Send, partitions: Collection[TopicPartition]) -> None:
        """Answer a request as a coordinator would that has no complaint."""
        generation = max(self.machine.identity.generation, 10) + 1
        answers: dict[type[Any], Callable[[], None]] = {
            FindCoordinatorRequest: self.find,
            MetadataRequest: self.tell_topics,
            JoinGroupRequest: lambda: self.join(generation),
            SyncGroupRequest: lambda: self.sync(*partitions),
            HeartbeatRequest: self.beat,
            OffsetCommitRequest: self.store,
            OffsetFetchRequest: lambda: self.tell_offset(1),
            LeaveGroupRequest: lambda: self.answer(LeaveGroupRequest, LeaveGroupResponse()),
            DescribeGroupsRequest: lambda: self.answer(
                DescribeGroupsRequest, DescribeGroupsResponse(groups=())
            ),
        }
        answers[type(send.message)]()

    # -- what it says --------------------------------------------------------------------------

    def do(self, actions: Iterable[Action]) -> None:
        """Do what the machine says, and check that it may say so."""
        for action in actions:
            self.perform(action)
        check(self)

    def perform(self, action: Action) -> None:
        """Do one thing, if it may be done."""
        assert self.stopped is None or isinstance(action, Committed | Fetched), action
        self.actions.append(action)
        match action:
            case Send(ticket=ticket):
                self.outbox[ticket] = action
            case Assign(partitions=partitions):
                assert partitions, "nothing to assign"
                assert not self.working.keys() & partitions.keys(), "assigned what is worked on"
                assert not self.roles.keys() & partitions.keys(), "assigned what is a standby"
                self.working |= partitions
                self.told.append(action)
            case Revoke(partitions=revoked, deadline_ms=deadline_ms):
                assert revoked <= self.working.keys() - self.revoking, "revoked what is not there"
                assert deadline_ms >= self.now_ms
                self.revoking |= revoked
                self.told.append(action)
            case Lose(partitions=gone) | Abandon(partitions=gone):
                self._take_away(action, gone)
            case KeepWarm(roles=roles):
                assert roles != self.roles, "told to keep warm what is kept warm"
                self.roles = dict(roles)
            case Committed(key=key) | Fetched(key=key):
                assert key not in self.results, f"{key} was settled twice"
                self.results[key] = action
            case ReportEvent(event=event):
                self.events.append(event)
            case Stop():
                self.stopped = action
            case Hangup():
                pass

    def _take_away(self, action: Lose | Abandon, gone: Collection[TopicPartition]) -> None:
        assert gone, "nothing to take away"
        for partition in gone:
            self.working.pop(partition, None)
            self.revoking.discard(partition)
        self.told.append(action)

    # -- looking -------------------------------------------------------------------------------

    def seen(self, kind: type[E]) -> list[E]:
        """The events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    def told_what(self) -> list[tuple[type[Action], set[TopicPartition]]]:
        """What was to be done about which partitions, in its order."""
        return [(type(action), set(action.partitions)) for action in self.told]

    def claim(self) -> tuple[set[TopicPartition], int]:
        """What the join that is under way says the member owns, and since which generation."""
        subscription = subscription_of(self.asks(JoinGroupRequest))
        return set(flatten(subscription.owned_partitions)), subscription.generation_id

    def error_of(self, key: Any) -> Exception | None:
        """What a commit or a question came to."""
        return self.results[key].error

    def describe(self) -> str:
        """Where it stands, for a failed check."""
        machine = self.machine
        waiting = [type(send.message).__name__ for send in self.awaited()]
        return (
            f"{machine.phase.name} {machine.identity} owns {sorted(machine.owned)} "
            f"awaits {waiting} revoking {sorted(self.revoking)} due in {self.due_in()}"
        )


def _is_doubt(send: Send) -> bool:
    return isinstance(send.to, AnyNode) and send.to.but is not None
