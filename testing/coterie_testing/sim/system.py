"""The system under test: a coordinator, its workers, a network and a disk, with their checker."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import partial
from typing import ClassVar, Final, TypeVarTuple

from coterie_assignors import (
    Assignor,
    Claim,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    RangeAssignor,
    RebalanceProtocol,
    RoundRobinAssignor,
    StickyAssignor,
    Weights,
)
from coterie_client.admin import Admin
from coterie_client.membership.events import Event as ClientEvent
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import Event, PhaseJoined
from coterie_server.config.settings import Settings
from coterie_testing.sim.coordinator import SimulatedCoordinator, address_of
from coterie_testing.sim.invariants.checker import InvariantChecker
from coterie_testing.sim.state import Logs, StateDisk, StateOptions
from coterie_testing.sim.worker import Worker, WorkerOptions
from coterie_testing.virtual import (
    Database,
    Disk,
    DiskOptions,
    Network,
    NetworkOptions,
    Process,
    Scheduler,
)

__all__ = ["ASSIGNORS", "GROUP", "STATEFUL_ASSIGNOR", "WEIGHTED", "System", "SystemOptions"]

Ts = TypeVarTuple("Ts")

#: In a database that can't be reached, a write fails by then.
_DURABLE_WITHIN_S: Final = 5.0

#: The one group that all workers are in.
GROUP: Final = "g"


class _BrokenAssignor(RoundRobinAssignor):
    """Assigns everything anew, and does not see that members still own what it gives away.

    So its leader withholds nothing, and partitions go to new owners while their old ones are still
    at work, unless the coordinator's ownership guard steps in.
    """

    name: ClassVar[str] = "broken"
    protocols: ClassVar[tuple[RebalanceProtocol, ...]] = (RebalanceProtocol.COOPERATIVE,)

    def claim(self, member: MemberInfo) -> Claim:
        """Overlook what a member owns."""
        del member
        return Claim()


#: Short, so that loads make partitions move often during a run.
_WEIGHTS: Final = Weights(rest=4.0, smoothing=1.0, rebalance=True, refresh=9.0)

#: The ways in which a group can share out its partitions.
ASSIGNORS: Final[dict[str, Callable[[], Sequence[Assignor]]]] = {
    "cooperative-sticky": lambda: (CooperativeStickyAssignor(),),
    "range": lambda: (RangeAssignor(),),
    "sticky": lambda: (StickyAssignor(),),
    "upgrade": lambda: (RangeAssignor(), CooperativeStickyAssignor()),
    "broken": lambda: (_BrokenAssignor(),),
    "instance-sticky": lambda: (InstanceStickyAssignor(),),
}

#: For some of them, what balances loads instead of numbers.
WEIGHTED: Final[dict[str, Callable[[], Sequence[Assignor]]]] = {
    "cooperative-sticky": lambda: (CooperativeStickyAssignor(_WEIGHTS),),
    "sticky": lambda: (StickyAssignor(_WEIGHTS),),
}


#: The one that is made for members with state.
STATEFUL_ASSIGNOR: Final = "instance-sticky"


@dataclass(frozen=True, slots=True, kw_only=True)
class SystemOptions:
    """The size of a system, how it is set up, and how long its run lasts."""

    workers: int = 3
    #: How many of them are static members.
    static: int = 0
    topics: Mapping[str, int] = field(default_factory=lambda: {"jobs": 6, "more": 2})
    assignor: str = "cooperative-sticky"
    #: Whether it balances loads, if it can.
    weighted: bool = False
    #: How many coordinators share the groups; more than one share a database.
    nodes: int = 1
    #: How they are set up, but for their topics and instance ids.
    worker: WorkerOptions = field(default_factory=WorkerOptions)
    #: Their session timeouts, in turn; if empty, all have that of `worker`.
    sessions_s: Sequence[float] = ()
    settings: Mapping[str, object] = field(default_factory=dict)
    #: The state that workers keep; None if their work needs none.
    state: StateOptions | None = None
    #: How long faults are injected.
    faults_s: float = 40.0
    #: How long the group has to be well again after that.
    recovery_s: float = 120.0

    @property
    def shared_out(self) -> str:
        """How partitions are shared out, in words."""
        return f"{self.assignor} by load" if self.balances_loads else self.assignor

    @property
    def balances_loads(self) -> bool:
        """Whether its assignor has weights."""
        return self.weighted and self.assignor in WEIGHTED


class System:
    """What is tested, and the ways in which a simulation acts on it."""

    def __init__(
        self, seed: int, options: SystemOptions, *, is_calm: bool = False, is_steady: bool = False
    ) -> None:
        self.options = options
        self.scheduler = Scheduler(seed)
        self.network = Network(self.scheduler)
        self.checker = InvariantChecker(self.scheduler)
        self.checker.is_calm, self.checker.is_steady = is_calm, is_steady
        self.checker.expects_conflicts = options.assignor == "broken"
        #: What is stored, on a disk of the only coordinator or in a database that all share.
        self.disk = Database(self.network) if options.nodes > 1 else Disk(self.scheduler)
        self.coordinators = [self._make_coordinator(n + 1) for n in range(options.nodes)]
        self.network.conditions.on_unread = self._unread
        self.workers: list[Worker] = []
        self._logs = Logs(options.state.entries if options.state else 0)
        self._started = 0
        self._admin: Process | None = None
        self._heals: list[Callable[[], None]] = []
        #: How many things were begun and are not finished.
        self.pending = 0
        #: Told what happens, and to whom; what a simulation does comes as text.
        self.on_event: Callable[[str, ClientEvent | Event | str], None] | None = None
        #: Told of each generation as it forms.
        self.on_generation: Callable[[PhaseJoined], None] | None = None

    def _make_coordinator(self, number: int) -> SimulatedCoordinator:
        values = {"group_initial_rebalance_delay_ms": 0} | dict(self.options.settings)
        checks = self.checker.node(number)
        if self.options.nodes > 1:
            values["node_id"] = number
            checks.clock.durable_within_s = _DURABLE_WITHIN_S
        address = address_of(number)
        return SimulatedCoordinator(
            self.scheduler,
            self.network,
            Settings(**values),  # type: ignore[arg-type]  # settings check themselves
            dict(self.options.topics) if number == 1 else {},
            self.disk,
            address=address,
            addresses=(address,),
            requests=checks.requests,
            on_event=partial(self._journalled, number),
            on_start=checks.clock.started,
        )

    def close(self) -> None:
        """Kill everything."""
        self.scheduler.close()

    # -- coordinators --------------------------------------------------------------------------

    @property
    def bootstrap(self) -> str:
        """Where clients connect."""
        return ",".join(str(each.address) for each in self.coordinators)

    def start_coordinators(self) -> None:
        """Start all coordinators that don't run."""
        for coordinator in self.coordinators:
            self.ensure_coordinator(coordinator)

    def ensure_coordinator(self, coordinator: SimulatedCoordinator) -> None:
        """Start a coordinator unless it runs."""
        process = coordinator.process
        if process is None or process.is_dead:
            coordinator.start()

    @property
    def coordinator(self) -> SimulatedCoordinator:
        """The coordinator that has the workers' group; any if none has."""
        found = (each for each in self.coordinators if self._has_group(each))
        return next(found, self.coordinators[0])

    @staticmethod
    def _has_group(coordinator: SimulatedCoordinator) -> bool:
        node = coordinator.node
        return node is not None and node.group_shard(GROUP).may_answer

    @property
    def is_shared_out(self) -> bool:
        """Whether all coordinators serve, and have as many shards as each other, within one."""
        if not all(each.is_up for each in self.coordinators):
            return False
        counts = [len(each.shards) for each in self.coordinators]
        shards = next(each.node.all_shards() for each in self.coordinators if each.node is not None)
        return sum(counts) == len(shards) and max(counts) - min(counts) <= 1

    def check_owners(self) -> None:
        """No two coordinators may answer for a shard at once."""
        owners: dict[int, str] = {}
        for coordinator in self.coordinators:
            for shard in coordinator.shards:
                other = owners.setdefault(shard, coordinator.name)
                if other != coordinator.name:
                    self.checker.fail(f"shard {shard}: {other} and {coordinator.name} own it")

    # -- processes -----------------------------------------------------------------------------

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
        """Start one more worker."""
        self._started += 1
        label = f"w{self._started}"
        options = like or replace(
            self.options.worker,
            topics=tuple(self.options.topics),
            instance=f"i{self._started}" if static else None,
            loads_vary_s=self.options.faults_s,
            state=self._new_disk(),
        )
        if self.options.sessions_s and like is None:
            sessions_s = self.options.sessions_s
            options = replace(options, session_timeout=sessions_s[self._started % len(sessions_s)])
        name = assignor or self.options.assignor
        known = ASSIGNORS | WEIGHTED if self.options.weighted else ASSIGNORS
        assignors = known[name]()
        worker = Worker(
            *(self.scheduler, self.network, self.checker, label, GROUP, options, assignors),
            bootstrap=self.bootstrap,
        )
        self.workers.append(worker)
        self.checker.exemptions.started(worker)
        worker.on_event = partial(self._happened, worker)
        worker.start()
        return worker

    def _new_disk(self) -> StateDisk | None:
        state = self.options.state
        if state is None or self.scheduler.random.randrange(100) >= state.percent:
            return None
        return StateDisk(state, self._logs)

    def pause_worker(self, worker: Worker, seconds: float) -> None:
        """Stop a worker's machine for a while."""
        worker.process.pause()
        self.checker.exemptions.paused(worker)
        self.heal_after(seconds, partial(self._resume_worker, worker))

    def _resume_worker(self, worker: Worker) -> None:
        if worker.process.is_paused:
            worker.process.resume()
            self.checker.exemptions.resumed(worker)

    def ask_admin(self, request: Callable[[Admin], Awaitable[object]]) -> None:
        """Have an administrator ask for something; a refusal is only noted."""
        if self._admin is None:
            self._admin = Process(self.scheduler, "admin")
            self._dial = self.network.dialler(self._admin)
        chance = self.scheduler.random.random
        self.pending += 1

        async def ask() -> None:
            async with Admin(self.bootstrap, dial=self._dial, random=chance) as admin:
                try:
                    await request(admin)
                except CoterieError as error:
                    self.tell("admin", str(error))
            self.pending -= 1

        self._admin.create_task(ask())

    # -- later ---------------------------------------------------------------------------------

    def after(self, delay_s: float, callback: Callable[[*Ts], object], *arguments: *Ts) -> None:
        """Call something later; until then it counts as pending."""
        self.pending += 1

        def finish() -> None:
            self.pending -= 1
            callback(*arguments)

        self.scheduler.after(delay_s, finish)

    def heal_after(self, seconds: float, heal: Callable[[], None]) -> None:
        """Undo a fault after a while, or when everything is healed."""
        self._heals.append(heal)
        self.scheduler.after(seconds, heal)

    def heal(self) -> None:
        """Undo all faults, and have a coordinator and a worker at least."""
        for heal in self._heals:
            heal()
        self._heals.clear()
        self.disk.options = DiskOptions()
        self.network.conditions.options = NetworkOptions()
        self.start_coordinators()
        if not self.running:
            self.add_worker()

    # -- what happens --------------------------------------------------------------------------

    def tell(self, who: str, event: ClientEvent | Event | str) -> None:
        """Pass an event on to whatever listens."""
        if self.on_event is not None:
            self.on_event(who, event)

    def _journalled(self, number: int, ts_ms: int, event: Event, fence: int) -> None:
        process = self.coordinators[number - 1].process
        wall_ms = None if process is None else process.wall_ms()
        self.checker.journalled(ts_ms, event, wall_ms, number, fence)
        self.check_owners()
        self.tell(self.coordinators[number - 1].name, event)
        if isinstance(event, PhaseJoined) and self.on_generation is not None:
            self.on_generation(event)

    def _unread(self, process: Process, data: bytes) -> None:
        for number, coordinator in enumerate(self.coordinators, 1):
            if process is coordinator.process:
                self.checker.node(number).clock.arrived(data)

    def _happened(self, worker: Worker, event: ClientEvent) -> None:
        self.checker.client_event(worker, event)
        self.tell(worker.name, event)
