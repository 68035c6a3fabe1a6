"""`coterie simulate`."""

from __future__ import annotations

from typing import Annotated, Final

import typer

from coterie_testing.sim.faults import PROFILES, SWARMS

__all__ = ["simulate"]

#: What goes wrong: needs nothing that an extra brings, so that help has it as well.
_PROFILES: Final = (*PROFILES, *SWARMS)


def simulate(
    seed: Annotated[
        int | None, typer.Option(help="The first run's seed; without it, one that is drawn.")
    ] = None,
    runs: Annotated[int | None, typer.Option(min=1, help="How many runs, each a seed on.")] = None,
    steps: Annotated[
        int, typer.Option(min=1, help="Without --runs: go on until so many steps were taken.")
    ] = 100_000,
    profile: Annotated[
        str,
        typer.Option(metavar="NAME", help=f"{', '.join(_PROFILES[:-1])}, or {_PROFILES[-1]}."),
    ] = "swarm",
    nodes: Annotated[
        int, typer.Option(min=1, max=9, help="Coordinators, which share a database.")
    ] = 1,
    jobs: Annotated[
        int, typer.Option(min=0, max=256, help="Processes to use; 0 for one a core.")
    ] = 0,
    *,
    trace: Annotated[
        bool, typer.Option("--trace", help="Print all that happens, of a single run.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the summary as JSON.")] = False,
) -> None:
    """Run coordinator and clients in virtual time while things go wrong, and check what must hold.

    A seed decides all of a run, so a run that fails can be run again. The seed that is drawn is
    printed. Exits with 1 if a run fails.
    """
    from coterie_cli.simulation import SimulateOptions, fresh_seed, run

    first = fresh_seed() if seed is None else seed
    options = SimulateOptions(first, runs, steps, profile, nodes, jobs, trace=trace, json=json)
    raise typer.Exit(run(options))
