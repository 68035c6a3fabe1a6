"""Carries out the faults of a plan; there is a method for each kind."""

from __future__ import annotations

from dataclasses import replace
from functools import partial
from typing import Final

from coterie_client import Role
from coterie_client.admin import Admin
from coterie_client.errors import ConnectionLostError
from coterie_client.membership import Phase
from coterie_protocol.errors import RequestTimedOutError
from coterie_protocol.exceptions import CoterieError
from coterie_testing.sim.coordinator import SimulatedCoordinator
from coterie_testing.sim.database_faults import DatabaseFaults
from coterie_testing.sim.faults import AT_A_GENERATION, OF_DATABASES, OF_OPERATORS, Fault
from coterie_testing.sim.generation_faults import GenerationFaults
from coterie_testing.sim.orders import Orders
from coterie_testing.sim.system import GROUP, System
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import Database, NetworkOptions

__all__ = ["FaultInjector"]

#: How much time a rolling restart gives each worker at most.
_PACE_S: Final = 2.0

#: How long a process takes to start, at least.
_BOOT_S: Final = 0.2


class FaultInjector:
    """Injects faults into a system."""

    def __init__(self, system: System) -> None:
        self._system = system
        self._at_a_generation = GenerationFaults(system)
        self._orders = Orders(system)
        self._of_databases = DatabaseFaults(system)
        #: Workers that have a successor, so that they don't get another one.
        self._succeeded: set[Worker] = set()

    def inject(self, fault: Fault) -> str | None:
        """Inject a fault and say what was done; None if there is nothing to do it to."""
        if fault.kind in AT_A_GENERATION:
            return self._at_a_generation.schedule(fault)
        if fault.kind in OF_DATABASES:
            return self._of_databases.inject(fault)
        if fault.kind in OF_OPERATORS:
            return self._orders.inject(fault)
        done: str | None = getattr(self, f"_{fault.kind}")(fault)
        return done

    def stop(self) -> None:
        """Drop the faults that wait for a generation."""
        self._at_a_generation.clear()

    def _target(self, fault: Fault) -> Worker | None:
        running = self._system.running
        return running[fault.target % len(running)] if running else None

    # -- workers -------------------------------------------------------------------------------

    def _add_worker(self, fault: Fault) -> str:
        static = self._system.options.static > 0 and fault.target % 2 == 0
        return self._system.add_worker(static=static).name

    def _stop_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        worker.stop()
        return worker.name

    def _kill_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        worker.kill()
        return worker.name

    def _kill_warming(self, fault: Fault) -> str | None:
        """Kill a worker in the middle of a warm-up; it comes back with what is on its disk."""
        warming = [
            worker
            for worker in self._system.running
            if any(each.role is Role.WARM_UP for each in worker.group.standbys)
        ]
        if not warming:
            return None
        return self._kill_for_a_while(warming[fault.target % len(warming)], fault)

    def _kill_leader(self, fault: Fault) -> str | None:
        """Kill the worker that decides who has what; it comes back."""
        node = self._system.coordinator.node
        group = node.group(GROUP) if node is not None else None
        leader = group.row.leader if group is not None else None
        found = [each for each in self._system.running if each.group.member_id == leader]
        return self._kill_for_a_while(found[0], fault) if found and leader else None

    def _restart_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        return None if worker is None else self._kill_for_a_while(worker, fault)

    def _kill_for_a_while(self, worker: Worker, fault: Fault) -> str:
        worker.kill()
        away_s = max(fault.seconds, _BOOT_S)
        self._system.after(away_s, self._replace, worker)
        return f"{worker.name}, back in {away_s:g} s"

    def _absent_worker(self, fault: Fault) -> str | None:
        static = [each for each in self._system.running if each.options.instance is not None]
        if not static:
            return None
        worker = static[fault.target % len(static)]
        worker.kill()
        away_s = worker.options.session_timeout + fault.seconds
        self._system.after(away_s, self._replace, worker)
        return f"{worker.name}, back in {away_s:g} s"

    def _replace(self, worker: Worker) -> None:
        """Start a process that is set up like another one, with its instance id."""
        if worker not in self._succeeded:
            self._succeeded.add(worker)
            self._system.add_worker(like=worker.options)

    def _duplicate_instance(self, fault: Fault) -> str | None:
        """Start a second process with an instance id that is in use."""
        worker = self._target(fault)
        if worker is None or worker.options.instance is None or worker in self._succeeded:
            return None
        self._replace(worker)
        return worker.name

    def _rolling_restart(self, fault: Fault) -> str:
        pause_s = min(fault.seconds, _PACE_S)
        for number, worker in enumerate(self._system.running):
            self._system.after(number * pause_s, self._restart_in_good_order, worker)
        return f"all, one each {pause_s:g} s"

    def _restart_in_good_order(self, worker: Worker) -> None:
        if worker.is_running:
            worker.stop()
            self._replace_when_gone(worker)

    def _replace_when_gone(self, worker: Worker) -> None:
        if worker.is_running:
            self._system.after(0.1, self._replace_when_gone, worker)
        else:
            self._replace(worker)

    def _pause_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        self._system.pause_worker(worker, fault.seconds)
        return f"{worker.name} for {fault.seconds:g} s"

    def _worker_clock_jump(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or worker.options.instance is not None:
            return None
        worker.process.clock_error_s += fault.seconds * (1 if fault.amount > 1 else -1)
        return worker.name

    def _change_subscription(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or worker.group.phase is Phase.OVER or worker.options.instance:
            return None
        names = sorted(self._system.options.topics)
        wanted = (names, names[:1], names[1:] or names)[fault.amount % 3]
        worker.options = replace(worker.options, topics=tuple(wanted))
        worker.process.call_soon(worker.subscribe)
        return f"{worker.name} wants {', '.join(wanted)}"

    # -- the coordinator -----------------------------------------------------------------------

    def _number(self, fault: Fault) -> int:
        """The coordinator that a fault is for: every other time the one that has the group."""
        coordinators = self._system.coordinators
        if fault.target % 2 == 0:
            return coordinators.index(self._system.coordinator) + 1
        return fault.target // 2 % len(coordinators) + 1

    def _coordinator(self, fault: Fault) -> SimulatedCoordinator:
        return self._system.coordinators[self._number(fault) - 1]

    def _kill_coordinator(self, fault: Fault) -> str:
        coordinator = self._coordinator(fault)
        coordinator.kill()
        self._system.scheduler.after(fault.seconds, self._system.ensure_coordinator, coordinator)
        return f"{self._named(coordinator)}back in {fault.seconds:g} s"

    def _named(self, coordinator: SimulatedCoordinator) -> str:
        """Which of several coordinators it is."""
        return f"{coordinator.name}, " if len(self._system.coordinators) > 1 else ""

    def _fail_core(self, fault: Fault) -> str | None:
        coordinator = self._coordinator(fault)
        node, process = coordinator.node, coordinator.process
        if node is None or process is None or process.is_dead:
            return None
        shards = node.all_shards()
        shard = shards[fault.target % len(shards)]

        def fail() -> None:
            try:
                raise AssertionError("a bug that is planted")  # noqa: TRY301  # as a core would
            except AssertionError:
                if shard.is_served:
                    shard.core_failed()

        process.call_soon(fail)
        return f"{self._named(coordinator)}that of shard {shard.shard}"

    def _pause_coordinator(self, fault: Fault) -> str | None:
        coordinator = self._coordinator(fault)
        process = coordinator.process
        if process is None or process.is_dead:
            return None
        process.pause()
        clock = self._system.checker.node(self._number(fault)).clock
        clock.paused()

        def resume() -> None:
            if process.is_paused:
                process.resume()
                clock.resumed()

        self._system.heal_after(fault.seconds, resume)
        return f"{self._named(coordinator)}for {fault.seconds:g} s"

    def _coordinator_clock_jump(self, fault: Fault) -> str | None:
        coordinator = self._coordinator(fault)
        process = coordinator.process
        if process is None:
            return None
        by_s = fault.seconds * (1 if fault.amount > 1 else -1)
        process.clock_error_s += by_s
        self._system.checker.node(self._number(fault)).clock.clock_set(by_s)
        return f"{self._named(coordinator)}by {process.clock_error_s:g} s"

    # -- several coordinators and their database -----------------------------------------------

    def _stop_coordinator(self, fault: Fault) -> str | None:
        """Stop a coordinator in good order, and start it again when it has ended."""
        if len(self._system.coordinators) == 1:
            return None
        coordinator = self._coordinator(fault)
        if not coordinator.is_up:
            return None
        coordinator.stop()
        away_s = max(fault.seconds, _BOOT_S)
        self._start_when_gone(coordinator, away_s)
        return f"{coordinator.name}, back after {away_s:g} s"

    def _start_when_gone(self, coordinator: SimulatedCoordinator, away_s: float) -> None:
        if coordinator.is_up:
            self._system.after(0.1, self._start_when_gone, coordinator, away_s)
        else:
            self._system.after(away_s, self._system.ensure_coordinator, coordinator)

    def _cut_off_coordinator(self, fault: Fault) -> str | None:
        """Separate a coordinator from the database, and from nothing else."""
        database = self._system.disk
        if not isinstance(database, Database):
            return None
        coordinator = self._coordinator(fault)
        heal = self._system.network.conditions.isolate(coordinator.name, database.host)
        self._system.heal_after(fault.seconds, heal)
        return f"{coordinator.name} for {fault.seconds:g} s"

    def _part_coordinators(self, fault: Fault) -> str | None:
        """Separate a coordinator from the others, and from nothing else."""
        one = self._coordinator(fault)
        others = [each for each in self._system.coordinators if each is not one]
        for other in others:
            heal = self._system.network.conditions.isolate(one.name, other.name)
            self._system.heal_after(fault.seconds, heal)
        return f"{one.name} from the others, for {fault.seconds:g} s" if others else None

    # -- network and disk ----------------------------------------------------------------------

    def _cut_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        for number in range(1, len(self._system.coordinators) + 1):
            self._system.checker.node(number).clock.connections_lost()
        return f"{worker.name}, {self._system.network.cut(worker.process)} connections"

    def _isolate_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        for coordinator in self._system.coordinators:
            heal = self._system.network.conditions.isolate(worker.process.host, coordinator.name)
            self._system.heal_after(fault.seconds, heal)
        return f"{worker.name} for {fault.seconds:g} s"

    def _isolate_coordinator(self, fault: Fault) -> str:
        coordinator = self._coordinator(fault)
        heal = self._system.network.conditions.isolate(coordinator.name)
        self._system.heal_after(fault.seconds, heal)
        return f"{self._named(coordinator)}for {fault.seconds:g} s"

    def _slow_network(self, fault: Fault) -> str:
        slow_s = 0.05 * fault.amount
        conditions = self._system.network.conditions
        conditions.options = NetworkOptions(
            latency_s=(slow_s / 10, slow_s), straggler_chance=0.05, straggler_s=slow_s * 10
        )
        heal = partial(setattr, conditions, "options", NetworkOptions())
        self._system.heal_after(fault.seconds, heal)
        return f"up to {slow_s * 10:g} s, for {fault.seconds:g} s"

    def _slow_disk(self, fault: Fault) -> str:
        slow_s = 0.1 * fault.amount
        disk = self._system.disk
        disk.options = replace(disk.options, write_s=(slow_s / 10, slow_s))
        return f"up to {slow_s:g} s for a write"

    def _failing_disk(self, fault: Fault) -> str:
        disk = self._system.disk
        disk.options = replace(disk.options, error_chance=0.1 * fault.amount)
        heal = partial(setattr, disk, "options", replace(disk.options, error_chance=0.0))
        self._system.heal_after(fault.seconds, heal)
        return f"{fault.amount} of 10 writes, for {fault.seconds:g} s"

    # -- administrators ------------------------------------------------------------------------

    def _topic(self, fault: Fault) -> str:
        topics = sorted(self._system.options.topics)
        return topics[fault.target % len(topics)]

    def _grow_topic(self, fault: Fault) -> str:
        topic = self._topic(fault)
        node = self._system.coordinator.node
        count = (node.topics.get(topic, 1) if node is not None else 1) + fault.amount
        self._system.ask_admin(lambda admin: admin.topics.grow(topic, count))
        return f"{topic} to {count} partitions"

    def _recreate_topic(self, fault: Fault) -> str:
        topic = self._topic(fault)
        self._system.ask_admin(lambda admin: self._recreate(admin, topic, fault.amount + 1))
        return f"{topic}, now with {fault.amount + 1} partitions"

    async def _recreate(self, admin: Admin, topic: str, partitions: int) -> None:
        checker = self._system.checker
        number = checker.offsets.deletion_asked(topic)
        try:
            await admin.topics.delete(topic)
        except CoterieError as error:
            checker.deletion_failed(topic, number, in_doubt=_is_in_doubt(error))
            raise
        checker.offsets.deletion_done(topic, number)
        checker.offsets.creation_asked(topic)
        await admin.topics.create(topic, partitions=partitions)

    def _remove_member(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or not worker.group.member_id:
            return None
        member_id = worker.group.member_id
        self._system.checker.exemptions.removal_asked(member_id)
        self._system.ask_admin(
            lambda admin: admin.members.remove(worker.group_id, member_id=member_id)
        )
        return worker.name


def _is_in_doubt(error: CoterieError) -> bool:
    """Whether a request that failed may have been carried out all the same."""
    notes = getattr(error, "__notes__", ())
    is_unanswered = isinstance(error, ConnectionLostError | RequestTimedOutError)
    return is_unanswered or any("may have been carried out" in note for note in notes)
