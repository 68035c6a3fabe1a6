"""What `coterie simulate` does: run the simulator, and report the first run that fails."""

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

from coterie_cli.connection import silenced
from coterie_cli.interrupts import raising_interrupts
from coterie_cli.output import FAILED, MISUSED, fail
from coterie_testing.sim.faults import PROFILES, SWARMS
from coterie_testing.sim.runs import (
    Result,
    Run,
    Sweep,
    Totals,
    execute,
    run_from_seed,
    shrink,
)
from coterie_testing.sim.trace import trace

__all__ = ["SimulateOptions", "fresh_seed", "run"]

#: How many lines of a failed run's trace are shown; the printed command shows all of them.
_TRACE_LINES: Final = 30

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
class SimulateOptions:
    """The options of the command."""

    seed: int
    runs: int | None
    steps: int
    profile: str
    nodes: int
    jobs: int
    trace: bool
    json: bool

    @property
    def sweep(self) -> Sweep:
        """The runs to do."""
        jobs = self.jobs or os.cpu_count() or 1
        if self.runs is not None:
            jobs = min(jobs, self.runs)
        return Sweep(self.seed, self.profile, self.runs, self.steps, jobs, self.nodes)


def fresh_seed() -> int:
    """A random seed, other than those that tests use."""
    return random.SystemRandom().choice(_SEEDS)


def run(options: SimulateOptions) -> int:
    """Simulate as the options say, and return the exit code."""
    with silenced(), raising_interrupts():
        return _run(options)


def _run(options: SimulateOptions) -> int:
    profiles = (*PROFILES, *SWARMS)
    if options.profile not in profiles:
        fail(
            f"There is no profile {options.profile!r}: choose from {', '.join(profiles)}.", MISUSED
        )
    nodes = f" --nodes {options.nodes}" if options.nodes > 1 else ""
    _complain(f"First seed: --seed {options.seed} --profile {options.profile}{nodes}")
    if options.trace:
        return _trace(run_from_seed(options.seed, options.profile, options.nodes))
    began_s = time.monotonic()
    totals, failed = _run_all(options)
    took_s = time.monotonic() - began_s
    if options.json:
        typer.echo(json.dumps(_as_json(options.seed, totals, failed, took_s)))
    else:
        _out.print(_summary(totals, took_s))
    if failed is None:
        return 0
    _explain(failed)
    return FAILED


def _run_all(options: SimulateOptions) -> tuple[Totals, Result | None]:
    """Run until there were enough runs, or one fails."""
    totals = Totals()
    columns = (
        TextColumn("{task.description}"),
        BarColumn(),
        MofNCompleteColumn(),
        TextColumn("{task.fields[unit]}"),
        TimeElapsedColumn(),
    )
    total, unit = (options.runs, "runs") if options.runs else (options.steps, "steps")
    with Progress(*columns, console=_err, transient=True, disable=not _err.is_terminal) as progress:
        task = progress.add_task(f"simulating, {options.profile}", total=total, unit=unit)
        for result in options.sweep.results():
            totals.add(result)
            progress.advance(task, 1 if options.runs else result.steps)
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
    """Say what failed, with how few faults it fails as well, and how to repeat it."""
    _complain(f"\n[bold red]Seed {failed.run.seed} fails:[/] {_plain(failed)}")
    _complain("Shrinking the run ...")
    least = shrink(failed)
    options = least.run.options
    workers = f"{options.workers} worker{'' if options.workers == 1 else 's'}"
    nodes = f", {options.nodes} coordinators" if options.nodes > 1 else ""
    _complain(f"\n{workers} ({options.static} static){nodes}, {options.shared_out}, faults:")
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
    """The failure, escaped for rich."""
    return escape(str(result.failure))


def _trace(wanted: Run) -> int:
    """Print what happens in a run; if it fails, in the shortest run that fails."""
    result = execute(wanted)
    shown = wanted if result.failure is None else shrink(result).run
    for line in trace(shown):
        _out.print(line, markup=False, soft_wrap=True)
    if result.failure is None:
        return 0
    _complain(f"[bold red]{_plain(result)}[/]")
    return FAILED
