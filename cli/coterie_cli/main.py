"""Entry point of the `coterie` command."""

from typing import Annotated

import typer

from coterie_cli.commands import groups, journal, members, offsets, pipeline, profile, topics
from coterie_cli.commands.demo import demo
from coterie_cli.commands.serve import serve
from coterie_cli.commands.simulate import simulate

__all__ = ["main"]

app = typer.Typer(
    name="coterie",
    no_args_is_help=True,
    add_completion=True,
    context_settings={"help_option_names": ["-h", "--help"]},
    # A bug's traceback is Python's own: whole lines for a log, and never what variables hold.
    pretty_exceptions_enable=False,
    pretty_exceptions_show_locals=False,
)


def _print_version(*, wanted: bool) -> None:
    if wanted:
        from importlib.metadata import version

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
app.add_typer(topics.app, name="topics")
app.add_typer(groups.app, name="groups")
app.add_typer(members.app, name="members")
app.add_typer(offsets.app, name="offsets")
app.add_typer(journal.app, name="journal")
app.add_typer(profile.app, name="profile")
app.add_typer(pipeline.app, name="pipeline")
app.command()(simulate)
app.command()(demo)


def main() -> None:
    """Run the `coterie` command with the arguments of this process."""
    app()
