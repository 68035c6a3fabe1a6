"""What `coterie simulate` does."""

from __future__ import annotations

import json
import os
import random
import time
from collections import deque
from dataclasses import dataclass
from typing import Final

import typer
from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn
from rich.table import Table

from coterie_cli.doing.quiet import quiet
from coterie_testing.sim.faults import PROFILES
from coterie_testing.sim.runs import (
    SWARMS,
    Result,
    Run,
    Sweep,
    Totals,
    execute,
    run_from_seed,
    shrink,
)
from coterie_testing.sim.trace import trace

__all__ = ["Wishes", "fresh_seed", "run"]

_FAILED: Final = 1

#: How many lines of a failed run's trace are shown; the printed command shows all of them.
_TRACE_LINES: Final = 30
_MISUSED: Final = 2

#: The counts that say most about what was tried.
_SHOWN: Final = (
    "partitions taken",
    "commits",
    "side effects",
    "fenced side effects",
    "rebalances completed",
)

#: Fresh seeds are below, so that they are easy to copy, and above those that tests have fixed.
_SEEDS: Final = range(10_000_000, 10_000_000_000)

_out = Console(highlight=False)
_err = Console(stderr=True, highlight=False)


@dataclass(frozen=True, slots=True)
class Wishes:
    """What was asked for."""

    seed: int
    runs: int | None
    steps: int
    profile: str
    jobs: int
    trace: bool
    json: bool

    @property
    def sweep(self) -> Sweep:
        """The runs to do."""
        jobs = self.jobs or os.cpu_count() or 1
        if self.runs is not None:
            jobs = min(jobs, self.runs)
        return Sweep(self.seed, self.profile, self.runs, self.steps, jobs)


def fresh_seed() -> int:
    """Where to begin with runs that nobody has seen before."""
    return random.SystemRandom().choice(_SEEDS)


def run(wishes: Wishes) -> int:
    """Do it; answer the exit code."""
    with quiet():  # there are too many parts to listen to
        return _run(wishes)


def _run(wishes: Wishes) -> int:
    profiles = (*PROFILES, *SWARMS)
    if wishes.profile not in profiles:
        _err.print(f"There is no profile {wishes.profile!r}; choose from {', '.join(profiles)}.")
        return _MISUSED
    _complain(f"First seed: --seed {wishes.seed} --profile {wishes.profile}")
    if wishes.trace:
        return _trace(run_from_seed(wishes.seed, wishes.profile))
    began_s = time.monotonic()
    totals, failed = _run_all(wishes)
    took_s = time.monotonic() - began_s
    if wishes.json:
        typer.echo(json.dumps(_as_json(wishes.seed, totals, failed, took_s)))
    else:
        _out.print(_summary(totals, took_s))
    if failed is None:
        return 0
    _explain(failed)
    return _FAILED


def _run_all(wishes: Wishes) -> tuple[Totals, Result | None]:
    """Execute runs until there are enough, or one fails."""
    totals = Totals()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    total, unit = (wishes.runs, "runs") if wishes.runs else (wishes.steps, "steps")
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as progress:
        task = progress.add_task(f"simulating, {wishes.profile}", total=total, unit=unit)
        for result in wishes.sweep.results():
            totals.add(result)
            progress.advance(task, 1 if wishes.runs else result.steps)
            if result.failure is not None:
                return totals, result
    return totals, None


def _summary(totals: Totals, took_s: float) -> Table:
    table = Table(show_header=False, box=None, pad_edge=False)
    table.add_column(style="bold")
    table.add_column(justify="right")
    hours = totals.virtual_s / 3600
    rows = {
        "runs": f"{totals.runs:,}",
        "steps": f"{totals.steps:,}",
        "steps per second": f"{totals.steps / max(took_s, 1e-9):,.0f}",
        "virtual time": f"{hours:,.1f} h",
        "real time": f"{took_s:,.1f} s",
        **{name: f"{totals.counts[name]:,}" for name in _SHOWN},
    }
    for name, value in rows.items():
        table.add_row(name, value)
    return table


def _as_json(seed: int, totals: Totals, failed: Result | None, took_s: float) -> dict[str, object]:
    return {
        "seed": seed,
        "runs": totals.runs,
        "steps": totals.steps,
        "virtual_s": round(totals.virtual_s, 3),
        "real_s": round(took_s, 3),
        "counts": dict(sorted(totals.counts.items())),
        "failed_seed": failed.run.seed if failed is not None else None,
        "failure": str(failed.failure) if failed is not None else None,
    }


def _explain(failed: Result) -> None:
    """Print what went wrong, the smallest run that shows it, and how to repeat it."""
    _complain(f"\n[bold red]Seed {failed.run.seed} fails:[/] {_plain(failed)}")
    _complain("Shrinking the run ...")
    least = shrink(failed)
    options = least.run.options
    workers = f"{options.workers} worker{'' if options.workers == 1 else 's'}"
    _complain(f"\n{workers} ({options.static} static), {options.assignor}, faults:")
    for fault in least.run.faults:
        _complain(f"  {fault}")
    if not least.run.faults:
        _complain("  none: it fails without any")
    _complain("\nThe end of its trace:")
    for line in deque(trace(least.run), _TRACE_LINES):
        _err.print(line, markup=False, soft_wrap=True)
    _complain(f"\nTo see all of it:  {failed.run.command} --trace")


def _complain(text: str) -> None:
    """Print a line that is not broken into several, so that it can be copied."""
    _err.print(text, soft_wrap=True)


def _plain(result: Result) -> str:
    """The violation, with its brackets escaped."""
    return escape(str(result.failure))


def _trace(wanted: Run) -> int:
    """Print what happens in a run; if it fails, in the smallest one that does."""
    result = execute(wanted)
    shown = wanted if result.failure is None else shrink(result).run
    for line in trace(shown):
        _out.print(line, markup=False, soft_wrap=True)
    if result.failure is None:
        return 0
    _complain(f"[bold red]{_plain(result)}[/]")
    return _FAILED
