"""What befalls several coordinators and their database does what its name says, and is over."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from coterie_testing.sim.faults import (
    AMONG_SEVERAL,
    KINDS,
    OF_COORDINATORS,
    SWARMS,
    Fault,
    faults_of,
    plan,
)
from coterie_testing.sim.simulation import Simulation
from coterie_testing.sim.system import System, SystemOptions
from coterie_testing.virtual import Database

AT_S = 5.0


class Injected:
    """A run of three coordinators with one fault, and what was seen of it."""

    def __init__(self, kind: str, look: Callable[[System], Any], *, nodes: int = 3) -> None:
        options = SystemOptions(workers=1, nodes=nodes, faults_s=12.0)
        simulation = Simulation(5, options, [Fault(AT_S, kind, 0, 2.0, 1)])
        self.done = ""
        self.during: Any = None
        system = simulation.system
        system.on_event = self._note
        system.scheduler.after(AT_S + 0.5, lambda: setattr(self, "during", look(system)))
        simulation.run()
        self.after = look(system)
        simulation.close()

    def _note(self, who: str, event: object) -> None:
        if who == "injector":
            self.done = str(event)


def up(system: System) -> list[str]:
    """The coordinators that serve."""
    return [each.name for each in system.coordinators if each.is_up]


def parted(system: System) -> list[tuple[str, str]]:
    """The pairs of hosts of which neither reaches the other."""
    hosts = [each.name for each in system.coordinators] + ["database"]
    are_isolated = system.network.conditions.are_isolated
    return [(a, b) for a in hosts for b in hosts if a < b and are_isolated(a, b)]


def database(system: System) -> Database:
    """The database that the coordinators share."""
    assert isinstance(system.disk, Database)
    return system.disk


def test_stop_coordinator() -> None:
    run = Injected("stop_coordinator", up)
    assert "back after 2 s" in run.done
    assert len(run.during) == 2
    assert len(run.after) == 3


def test_cut_off_coordinator() -> None:
    run = Injected("cut_off_coordinator", parted)
    ((one, other),) = run.during
    assert one.startswith("coordinator")
    assert other == "database"
    assert run.after == []


def test_part_coordinators() -> None:
    run = Injected("part_coordinators", parted)
    assert len(run.during) == 2
    assert all("database" not in pair for pair in run.during)
    assert run.after == []


def test_stop_database() -> None:
    run = Injected("stop_database", lambda system: database(system).is_down)
    assert (run.during, run.after) == (True, False)


def test_promote_replica() -> None:
    fences = lambda s: database(s).content._content.timeline  # noqa: E731, SLF001  # as nodes see it
    run = Injected("promote_replica", fences)
    assert (run.during, run.after) == (2, 2)


def test_database_clock_jump() -> None:
    run = Injected("database_clock_jump", lambda system: database(system).ahead_ms)
    assert run.done.endswith("by 2 s")
    assert (run.during, run.after) == (2000, 2000)


@pytest.mark.parametrize("kind", AMONG_SEVERAL)
def test_a_single_coordinator_is_spared(kind: str) -> None:
    assert Injected(kind, up, nodes=1).done.endswith("no target")


# -- plans -----------------------------------------------------------------------------------------


def test_kinds_are_apart() -> None:
    assert not set(KINDS) & set(AMONG_SEVERAL)
    assert set(AMONG_SEVERAL) < OF_COORDINATORS


@pytest.mark.parametrize("profile", ["calm", "rough", "hostile", "strangers", "failovers"])
def test_several_coordinators_have_more_faults(profile: str) -> None:
    several = faults_of(profile, 0, 3)
    assert any(getattr(several, kind) for kind in AMONG_SEVERAL)


@pytest.mark.parametrize("profile", SWARMS)
def test_swarms_of_one_coordinator_have_none_of_those(profile: str) -> None:
    for seed in range(100):
        assert not any(getattr(faults_of(profile, seed, 1), kind) for kind in AMONG_SEVERAL)
    kinds = {each.kind for n in range(200) for each in plan(n, faults_of(profile, n, 3), 9.0)}
    assert kinds >= set(AMONG_SEVERAL)
