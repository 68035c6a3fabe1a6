"""The kinds of faults, and how a seed draws a plan of them."""

from __future__ import annotations

import random
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
from typing import Any, Final

__all__ = [
    "AMONG_SEVERAL",
    "AT_A_GENERATION",
    "BY_PEOPLE",
    "KINDS",
    "OF_ABSENCE",
    "OF_COORDINATORS",
    "OF_DATABASES",
    "OF_OPERATORS",
    "OF_STATE",
    "PROFILES",
    "SWARMS",
    "Fault",
    "FaultOptions",
    "faults_of",
    "plan",
    "swarm",
]


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, and when it is injected.

    Its target is a number, modulo the workers that are running then, so that it still has one when
    other faults are left out of the plan.
    """

    at_s: float
    kind: str
    target: int = 0
    #: How long it lasts, if it does.
    seconds: float = 0.0
    #: How much of it, for faults that have a degree.
    amount: int = 0

    def __str__(self) -> str:
        parts = [f"{self.at_s:8.3f} s  {self.kind}"]
        if self.target:
            parts.append(f"target {self.target}")
        if self.seconds:
            parts.append(f"for {self.seconds:.3f} s")
        if self.amount:
            parts.append(f"amount {self.amount}")
        return ", ".join(parts)


@dataclass(frozen=True, slots=True, kw_only=True)
class FaultOptions:
    """The most faults of each kind in a run."""

    # What people do every day.
    add_worker: int = 0
    stop_worker: int = 0
    rolling_restart: int = 0
    change_subscription: int = 0
    grow_topic: int = 0
    recreate_topic: int = 0
    remove_member: int = 0
    duplicate_instance: int = 0
    # Machines.
    kill_worker: int = 0
    restart_worker: int = 0
    pause_worker: int = 0
    kill_coordinator: int = 0
    pause_coordinator: int = 0
    worker_clock_jump: int = 0
    coordinator_clock_jump: int = 0
    # Networks.
    cut_worker: int = 0
    isolate_worker: int = 0
    isolate_coordinator: int = 0
    slow_network: int = 0
    # Disks.
    slow_disk: int = 0
    failing_disk: int = 0
    # Bugs in the coordinator.
    fail_core: int = 0
    # These wait until the next generation forms. Foreign clients send what is stray: requests that
    # Coterie's client never sends.
    pause_leader: int = 0
    pause_follower: int = 0
    kill_follower: int = 0
    stray_commit: int = 0
    stray_sync: int = 0
    stray_heartbeat: int = 0
    # Several coordinators, and the database that they share.
    stop_coordinator: int = 0
    cut_off_coordinator: int = 0
    part_coordinators: int = 0
    stop_database: int = 0
    promote_replica: int = 0
    # A static member that comes back only after its session.
    absent_worker: int = 0
    # These hit workers at the moment at which it matters to those with state; no swarm has them.
    kill_warming: int = 0
    kill_leader: int = 0
    # What administrators order of the group; no swarm has them.
    drain_worker: int = 0
    pin_partition: int = 0
    freeze_group: int = 0
    lift_operation: int = 0
    # Last, as what a seed draws for those above depends on their order.
    database_clock_jump: int = 0
    #: Whether faults may last longer than a session.
    long: bool = False


#: Those that wait for a generation; no swarm has them.
AT_A_GENERATION: Final = (
    "pause_leader",
    "pause_follower",
    "kill_follower",
    "stray_commit",
    "stray_sync",
    "stray_heartbeat",
)

_ALL: Final = tuple(each.name for each in fields(FaultOptions) if each.type == "int")

#: What befalls the database that several coordinators share.
OF_DATABASES: Final = ("stop_database", "promote_replica", "database_clock_jump")

#: Those that only several coordinators can have.
AMONG_SEVERAL: Final = (
    "stop_coordinator",
    "cut_off_coordinator",
    "part_coordinators",
    *OF_DATABASES,
)

#: Those that matter to workers with state.
OF_STATE: Final = ("kill_warming", "kill_leader")

#: Those of groups whose static members may be away for longer than a session.
OF_ABSENCE: Final = ("absent_worker",)

#: What administrators order of the group.
OF_OPERATORS: Final = ("drain_worker", "pin_partition", "freeze_group", "lift_operation")

_ELSEWHERE: Final = (*AT_A_GENERATION, *AMONG_SEVERAL, *OF_ABSENCE, *OF_STATE, *OF_OPERATORS)

KINDS: Final = tuple(kind for kind in _ALL if kind not in _ELSEWHERE)

#: What people do: none of it makes a member late.
BY_PEOPLE: Final = frozenset(KINDS[: KINDS.index("kill_worker")])

#: What befalls coordinators alone: members don't notice, unless no coordinator serves their group
#: for about as long as a session.
OF_COORDINATORS: Final = frozenset(
    {
        *("kill_coordinator", "pause_coordinator", "coordinator_clock_jump"),
        *("isolate_coordinator", "fail_core", "slow_disk", "failing_disk"),
        *AMONG_SEVERAL,
    }
)


def _each(number: int, kinds: Iterable[str] = KINDS) -> FaultOptions:
    """As many faults of every kind."""
    numbers: dict[str, Any] = dict.fromkeys(kinds, number)
    return FaultOptions(**numbers)


#: The profiles in which the seed also draws which kinds of faults there are.
SWARMS: Final = ("swarm", "brief")

PROFILES: Final[Mapping[str, FaultOptions]] = {
    "calm": FaultOptions(
        add_worker=3, stop_worker=2, rolling_restart=1, change_subscription=1, grow_topic=1
    ),
    "rough": FaultOptions(
        add_worker=3,
        stop_worker=2,
        rolling_restart=1,
        change_subscription=1,
        grow_topic=1,
        kill_worker=2,
        restart_worker=2,
        kill_coordinator=1,
        cut_worker=3,
        isolate_worker=1,
        slow_network=1,
        slow_disk=1,
    ),
    "hostile": replace(_each(2), add_worker=3, cut_worker=4, long=True),
    "strangers": FaultOptions(
        add_worker=4,
        stop_worker=2,
        kill_worker=1,
        slow_disk=1,
        pause_leader=1,
        stray_commit=4,
        stray_sync=4,
        stray_heartbeat=4,
    ),
    "stateful": FaultOptions(
        add_worker=4,
        stop_worker=2,
        restart_worker=2,
        rolling_restart=1,
        pause_worker=1,
        kill_coordinator=1,
        cut_worker=1,
        isolate_worker=1,
        slow_network=1,
        pause_leader=1,
        kill_warming=2,
        kill_leader=2,
        long=True,
    ),
    "operated": FaultOptions(
        add_worker=3,
        stop_worker=2,
        restart_worker=2,
        rolling_restart=1,
        change_subscription=1,
        grow_topic=1,
        kill_worker=1,
        pause_worker=1,
        kill_coordinator=2,
        cut_worker=1,
        drain_worker=4,
        pin_partition=4,
        freeze_group=3,
        lift_operation=4,
        long=True,
    ),
    "failovers": replace(_each(1, OF_COORDINATORS), kill_coordinator=3, stop_coordinator=2),
}

#: What several coordinators have besides.
_BESIDES: Final[Mapping[str, Mapping[str, int]]] = {
    "calm": {"stop_coordinator": 3},
    "rough": {"kill_coordinator": 2} | dict.fromkeys(AMONG_SEVERAL, 1),
    "hostile": dict.fromkeys(AMONG_SEVERAL, 2),
    "strangers": {"stop_coordinator": 2, "kill_coordinator": 1},
}


def faults_of(profile: str, seed: int, nodes: int) -> FaultOptions:
    """The faults of a profile, for so many coordinators."""
    if profile in SWARMS:
        return swarm(seed, KINDS if nodes == 1 else (*KINDS, *AMONG_SEVERAL))
    options = PROFILES[profile]
    besides: Mapping[str, Any] = _BESIDES.get(profile, {}) if nodes > 1 else {}
    return replace(options, **besides)


def swarm(seed: int, kinds: Sequence[str] = KINDS) -> FaultOptions:
    """Options drawn from a seed: a few kinds often, most not at all (swarm testing).

    Runs in which everything happens hide bugs that need one thing to happen many times.
    """
    chance = random.Random(f"swarm {seed}")  # noqa: S311  # no secrets in here
    chosen = chance.sample(kinds, chance.randint(1, 6))
    numbers: dict[str, Any] = {kind: chance.randint(1, 4) for kind in chosen}
    return FaultOptions(**numbers, long=chance.random() < 0.5)


@dataclass(slots=True)
class _Draw:
    chance: random.Random
    until_s: float
    long: bool
    faults: list[Fault] = field(default_factory=list)

    def add(self, kind: str) -> None:
        chance = self.chance
        scale = chance.choice((0.05, 0.5, 3.0, 25.0) if self.long else (0.05, 0.5, 3.0))
        self.faults.append(
            Fault(
                at_s=round(chance.uniform(0.0, self.until_s), 3),
                kind=kind,
                target=chance.randrange(8),
                seconds=round(chance.uniform(0.2, 1.0) * scale, 3),
                amount=chance.randint(1, 3),
            )
        )


def plan(seed: int, options: FaultOptions, until_s: float) -> tuple[Fault, ...]:
    """Draw from a seed what happens and when."""
    chance = random.Random(f"plan {seed}")  # noqa: S311  # no secrets in here
    draw = _Draw(chance, until_s, options.long)
    for kind in _ALL:
        most = getattr(options, kind)
        for _ in range(chance.randint(0, most)):
            draw.add(kind)
    return tuple(sorted(draw.faults, key=lambda fault: fault.at_s))
