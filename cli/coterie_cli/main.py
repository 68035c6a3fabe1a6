"""The `coterie` command: its options, and the group of its commands."""

from typing import Annotated

import typer

from coterie_cli.lazy_group import LazyGroup

__all__ = ["main"]

app = typer.Typer(
    name="coterie",
    cls=LazyGroup,
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A bug's traceback is Python's own: whole lines for a log, and never what variables hold.
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version  # quicker than to load the protocol for it

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


def main() -> None:
    """Run the `coterie` command with the arguments of this process."""
    app()
