"""The options that several commands share, and the environment variables that commands read."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import dataclass, fields
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Any, Final

import typer

__all__ = [
    "BOOTSTRAP",
    "HTTP",
    "PASSWORD",
    "GroupName",
    "Http",
    "Json",
    "Target",
    "Variable",
    "expand_options",
    "with_target",
]

_Command = Callable[..., None]

BOOTSTRAP: Final = "127.0.0.1:9092"
HTTP: Final = "127.0.0.1:9080"


class Variable(StrEnum):
    """An environment variable that a command reads, apart from the settings of `serve`.

    The list has to be complete: the daemon refuses to start if a variable looks like a setting but
    is neither a setting nor listed here.
    """

    ADVERTISE = "COTERIE_ADVERTISE"
    BOOTSTRAP = "COTERIE_BOOTSTRAP"
    DATA_DIR = "COTERIE_DATA_DIR"
    HTTP = "COTERIE_HTTP"
    HTTP_LISTEN = "COTERIE_HTTP_LISTEN"
    LISTEN = "COTERIE_LISTEN"
    PASSWORD = "COTERIE_PASSWORD"  # noqa: S105 - the name, not the password
    SPARK_MASTER = "COTERIE_SPARK_MASTER"
    STORE = "COTERIE_STORE"


PASSWORD: Final = Variable.PASSWORD

Http = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar=Variable.HTTP, help="Where the node answers HTTP."),
]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
GroupName = Annotated[str, typer.Argument(help="The group.", show_default=False)]


def expand_options(
    parameter: str, kind: type[Any], options: _Command
) -> Callable[[_Command], _Command]:
    """Decorate commands so that one `parameter` stands for all the options of `options`.

    `kind` is a dataclass with a field for each of these options; the command gets an instance.
    """

    def decorate(command: _Command) -> _Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own[parameter]
        parameters = own | inspect.signature(options, eval_str=True).parameters

        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401  # whatever the options are
            values = {each.name: given.pop(each.name) for each in fields(kind)}
            command(**given, **{parameter: kind(**values)})

        # Typer reads these two: the parameters in their order, and their types.
        signature = inspect.Signature(list(parameters.values()))
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return run

    return decorate


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster to connect to, and how to authenticate."""

    bootstrap: str
    tls: bool = False
    ca_file: Path | None = None
    user: str | None = None
    mechanism: str = "PLAIN"


def _target_options(
    *,
    bootstrap: Annotated[
        str,
        typer.Option(
            metavar="HOST:PORT", envvar=Variable.BOOTSTRAP, help="A node; several with commas."
        ),
    ] = BOOTSTRAP,
    tls: Annotated[bool, typer.Option("--tls", help="Connect with TLS.")] = False,
    ca_file: Annotated[
        Path | None, typer.Option(help="Authorities to trust, as PEM, instead of the system's.")
    ] = None,
    user: Annotated[
        str | None,
        typer.Option(help=f"Authenticate as this user, with the password in {PASSWORD}."),
    ] = None,
    mechanism: Annotated[str, typer.Option(help="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.")] = (
        "PLAIN"
    ),
) -> None:
    """What `target` expands to."""


#: Gives a command the options that make up its `target`.
with_target: Final = expand_options("target", Target, _target_options)
