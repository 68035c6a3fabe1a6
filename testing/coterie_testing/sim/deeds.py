"""Doing to a system what can befall it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Coroutine
from dataclasses import replace
from typing import TYPE_CHECKING, Any, TypeVarTuple

from coterie_client.admin import Admin
from coterie_client.errors import ConnectionLostError
from coterie_client.membership import Phase
from coterie_protocol.errors import RequestTimedOutError
from coterie_protocol.exceptions import CoterieError
from coterie_protocol.journal import MemberPhase, PhaseJoined
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.sim.faults import Fault
from coterie_testing.sim.strangers import ASIDE, Stranger
from coterie_testing.sim.worker import Worker
from coterie_testing.virtual import DiskOptions, NetworkOptions, Process

if TYPE_CHECKING:
    from coterie_testing.sim.scene import Scene

__all__ = ["Deeds"]

Ts = TypeVarTuple("Ts")

#: How much time a rolling restart gives each worker at most.
_PACE_S = 2.0

#: By then a follower has been told of a generation, and has asked what it is given.
_ASKED_S = 0.05

#: How long a process takes to start, at least.
_BOOT_S = 0.2


class Deeds:
    """Does the faults of a plan to a scene; there is a method for each kind."""

    def __init__(self, scene: Scene) -> None:
        self._scene = scene
        self._world = scene.scheduler
        self._undo: list[Callable[[], None]] = []
        self._admin: Process | None = None
        #: What others do as soon as there is a generation.
        self._strays: list[Callable[[PhaseJoined], None]] = []
        #: Those who have a successor, so that they don't get another one.
        self._succeeded: set[Worker] = set()
        #: How many things were begun and are still to be finished.
        self.unfinished = 0

    def do(self, fault: Fault) -> str | None:
        """Do it, and say what was done; None if there is nobody to do it to."""
        said: str | None = getattr(self, f"_{fault.kind}")(fault)
        return said

    def _after(self, delay_s: float, what: Callable[[*Ts], object], *arguments: *Ts) -> None:
        """Have the rest of something done later; it is not over before."""
        self.unfinished += 1

        def finish() -> None:
            self.unfinished -= 1
            what(*arguments)

        self._world.after(delay_s, finish)

    def undo(self) -> None:
        """Let everything that lasts be over."""
        for heal in self._undo:
            heal()
        self._undo.clear()
        self._strays.clear()
        self._scene.disk.options = DiskOptions()
        self._scene.network.conditions.options = NetworkOptions()

    def _target(self, fault: Fault) -> Worker | None:
        running = self._scene.running
        return running[fault.target % len(running)] if running else None

    def _later(self, fault: Fault, heal: Callable[[], None]) -> None:
        """Have something be over after a while, or at the end of all trouble."""
        self._undo.append(heal)
        self._world.after(fault.seconds, heal)

    def _add_worker(self, fault: Fault) -> str:
        static = self._scene.options.static > 0 and fault.target % 2 == 0
        return self._scene.add_worker(static=static).name

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

    def _restart_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        worker.kill()
        away_s = max(fault.seconds, _BOOT_S)
        self._after(away_s, self._come_back, worker)
        return f"{worker.name}, back in {away_s:g} s"

    def _come_back(self, worker: Worker) -> None:
        if worker not in self._succeeded:
            self._succeeded.add(worker)
            self._scene.add_worker(like=worker.options)

    def _twin_worker(self, fault: Fault) -> str | None:
        """Somebody starts a second process under a name that is in use."""
        worker = self._target(fault)
        if worker is None or worker.options.instance is None or worker in self._succeeded:
            return None
        self._come_back(worker)
        return worker.name

    def _rolling_restart(self, fault: Fault) -> str:
        pause_s = min(fault.seconds, _PACE_S)
        for number, worker in enumerate(self._scene.running):
            self._after(number * pause_s, self._restart_calmly, worker)
        return f"all, one each {pause_s:g} s"

    def _restart_calmly(self, worker: Worker) -> None:
        if worker.is_running:
            worker.stop()
            self._come_back_when_gone(worker)

    def _come_back_when_gone(self, worker: Worker) -> None:
        if worker.is_running:
            self._after(0.1, self._come_back_when_gone, worker)
        else:
            self._come_back(worker)

    def _pause_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        worker.process.pause()
        self._scene.eye.excuses.paused(worker)
        self._later(fault, lambda: self._go_on(worker))
        return f"{worker.name} for {fault.seconds:g} s"

    def _go_on(self, worker: Worker) -> None:
        if worker.process.is_paused:
            worker.process.resume()
            self._scene.eye.excuses.went_on(worker)

    def _kill_coordinator(self, fault: Fault) -> str:
        self._scene.coordinator.kill()
        self._world.after(fault.seconds, self._scene.boot)
        return f"back in {fault.seconds:g} s"

    def _core_fails(self, fault: Fault) -> str | None:
        node, process = self._scene.coordinator.node, self._scene.coordinator.process
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
        return f"that of shard {shard.shard}"

    def _pause_coordinator(self, fault: Fault) -> str | None:
        process = self._scene.coordinator.process
        if process is None or process.is_dead:
            return None
        process.pause()
        self._scene.eye.node_time.paused()

        def go_on() -> None:
            if process.is_paused:
                process.resume()
                self._scene.eye.node_time.went_on()

        self._later(fault, go_on)
        return f"for {fault.seconds:g} s"

    def _worker_clock_jump(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or worker.options.instance is not None:
            return None
        worker.process.clock_error_s += fault.seconds * (1 if fault.amount > 1 else -1)
        return worker.name

    def _coordinator_clock_jump(self, fault: Fault) -> str | None:
        process = self._scene.coordinator.process
        if process is None:
            return None
        by_s = fault.seconds * (1 if fault.amount > 1 else -1)
        process.clock_error_s += by_s
        self._scene.eye.node_time.clock_set(by_s)
        return f"by {process.clock_error_s:g} s"

    def _cut_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        self._scene.eye.node_time.cut_off()
        return f"{worker.name}, {self._scene.network.cut(worker.process)} connections"

    def _part_worker(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None:
            return None
        self._later(
            fault, self._scene.network.conditions.isolate(worker.process.host, ADDRESS.host)
        )
        return f"{worker.name} for {fault.seconds:g} s"

    def _part_coordinator(self, fault: Fault) -> str:
        self._later(fault, self._scene.network.conditions.isolate(ADDRESS.host))
        return f"for {fault.seconds:g} s"

    def _slow_network(self, fault: Fault) -> str:
        slow_s = 0.05 * fault.amount
        self._scene.network.conditions.options = NetworkOptions(
            latency_s=(slow_s / 10, slow_s), straggler_chance=0.05, straggler_s=slow_s * 10
        )
        self._later(
            fault, lambda: setattr(self._scene.network.conditions, "options", NetworkOptions())
        )
        return f"up to {slow_s * 10:g} s, for {fault.seconds:g} s"

    def _slow_disk(self, fault: Fault) -> str:
        slow_s = 0.1 * fault.amount
        self._scene.disk.options = replace(self._scene.disk.options, write_s=(slow_s / 10, slow_s))
        return f"up to {slow_s:g} s for a write"

    def _failing_disk(self, fault: Fault) -> str:
        self._scene.disk.options = replace(
            self._scene.disk.options, error_chance=0.1 * fault.amount
        )
        heal = replace(self._scene.disk.options, error_chance=0.0)
        self._later(fault, lambda: setattr(self._scene.disk, "options", heal))
        return f"{fault.amount} of 10 writes, for {fault.seconds:g} s"

    def _change_subscription(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or worker.group.phase is Phase.OVER or worker.options.instance:
            return None
        names = sorted(self._scene.options.topics)
        wanted = (names, names[:1], names[1:] or names)[fault.amount % 3]
        worker.options = replace(worker.options, topics=tuple(wanted))
        worker.process.call_soon(worker.subscribe)
        return f"{worker.name} wants {', '.join(wanted)}"

    # -- what people do ------------------------------------------------------------------------

    def _grow_topic(self, fault: Fault) -> str:
        topic = self._topic(fault)
        node = self._scene.coordinator.node
        count = (node.topics.get(topic, 1) if node is not None else 1) + fault.amount
        self._ask(lambda admin: admin.topics.grow(topic, count))
        return f"{topic} to {count} partitions"

    def _recreate_topic(self, fault: Fault) -> str:
        topic = self._topic(fault)
        self._ask(lambda admin: self._recreate(admin, topic, fault.amount + 1))
        return f"{topic}, now with {fault.amount + 1} partitions"

    async def _recreate(self, admin: Admin, topic: str, partitions: int) -> None:
        eye = self._scene.eye
        number = eye.offsets.deletion_asked(topic)
        try:
            await admin.topics.delete(topic)
        except CoterieError as error:
            eye.deletion_failed(topic, number, in_doubt=_is_in_doubt(error))
            raise
        eye.offsets.deletion_done(topic, number)
        eye.offsets.creation_asked(topic)
        await admin.topics.create(topic, partitions=partitions)

    def _remove_member(self, fault: Fault) -> str | None:
        worker = self._target(fault)
        if worker is None or not worker.group.member_id:
            return None
        member_id = worker.group.member_id
        self._scene.eye.excuses.removal_asked(member_id)
        self._ask(lambda admin: admin.members.remove(worker.group_id, member_id=member_id))
        return worker.name

    # -- when a generation has just come about -------------------------------------------------

    def _pause_leader(self, fault: Fault) -> str:
        self._strays.append(lambda phase: self._freeze(phase.leader, fault))
        return f"of the next generation, for {fault.seconds:g} s"

    def _pause_follower(self, fault: Fault) -> str:
        self._strays.append(lambda phase: self._to_follower(phase, fault, self._freeze))
        return f"of the next generation, for {fault.seconds:g} s"

    def _kill_follower(self, fault: Fault) -> str:
        self._strays.append(lambda phase: self._to_follower(phase, fault, self._end))
        return "of the next generation"

    def _to_follower(
        self, phase: PhaseJoined, fault: Fault, what: Callable[[str, Fault], None]
    ) -> None:
        """Do something to one who has asked for its assignment by then."""
        if (follower := _follower(phase, fault)) is not None:
            self._after(_ASKED_S, what, follower.member, fault)

    def _freeze(self, member_id: str, fault: Fault) -> None:
        worker = self._scene.eye.excuses.worker(member_id)
        if worker is not None and worker.is_running and not worker.process.is_paused:
            self._scene.tell("fate", f"pause {worker.name} for {fault.seconds:g} s")
            worker.process.pause()
            self._scene.eye.excuses.paused(worker)
            self._later(fault, lambda: self._go_on(worker))

    def _end(self, member_id: str, _: Fault) -> None:
        worker = self._scene.eye.excuses.worker(member_id)
        if worker is not None and worker.is_running:
            self._scene.tell("fate", f"kill {worker.name}")
            worker.kill()

    def _stray_commit(self, fault: Fault) -> str:
        self._ask(lambda admin: admin.topics.create(ASIDE, partitions=1))
        self._strays.append(lambda phase: self._stray(phase, fault, Stranger.commit))
        return "in the next generation"

    def _stray_sync(self, fault: Fault) -> str:
        self._strays.append(lambda phase: self._stray(phase, fault, Stranger.sync))
        return "in the next generation"

    def _stray_heartbeat(self, fault: Fault) -> str:
        self._strays.append(lambda phase: self._stray(phase, fault, Stranger.heartbeat))
        return "in the next generation"

    def phase_joined(self, phase: PhaseJoined) -> None:
        """There is a new generation, and nobody knows yet what it is given."""
        strays, self._strays = self._strays, []
        for stray in strays:
            stray(phase)

    def _stray(
        self,
        phase: PhaseJoined,
        fault: Fault,
        ask: Callable[[Stranger, PhaseJoined, MemberPhase], Coroutine[Any, Any, None]],
    ) -> None:
        follower = _follower(phase, fault)
        if follower is None:
            return
        process = Process(self._world, "stranger")
        stranger = Stranger(process, self._scene.network, self._world.random.random)
        self._scene.tell("stranger", f"{ask.__name__} as {follower.member}")
        process.create_task(ask(stranger, phase, follower))

    def _topic(self, fault: Fault) -> str:
        topics = sorted(self._scene.options.topics)
        return topics[fault.target % len(topics)]

    def _ask(self, what: Callable[[Admin], Awaitable[object]]) -> None:
        """Ask for something as an administrator, who takes a no for an answer."""
        if self._admin is None:
            self._admin = Process(self._world, "admin")
            self._dial = self._scene.network.dialler(self._admin)
        chance = self._world.random.random

        self.unfinished += 1

        async def ask() -> None:
            async with Admin(str(ADDRESS), dial=self._dial, random=chance) as admin:
                try:
                    await what(admin)
                except CoterieError as error:
                    self._scene.tell("admin", str(error))
            self.unfinished -= 1

        self._admin.create_task(ask())


def _follower(phase: PhaseJoined, fault: Fault) -> MemberPhase | None:
    """One of those who do not lead."""
    followers = [each for each in phase.members if each.member != phase.leader]
    return followers[fault.target % len(followers)] if followers else None


def _is_in_doubt(error: CoterieError) -> bool:
    """Whether a request that failed may have been carried out all the same."""
    notes = getattr(error, "__notes__", ())
    is_unanswered = isinstance(error, ConnectionLostError | RequestTimedOutError)
    return is_unanswered or any("may have been carried out" in note for note in notes)
