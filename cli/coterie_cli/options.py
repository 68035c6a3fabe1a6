"""The options that several commands share."""

from __future__ import annotations

import functools
import inspect
import math
from collections.abc import Callable
from pathlib import Path
from typing import Annotated, Any, Final

import typer

from coterie_cli.completion import complete_group, complete_profile, complete_topic
from coterie_cli.output import MISUSED, capitalized, fail
from coterie_cli.profiles import ProfileError
from coterie_cli.target import TIMEOUT_S, Target, TargetError, target_of
from coterie_cli.target_values import MECHANISMS
from coterie_cli.variables import BOOTSTRAP, HTTP, PASSWORD, Variable

__all__ = [
    "BOOTSTRAP",
    "HTTP",
    "PASSWORD",
    "GroupName",
    "Json",
    "Target",
    "TopicName",
    "Variable",
    "check_name",
    "check_number",
    "expand_options",
    "with_target",
]

_Command = Callable[..., None]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]

#: Kafka's protocol gives a text's length in 16 bits.
_NAME_BYTES_MAX: Final = 32_767


def check_name(name: str | None) -> str | None:
    """Refuse a name that a request could not carry."""
    try:
        length = len((name or "").encode())
    except UnicodeEncodeError:
        raise typer.BadParameter(f"{name!r} is not UTF-8 text.") from None
    if length > _NAME_BYTES_MAX:
        raise typer.BadParameter(
            f"no name has more than {_NAME_BYTES_MAX:,} bytes, got {length:,}."
        )
    return name


def check_number(value: float | None) -> float | None:
    """Refuse NaN, which no bounds keep out."""
    if value is not None and math.isnan(value):
        raise typer.BadParameter("nan is not a number of anything.")
    return value


GroupName = Annotated[
    str,
    typer.Argument(
        help="The group.", show_default=False, autocompletion=complete_group, callback=check_name
    ),
]
TopicName = Annotated[
    str,
    typer.Argument(
        help="The topic.", show_default=False, autocompletion=complete_topic, callback=check_name
    ),
]


def expand_options(
    parameter: str, make: Callable[..., Any], options: _Command, *, panel: str | None = None
) -> Callable[[_Command], _Command]:
    """Decorate commands so that one `parameter` stands for all the options of `options`.

    The command gets what `make` makes of these options, which it is given by name.  With a `panel`,
    help shows them under that heading, apart from the command's own.
    """
    expanded = inspect.signature(options, eval_str=True).parameters
    for each in expanded.values():
        for option in getattr(each.annotation, "__metadata__", ()):
            option.rich_help_panel = panel

    def decorate(command: _Command) -> _Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own[parameter]
        # A context may be given by position and so comes first.
        parameters = {
            each.name: each
            for each in sorted((*own.values(), *expanded.values()), key=lambda each: each.kind)
        }

        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401  # whatever the options are
            values = {name: given.pop(name) for name in expanded}
            command(**given, **{parameter: make(**values)})

        # Typer reads these two: the parameters in their order, and their types.
        signature = inspect.Signature(list(parameters.values()))
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return run

    return decorate


def _make_target(ctx: typer.Context, **given: Any) -> Target:  # noqa: ANN401  # whatever the options are
    try:
        return target_of(ctx, given)
    except (ProfileError, TargetError) as error:
        fail(capitalized(str(error)), MISUSED)


def _file(variable: Variable, help_text: str) -> Any:  # noqa: ANN401  # as typer has it
    return typer.Option(metavar="FILE", envvar=variable, help=help_text)


_ConfigFile = Annotated[
    Path | None,
    _file(
        Variable.CONFIG_FILE,
        "Kafka's client.properties, which say how to connect; --command-config as well.",
    ),
]
_CaFile = Annotated[
    Path | None,
    _file(Variable.CA_FILE, "Authorities to trust, as PEM, instead of those of the system."),
]
_CertFile = Annotated[
    Path | None, _file(Variable.CERT_FILE, "Your certificate, as PEM, perhaps with its key.")
]
_KeyFile = Annotated[
    Path | None,
    _file(Variable.KEY_FILE, f"Its key, as PEM; the key's password is in {Variable.KEY_PASSWORD}."),
]
_TokenFile = Annotated[
    Path | None, _file(Variable.TOKEN_FILE, "A file with the token for OAUTHBEARER.")
]
_HttpTokenFile = Annotated[
    Path | None, _file(Variable.HTTP_TOKEN_FILE, "A file with the token to show over HTTP.")
]


def _target_options(  # noqa: PLR0913  # one for each option
    ctx: typer.Context,
    *,
    bootstrap: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar=Variable.BOOTSTRAP,
            help=f"A node; several with commas. By default {BOOTSTRAP}.",
        ),
    ] = None,
    http: Annotated[
        str | None,
        typer.Option(
            metavar="HOST:PORT",
            envvar=Variable.HTTP,
            help="Where the node answers HTTP, unless it says so itself.",
        ),
    ] = None,
    config_file: _ConfigFile = None,
    command_config: Annotated[Path | None, typer.Option(hidden=True)] = None,
    tls: Annotated[
        bool | None,
        typer.Option("--tls/--no-tls", envvar=Variable.TLS, help="Connect with TLS."),
    ] = None,
    ca_file: _CaFile = None,
    cert_file: _CertFile = None,
    key_file: _KeyFile = None,
    user: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar=Variable.USER, help=f"Your name; the password is in {PASSWORD}."
        ),
    ] = None,
    mechanism: Annotated[
        str | None,
        typer.Option(
            metavar="NAME", envvar=Variable.MECHANISM, help=f"One of {', '.join(MECHANISMS)}."
        ),
    ] = None,
    token_file: _TokenFile = None,
    http_token_file: _HttpTokenFile = None,
    timeout: Annotated[
        float | None,
        typer.Option(
            metavar="SECONDS",
            help=f"How long to wait. By default {TIMEOUT_S:g}.",
        ),
    ] = None,
    profile: Annotated[
        str | None,
        typer.Option(
            metavar="NAME",
            envvar=Variable.PROFILE,
            help="The profile to take these options from; coterie profile makes one.",
            autocompletion=complete_profile,
        ),
    ] = None,
) -> None:
    """What `target` expands to."""


#: Gives a command the options that make up its `target`.
with_target: Final = expand_options(
    "target", _make_target, _target_options, panel="Where to connect"
)
