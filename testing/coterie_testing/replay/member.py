"""A member of a recording, replayed by a worker: when it comes and goes, and what happens to it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from coterie_assignors import Assignor
from coterie_protocol import ApiKey
from coterie_server.net import Exchange
from coterie_testing.replay.assumptions import HEARTBEAT_MS
from coterie_testing.replay.changes import ASSIGNORS, Changes
from coterie_testing.replay.recording import RecordedMember, Recording, Stall
from coterie_testing.replay.work_meter import WorkMeter
from coterie_testing.sim.coordinator import SimulatedCoordinator
from coterie_testing.sim.worker import Worker, WorkerOptions
from coterie_testing.virtual import Network, Scheduler

__all__ = ["ReplayContext", "ReplayedMember", "instance_ids"]

#: By about how much the timers of real machines differ.
_DRIFT: Final = 0.03
#: Work that is only looked at for whether it goes on.
_PACE_S: Final = (30.0, 60.0)
#: How long about it takes from the start of a process to its join.
_ARRIVAL_MS: Final = 8.0
#: The requests that a stalled process does not send.
_JOINING: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


@dataclass
class ReplayContext:
    """What all members of a replay share."""

    scheduler: Scheduler
    network: Network
    meter: WorkMeter
    #: Schedules a call at a time of the recording.
    at: Callable[[float, Callable[[], object]], None]
    recording: Recording
    changes: Changes
    coordinator: SimulatedCoordinator
    #: The requests that are held back, by the client id of the stalled process.
    _held: dict[str, list[Exchange]] = field(default_factory=dict)

    @cached_property
    def instance_ids(self) -> list[str]:
        """The instance id that each member would have if all were static."""
        return instance_ids(self.recording.members)

    def hold_back(self, exchange: Exchange) -> bool:
        """The coordinator's gate: hold a request back if the process that sent it is stalled."""
        held = self._held.get(exchange.request.client_id or "")
        if held is None or exchange.request.api_key not in _JOINING:
            return False
        held.append(exchange)
        return True

    def stall(self, worker: Worker) -> None:
        """Hold back the joins of a process from now on."""
        self._held.setdefault(worker.name, [])

    def end_stall(self, worker: Worker) -> None:
        """Deliver what was held back of a process."""
        node, process = self.coordinator.node, self.coordinator.process
        for exchange in self._held.pop(worker.name, ()):
            if node is not None and process is not None and not exchange.abandoned:
                process.call_soon(node.handle, exchange)

    def last_seen_ms(self, worker: Worker) -> int:
        """When the coordinator last heard of a process; now if it does not know it."""
        node = self.coordinator.node
        group = None if node is None else node.group(self.recording.group)
        member = None if group is None else group.members.get(worker.group.member_id)
        return self.scheduler.now_ms if member is None else member.last_seen_ms


class ReplayedMember:
    """Plays one member; its worker may leave and come back as another process."""

    def __init__(self, context: ReplayContext, number: int) -> None:
        self._context = context
        self._number = number
        self._recorded = context.recording.members[number]
        self._worker: Worker | None = None
        self._entries = 0
        self._topics = self._recorded.topics

    def prepare(self) -> None:
        """Schedule everything that happened to the member."""
        at, recorded = self._context.at, self._recorded
        at(recorded.began_ms - _ARRIVAL_MS, self._enter)
        for silence in recorded.silences:
            silent_ms = silence.until_ms - silence.from_ms
            at(self._once_in(silence.from_ms), partial(self._fall_silent, silent_ms))
        for stall in recorded.stalls:
            self._prepare_stall(stall)
        for subscription in recorded.subscriptions:
            at(subscription.from_ms, partial(self._subscribe, subscription.topics))
        if recorded.ended_ms is not None:
            at(self._once_in(recorded.ended_ms), self._leave if recorded.left else self._die)

    def _once_in(self, at_ms: int) -> float:
        """Not before it had joined: that much is known."""
        return max(at_ms, self._recorded.began_ms + _ARRIVAL_MS)

    def _prepare_stall(self, stall: Stall) -> None:
        at, limit_ms = self._context.at, self._rebalance_ms
        if stall.leaves and stall.until_ms - stall.from_ms > limit_ms:
            at(stall.from_ms + limit_ms, self._leave)
            at(stall.until_ms - _ARRIVAL_MS, self._enter)
        else:
            at(stall.from_ms, self._stall)
            at(stall.until_ms, self._end_stall)

    # -- what happens --------------------------------------------------------------------------

    def _enter(self) -> None:
        context, self._entries = self._context, self._entries + 1
        recorded = self._recorded
        name = f"{recorded.client_id or 'member'}/{self._number}"
        self._worker = worker = Worker(
            context.scheduler,
            context.network,
            context.meter,
            name if self._entries == 1 else f"{name}/{self._entries}",
            context.recording.group,
            self._options(),
            self._assignors(),
        )
        context.meter.came(worker)
        worker.start()

    def _leave(self) -> None:
        worker = self._worker
        if worker is not None:
            self._context.meter.left(worker)
            # The journal knows when it left, which is when its work had finished.
            worker.options = replace(worker.options, finish_s=(0.0, 0.0))
            worker.stop()

    def _die(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    def _fall_silent(self, for_ms: int) -> None:
        """Pause it for as long as it was silent, counted from its last sign of recorded."""
        context, worker = self._context, self._worker
        if worker is None:
            return
        worker.process.pause()
        context.meter.fell_silent(worker)
        seen_ms = context.last_seen_ms(worker)
        rest_s = (seen_ms + for_ms - context.scheduler.now_ms) / 1000
        context.scheduler.after(max(0.0, rest_s), self._wake_up, worker)

    def _wake_up(self, worker: Worker) -> None:
        worker.process.resume()
        self._context.meter.woke_up(worker)

    def _stall(self) -> None:
        if self._worker is not None:
            self._context.stall(self._worker)

    def _end_stall(self) -> None:
        if self._worker is not None:
            self._context.end_stall(self._worker)

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._topics = topics
        worker = self._worker
        if worker is not None:
            worker.options = replace(worker.options, topics=tuple(sorted(topics)))
            worker.process.call_soon(worker.subscribe)

    # -- how it is set up ----------------------------------------------------------------------

    @property
    def _rebalance_ms(self) -> int:
        return self._context.changes.rebalance_timeout_ms or self._recorded.rebalance_ms

    def _options(self) -> WorkerOptions:
        recorded, changes, recording = (
            self._recorded,
            self._context.changes,
            self._context.recording,
        )
        session_ms = changes.session_timeout_ms or recorded.session_ms
        usual_ms = recording.heartbeat_ms or min(HEARTBEAT_MS, recorded.session_ms // 3)
        heartbeat_ms = changes.heartbeat_interval_ms or min(usual_ms, session_ms // 3)
        # Otherwise members that came together would all hear of everything at the same time.
        heartbeat_s = heartbeat_ms / 1000 * self._context.scheduler.random.uniform(1 - _DRIFT, 1)
        # Members learn of a rebalance from a heartbeat, half an interval late on average.
        finish_s = max(0, recorded.join_ms - usual_ms // 2) / 1000
        return WorkerOptions(
            topics=tuple(sorted(self._topics)),
            instance=self._instance(recorded),
            session_timeout=session_ms / 1000,
            heartbeat_interval=heartbeat_s,
            rebalance_timeout=self._rebalance_ms / 1000,
            request_timeout=max(1.0, session_ms / 2000),
            work_s=_PACE_S,
            finish_s=(finish_s / 2, finish_s),
        )

    def _instance(self, recorded: RecordedMember) -> str | None:
        if self._context.changes.static is None:
            return recorded.instance
        return self._context.instance_ids[self._number] if self._context.changes.static else None

    def _assignors(self) -> tuple[Assignor, ...]:
        changed = self._context.changes.assignor
        names = self._recorded.assignors if changed is None else (changed,)
        return tuple(ASSIGNORS[name]() for name in names)


@dataclass(slots=True)
class _Instance:
    id: str
    client_id: str
    host: str
    #: From when on another process can take it over; None if it never ends.
    free_ms: int | None


def instance_ids(members: Sequence[RecordedMember]) -> list[str]:
    """An instance id for each member, so that a process that follows another one takes it over.

    That is how a well-run service names its processes: a new one takes the id of one of the same
    client that has ended, of the same host if possible, else of the last that ended.
    """
    instances: list[_Instance] = []
    ids = [""] * len(members)
    numbers: Counter[str] = Counter()
    for index in sorted(range(len(members)), key=lambda i: members[i].began_ms):
        member = members[index]
        instance = _free_instance(instances, member)
        if instance is None:
            client = member.client_id or "member"
            numbers[client] += 1
            name = member.instance or f"{client}-{numbers[client]}"
            instance = _Instance(name, member.client_id, member.host, None)
            instances.append(instance)
        instance.host, instance.free_ms = member.host, member.ended_ms
        ids[index] = instance.id
    return ids


def _free_instance(instances: list[_Instance], member: RecordedMember) -> _Instance | None:
    if member.instance is not None:
        return next((each for each in instances if each.id == member.instance), None)
    free = [
        (each.host == member.host, each.free_ms, each)
        for each in instances
        if each.client_id == member.client_id
        and each.free_ms is not None
        and each.free_ms <= member.began_ms
    ]
    return max(free, key=lambda each: each[:2])[2] if free else None
