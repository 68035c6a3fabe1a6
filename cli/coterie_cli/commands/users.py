"""`coterie users`."""

from __future__ import annotations

import sys
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.completion import complete_user
from coterie_cli.connection import administer
from coterie_cli.nearest import did_you_mean
from coterie_cli.options import Json, Target, check_name, with_target
from coterie_cli.output import FAILED, MISUSED, fail, print_json, print_table, say
from coterie_cli.views import user_view

if TYPE_CHECKING:
    from coterie_client.admin import Admin

__all__ = ["app"]

app = typer.Typer(no_args_is_help=True, help="List, add and remove users, and set their passwords.")

_SCRAM: Final = ("SCRAM-SHA-256", "SCRAM-SHA-512")
_PASSWORD_CHARS_MAX: Final = 32_767


def _check_mechanisms(given: list[str] | None) -> list[str] | None:
    for mechanism in given or ():
        if mechanism not in _SCRAM:
            raise typer.BadParameter(f"{mechanism!r} is not one of {', '.join(_SCRAM)}.")
    return given


UserName = Annotated[
    str,
    typer.Argument(
        help="The user.", show_default=False, autocompletion=complete_user, callback=check_name
    ),
]
NewName = Annotated[str, typer.Argument(help="The user.", show_default=False, callback=check_name)]
Mechanisms = Annotated[
    list[str] | None,
    typer.Option(
        "--for",
        metavar="|".join(_SCRAM),
        help="For this mechanism only; may be given twice.",
        callback=_check_mechanisms,
    ),
]
Iterations = Annotated[
    int, typer.Option(min=4_096, max=16_384, help="How often the password is hashed.")
]
PasswordStdin = Annotated[
    bool,
    typer.Option("--password-stdin", help="Read the password from the standard input."),
]


@app.command("list")
@with_target
def list_users(*, target: Target, json: Json = False) -> None:
    """Show all users, and by which mechanisms they can log in."""
    found = administer(target, lambda admin: admin.users.list())
    if json:
        print_json([user_view(user) for user in found])
        return
    rows = [(user.name, ", ".join(user.mechanisms)) for user in found]
    print_table(("USER", "MECHANISMS"), rows, "There are no users.")


@app.command()
@with_target
def add(
    name: NewName,
    *,
    target: Target,
    mechanisms: Mechanisms = None,
    iterations: Iterations = 8_192,
    password_stdin: PasswordStdin = False,
) -> None:
    """Add a user, with a password that is asked for."""

    async def known(admin: Admin) -> bool:
        return name in [user.name for user in await admin.users.list()]

    if administer(target, known):
        fail(f"There is a user {name!r} already; set-password changes the password.", FAILED)
    _set(target, name, _password(name, from_stdin=password_stdin), mechanisms, iterations)
    say(f"Added {name}.")


@app.command("set-password")
@with_target
def set_password(
    name: UserName,
    *,
    target: Target,
    mechanisms: Mechanisms = None,
    iterations: Iterations = 8_192,
    password_stdin: PasswordStdin = False,
) -> None:
    """Change a user's password; sessions that are open go on."""
    _must_exist(target, name)
    _set(target, name, _password(name, from_stdin=password_stdin), mechanisms, iterations)
    say(f"Changed the password of {name}.")


@app.command()
@with_target
def remove(name: UserName, *, target: Target, mechanisms: Mechanisms = None) -> None:
    """Remove a user, or the password for one mechanism."""
    _must_exist(target, name)
    administer(target, lambda admin: admin.users.delete(name, mechanisms=mechanisms))
    say(f"Removed {name}{' for ' + ', '.join(mechanisms) if mechanisms else ''}.")


def _must_exist(target: Target, name: str) -> None:
    async def names(admin: Admin) -> list[str]:
        return [user.name for user in await admin.users.list()]

    known = administer(target, names)
    if name not in known:
        fail(f"There is no user {name!r}{did_you_mean(name, known)}", FAILED)


def _set(
    target: Target, name: str, password: str, mechanisms: list[str] | None, iterations: int
) -> None:
    async def work(admin: Admin) -> None:
        await admin.users.set_password(
            name, password, mechanisms=mechanisms or _SCRAM, iterations=iterations
        )

    administer(target, work)


def _password(name: str, *, from_stdin: bool) -> str:
    """The new password: typed twice without being shown, or read up to the end of the line."""
    if from_stdin:
        password = sys.stdin.readline(_PASSWORD_CHARS_MAX + 1).rstrip("\r\n")
    elif _at_terminal():
        password = typer.prompt(
            f"Password of {name}", hide_input=True, confirmation_prompt=True, err=True
        )
    else:
        fail("There is no terminal to ask at: give the password with --password-stdin.", MISUSED)
    if not password:
        fail("The password is empty.", MISUSED)
    if len(password) > _PASSWORD_CHARS_MAX:
        fail("The password is too long.", MISUSED)
    return password


def _at_terminal() -> bool:
    return sys.stdin.isatty()
