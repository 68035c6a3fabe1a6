"""Runs: from a seed to a verdict, and from a failure to the least that shows it."""

from __future__ import annotations

import random
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Final

from coterie_testing.sim.faults import PROFILES, Fault, plan, swarm
from coterie_testing.sim.scene import ASSIGNORS, Scene, SceneOptions

__all__ = ["SWARMS", "Result", "Run", "Tamper", "execute", "run_of", "shrink"]

#: Changes a scene before it begins; how bugs are planted.
Tamper = Callable[[Scene], None]


@dataclass(frozen=True, slots=True)
class _Scale:
    """How big runs are, each time one of these."""

    workers: tuple[int, ...] = (1, 2, 3, 5)
    jobs: tuple[int, ...] = (1, 4, 7)
    more: tuple[int, ...] = (1, 3)
    delays_ms: tuple[int, ...] = (0, 0, 3000)
    trouble_s: tuple[float, ...] = (5.0, 15.0, 40.0)


#: For as many runs as possible in little time.
_BRIEF: Final = _Scale((1, 2, 2, 3), (1, 3), (1,), (0,), (2.0, 5.0))

#: The profiles in which the seed decides what goes wrong at all.
SWARMS: Final = ("swarm", "brief")


@dataclass(frozen=True, slots=True)
class Run:
    """All that decides a run."""

    seed: int
    profile: str
    options: SceneOptions
    faults: tuple[Fault, ...]

    @property
    def command(self) -> str:
        """What runs it again."""
        return f"coterie simulate --seed {self.seed} --runs 1 --profile {self.profile}"


@dataclass(slots=True)
class Result:
    """What came of a run."""

    run: Run
    steps: int
    virtual_s: float
    counts: Counter[str] = field(default_factory=Counter)
    failure: Exception | None = None


def run_of(seed: int, profile: str) -> Run:
    """The run that a seed stands for."""
    chance = random.Random(f"run {seed}")  # noqa: S311  # no secrets in here
    scale = _BRIEF if profile == "brief" else _Scale()
    faults = swarm(seed) if profile in SWARMS else PROFILES[profile]
    workers = chance.choice(scale.workers)
    assignor = chance.choice(list(ASSIGNORS))
    guard = chance.choice(("report", "report", "enforce"))
    options = SceneOptions(
        workers=workers,
        static=chance.choice((0, 0, workers, workers // 2)),
        topics={"jobs": chance.choice(scale.jobs), "more": chance.choice(scale.more)},
        assignor=assignor,
        settings={
            "group_initial_rebalance_delay_ms": chance.choice(scale.delays_ms),
            # What a broken assignor does, only the guard can mend.
            "group_ownership_guard": "enforce" if assignor == "broken" else guard,
            "group_static_expansion_timeout_ms": chance.choice((0, 0, 2000)),
        },
        trouble_s=chance.choice(scale.trouble_s),
    )
    return Run(seed, profile, options, plan(seed, faults, options.trouble_s))


def execute(run: Run, tamper: Tamper | None = None) -> Result:
    """Let a run happen."""
    scene = Scene(run.seed, run.options, run.faults, tamper=tamper)
    failure: Exception | None = None
    try:
        scene.run()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
        failure = error
    result = Result(run, scene.scheduler.steps, scene.scheduler.now_s, scene.eye.counts, failure)
    scene.close()
    return result


def shrink(result: Result, tamper: Tamper | None = None, tries: int = 200) -> Result:
    """Leave out of a failed run what it fails without; the smallest one that still fails."""
    best = result
    for _ in range(tries):
        smaller = next(
            (found for run in _smaller(best.run) if (found := execute(run, tamper)).failure), None
        )
        if smaller is None:
            return best
        best = smaller
    return best


def _smaller(run: Run) -> Iterator[Run]:
    faults = run.faults
    half = len(faults) // 2
    if half:
        yield replace(run, faults=faults[:half])
        yield replace(run, faults=faults[half:])
    for index in range(len(faults)):
        yield replace(run, faults=faults[:index] + faults[index + 1 :])
    if run.options.workers > 1:
        yield replace(run, options=replace(run.options, workers=run.options.workers - 1))
