"""`coterie demo`."""

from __future__ import annotations

from typing import Annotated

import typer

from coterie_cli.options import check_number

__all__ = ["demo"]


def demo(
    *,
    speed: Annotated[
        float,
        typer.Option(
            min=0.5,
            max=10.0,
            help="How fast the scenario is played, and how fast the workers work.",
            callback=check_number,
        ),
    ] = 1.0,
    state: Annotated[
        bool,
        typer.Option(
            "--state",
            help="Watch one more worker come to groups whose work needs state, warm and cold.",
        ),
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, the narration to stderr.")
    ] = False,
) -> None:
    """Watch two groups side by side as workers come, leave, crash and restart: a minute's show.

    A coordinator and real workers are started for it, and nothing else is touched. The left group
    is cooperative, the right one eager; the time in which partitions had no worker is counted.
    With --state, work needs state, and the left group is warm, the right one cold.
    """
    from coterie_cli.demo.show import show

    raise typer.Exit(show(speed=speed, as_json=json, with_state=state))
