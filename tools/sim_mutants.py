"""Plant bugs in server and client, one at a time, and show how soon the simulator finds each.

    python tools/sim_mutants.py [--seeds N] [--jobs N] [NAME ...]

Exits with 1 if a bug is not found.
"""

from __future__ import annotations

import argparse
import logging
import os
import sys
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import structlog

sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

from tests.testing.sim.hunt import hunt
from tests.testing.sim.mutants import MUTANTS

__all__ = ["main"]

_CHECK_CHARS = 70


def _row(name: str, seeds: int) -> tuple[str, bool]:
    """Plant one bug; return its row of the table, and whether it was found."""
    structlog.configure(wrapper_class=structlog.make_filtering_bound_logger(logging.CRITICAL))
    mutant = next(each for each in MUTANTS if each.name == name)
    catch = hunt(mutant, range(seeds))
    check = catch.check if len(catch.check) <= _CHECK_CHARS else f"{catch.check[:_CHECK_CHARS]}..."
    cells = f"{mutant.name:<32} {mutant.profile:<8} {catch.seeds:5d} {catch.seconds:7.1f}  {check}"
    if catch.red:
        cells += f"; seeds that fail without it, too: {', '.join(map(str, catch.red))}"
    return cells, catch.result is not None


def _rows(names: list[str], seeds: int, jobs: int) -> int:
    """Print the table, row by row; return how many bugs were not found."""
    print(f"{'planted bug':<32} {'profile':<8} seeds seconds  what was found wrong")
    missed = 0
    with ProcessPoolExecutor(jobs) as pool:
        for row, was_found in pool.map(_row, names, [seeds] * len(names)):
            print(row, flush=True)
            missed += not was_found
    return missed


def main() -> int:
    """Plant the bugs named on the command line, or all; return the exit status."""
    known = [mutant.name for mutant in MUTANTS]
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--seeds", type=int, default=300, help="the most runs for each bug")
    parser.add_argument("--jobs", type=int, default=os.cpu_count() or 1, help="processes")
    parser.add_argument("names", nargs="*", metavar="NAME", help="all of them by default")
    options = parser.parse_args()
    if odd := set(options.names) - set(known):
        parser.error(f"there is no bug called {', '.join(sorted(odd))}")
    missed = _rows(options.names or known, options.seeds, options.jobs)
    print(f"{missed} not found" if missed else "all found")
    return 1 if missed else 0


if __name__ == "__main__":
    sys.exit(main())
