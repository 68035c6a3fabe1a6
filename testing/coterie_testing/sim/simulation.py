"""One run of the simulator, from the first worker to the last that leaves."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Final

from coterie_client import Role
from coterie_protocol.errors import FencedInstanceIdError
from coterie_server.group import GroupState
from coterie_server.group.group import Group
from coterie_server.group.warmth import plan_of
from coterie_testing.sim.fault_injector import FaultInjector
from coterie_testing.sim.faults import BY_PEOPLE, Fault
from coterie_testing.sim.invariants.checker import Violation
from coterie_testing.sim.invariants.handovers import handover_faults
from coterie_testing.sim.system import GROUP, System, SystemOptions
from coterie_testing.sim.worker import METADATA_MAX_AGE_S, Worker

__all__ = ["Simulation"]

#: For how long a group has to be well before it counts as settled. What was on its way when the
#: faults ended may still come: the join of a process that has given up, or its silent leaving.
_CALM_S: Final = 5.0

#: Where groups are not told that a topic has grown, the leader looks at the topics again when what
#: it knows has reached its greatest age; a request and a rebalance take a moment.
_NOTICED_S: Final = METADATA_MAX_AGE_S + 5.0

#: A group that is left alone needs fewer rebalances than this to settle.
_STORM: Final = 100

#: By how much a line of a journal may be late, as a write to a database may be.
_LATE_MS: Final = 6_000

#: How often the run looks for violations while it waits.
_LOOK_S: Final = 0.25


class Simulation:
    """A system, the faults that are injected into it, and the checks at the end."""

    def __init__(
        self,
        seed: int,
        options: SystemOptions | None = None,
        faults: Sequence[Fault] = (),
        *,
        tamper: Callable[[System], None] | None = None,
    ) -> None:
        is_steady = all(fault.kind in BY_PEOPLE for fault in faults)
        is_calm = all(fault.kind in (*BY_PEOPLE, "stop_coordinator") for fault in faults)
        options = options or SystemOptions()
        is_steady = is_steady and options.nodes == 1  # shards move to a coordinator that has come
        self.system = System(seed, options, is_calm=is_calm, is_steady=is_steady)
        self._injector = FaultInjector(self.system)
        self._faults = faults
        if tamper is not None:
            tamper(self.system)

    def run(self) -> None:
        """Run to the end; raise `Violation` if an invariant does not hold."""
        system, options = self.system, self.system.options
        system.start_coordinators()
        for number in range(options.workers):
            system.add_worker(static=number < options.static)
        for fault in self._faults:
            system.scheduler.after(fault.at_s, self._inject, fault)
        self._advance(options.faults_s)
        self._injector.stop()
        system.heal()
        self._wait_until_settled()
        self._check_end()
        self._stop_workers()

    def close(self) -> None:
        """Kill everything."""
        self.system.close()

    def _inject(self, fault: Fault) -> None:
        done = self._injector.inject(fault)
        self.system.tell("injector", f"{fault.kind.replace('_', ' ')}: {done or 'no target'}")

    def _advance(self, seconds: float) -> None:
        self.system.scheduler.run(seconds)
        self._raise_violations()

    def _raise_violations(self) -> None:
        if self.system.checker.violation is not None:
            raise self.system.checker.violation
        for process in self.system.scheduler.processes:
            for context in process.errors:
                error = context.get("exception")
                if isinstance(error, Violation):
                    raise error
                raise Violation(f"{process.name}: {context.get('message')}: {error!r}") from error

    # -- recovery ------------------------------------------------------------------------------

    def _wait_until_settled(self) -> None:
        """Wait until the group is well and stays well."""
        system, scheduler = self.system, self.system.scheduler
        until_s = scheduler.now_s + system.options.recovery_s
        most = system.checker.counts["rebalances completed"] + _STORM
        well_since_s: float | None = None
        while well_since_s is None or scheduler.now_s < well_since_s + _CALM_S:
            if system.checker.counts["rebalances completed"] > most:
                raise Violation(f"rebalances do not end: {self._describe()}")
            if not system.running and not system.pending:
                system.add_worker()
            if scheduler.now_s >= until_s:
                raise Violation(f"the group has not recovered: {self._describe()}")
            self._advance(_LOOK_S)
            if not self._is_settled():
                well_since_s = None
            elif well_since_s is None:
                well_since_s = scheduler.now_s

    def _is_settled(self) -> bool:
        system, node = self.system, self.system.coordinator.node
        if system.pending or not system.is_shared_out or node is None:
            return False
        group = node.group(GROUP)
        if group is None or group.state is not GroupState.STABLE:
            return False
        workers = system.running
        if any(not worker.group.is_settled for worker in workers):
            return False
        if _is_moving_state(workers, group):
            return False
        if self._may_have_missed_growth() and self._has_unowned_partitions():
            return False
        # The group waits for dead processes until their sessions end, and for processes whose
        # names others have by now until they know.
        return group.members.keys() == {worker.group.member_id for worker in workers}

    def _may_have_missed_growth(self) -> bool:
        system = self.system
        is_told = system.coordinator.settings.group_topic_change_rebalance
        return not is_told and system.scheduler.now_s < system.options.faults_s + _NOTICED_S

    def _has_unowned_partitions(self) -> bool:
        owned = {each.key for worker in self.system.running for each in worker.group.owned}
        return not owned.issuperset(self._partitions())

    # -- the end -------------------------------------------------------------------------------

    def _check_end(self) -> None:
        system, node = self.system, self.system.coordinator.node
        system.checker.check_settled(system.running, self._partitions())
        group = node.group(GROUP) if node is not None else None
        if node is None or group is None:
            raise Violation("the group is gone")
        system.checker.check_topics(node.topics.counts)
        self._check_nodes()
        self._check_handovers()
        self._raise_violations()
        parked = [m.id for m in group.members.values() if m.join is not None or m.sync is not None]
        if parked:
            raise Violation(f"requests stay parked: {parked}")
        for worker in system.workers:
            if worker.error is not None and not self._may_fail(worker):
                raise Violation(f"{worker.name} failed: {worker.error!r}")

    def _check_nodes(self) -> None:
        """All coordinators know the same topics."""
        found = {
            each.name: dict(each.node.topics.counts)
            for each in self.system.coordinators
            if each.node is not None
        }
        if len({tuple(sorted(counts.items())) for counts in found.values()}) > 1:
            raise Violation(f"coordinators know different topics: {found}")

    def _check_handovers(self) -> None:
        """The journals of all coordinators tell one possible story of who had which shard."""
        node = self.system.coordinator.node
        if node is None or any(each.kind == "coordinator_clock_jump" for each in self._faults):
            return  # their dates don't tell what came first
        lines = [line for each in self.system.coordinators for line in each.journal]
        shard_of = lambda group: node.group_shard(group).shard  # noqa: E731  # as nodes have it
        for fault in handover_faults(lines, shard_of, _LATE_MS):
            raise Violation(fault)

    def _may_fail(self, worker: Worker) -> bool:
        """Whether its error says that another process took its name, and one did."""
        is_fenced = isinstance(worker.error, FencedInstanceIdError)
        return is_fenced and self.system.checker.exemptions.is_contested(worker)

    def _stop_workers(self) -> None:
        """Have all workers leave in good order."""
        system = self.system
        for worker in system.running:
            worker.stop()
        until_s = system.scheduler.now_s + system.options.recovery_s
        while system.running:
            if system.scheduler.now_s >= until_s:
                raise Violation(f"workers do not end: {self._describe()}")
            self._advance(_LOOK_S)

    def _partitions(self) -> list[tuple[str, int]]:
        node = self.system.coordinator.node
        wanted = {topic for worker in self.system.running for topic in worker.options.topics}
        counts = node.topics if node is not None else {}
        return [(t, n) for t in wanted for n in range(counts.get(t, 0))]

    def _describe(self) -> str:
        """The state of the group, of its members and of its workers."""
        node = self.system.coordinator.node
        group = node.group(GROUP) if node is not None else None
        state = f"{group.state.name}, generation {group.generation}" if group else "no group"
        members = ", ".join(group.members) if group else ""
        workers = "; ".join(
            f"{w.name}: {w.group!r}, owns {[str(p) for p in w.group.owned]}"
            for w in self.system.running
        )
        shards = "; ".join(
            f"{each.name} has {each.shards}"
            for each in self.system.coordinators[1:] and self.system.coordinators
        )
        return f"{state} with {members}; {workers}; {shards}"


def _is_moving_state(workers: Sequence[Worker], group: Group) -> bool:
    """Whether a worker warms up, or the leader will look again for another reason."""
    held = [each for worker in workers for each in worker.group.standbys]
    if any(each.role is Role.WARM_UP for each in held):
        return True
    if any(worker.options.state is None for worker in workers):
        return False  # if one of these leads, by default settings, it looks after a long time
    plan = plan_of(group.members, group.row.protocol_name)
    return plan is not None and plan.next_probing_ms is not None
