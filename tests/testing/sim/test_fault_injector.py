"""Each kind of fault does to the system what its name says, and is over when it is over."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from coterie_assignors import WarmSettings
from coterie_protocol.journal import (
    Event,
    MemberGone,
    MemberReplaced,
    MemberReturned,
    PhaseJoined,
)
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.sim.faults import (
    BY_PEOPLE,
    KINDS,
    OF_STATE,
    PROFILES,
    Fault,
    plan,
    swarm,
)
from coterie_testing.sim.simulation import Simulation
from coterie_testing.sim.state import StateOptions
from coterie_testing.sim.system import System, SystemOptions
from coterie_testing.virtual import DiskOptions, NetworkOptions

AT_S = 4.0


class Injected:
    """A run with one fault, and what was seen of it."""

    def __init__(
        self, faults: Sequence[Fault], look: Callable[[System], Any], **options: Any
    ) -> None:
        self.events: list[Event] = []
        self.done = ""
        values = {"workers": 2, "faults_s": 12.0} | options
        simulation = Simulation(5, SystemOptions(**values), faults)
        self.system = system = simulation.system
        system.on_event = self._note
        #: What is seen just after it was done, and when it is over.
        self.during: Any = None
        self.after: Any = None
        system.scheduler.after(AT_S + 0.05, lambda: setattr(self, "during", look(system)))
        system.scheduler.after(AT_S + 5.0, lambda: setattr(self, "after", look(system)))
        simulation.run()
        simulation.close()

    def _note(self, who: str, event: object) -> None:
        if who == "injector":
            self.done = str(event)
        elif isinstance(event, Event):
            self.events.append(event)

    def gone(self) -> list[str]:
        """How members left, in order."""
        return [each.how for each in self.events if isinstance(each, MemberGone)]


def inject(
    kind: str,
    look: Callable[[System], Any],
    *,
    static: int = 0,
    target: int = 0,
    amount: int = 1,
    **settings: object,
) -> Injected:
    """Let something happen for two seconds, to two workers at work."""
    faults = [Fault(AT_S, kind, target, 2.0, amount)]
    return Injected(faults, look, static=static, settings=settings)


def names(system: System) -> list[str]:
    """The running workers."""
    return [worker.name for worker in system.running]


def test_add_worker() -> None:
    run = inject("add_worker", names)
    assert run.after == ["w1", "w2", "w3"]
    assert run.done == "add worker: w3"


def test_stop_worker() -> None:
    run = inject("stop_worker", names)
    assert run.after == ["w2"]
    assert run.gone()[0] == "left"


def test_kill_worker() -> None:
    run = inject("kill_worker", names, target=3)
    assert run.during == ["w1"]
    assert run.gone()[0] == "session_expired"


def test_restart_worker() -> None:
    run = inject("restart_worker", names)
    assert run.during == ["w2"]
    assert run.after == ["w2", "w3"]


def test_restarted_static_worker_keeps_its_name() -> None:
    run = inject("restart_worker", names, static=2)
    (replaced,) = (each for each in run.events if isinstance(each, MemberReplaced))
    assert replaced.instance == "i1"


def test_absent_worker_comes_back_after_its_session() -> None:
    settings = {"group_static_registration_timeout_ms": 60_000}
    run = inject("absent_worker", names, static=2, **settings)
    assert run.during == ["w2"]
    (returned,) = (each for each in run.events if isinstance(each, MemberReturned))
    assert returned.instance == "i1"
    assert 2_000 <= returned.away_ms < 4_000


def test_no_foreign_client_speaks_for_a_member_that_is_away() -> None:
    """It would count as back, just when the leader gives what it had to others."""
    faults = [
        Fault(AT_S, "absent_worker", 0, 5.0, 1),
        *(Fault(AT_S + 9.0, "stray_sync", target) for target in range(3)),
        Fault(AT_S + 11.0, "add_worker", 1),
    ]
    settings = {"group_static_registration_timeout_ms": 60_000}
    run = Injected(faults, names, static=2, settings=settings, faults_s=25.0)
    joined = [each for each in run.events if isinstance(each, PhaseJoined)]
    assert any(member.joined_after_ms is None for phase in joined for member in phase.members)
    (returned,) = (each for each in run.events if isinstance(each, MemberReturned))
    assert returned.away_ms > 4_000  # when its process is there again


def test_dynamic_member_is_not_absent() -> None:
    assert inject("absent_worker", names).done == "absent worker: no target"


def test_rolling_restart() -> None:
    run = inject("rolling_restart", names)
    assert run.after == ["w3", "w4"]


def test_duplicate_instance() -> None:
    run = inject("duplicate_instance", names, static=2, target=1)
    assert run.during == ["w1", "w2", "w3"]
    assert run.after == ["w1", "w3"]


def test_dynamic_member_has_no_duplicate() -> None:
    assert inject("duplicate_instance", names).done == "duplicate instance: no target"


def test_pause_worker() -> None:
    run = inject("pause_worker", lambda s: [w.process.is_paused for w in s.workers])
    assert run.during == [True, False]
    assert run.after == [False, False]


def test_kill_coordinator() -> None:
    run = inject("kill_coordinator", lambda s: (s.coordinator.is_up, s.coordinator.lives))
    assert run.during == (False, 1)
    assert run.after == (True, 2)


def test_pause_coordinator() -> None:
    run = inject(
        "pause_coordinator",
        lambda s: s.coordinator.process is not None and s.coordinator.process.is_paused,
    )
    assert run.during
    assert not run.after


@pytest.mark.parametrize(("amount", "error_s"), [(1, -2.0), (3, 2.0)])
def test_worker_clock_jump(amount: int, error_s: float) -> None:
    run = inject(
        "worker_clock_jump", lambda s: [w.process.clock_error_s for w in s.workers], amount=amount
    )
    assert run.during == run.after == [error_s, 0.0]


def test_coordinator_clock_jump() -> None:
    run = inject(
        "coordinator_clock_jump",
        lambda s: s.coordinator.process.clock_error_s if s.coordinator.process else None,
    )
    assert run.during == -2.0


def test_cut_worker() -> None:
    run = inject("cut_worker", names)
    assert run.done == "cut worker: w1, 2 connections"
    assert run.gone() == ["left", "left"]  # when all was over


def test_isolate_worker() -> None:
    run = inject(
        "isolate_worker",
        lambda s: [s.network.conditions.are_isolated(w, ADDRESS.host) for w in ("w1", "w2")],
    )
    assert run.during == [True, False]
    assert run.after == [False, False]


def test_isolate_coordinator() -> None:
    run = inject(
        "isolate_coordinator",
        lambda s: [s.network.conditions.are_isolated(w, ADDRESS.host) for w in ("w1", "w2")],
    )
    assert run.during == [True, True]
    assert run.after == [False, False]


def test_slow_network() -> None:
    run = inject("slow_network", lambda s: s.network.conditions.options)
    assert run.during.latency_s[0] > NetworkOptions().latency_s[1]
    assert run.after == NetworkOptions()


def test_slow_disk() -> None:
    run = inject("slow_disk", lambda s: s.disk.options)
    assert run.during.write_s[0] > DiskOptions().write_s[1]
    assert run.system.disk.options == DiskOptions()


def test_failing_disk() -> None:
    run = inject("failing_disk", lambda s: s.disk.options.error_chance, amount=3)
    assert run.during == pytest.approx(0.3)
    assert run.after == 0.0


def test_change_subscription() -> None:
    run = inject(
        "change_subscription", lambda s: {p.topic for p in s.workers[0].group.owned}, amount=1
    )
    assert run.after == {"jobs"}
    assert run.done == "change subscription: w1 wants jobs"


def test_grow_topic() -> None:
    run = inject("grow_topic", lambda s: sum(len(w.group.owned) for w in s.workers), amount=3)
    assert run.after == 8 + 3


def test_recreate_topic() -> None:
    run = inject("recreate_topic", lambda s: sum(len(w.group.owned) for w in s.workers), target=1)
    assert run.done == "recreate topic: more, now with 2 partitions"
    assert run.after == 8


def test_remove_member() -> None:
    run = inject("remove_member", lambda s: [w.group.member_id for w in s.running])
    assert run.gone()[0] == "removed"
    assert len(run.after) == 2


def stateful(kind: str, look: Callable[[System], Any]) -> Injected:
    """Let something happen to two workers with state, when the second one has just come."""
    settings = WarmSettings(num_standbys=0, acceptable_recovery_lag=0)
    state = StateOptions(settings, entries=1_000, step_s=(0.5, 0.5))
    faults = [Fault(2.0, "add_worker", 1), Fault(AT_S, kind, 0, 2.0, 1)]
    return Injected(faults, look, workers=1, state=state)


def test_kill_warming() -> None:
    run = stateful("kill_warming", names)
    assert run.done == "kill warming: w2, back in 2 s"
    assert run.during == ["w1"]
    assert run.after == ["w1", "w3"]
    assert run.system.workers[1].options.state is run.system.workers[2].options.state


def test_kill_warming_needs_a_warm_up() -> None:
    assert inject("kill_warming", names).done == "kill warming: no target"


def test_kill_leader() -> None:
    run = stateful("kill_leader", names)
    assert run.done == "kill leader: w1, back in 2 s"
    assert run.during == ["w2"]


# -- plans -----------------------------------------------------------------------------------------


def test_each_kind_of_fault_has_a_test() -> None:
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert {*KINDS, *OF_STATE} <= tested


def test_faults_by_people_are_none_of_machines() -> None:
    assert "grow_topic" in BY_PEOPLE
    assert "duplicate_instance" in BY_PEOPLE
    assert not {"kill_worker", "pause_coordinator", "slow_network", "slow_disk"} & BY_PEOPLE


@pytest.mark.parametrize("profile", PROFILES)
def test_plan_keeps_to_its_options(profile: str) -> None:
    options = PROFILES[profile]
    for seed in range(20):
        faults = plan(seed, options, 30.0)
        assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
        assert all(0.0 <= fault.at_s <= 30.0 for fault in faults)
        for kind in KINDS:
            assert sum(fault.kind == kind for fault in faults) <= getattr(options, kind)


def test_plan_is_decided_by_the_seed() -> None:
    assert plan(1, PROFILES["hostile"], 30.0) == plan(1, PROFILES["hostile"], 30.0)
    assert plan(1, PROFILES["hostile"], 30.0) != plan(2, PROFILES["hostile"], 30.0)


def test_swarm_has_a_few_kinds_and_all_kinds_over_many_seeds() -> None:
    chosen = [{kind for kind in KINDS if getattr(swarm(seed), kind)} for seed in range(200)]
    assert all(1 <= len(kinds) <= 6 for kinds in chosen)
    assert set.union(*chosen) == set(KINDS)


def test_fault_as_text() -> None:
    fault = Fault(1.5, "pause_worker", 2, 3.25, 1)
    assert str(fault) == "   1.500 s  pause_worker, target 2, for 3.250 s, amount 1"


def test_fail_core() -> None:
    for target in range(3):
        run = inject("fail_core", lambda s: s.coordinator.node, target=target)
        node = run.system.coordinator.node
        assert node is not None
        assert all(shard.is_served for shard in node.all_shards())
