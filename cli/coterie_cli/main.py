"""Entry point of the `coterie` command."""

from importlib.metadata import version
from typing import Annotated

import typer

from coterie_cli.serve import serve
from coterie_cli.simulate import simulate

__all__ = ["main"]

app = typer.Typer(name="coterie", no_args_is_help=True, add_completion=False)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        typer.echo(f"coterie {version('coterie')}")
        raise typer.Exit


@app.callback()
def _options(
    *,
    version: Annotated[
        bool,
        typer.Option(
            "--version", callback=_print_version, is_eager=True, help="Print the version."
        ),
    ] = False,
) -> None:
    """Kafka's consumer groups as a small service of their own."""


app.command()(serve)
app.command()(simulate)


def main() -> None:
    """Run the `coterie` command with the arguments of this process."""
    app()
