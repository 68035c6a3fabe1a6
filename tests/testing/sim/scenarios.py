"""The scenarios of `docs/traces.md`, each a script for a simulation."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_assignors import WarmSettings
from coterie_client.membership.events import GroupJoined
from coterie_testing.sim.faults import Fault
from coterie_testing.sim.simulation import Simulation
from coterie_testing.sim.state import StateOptions
from coterie_testing.sim.system import System, SystemOptions
from coterie_testing.sim.worker import WorkerOptions
from tests.testing.sim.golden import Recorder

__all__ = ["SCENARIOS", "Scenario", "trace"]

#: A restore takes some two seconds.
_STATE: Final = StateOptions(WarmSettings(acceptable_recovery_lag=20), step_s=(0.2, 0.2))
_WITH_STANDBYS: Final = StateOptions(
    WarmSettings(acceptable_recovery_lag=20, num_standbys=1), step_s=(0.2, 0.2)
)

_SMALL: Final[Mapping[str, int]] = {"jobs": 6}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, and which part of it is shown."""

    since_s: float
    until_s: float
    options: SystemOptions
    faults: tuple[Fault, ...] = ()
    script: Callable[[System], None] = field(default=lambda _: None)


def _options(workers: int, **others: object) -> SystemOptions:
    values: dict[str, object] = {"topics": _SMALL, "faults_s": 40.0} | others
    return SystemOptions(workers=workers, **values)  # type: ignore[arg-type]


def _kill_the_leader(system: System) -> None:
    """Kill the leader of the next generation at the moment at which it learns that it leads."""
    pass_on = system.on_event

    def look(who: str, event: object) -> None:
        if pass_on is not None:
            pass_on(who, event)  # type: ignore[arg-type]
        if isinstance(event, GroupJoined) and event.is_leader and system.scheduler.now_s > 5.0:
            worker = next(each for each in system.running if each.name == who)
            system.on_event = pass_on
            system.scheduler.after(0.0, _kill, system, worker.name)

    system.on_event = look
    system.scheduler.after(5.0, system.add_worker)


def _kill(system: System, name: str) -> None:
    for worker in system.running:
        if worker.name == name:
            worker.kill()
    if system.on_event is not None:
        system.on_event("injector", f"kill worker: {name}")


def _upgrade(system: System) -> None:
    """Replace workers that know both protocols with ones that know only the cooperative one."""
    first, second = (system.add_worker(assignor="upgrade") for _ in range(2))
    for at_s, worker in ((5.0, first), (10.0, second)):
        system.scheduler.after(at_s, worker.stop)
        system.scheduler.after(at_s, lambda: system.add_worker(assignor="cooperative-sticky"))


def _give_up(system: System) -> None:
    """Start one worker that can't work on a partition, and one that can."""
    options = WorkerOptions(topics=tuple(_SMALL), fails_on={("jobs", 0)})
    system.add_worker(like=options)
    system.scheduler.after(0.1, system.add_worker)


def _at(kind: str, target: int = 0, seconds: float = 0.0, amount: int = 0) -> tuple[Fault, ...]:
    return (Fault(5.0, kind, target, seconds, amount),)


SCENARIOS: Final[Mapping[str, Scenario]] = {
    "first-join": Scenario(
        0.0, 5.0, _options(3, settings={"group_initial_rebalance_delay_ms": 1_000})
    ),
    "hand-over": Scenario(5.0, 10.0, _options(2), _at("add_worker")),
    "scale-in": Scenario(5.0, 10.0, _options(3), _at("stop_worker", 2)),
    "topic-grows": Scenario(5.0, 10.0, _options(2), _at("grow_topic", amount=2)),
    "given-up-partition": Scenario(0.1, 5.0, _options(0), script=_give_up),
    "leader-dies-in-sync": Scenario(5.0, 20.0, _options(2), script=_kill_the_leader),
    "slow-member": Scenario(
        5.0,
        17.1,
        _options(2, worker=WorkerOptions(session_timeout=30.0, rebalance_timeout=6.0)),
        (Fault(5.0, "pause_worker", 1, 12.0), Fault(5.1, "add_worker")),
    ),
    "isolated-member": Scenario(5.0, 20.32, _options(2), (Fault(5.0, "isolate_worker", 1, 15.0),)),
    "static-restart": Scenario(5.0, 15.0, _options(2, static=2), _at("restart_worker", 1, 3.0)),
    "fenced-duplicate": Scenario(5.0, 10.0, _options(2, static=2), _at("duplicate_instance", 1)),
    "drain": Scenario(5.0, 12.0, _options(3), _at("drain_worker", 2)),
    "freeze": Scenario(
        5.0,
        15.27,
        _options(2),
        (
            Fault(5.0, "freeze_group", seconds=10.0),
            Fault(6.0, "add_worker"),
            Fault(8.0, "stop_worker", 1),
        ),
    ),
    "coordinator-restart": Scenario(5.0, 12.0, _options(2), _at("kill_coordinator", 0, 2.0)),
    "warm-hand-over": Scenario(
        5.0, 7.4, _options(1, topics={"jobs": 4}, state=_STATE), _at("add_worker", 1)
    ),
    "warm-fail-over": Scenario(
        15.0,
        28.0,
        _options(2, topics={"jobs": 4}, state=_WITH_STANDBYS),
        (Fault(15.0, "kill_worker", 0),),
    ),
    "upgrade": Scenario(5.0, 15.0, _options(0), script=_upgrade),
    "broken-assignor": Scenario(
        5.0,
        10.0,
        _options(2, assignor="broken", settings={"group_ownership_guard": "enforce"}),
        _at("add_worker"),
    ),
}


def trace(scenario: Scenario) -> list[str]:
    """Run a scenario, with all invariants checked, and return its trace."""
    simulation = Simulation(1, scenario.options, scenario.faults)
    system = simulation.system
    recorder = Recorder(lambda: system.scheduler.now_s, scenario.since_s, scenario.until_s)
    system.on_event = recorder.note
    scenario.script(system)
    try:
        simulation.run()
    finally:
        simulation.close()
    return recorder.lines
