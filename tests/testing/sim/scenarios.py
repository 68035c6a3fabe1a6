"""The scenarios that a reader should know, each a script for a scene."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Final

from coterie_client.membership.events import GroupJoined
from coterie_testing.sim.faults import Fault
from coterie_testing.sim.scene import Scene, SceneOptions
from coterie_testing.sim.worker import WorkerOptions
from tests.testing.sim.golden import Recorder

__all__ = ["SCENARIOS", "Scenario", "trace"]

_SMALL: Final[Mapping[str, int]] = {"jobs": 6}


@dataclass(frozen=True, slots=True)
class Scenario:
    """What happens, and from when till when it is told."""

    since_s: float
    until_s: float
    options: SceneOptions
    faults: tuple[Fault, ...] = ()
    script: Callable[[Scene], None] = field(default=lambda _: None)


def _options(workers: int, **others: object) -> SceneOptions:
    values: dict[str, object] = {"topics": _SMALL, "trouble_s": 40.0} | others
    return SceneOptions(workers=workers, **values)  # type: ignore[arg-type]


def _kill_the_leader(scene: Scene) -> None:
    """Kill whoever leads the second generation, at the moment in which it hears that it does."""
    pass_on = scene.on_event

    def look(who: str, event: object) -> None:
        if pass_on is not None:
            pass_on(who, event)  # type: ignore[arg-type]
        if isinstance(event, GroupJoined) and event.is_leader and scene.scheduler.now_s > 5.0:
            worker = next(each for each in scene.running if each.name == who)
            scene.on_event = pass_on
            scene.scheduler.after(0.0, _kill, scene, worker.name)

    scene.on_event = look
    scene.scheduler.after(5.0, scene.add_worker)


def _kill(scene: Scene, name: str) -> None:
    for worker in scene.running:
        if worker.name == name:
            worker.kill()
    if scene.on_event is not None:
        scene.on_event("fate", f"kill worker: {name}")


def _upgrade(scene: Scene) -> None:
    """Replace workers that know both protocols by ones that know the cooperative one only."""
    first, second = (scene.add_worker(assignor="upgrade") for _ in range(2))
    for at_s, worker in ((5.0, first), (10.0, second)):
        scene.scheduler.after(at_s, worker.stop)
        scene.scheduler.after(at_s, lambda: scene.add_worker(assignor="cooperative-sticky"))


def _give_up(scene: Scene) -> None:
    """Have one worker that can't work on a partition, and one that can."""
    options = WorkerOptions(topics=tuple(_SMALL), cannot={("jobs", 0)})
    scene.add_worker(like=options)
    scene.scheduler.after(0.1, scene.add_worker)


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
    "parted-member": Scenario(5.0, 20.32, _options(2), (Fault(5.0, "part_worker", 1, 15.0),)),
    "static-restart": Scenario(5.0, 15.0, _options(2, static=2), _at("restart_worker", 1, 3.0)),
    "fenced-namesake": Scenario(5.0, 10.0, _options(2, static=2), _at("twin_worker", 1)),
    "coordinator-restart": Scenario(5.0, 12.0, _options(2), _at("kill_coordinator", 0, 2.0)),
    "upgrade": Scenario(5.0, 15.0, _options(0), script=_upgrade),
    "broken-assignor": Scenario(
        5.0,
        10.0,
        _options(2, assignor="broken", settings={"group_ownership_guard": "enforce"}),
        _at("add_worker"),
    ),
}


def trace(scenario: Scenario) -> list[str]:
    """Let it happen, and tell it; whatever the simulator checks holds in it."""
    scene = Scene(1, scenario.options, scenario.faults)
    recorder = Recorder(lambda: scene.scheduler.now_s, scenario.since_s, scenario.until_s)
    scene.on_event = recorder.note
    scenario.script(scene)
    try:
        scene.run()
    finally:
        scene.close()
    return recorder.lines
