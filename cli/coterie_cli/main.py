"""The `coterie` command: its options, and the group of its commands."""

import errno
import os
import sys
from typing import Annotated, Final

import typer

from coterie_cli.lazy_group import LazyGroup
from coterie_cli.output import FAILED

__all__ = ["main"]

#: Why a write fails that is no fault of the command.
_UNWRITABLE: Final = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG, errno.EIO)

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
    for stream in (sys.stdout, sys.stderr):
        # A name that the terminal's encoding lacks is no reason to end with a traceback.
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")
    try:
        app()
    except OSError as error:
        # An error of a file has its name.
        if error.filename is not None or error.errno not in _UNWRITABLE:
            raise
        _give_up_output(error)


def _give_up_output(error: OSError) -> None:
    # What is still buffered would fail once more as the process ends.
    with open(os.devnull, "w") as nowhere:  # noqa: PTH123  # the descriptor is what counts
        os.dup2(nowhere.fileno(), 1)
    try:
        sys.stderr.write(f"The output can't be written: {error.strerror}.\n")
        sys.stderr.flush()
    except OSError:
        os.dup2(1, 2)
    sys.exit(FAILED)
