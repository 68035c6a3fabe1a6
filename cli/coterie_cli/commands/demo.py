"""`coterie demo`."""

from __future__ import annotations

from typing import Annotated

import typer

__all__ = ["demo"]


def demo(
    *,
    speed: Annotated[
        float,
        typer.Option(min=0.5, max=10.0, help="How fast to tell the story, and how fast they work."),
    ] = 1.0,
    json: Annotated[
        bool, typer.Option("--json", help="Print the summary as JSON, the story to stderr.")
    ] = False,
) -> None:
    """Watch two groups side by side as workers come, leave, crash and restart: a minute's show.

    A coordinator and real workers are started for it, and nothing else is touched. The left group
    is cooperative, the right one eager; what is counted is when nobody worked on a partition.
    """
    from coterie_cli.demo.show import show

    raise typer.Exit(show(speed=speed, as_json=json))
