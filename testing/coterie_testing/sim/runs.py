"""Runs: from a seed to a result, many at a time, and shrunk when they fail."""

from __future__ import annotations

import itertools
import random
import signal
from collections import Counter, deque
from collections.abc import Callable, Iterator
from concurrent.futures import Future, ProcessPoolExecutor
from dataclasses import dataclass, field, replace
from typing import Any, Final, TypeAlias

from coterie_protocol.extras import needs_extra

with needs_extra("server", "coterie_testing"):
    import structlog

from coterie_testing.sim.faults import OF_OPERATORS, SWARMS, Fault, faults_of, plan
from coterie_testing.sim.simulation import Simulation
from coterie_testing.sim.state import StateOptions, draw_state
from coterie_testing.sim.system import ASSIGNORS, STATEFUL_ASSIGNOR, System, SystemOptions

__all__ = [
    "SWARMS",
    "Result",
    "Run",
    "Sweep",
    "Tamper",
    "Totals",
    "execute",
    "run_from_seed",
    "shrink",
]

#: Changes a system before its run begins; how tests plant bugs.
Tamper: TypeAlias = Callable[[System], None]

#: In the other profiles, workers have state in one of so many runs.
_STATELESS: Final = 4

#: How many runs a process is given at a time: enough that handing them out costs nothing.
_BATCH: Final = 8


@dataclass(frozen=True, slots=True)
class _Scale:
    """The sizes that runs can have."""

    workers: tuple[int, ...] = (1, 2, 3, 5)
    jobs: tuple[int, ...] = (1, 4, 7)
    more: tuple[int, ...] = (1, 3)
    delays_ms: tuple[int, ...] = (0, 0, 3000)
    faults_s: tuple[float, ...] = (5.0, 15.0, 40.0)


#: How many of the runs balance loads, if their assignor can.
_WEIGHTED: Final = 0.3

#: In how many runs administrators order something of the group.
_OPERATED: Final = 0.2

#: Small runs, for as many as possible in little time.
_BRIEF: Final = _Scale((1, 2, 2, 3), (1, 3), (1,), (0,), (2.0, 5.0))


@dataclass(frozen=True, slots=True)
class Run:
    """Everything that decides a run."""

    seed: int
    profile: str
    options: SystemOptions
    faults: tuple[Fault, ...]

    @property
    def command(self) -> str:
        """The command that repeats it."""
        nodes = f" --nodes {self.options.nodes}" if self.options.nodes > 1 else ""
        return f"coterie simulate --seed {self.seed} --runs 1 --profile {self.profile}{nodes}"


@dataclass(slots=True)
class Result:
    """The outcome of a run."""

    run: Run
    steps: int
    virtual_s: float
    counts: Counter[str] = field(default_factory=Counter)
    failure: Exception | None = None


def run_from_seed(seed: int, profile: str, nodes: int = 1) -> Run:
    """Draw a run from a seed, for so many coordinators."""
    chance = random.Random(f"run {seed}")  # noqa: S311  # no secrets in here
    scale = _BRIEF if profile == "brief" else _Scale()
    faults = faults_of(profile, seed, nodes)
    workers = chance.choice(scale.workers)
    assignor = chance.choice([name for name in ASSIGNORS if name != STATEFUL_ASSIGNOR])
    state = _state_of(seed, profile)
    if state is not None and assignor == "broken":
        assignor = STATEFUL_ASSIGNOR  # the broken one sees no owners, whose state others would need
    guard = chance.choice(("report", "report", "enforce"))
    # From a source of its own, so that all else stays what it was for each seed.
    registration_ms = random.Random(f"registration {seed}").choice((0, 0, 25_000))  # noqa: S311
    if registration_ms and profile != "calm":
        faults = replace(faults, absent_worker=3)
    if random.Random(f"operations {seed}").random() < _OPERATED and profile != "calm":  # noqa: S311
        ordered: dict[str, Any] = dict.fromkeys(OF_OPERATORS, 2)
        faults = replace(faults, **ordered)
    options = SystemOptions(
        workers=workers,
        static=chance.choice((0, 0, workers, workers // 2)),
        topics={"jobs": chance.choice(scale.jobs), "more": chance.choice(scale.more)},
        assignor=assignor,
        weighted=random.Random(f"weights {seed}").random() < _WEIGHTED,  # noqa: S311
        settings={
            "group_initial_rebalance_delay_ms": chance.choice(scale.delays_ms),
            # Only the guard can make up for a broken assignor.
            "group_ownership_guard": "enforce" if assignor == "broken" else guard,
            "group_static_expansion_timeout_ms": chance.choice((0, 0, 2000)),
            "group_static_registration_timeout_ms": registration_ms,
        },
        faults_s=chance.choice(scale.faults_s),
        nodes=nodes,
        state=state,
    )
    return Run(seed, profile, options, plan(seed, faults, options.faults_s))


def _state_of(seed: int, profile: str) -> StateOptions | None:
    """Whether workers have state, and which."""
    is_stateful = profile == "stateful" or (profile != "brief" and seed % _STATELESS == 0)
    return draw_state(seed) if is_stateful else None


def execute(run: Run, tamper: Tamper | None = None) -> Result:
    """Execute a run."""
    simulation = Simulation(run.seed, run.options, run.faults, tamper=tamper)
    failure: Exception | None = None
    try:
        simulation.run()
    except Exception as error:  # noqa: BLE001  # whatever it is, it is what was looked for
        failure = error
    system = simulation.system
    clock = system.scheduler
    result = Result(run, clock.steps, clock.now_s, system.checker.counts, failure)
    simulation.close()
    return result


# -- shrinking -------------------------------------------------------------------------------------


def shrink(result: Result, tamper: Tamper | None = None, tries: int = 200) -> Result:
    """Leave out the faults and workers that a failed run fails without."""
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
    if run.options.nodes > 2:
        yield replace(run, options=replace(run.options, nodes=run.options.nodes - 1))
    if run.options.workers > 1:
        yield replace(run, options=replace(run.options, workers=run.options.workers - 1))


# -- many runs -------------------------------------------------------------------------------------


@dataclass(slots=True)
class Totals:
    """The sums over several runs."""

    runs: int = 0
    steps: int = 0
    virtual_s: float = 0.0
    counts: Counter[str] = field(default_factory=Counter)

    def add(self, result: Result) -> None:
        """Add a run."""
        self.runs += 1
        self.steps += result.steps
        self.virtual_s += result.virtual_s
        self.counts.update(result.counts)


@dataclass(frozen=True, slots=True)
class Sweep:
    """The runs of successive seeds, on several processor cores."""

    seed: int
    profile: str
    #: How many runs; None to go on until enough steps have been taken.
    runs: int | None = None
    steps: int = 0
    jobs: int = 1
    nodes: int = 1

    def results(self) -> Iterator[Result]:
        """The results, in the order of the seeds."""
        taken = 0
        for count, result in enumerate(self._endless(), 1):
            yield result
            taken += result.steps
            if count == self.runs or (self.runs is None and taken >= self.steps):
                return

    def _endless(self) -> Iterator[Result]:
        if self.jobs == 1:
            for seed in self._seeds():
                yield execute(run_from_seed(seed, self.profile, self.nodes))
            return
        with ProcessPoolExecutor(self.jobs, initializer=_begin_job) as pool:
            try:
                yield from self._pooled(pool)
            finally:
                # Without waiting, its thread would end beside the interpreter, and complain.
                pool.shutdown(cancel_futures=True)

    def _pooled(self, pool: ProcessPoolExecutor) -> Iterator[Result]:
        waiting: deque[Future[list[Result]]] = deque()
        seeds = self._seeds()
        while True:
            while len(waiting) < 2 * self.jobs and (batch := list(itertools.islice(seeds, _BATCH))):
                waiting.append(pool.submit(_execute_all, batch, self.profile, self.nodes))
            if not waiting:
                return
            yield from waiting.popleft().result()

    def _seeds(self) -> Iterator[int]:
        if self.runs is None:
            return itertools.count(self.seed)
        return iter(range(self.seed, self.seed + self.runs))


def _begin_job() -> None:
    """Keep thousands of coordinators and clients from logging, and end at Ctrl-C.

    An exception in the middle of a run would have its coroutines complain of how they end.
    """
    signal.signal(signal.SIGINT, signal.SIG_DFL)
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(50))


def _execute_all(seeds: list[int], profile: str, nodes: int) -> list[Result]:
    return [execute(run_from_seed(seed, profile, nodes)) for seed in seeds]
