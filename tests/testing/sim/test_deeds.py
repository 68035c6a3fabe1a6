"""Each kind of fault does to the system what its name says, and is over when it is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_protocol.journal import Event, MemberGone, MemberReplaced
from coterie_testing.sim.coordinator import ADDRESS
from coterie_testing.sim.faults import KINDS, PEOPLE, PROFILES, Fault, plan, swarm
from coterie_testing.sim.scene import Scene, SceneOptions
from coterie_testing.virtual import NetworkOptions
from coterie_testing.virtual.disk import DiskOptions

AT_S = 4.0


class Told:
    """A run with one fault, and what was to be seen of it."""

    def __init__(self, fault: Fault, look: Callable[[Scene], Any], *, static: int = 0) -> None:
        self.events: list[Event] = []
        self.said = ""
        options = SceneOptions(workers=2, static=static, trouble_s=12.0)
        self.scene = scene = Scene(5, options, [fault])
        scene.on_event = self._note
        #: What is seen just after it was done, and when it is over.
        self.during: Any = None
        self.after: Any = None
        scene.scheduler.after(AT_S + 0.05, lambda: setattr(self, "during", look(scene)))
        scene.scheduler.after(AT_S + 5.0, lambda: setattr(self, "after", look(scene)))
        scene.run()
        scene.close()

    def _note(self, who: str, event: object) -> None:
        if who == "fate":
            self.said = str(event)
        elif isinstance(event, Event):
            self.events.append(event)

    def gone(self) -> list[str]:
        """How members went before everybody left."""
        return [each.how for each in self.events if isinstance(each, MemberGone)]


def befall(
    kind: str, look: Callable[[Scene], Any], *, static: int = 0, target: int = 0, amount: int = 1
) -> Told:
    """Let something happen for two seconds, to two workers at work."""
    return Told(Fault(AT_S, kind, target, 2.0, amount), look, static=static)


def names(scene: Scene) -> list[str]:
    """Who takes part."""
    return [worker.name for worker in scene.running]


def test_add_worker() -> None:
    """There is one more."""
    told = befall("add_worker", names)
    assert told.after == ["w1", "w2", "w3"]
    assert told.said == "add worker: w3"


def test_stop_worker() -> None:
    """One leaves in good order."""
    told = befall("stop_worker", names)
    assert told.after == ["w2"]
    assert told.gone()[0] == "left"


def test_kill_worker() -> None:
    """One is gone at once, and the coordinator has to find out."""
    told = befall("kill_worker", names, target=3)
    assert told.during == ["w1"]
    assert told.gone()[0] == "session_expired"


def test_restart_worker() -> None:
    """One is gone at once, and another comes in its place when the time is over."""
    told = befall("restart_worker", names)
    assert told.during == ["w2"]
    assert told.after == ["w2", "w3"]


def test_restarted_static_worker_keeps_its_name() -> None:
    """The process that comes back bears the same name."""
    told = befall("restart_worker", names, static=2)
    (replaced,) = (each for each in told.events if isinstance(each, MemberReplaced))
    assert replaced.instance == "i1"


def test_rolling_restart() -> None:
    """Each worker is replaced by another, one after the other."""
    told = befall("rolling_restart", names)
    assert told.after == ["w3", "w4"]


def test_twin_worker() -> None:
    """A second process comes under a name that is in use, and the first is fenced."""
    told = befall("twin_worker", names, static=2, target=1)
    assert told.during == ["w1", "w2", "w3"]
    assert told.after == ["w1", "w3"]


def test_twin_of_nobody() -> None:
    """Members without names have no namesakes."""
    assert befall("twin_worker", names).said == "twin worker: nobody to do it to"


def test_pause_worker() -> None:
    """One stands still, and goes on."""
    told = befall("pause_worker", lambda scene: [w.process.is_paused for w in scene.workers])
    assert told.during == [True, False]
    assert told.after == [False, False]


def test_kill_coordinator() -> None:
    """It is gone at once, and started anew when the time is over."""
    told = befall("kill_coordinator", lambda s: (s.coordinator.is_up, s.coordinator.lives))
    assert told.during == (False, 1)
    assert told.after == (True, 2)


def test_pause_coordinator() -> None:
    """It stands still, and goes on as the same process."""
    told = befall(
        "pause_coordinator",
        lambda s: s.coordinator.process is not None and s.coordinator.process.is_paused,
    )
    assert told.during
    assert not told.after


@pytest.mark.parametrize(("amount", "error_s"), [(1, -2.0), (3, 2.0)])
def test_worker_clock_jump(amount: int, error_s: float) -> None:
    """One worker's clock shows another date from then on."""
    told = befall(
        "worker_clock_jump", lambda s: [w.process.clock_error_s for w in s.workers], amount=amount
    )
    assert told.during == told.after == [error_s, 0.0]


def test_coordinator_clock_jump() -> None:
    """The coordinator's clock shows another date."""
    told = befall(
        "coordinator_clock_jump",
        lambda s: s.coordinator.process.clock_error_s if s.coordinator.process else None,
    )
    assert told.during == -2.0


def test_cut_worker() -> None:
    """One loses its connections and soon has others."""
    told = befall("cut_worker", names)
    assert told.said == "cut worker: w1, 2 connections"
    assert told.gone() == ["left", "left"]  # when all was over


def test_part_worker() -> None:
    """One can't reach the coordinator for a while; others can."""
    told = befall(
        "part_worker",
        lambda s: [s.network.conditions.are_isolated(w, ADDRESS.host) for w in ("w1", "w2")],
    )
    assert told.during == [True, False]
    assert told.after == [False, False]


def test_part_coordinator() -> None:
    """Nobody can reach the coordinator for a while."""
    told = befall(
        "part_coordinator",
        lambda s: [s.network.conditions.are_isolated(w, ADDRESS.host) for w in ("w1", "w2")],
    )
    assert told.during == [True, True]
    assert told.after == [False, False]


def test_slow_network() -> None:
    """Everything travels longer for a while."""
    told = befall("slow_network", lambda s: s.network.conditions.options)
    assert told.during.latency_s[0] > NetworkOptions().latency_s[1]
    assert told.after == NetworkOptions()


def test_slow_disk() -> None:
    """Writes take longer, until all trouble is over."""
    told = befall("slow_disk", lambda s: s.disk.options)
    assert told.during.write_s[0] > DiskOptions().write_s[1]
    assert told.scene.disk.options == DiskOptions()


def test_failing_disk() -> None:
    """Some writes fail for a while."""
    told = befall("failing_disk", lambda s: s.disk.options.error_chance, amount=3)
    assert told.during == pytest.approx(0.3)
    assert told.after == 0.0


def test_change_subscription() -> None:
    """One wants other topics, and is given partitions of those only."""
    told = befall(
        "change_subscription", lambda s: {p.topic for p in s.workers[0].group.owned}, amount=1
    )
    assert told.after == {"jobs"}
    assert told.said == "change subscription: w1 wants jobs"


def test_grow_topic() -> None:
    """A topic has more partitions, and all are worked on."""
    told = befall("grow_topic", lambda s: sum(len(w.group.owned) for w in s.workers), amount=3)
    assert told.after == 8 + 3


def test_recreate_topic() -> None:
    """A topic is deleted and made anew, with another number of partitions."""
    told = befall("recreate_topic", lambda s: sum(len(w.group.owned) for w in s.workers), target=1)
    assert told.said == "recreate topic: more, now with 2 partitions"
    assert told.after == 8


def test_remove_member() -> None:
    """An administrator removes a member, and its worker joins anew."""
    told = befall("remove_member", lambda s: [w.group.member_id for w in s.running])
    assert told.gone()[0] == "left"
    assert len(told.after) == 2


# -- plans -----------------------------------------------------------------------------------------


def test_there_is_a_test_for_each_kind() -> None:
    """No kind of fault is left out here."""
    tested = {name.removeprefix("test_") for name in globals() if name.startswith("test_")}
    assert set(KINDS) <= tested


def test_people_do_no_harm_to_machines() -> None:
    """What people do ends where what machines do begins."""
    assert "grow_topic" in PEOPLE
    assert "twin_worker" in PEOPLE
    assert not {"kill_worker", "pause_coordinator", "slow_network", "slow_disk"} & PEOPLE


@pytest.mark.parametrize("profile", PROFILES)
def test_plan_keeps_to_its_options(profile: str) -> None:
    """A plan has no more of each kind than its options allow, in the order of time."""
    options = PROFILES[profile]
    for seed in range(20):
        faults = plan(seed, options, 30.0)
        assert [fault.at_s for fault in faults] == sorted(fault.at_s for fault in faults)
        assert all(0.0 <= fault.at_s <= 30.0 for fault in faults)
        for kind in KINDS:
            assert sum(fault.kind == kind for fault in faults) <= getattr(options, kind)


def test_plan_is_the_seeds() -> None:
    """A seed makes the same plan each time, and another seed another one."""
    assert plan(1, PROFILES["hostile"], 30.0) == plan(1, PROFILES["hostile"], 30.0)
    assert plan(1, PROFILES["hostile"], 30.0) != plan(2, PROFILES["hostile"], 30.0)


def test_swarms_try_all_kinds_in_the_end() -> None:
    """Each seed leaves most kinds out, and none is always left out."""
    chosen = [{kind for kind in KINDS if getattr(swarm(seed), kind)} for seed in range(200)]
    assert all(1 <= len(kinds) <= 6 for kinds in chosen)
    assert set.union(*chosen) == set(KINDS)


def test_fault_reads_well() -> None:
    """A fault says when, what, to whom, for how long and how much of it."""
    fault = Fault(1.5, "pause_worker", 2, 3.25, 1)
    assert str(fault) == "   1.500 s  pause_worker, target 2, for 3.250 s, amount 1"


def test_core_fails() -> None:
    """A shard, or the catalogue, is read again."""
    for target in range(3):
        told = befall("core_fails", lambda s: s.coordinator.node, target=target)
        node = told.scene.coordinator.node
        assert node is not None
        assert all(shard.is_served for shard in node.all_shards())
