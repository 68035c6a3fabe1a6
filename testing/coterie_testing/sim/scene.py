"""One run of the simulator: a coordinator, workers, and what befalls them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import Final

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    StickyAssignor,
)
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.errors import FencedInstanceIdError
from coterie_protocol.journal import Event, PhaseJoined
from coterie_server.config.settings import Settings
from coterie_server.group import GroupState
from coterie_testing.sim.broken import BrokenAssignor
from coterie_testing.sim.coordinator import Coordinator
from coterie_testing.sim.deeds import Deeds
from coterie_testing.sim.faults import PEOPLE, Fault
from coterie_testing.sim.witness import Violation, WatchfulEye
from coterie_testing.sim.worker import METADATA_MAX_AGE_S, Worker, WorkerOptions
from coterie_testing.virtual import Disk, Network, NetworkOptions, Process, Scheduler

__all__ = ["ASSIGNORS", "Scene", "SceneOptions"]

GROUP: Final = "g"

#: For so long a group has to be well before it counts as settled.  What was on its way when the
#: trouble ended may still come: the join of a process that has given up, or its silent farewell.
_CALM_S: Final = 5.0

#: Where groups are not told that a topic has grown, the leader looks at the topics again when what
#: it knows has reached its greatest age; a request and a rebalance take a moment.
_NOTICED_S: Final = METADATA_MAX_AGE_S + 5.0

#: So many rebalances need no group that is let alone.
_STORM: Final = 100

#: The ways in which a group can share out its partitions.
ASSIGNORS: Final[Mapping[str, Callable[[], Sequence[Assignor]]]] = {
    "cooperative-sticky": lambda: (CooperativeStickyAssignor(),),
    "range": lambda: (RangeAssignor(),),
    "sticky": lambda: (StickyAssignor(),),
    "upgrade": lambda: (RangeAssignor(), CooperativeStickyAssignor()),
    "broken": lambda: (BrokenAssignor(),),
}


@dataclass(frozen=True, slots=True, kw_only=True)
class SceneOptions:
    """Who is there when a run begins, and how long it goes on."""

    workers: int = 3
    #: How many of them have a name of their own, and keep it.
    static: int = 0
    topics: Mapping[str, int] = field(default_factory=lambda: {"jobs": 6, "more": 2})
    assignor: str = "cooperative-sticky"
    #: How they are set up, but for their topics and names.
    worker: WorkerOptions = field(default_factory=WorkerOptions)
    #: Their session timeouts, in turn; none if that of `worker` is everybody's.
    sessions_s: Sequence[float] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    #: How long things may go wrong.
    trouble_s: float = 40.0
    #: How long the group has, once nothing goes wrong any more, to be well again.
    patience_s: float = 120.0


class Scene:
    """The world of one run."""

    def __init__(
        self,
        seed: int,
        options: SceneOptions | None = None,
        faults: Sequence[Fault] = (),
        *,
        tamper: Callable[[Scene], None] | None = None,
    ) -> None:
        self.options = options = options or SceneOptions()
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler, NetworkOptions())
        self.disk = Disk(self.scheduler)
        self.eye = WatchfulEye(self.scheduler)
        self.eye.is_calm = all(fault.kind in PEOPLE for fault in faults)
        if options.assignor == "broken":
            self.eye.expect_conflicts()
        values = {"group_initial_rebalance_delay_ms": 0} | dict(options.settings)
        self.coordinator = Coordinator(
            self.scheduler,
            self.network,
            Settings(**values),  # type: ignore[arg-type]  # settings check themselves
            dict(options.topics),
            self.disk,
        )
        self.coordinator.on_event = self._journalled
        self.coordinator.on_start = self.eye.node_time.started
        self.network.conditions.on_unread = self._unread
        self.workers: list[Worker] = []
        self._faults = faults
        self._names = 0
        self._deeds = Deeds(self)
        #: Told what happens, and by whom, if anybody wants to know. What befalls it is a text.
        self.on_event: Callable[[str, ClientEvent | Event | str], None] | None = None
        if tamper is not None:
            tamper(self)

    # -- the run -------------------------------------------------------------------------------

    def run(self) -> None:
        """Let it all happen; raise `Violation` if something does that must not."""
        self.coordinator.start()
        options = self.options
        for number in range(options.workers):
            self.add_worker(static=number < options.static)
        for fault in self._faults:
            self.scheduler.after(fault.at_s, self._befall, fault)
        self._advance(options.trouble_s)
        self._make_whole()
        self._wait_until_settled()
        self._check_end()
        self._leave()

    def close(self) -> None:
        """Take the world apart."""
        self.scheduler.close()

    def _advance(self, seconds: float) -> None:
        self.scheduler.run(seconds)
        self._check_errors()

    def _check_errors(self) -> None:
        if self.eye.violation is not None:
            raise self.eye.violation
        for process in self.scheduler.processes:
            for context in process.errors:
                error = context.get("exception")
                if isinstance(error, Violation):
                    raise error
                raise Violation(f"{process.name}: {context.get('message')}: {error!r}") from error

    def _make_whole(self) -> None:
        """Let everything that went wrong be over."""
        self._deeds.undo()
        self.boot()
        if not self.running:
            self.add_worker()

    def _wait_until_settled(self) -> None:
        """Wait until the group is well and stays well."""
        until_s = self.scheduler.now_s + self.options.patience_s
        most = self.eye.counts["rebalances completed"] + _STORM
        well_since_s: float | None = None
        while well_since_s is None or self.scheduler.now_s < well_since_s + _CALM_S:
            if self.eye.counts["rebalances completed"] > most:
                raise Violation(f"rebalances do not end: {self.describe()}")
            if not self.running and not self._deeds.unfinished:
                self.add_worker()
            if self.scheduler.now_s >= until_s:
                raise Violation(f"the group is not well again: {self.describe()}")
            self._advance(0.25)
            if not self._is_settled():
                well_since_s = None
            elif well_since_s is None:
                well_since_s = self.scheduler.now_s

    def _is_settled(self) -> bool:
        if self._deeds.unfinished or not self.coordinator.is_up or self.coordinator.node is None:
            return False
        group = self.coordinator.node.group(GROUP)
        if group is None or group.state is not GroupState.STABLE:
            return False
        workers = self.running
        if any(not worker.group.is_settled for worker in workers):
            return False
        if self._may_have_missed_growth() and self._ownerless():
            return False
        # Members of processes that are no more are waited for, until their sessions end; and so
        # are processes whose names others bear by now, until they know it.
        return group.members.keys() == {worker.group.member_id for worker in workers}

    def _may_have_missed_growth(self) -> bool:
        is_told = self.coordinator.settings.group_topic_change_rebalance
        return not is_told and self.scheduler.now_s < self.options.trouble_s + _NOTICED_S

    def _ownerless(self) -> bool:
        owned = {each.key for worker in self.running for each in worker.group.owned}
        return not owned.issuperset(self._partitions())

    def _check_end(self) -> None:
        self.eye.check_settled(self.running, self._partitions())
        node = self.coordinator.node
        group = node.group(GROUP) if node is not None else None
        if node is None or group is None:
            raise Violation("the group is gone")
        self.eye.check_topics(node.topics.counts)
        self._check_errors()
        parked = [m.id for m in group.members.values() if m.join is not None or m.sync is not None]
        if parked:
            raise Violation(f"requests are parked for ever: {parked}")
        for worker in self.workers:
            if worker.error is not None and not self._may_fail(worker):
                raise Violation(f"{worker.name} failed: {worker.error!r}")

    def _may_fail(self, worker: Worker) -> bool:
        """Whether its error says that another process took its name, and there is one."""
        is_fenced = isinstance(worker.error, FencedInstanceIdError)
        return is_fenced and self.eye.excuses.is_contested(worker)

    def _leave(self) -> None:
        """Everybody leaves, and nothing is left behind."""
        for worker in self.running:
            worker.stop()
        until_s = self.scheduler.now_s + self.options.patience_s
        while self.running:
            if self.scheduler.now_s >= until_s:
                raise Violation(f"workers do not end: {self.describe()}")
            self._advance(0.25)

    def _partitions(self) -> list[tuple[str, int]]:
        node = self.coordinator.node
        wanted = {topic for worker in self.running for topic in worker.options.topics}
        counts = node.topics if node is not None else {}
        return [(t, n) for t in wanted for n in range(counts.get(t, 0))]

    # -- people and machines -------------------------------------------------------------------

    @property
    def running(self) -> list[Worker]:
        """The workers that take part."""
        return [worker for worker in self.workers if worker.is_running]

    def add_worker(
        self,
        *,
        static: bool = False,
        like: WorkerOptions | None = None,
        assignor: str | None = None,
    ) -> Worker:
        """One more."""
        self._names += 1
        name = f"w{self._names}"
        options = like or replace(
            self.options.worker,
            topics=tuple(self.options.topics),
            instance=f"i{self._names}" if static else None,
        )
        if self.options.sessions_s and like is None:
            sessions_s = self.options.sessions_s
            options = replace(options, session_timeout=sessions_s[self._names % len(sessions_s)])
        assignors = ASSIGNORS[assignor or self.options.assignor]()
        worker = Worker(self.scheduler, self.network, self.eye, name, GROUP, options, assignors)
        self.workers.append(worker)
        self.eye.excuses.started(worker)
        worker.on_event = partial(self._happened, worker)
        worker.start()
        return worker

    def boot(self) -> None:
        """Have the coordinator run."""
        process = self.coordinator.process
        if process is None or process.is_dead:
            self.coordinator.start()

    def _befall(self, fault: Fault) -> None:
        said = self._deeds.do(fault)
        text = f"{fault.kind.replace('_', ' ')}: {said or 'nobody to do it to'}"
        self.tell("fate", text)

    def tell(self, who: str, event: ClientEvent | Event | str) -> None:
        """Let whoever wants to know what happens know."""
        if self.on_event is not None:
            self.on_event(who, event)

    def _journalled(self, ts_ms: int, event: Event) -> None:
        process = self.coordinator.process
        wall_ms = None if process is None else process.wall_ms()
        self.eye.journalled(ts_ms, event, self.coordinator.wire, wall_ms)
        self.tell("coordinator", event)
        if isinstance(event, PhaseJoined):
            self._deeds.phase_joined(event)

    def _unread(self, process: Process, data: bytes) -> None:
        if process is self.coordinator.process:
            self.eye.node_time.arrived(data)

    def _happened(self, worker: Worker, event: ClientEvent) -> None:
        self.eye.happened(worker, event)
        self.tell(worker.name, event)

    def describe(self) -> str:
        """Who is about what."""
        node = self.coordinator.node
        group = node.group(GROUP) if node is not None else None
        state = f"{group.state.name}, generation {group.generation}" if group else "no group"
        members = ", ".join(group.members) if group else ""
        workers = "; ".join(
            f"{w.name}: {w.group!r}, owns {[str(p) for p in w.group.owned]}" for w in self.running
        )
        return f"{state} with {members}; {workers}"
