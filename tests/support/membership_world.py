"""Real memberships and a real coordinator in one process, without sockets, in virtual time.

A `Meeting` is a `World` whose clients are `Membership` machines.  What they send takes a while,
what they are to work on is worked on by `Worker`, and after every step it is checked that no
partition has two workers.
"""

from __future__ import annotations

import heapq
import random
from collections import deque
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
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
    Position,
    ReportEvent,
    Revoke,
    Role,
    Send,
    Sources,
    Stop,
)
from coterie_client.membership.events import Event
from coterie_client.wire.addresses import Lane, NodeAddress, TopicPartition
from coterie_protocol import encode
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.exceptions import EncodeError
from coterie_protocol.messages import (
    FindCoordinatorRequest,
    FindCoordinatorResponse,
    MetadataRequest,
    MetadataResponse,
    MetadataResponseBroker,
    MetadataResponsePartition,
    MetadataResponseTopic,
)
from coterie_protocol.schema import declaration_of
from coterie_server.serving.failures import failure
from tests.support.group_harness import World

__all__ = ["NODE", "RESTORE_MS", "Disk", "Line", "Meeting", "Worker"]

NODE = NodeAddress("node", 9092)

#: How far a message travels, at most.
_TRAVEL_MS = 20

#: How long a connection that leads nowhere goes unnoticed.
_UNNOTICED_MS = 20_000

E = TypeVar("E", bound=Event)


@dataclass(eq=False)
class Line:
    """A connection: the node takes its requests one after the other."""

    worker: Worker
    lane: Lane
    waiting: deque[Send] = field(default_factory=deque)
    unanswered: dict[int, Send] = field(default_factory=dict)
    #: What the node is about to answer.
    busy: Send | None = None
    is_open: bool = True
    #: Nothing that is sent arrives any more, and neither side has noticed yet.
    is_black: bool = False


@dataclass(eq=False)
class _Reply:
    """Takes the coordinator's answer to one request: the `World` treats it as a client."""

    line: Line
    send: Send

    @property
    def name(self) -> str:
        return self.line.worker.name

    @property
    def host(self) -> str:
        return "/10.0.0.1"

    def receive(self, message: Any) -> None:
        self.line.worker.meeting.reply(self.line, self.send, message)


#: How often a restore gets some way further.
RESTORE_MS = 100


@dataclass
class Disk:
    """How far the state of partitions has come on a machine; it outlives processes."""

    #: How much one step of a restore brings.
    rate: int = 50
    #: How far the state of each partition is to come.
    end: int = 1_000
    acceptable: int = 100
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def lag(self, partition: TopicPartition) -> int:
        """How much is left to restore."""
        return self.end - self.positions.get(partition, 0)

    def lags(self) -> dict[TopicPartition, int]:
        """How far behind each state is that has begun."""
        return {partition: self.lag(partition) for partition in self.positions}

    def restore(self, partition: TopicPartition) -> None:
        """Go some way further."""
        position = self.positions.get(partition, 0)
        self.positions[partition] = min(self.end, position + self.rate)


class Worker:
    """A process that runs a membership, and works on what that says."""

    def __init__(
        self,
        meeting: Meeting,
        name: str,
        *,
        topics: Collection[str],
        assignors: Sequence[Assignor] | None = None,
        finish_ms: int | None = 5,
        disk: Disk | None = None,
        **options: Any,
    ) -> None:
        self.meeting = meeting
        self.name = name
        self.topics = topics
        #: How long work takes to end; None if it never does.
        self.finish_ms = finish_ms
        #: Where it keeps state, if it has any.
        self.disk = disk
        self.roles: dict[TopicPartition, Role] = {}
        #: The partitions that it began to work on before it had their state.
        self.cold: list[TopicPartition] = []
        self._is_restoring = False
        settings = {"session_timeout_ms": 10_000, "rebalance_timeout_ms": 60_000} | options
        config = MembershipConfig(group="g", **settings)
        sources = Sources(meeting.random.random, lambda: meeting.now_ms)
        self.machine = Membership(config, assignors or (CooperativeStickyAssignor(),), sources)
        self.working: dict[TopicPartition, int] = {}
        self.lines: dict[Lane, Line] = {}
        self.events: list[Event] = []
        #: What it was told to do about partitions, in order.
        self.told: list[Action] = []
        self.results: dict[Any, Committed | Fetched] = {}
        #: What is to be in the results sooner or later.
        self.asked: set[Any] = set()
        self.stopped: Stop | None = None
        self.is_alive = True

    # -- what a test does ----------------------------------------------------------------------

    def start(self) -> Worker:
        """Join."""
        now_ms = self.meeting.now_ms
        if self.disk is not None:
            self.do(self.machine.keep_warm(self.disk.lags, now_ms))
        self.do(self.machine.start(self.topics, now_ms))
        return self

    def close(self, *, leave: bool = True, within_ms: int = 10_000) -> None:
        """Leave."""
        self.do(self.machine.close(self.meeting.now_ms, leave=leave, within_ms=within_ms))

    def die(self) -> None:
        """Be gone, as by kill -9."""
        self.is_alive = False
        self.working.clear()
        for line in self.lines.values():
            line.is_open = False

    def commit(self, key: Any, partition: TopicPartition, offset: int) -> None:
        """Commit in the name of the work that is going on."""
        self.asked.add(key)
        token = self.working.get(partition, -1)
        self.machine.commit(key, partition, token, Position(offset, "m"))
        self.do(self.machine.fire(self.meeting.now_ms))

    def fetch(self, key: Any, partition: TopicPartition) -> None:
        """Ask for a committed offset."""
        self.asked.add(key)
        self.machine.fetch(key, partition, self.working.get(partition))
        self.do(self.machine.fire(self.meeting.now_ms))

    def release(self, *partitions: TopicPartition) -> None:
        """End work on partitions that are to be revoked."""
        for partition in partitions:
            self.working.pop(partition, None)
        self.do(self.machine.released(partitions, self.meeting.now_ms))

    def subscribe(self, *topics: str) -> None:
        """Want other topics."""
        self.topics = topics
        self.do(self.machine.subscribe(topics, self.meeting.now_ms))

    def give_up(self, *partitions: TopicPartition) -> None:
        """End work on partitions that can't be worked on here."""
        for partition in partitions:
            self.working.pop(partition, None)
        self.do(self.machine.give_up(partitions, self.meeting.now_ms))

    def seen(self, kind: type[E]) -> list[E]:
        """The events of a kind so far."""
        return [event for event in self.events if isinstance(event, kind)]

    @property
    def is_closing(self) -> bool:
        """Whether it was told to end."""
        return self.machine._state.is_closing  # noqa: SLF001

    # -- what the membership wants -------------------------------------------------------------

    def do(self, actions: Iterable[Action]) -> None:
        """Do what the membership says."""
        for action in actions:
            self._do(action)
        self.meeting.check()

    def _do(self, action: Action) -> None:
        match action:
            case Send():
                self.meeting.send(self, action)
            case Hangup(lane=lane):
                for each in list(self.lines) if lane is None else [lane]:
                    self.meeting.cut(self, each)
            case Assign() | Revoke() | Lose() | Abandon():
                self.told.append(action)
                self._obey(action)
            case KeepWarm(roles=roles):
                assert roles != self.roles, "told to keep warm what is kept warm"
                assert self.disk is not None, "a member without state has standbys"
                self.roles = dict(roles)
                self._restore_later()
            case Committed(key=key) | Fetched(key=key):
                assert key not in self.results, f"{key} was settled twice"
                self.results[key] = action
            case ReportEvent(event=event):
                assert event.text
                assert event.details() is not None
                self.events.append(event)
            case Stop():
                self.stopped = action

    def _obey(self, action: Assign | Revoke | Lose | Abandon) -> None:
        """Start or end work."""
        partitions = action.partitions
        match action:
            case Assign():
                assert not self.working.keys() & action.partitions.keys(), "it is worked on"
                assert not self.roles.keys() & action.partitions.keys(), "it is a standby"
                self.working |= action.partitions
                self._begin(action.partitions)
            case Revoke():
                if self.finish_ms is not None:
                    work = {each: self.working[each] for each in partitions}
                    self.meeting.after(self.finish_ms, lambda: self._finish(work))
            case _:
                for partition in partitions:
                    self.working.pop(partition, None)

    # -- state ---------------------------------------------------------------------------------

    def _begin(self, partitions: Iterable[TopicPartition]) -> None:
        """Complete the state of what is to be worked on, which a cold one takes long for."""
        if self.disk is None:
            return
        for partition in partitions:
            if self.disk.lag(partition) > self.disk.acceptable:
                self.cold.append(partition)
            self.disk.positions[partition] = self.disk.end

    def _restore_later(self) -> None:
        if not self._is_restoring and self.roles:
            self._is_restoring = True
            self.meeting.after(RESTORE_MS, self._restore)

    def _restore(self) -> None:
        """Bring all standbys some way further."""
        self._is_restoring = False
        if not self.is_alive or self.stopped is not None or self.disk is None:
            return
        is_ready = False
        for partition in self.roles.keys() - self.working.keys():
            self.disk.restore(partition)
            is_ready |= self.machine.note_lag(partition, self.disk.lag(partition))
        if is_ready:
            self.do(self.machine.fire(self.meeting.now_ms))
        self._restore_later()

    def _finish(self, work: Mapping[TopicPartition, int]) -> None:
        # What was taken away and given anew meanwhile is other work.
        mine = [each for each, token in work.items() if self.working.get(each) == token]
        if self.is_alive and mine:
            self.release(*mine)


class Meeting(World):
    """A world whose clients are memberships."""

    def __init__(
        self, topics: dict[str, int] | None = None, *, seed: int = 1, **settings: Any
    ) -> None:
        self.random = random.Random(seed)
        self.workers: list[Worker] = []
        self._agenda: list[tuple[int, int, Callable[[], None]]] = []
        self._entries = 0
        self.is_up = True
        #: When the node began to read its groups, if it has not read them yet.
        self._loading_since_ms: int | None = None
        #: Requests that go nowhere: whether they do is asked for each.
        self.swallows: Callable[[Worker, Send], bool] = lambda _worker, _send: False
        #: Errors to answer with in place of the coordinator.
        self.answers_instead: Callable[[Worker, Send], Any] = lambda _worker, _send: None
        super().__init__(topics or {"t": 4}, **{"initial_rebalance_delay_ms": 0} | settings)

    def worker(self, name: str, *topics: str, **options: Any) -> Worker:
        """A process that has not started yet."""
        worker = Worker(self, name, topics=topics or ("t",), **options)
        self.workers.append(worker)
        return worker

    def team(self, size: int, **options: Any) -> list[Worker]:
        """Some processes that have shared everything out."""
        workers = [self.worker(f"w{number}", **options).start() for number in range(size)]
        self.settle()
        return workers

    # -- time ----------------------------------------------------------------------------------

    def after(self, ms: int, what: Callable[[], None]) -> None:
        """Have something happen later."""
        self._entries += 1
        heapq.heappush(self._agenda, (self.now_ms + ms, self._entries, what))

    def step(self, until_ms: int) -> bool:
        """Do the next thing that is due by then, if there is one."""
        due: list[tuple[int, Callable[[], None]]] = []
        if self._agenda:
            due.append((self._agenda[0][0], self._happen))
        is_serving = self.is_up and self._loading_since_ms is None
        if is_serving and (at_ms := self.coordinator.next_deadline()) is not None:
            due.append((at_ms, lambda: self._take(self.coordinator.fire(self.now_ms))))
        due += [
            (at_ms, partial(self._fire, worker))
            for worker in self.workers
            if worker.is_alive and (at_ms := worker.machine.next_deadline()) is not None
        ]
        if not due:
            return False
        at_ms, what = min(due, key=lambda each: each[0])
        if at_ms > until_ms:
            return False
        self.now_ms = max(self.now_ms, at_ms)
        what()
        return True

    def _fire(self, worker: Worker) -> None:
        worker.do(worker.machine.fire(self.now_ms))

    def run(self, ms: int) -> None:
        """Let time pass, and what is due in it happen."""
        until_ms = self.now_ms + ms
        steps = 0
        while self.step(until_ms):
            steps += 1
            assert steps < 50_000, "it spins"
        self.now_ms = until_ms

    def settle(self, within_ms: int = 120_000) -> None:
        """Let time pass until all members are at work and none wants to join."""
        until_ms = self.now_ms + within_ms
        while not self.is_settled:
            assert self.step(until_ms), f"not settled: {self.describe_workers()}"

    def rest(self, within_ms: int = 120_000) -> None:
        """Let time pass until, besides, nothing warms up any more."""
        until_ms = self.now_ms + within_ms
        while not self.is_settled or any(
            role is Role.WARM_UP for worker in self.alive for role in worker.roles.values()
        ):
            assert self.step(until_ms), f"not at rest: {self.describe_workers()}"

    @property
    def alive(self) -> list[Worker]:
        """The workers that run."""
        return [w for w in self.workers if w.is_alive and w.stopped is None]

    @property
    def is_settled(self) -> bool:
        """Whether every partition has a worker and no member wants to join."""
        workers = self.alive
        if not workers or not all(w.machine.is_settled for w in workers):
            return False
        if len({w.machine.identity.generation for w in workers}) != 1:
            return False
        wanted = {topic for w in workers for topic in w.topics}
        every = {(t, n) for t, count in self.topics.items() if t in wanted for n in range(count)}
        return {tp for w in workers for tp in w.working} == every

    def describe_workers(self) -> str:
        """What the members are doing, for a failed test."""
        return "; ".join(
            f"{w.name} {w.machine.phase.name} {w.machine.identity} {sorted(w.working)}"
            for w in self.workers
        )

    def check(self) -> None:
        """No partition has two workers."""
        seen: dict[TopicPartition, Worker] = {}
        for worker in self.workers:
            for partition in worker.working:
                other = seen.setdefault(partition, worker)
                assert other is worker, f"{partition} is worked on by {other.name}, {worker.name}"
            # Its restore begins only when its work has ended.
            releasing = worker.machine._state.releasing  # noqa: SLF001
            both = worker.roles.keys() & worker.working.keys() - releasing
            assert not both or worker.stopped, f"{worker.name} works on standbys: {both}"

    # -- the network ---------------------------------------------------------------------------

    def send(self, worker: Worker, send: Send) -> None:
        """Take a request that a worker sends."""
        line = worker.lines.get(send.lane)
        if line is None or not line.is_open:
            line = worker.lines[send.lane] = Line(worker, send.lane)
        line.unanswered[send.ticket] = send
        self.after(send.timeout_ms, lambda: self._fail(line, send, FailureKind.TIMED_OUT))
        if self.swallows(worker, send) and not line.is_black:
            # TCP notices when what it sent is not acknowledged for long.
            line.is_black = True
            self.after(_UNNOTICED_MS, lambda: self._break(line))
        if not line.is_black:
            self.after(self._travel(), lambda: self._arrive(line, send))

    def reply(self, line: Line, send: Send, message: Any) -> None:
        """Take an answer that the node gives."""
        line.busy = None
        self.after(self._travel(), lambda: self._return(line, send, message))
        # Not from within: the coordinator is in the middle of its answers.
        self.after(0, lambda: self._serve_next(line))

    def cut(self, worker: Worker, lane: Lane) -> None:
        """Break a connection; the worker learns of it in a moment."""
        line = worker.lines.pop(lane, None)
        if line is not None:
            self._break(line)

    def stop_node(self) -> None:
        """Have the node die."""
        self.is_up = False
        for worker in self.workers:
            for lane in list(worker.lines):
                self.cut(worker, lane)

    def start_node(self, load_ms: int = 0) -> None:
        """Have the node come back with what it stored, which it may take a while to read."""
        self.is_up = True
        began_ms = self._loading_since_ms = self.now_ms

        def read() -> None:
            if self.is_up and self._loading_since_ms == began_ms:
                self._loading_since_ms = None
                self.crash()

        if load_ms:
            self.after(load_ms, read)
        else:
            read()

    def _break(self, line: Line) -> None:
        """Break a connection; requests under way on it fail in a moment."""
        line.is_open = False
        for send in line.unanswered.values():
            self.after(1, partial(self._fail, line, send, FailureKind.LOST))

    def _travel(self) -> int:
        return self.random.randint(1, _TRAVEL_MS)

    def _happen(self) -> None:
        heapq.heappop(self._agenda)[2]()

    def _arrive(self, line: Line, send: Send) -> None:
        if not self.is_up:
            self.after(1, lambda: self._fail(line, send, FailureKind.LOST))
        elif not line.is_open:
            return
        elif line.busy is None:
            self._serve(line, send)
        else:
            line.waiting.append(send)

    def _serve_next(self, line: Line) -> None:
        if line.busy is None and line.waiting and line.is_open and self.is_up:
            self._serve(line, line.waiting.popleft())

    def _serve(self, line: Line, send: Send) -> None:
        line.busy = send
        message: Any = send.message
        instead = self.answers_instead(line.worker, send)
        if instead is not None:
            self.reply(line, send, instead)
        elif isinstance(message, FindCoordinatorRequest):
            found = FindCoordinatorResponse(node_id=1, host=NODE.host, port=NODE.port)
            self.reply(line, send, found)
        elif isinstance(message, MetadataRequest):
            self.reply(line, send, self._metadata(message))
        elif self._loading_since_ms is not None:
            code = ErrorCode.COORDINATOR_LOAD_IN_PROGRESS
            self.reply(line, send, failure(message, _version(message), code))
        else:
            self.request(message, _version(message), client=_Reply(line, send))  # type: ignore[arg-type]

    def _metadata(self, message: MetadataRequest) -> MetadataResponse:
        broker = MetadataResponseBroker(node_id=1, host=NODE.host, port=NODE.port)
        topics = tuple(self._topic(topic.name or "") for topic in message.topics or ())
        return MetadataResponse(brokers=(broker,), controller_id=1, topics=topics)

    def _topic(self, name: str) -> MetadataResponseTopic:
        count = self.topics.get(name)
        if count is None:
            code = ErrorCode.UNKNOWN_TOPIC_OR_PARTITION
            return MetadataResponseTopic(error_code=code, name=name, partitions=())
        partitions = tuple(
            MetadataResponsePartition(
                partition_index=number, leader_id=1, replica_nodes=(1,), isr_nodes=(1,)
            )
            for number in range(count)
        )
        return MetadataResponseTopic(name=name, partitions=partitions)

    def _return(self, line: Line, send: Send, message: Any) -> None:
        worker = line.worker
        if line.is_open and worker.is_alive:
            line.unanswered.pop(send.ticket, None)
            worker.do(worker.machine.answered(send.ticket, message, self.now_ms))

    def _fail(self, line: Line, send: Send, kind: FailureKind) -> None:
        worker = line.worker
        if worker.is_alive and line.unanswered.pop(send.ticket, None) is not None:
            if line.is_open:
                self._break(line)
            worker.do(worker.machine.failed(send.ticket, Failure(kind), self.now_ms))


def _version(message: Any) -> int:
    """The highest version that can carry a message."""
    versions = declaration_of(type(message)).versions
    for version in range(versions.last, versions.first - 1, -1):
        try:
            encode(message, version)
        except EncodeError:
            continue
        return version
    raise AssertionError(f"no version carries {message}")
