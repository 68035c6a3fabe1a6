"""`coterie profile`."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Annotated, Any

import typer

from coterie_cli.completion import complete_profile
from coterie_cli.options import Json
from coterie_cli.output import FAILED, MISUSED, fail, print_json, print_table, say
from coterie_cli.profiles import ProfileError, Profiles, file_path
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
    path = file_path()
    try:
        profiles = Profiles.read(path)
        yield profiles
        if to_write:
            profiles.write(path)
    except ProfileError as error:
        sentence = str(error)
        fail(sentence[:1].upper() + sentence[1:], MISUSED)
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
    return ", ".join(filter(None, (tls, values.get("user"))))


@app.command()
def path() -> None:
    """Print where the profiles are kept."""
    typer.echo(file_path())


@app.command()
def use(name: Name) -> None:
    """Use a profile from now on, where neither --profile nor --bootstrap is given."""
    with _profiles(to_write=True) as profiles:
        profiles.get(name)
        profiles.current = name
    say(f"Commands use {name} now.")


@app.command("set")
def set_profile(  # one for each option
    name: Name,
    *,
    bootstrap: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="A node; several with commas.")
    ] = None,
    http: Annotated[
        str | None, typer.Option(metavar="HOST:PORT", help="Where the node answers HTTP.")
    ] = None,
    tls: Annotated[bool | None, typer.Option("--tls/--no-tls", show_default=False)] = None,
    ca_file: Annotated[Path | None, typer.Option(help="Authorities to trust, as PEM.")] = None,
    user: Annotated[str | None, typer.Option(help="Authenticate as this user.")] = None,
    mechanism: Annotated[
        str | None, typer.Option(help="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.")
    ] = None,
    timeout: Annotated[
        float | None, typer.Option(metavar="SECONDS", min=0.1, help="How long to wait.")
    ] = None,
) -> None:
    """Make a profile, or change what is given of one; the first one is in use at once."""
    given = {
        "bootstrap": bootstrap,
        "http": http,
        "tls": tls,
        "ca_file": None if ca_file is None else str(ca_file.absolute()),
        "user": user,
        "mechanism": mechanism,
        "timeout": timeout,
    }
    with _profiles(to_write=True) as profiles:
        is_new = name not in profiles.by_name
        profiles.by_name.setdefault(name, {}).update(
            {key: value for key, value in given.items() if value is not None}
        )
        if len(profiles.by_name) == 1:
            profiles.current = name
    say(f"{'Made' if is_new else 'Changed'} {name}.")


@app.command()
def delete(name: Name) -> None:
    """Delete a profile."""
    with _profiles(to_write=True) as profiles:
        profiles.get(name)
        del profiles.by_name[name]
        if profiles.current == name:
            profiles.current = None
    say(f"Deleted {name}.")
