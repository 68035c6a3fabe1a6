"""`coterie journal`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="Read what a node wrote down.")

Folder = Annotated[
    Path, typer.Argument(help="A data directory, or a journal's folder or file.", exists=True)
]


@app.command()
def tail(
    journal: Folder = Path("coterie-data"),
    *,
    group: Annotated[str | None, typer.Option(help="Only this group.")] = None,
    lines: Annotated[
        int, typer.Option("--lines", "-n", min=0, help="How many to begin with.")
    ] = 20,
    follow: Annotated[bool, typer.Option("--follow", "-f", help="Go on, until Ctrl-C.")] = False,
    commits: Annotated[bool, typer.Option("--commits", help="Also show commits.")] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the lines as they are.")] = False,
) -> None:
    """Print the journal's last lines."""
    from coterie_cli.doing import journals  # noqa: PLC0415  # heavy

    wish = journals.Wish(group, lines, follow, commits, json)
    raise typer.Exit(journals.tail(journal, wish))


@app.command()
def verify(journal: Folder = Path("coterie-data")) -> None:
    """Read all of a journal, and say what is missing or damaged; exits with 1 if anything is."""
    from coterie_cli.doing import journals  # noqa: PLC0415  # heavy

    raise typer.Exit(journals.verify(journal))
