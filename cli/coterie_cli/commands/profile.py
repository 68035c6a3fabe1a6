"""`coterie profile`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any, NoReturn

import typer

from coterie_cli.completion import complete_profile
from coterie_cli.options import Json
from coterie_cli.output import FAILED, MISUSED, capitalized, fail, print_json, print_table, say
from coterie_cli.profiles import ProfileError, Profiles, file_path
from coterie_cli.target import TargetError, check_options, one_file
from coterie_cli.target_values import MECHANISMS
from coterie_cli.variables import BOOTSTRAP

__all__ = ["app"]

app = typer.Typer(
    no_args_is_help=True,
    help="Keep where to connect under a name, for --profile.",
)

Name = Annotated[
    str,
    typer.Argument(help="The profile.", show_default=False, autocompletion=complete_profile),
]


@contextmanager
def _profiles(*, to_write: bool = False) -> Iterator[Profiles]:
    """The profiles in the file; if `to_write`, what becomes of them is kept."""
    try:
        path = file_path()
        profiles = Profiles.read(path)
        yield profiles
        if to_write:
            _write(profiles, path)
    except (ProfileError, TargetError) as error:
        _refuse(error)


def _refuse(error: Exception) -> NoReturn:
    fail(capitalized(str(error)), MISUSED)


def _write(profiles: Profiles, path: Path) -> None:
    try:
        profiles.write(path)
    except OSError as error:
        fail(f"{path} can't be written: {error.strerror}.", FAILED)


@app.command("list")
def list_profiles(*, json: Json = False) -> None:
    """Show all profiles; the one in use has a star."""
    with _profiles() as profiles:
        if json:
            print_json({"current": profiles.current, "profiles": profiles.by_name})
            return
        rows = [
            ("*" if name == profiles.current else " ", name, _address(values), _how(values))
            for name, values in sorted(profiles.by_name.items())
        ]
    print_table(("", "PROFILE", "BOOTSTRAP", "SECURITY"), rows, "There are no profiles.")


def _address(values: dict[str, Any]) -> str:
    return str(values.get("bootstrap", BOOTSTRAP))


def _how(values: dict[str, Any]) -> str:
    tls = "TLS" if values.get("tls") or "ca_file" in values else ""
    token = "a token" if "token_file" in values else ""
    file = str(values.get("config_file", ""))
    return ", ".join(filter(None, (file, tls, values.get("user"), token)))


@app.command()
def path() -> None:
    """Print where the profiles are kept."""
    try:
        typer.echo(file_path())
    except ProfileError as error:
        _refuse(error)


@app.command()
def use(name: Name) -> None:
    """Use a profile from now on, where neither --profile nor --bootstrap is given."""
    with _profiles(to_write=True) as profiles:
        profiles.get(name)
        profiles.current = name
    say(f"Commands use {name} now.")


_File = Path | None


def _file(help_text: str) -> Any:  # noqa: ANN401  # as typer has it
    return typer.Option(metavar="FILE", help=help_text)


@app.command("set")
def set_profile(  # noqa: PLR0913  # one for each option
    name: Name,
    *,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A node; several with commas.")
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the node answers HTTP.")
    ] = None,
    config_file: Annotated[
        _File, _file("Kafka's client.properties; --command-config as well.")
    ] = None,
    command_config: Annotated[_File, typer.Option(hidden=True)] = None,
    tls: Annotated[
        bool | None,
        typer.Option("--tls/--no-tls", show_default=False, help="Connect with TLS or without."),
    ] = None,
    ca_file: Annotated[_File, _file("Authorities to trust, as PEM.")] = None,
    cert_file: Annotated[_File, _file("Your certificate, as PEM.")] = None,
    key_file: Annotated[_File, _file("Its key, as PEM.")] = None,
    user: Annotated[
        str | None, typer.Option(metavar="NAME", help="Authenticate as this user.")
    ] = None,
    mechanism: Annotated[
        str | None, typer.Option(metavar="NAME", help=f"One of {', '.join(MECHANISMS)}.")
    ] = None,
    token_file: Annotated[_File, _file("The token for OAUTHBEARER.")] = None,
    http_token_file: Annotated[_File, _file("The token to show over HTTP.")] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", help="How long to wait.")
    ] = None,
) -> None:
    """Make a profile, or change what is given of one; the first one is in use at once."""
    given: dict[str, Any] = {
        "bootstrap": bootstrap,
        "http": http,
        "tls": tls,
        "user": user,
        "mechanism": mechanism,
        "timeout": timeout,
    }
    files = {
        "ca_file": ca_file,
        "cert_file": cert_file,
        "key_file": key_file,
        "token_file": token_file,
        "http_token_file": http_token_file,
    }
    with _profiles(to_write=True) as profiles:
        files["config_file"] = one_file(config_file, command_config)
        given |= {key: _absolute(path) for key, path in files.items() if path is not None}
        _check_name(name)
        values = check_options(given)
        _check_addresses(bootstrap)
        is_new = name not in profiles.by_name
        profiles.by_name.setdefault(name, {}).update(values)
        if len(profiles.by_name) == 1:
            profiles.current = name
    say(f"{'Made' if is_new else 'Changed'} {name}.")


def _absolute(path: Path) -> Path:
    """A path that means the same from anywhere."""
    try:
        return path.expanduser().absolute()
    except RuntimeError:
        raise TargetError(f"{path} is in a home directory that is not known.") from None
    except OSError:
        raise TargetError(f"{path} can't be found: the current directory is gone.") from None


def _check_name(name: str) -> None:
    if not name.isprintable() or not name:
        raise ProfileError(f"a profile can't have the name {name!r}.")


def _check_addresses(bootstrap: str | None) -> None:
    from coterie_client.errors import ConfigurationError
    from coterie_client.wire.addresses import parse_bootstrap

    try:
        if bootstrap is not None:
            parse_bootstrap(bootstrap)
    except ConfigurationError as error:
        raise TargetError(f"--{error}.") from None


@app.command()
def delete(name: Name) -> None:
    """Delete a profile."""
    with _profiles(to_write=True) as profiles:
        profiles.get(name)
        del profiles.by_name[name]
        if profiles.current == name:
            profiles.current = None
    say(f"Deleted {name}.")
