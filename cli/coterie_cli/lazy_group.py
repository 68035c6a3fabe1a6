"""The commands by name; each is imported only when it is run, or asked for its own help."""

from __future__ import annotations

import shutil
from copy import copy
from importlib import import_module
from inspect import cleandoc
from typing import Any, Final, Self

import typer
from typer.core import TyperCommand, TyperGroup
from typer.main import get_group

from coterie_cli.output import MISUSED, fail

__all__ = ["LazyGroup"]

_COLUMNS_OF_TABLES: Final = 80

#: The commands in the order of `--help`, and what it says of them: how their own help begins.
#: Each has a module of its name, with a function of its name or the `app` of several commands.
_COMMANDS: Final = {
    "serve": "Run the coordinator until SIGTERM or Ctrl-C.",
    "topics": "List, create, grow and delete topics.",
    "groups": "Look at groups, and say why they rebalance.",
    "members": "List and remove members of a group.",
    "offsets": "Show, reset and delete offsets of a group.",
    "acls": "Say who may do what.",
    "users": "List, add and remove users, and set their passwords.",
    "journal": "Read what a node wrote down.",
    "console": "Look at journals in a browser, without a coordinator.",
    "profile": "Keep where to connect under a name, for --profile.",
    "pipeline": "Make tables and answers of what coordinators wrote down.",
    "simulate": (
        "Run coordinator and clients in virtual time while things go wrong, and check what must"
        " hold."
    ),
    "demo": (
        "Watch two groups side by side as workers come, leave, crash and restart: a minute's show."
    ),
}


class LazyGroup(TyperGroup):
    """`coterie` itself."""

    def list_commands(self, ctx: Any) -> list[str]:  # noqa: ANN401, ARG002  # typer hides the type
        """The names of all commands."""
        return list(_COMMANDS)

    def get_command(self, ctx: Any, cmd_name: str) -> Any:  # noqa: ANN401  # as above
        """The command of a name; None if there is none."""
        if cmd_name not in self.commands:
            # For a name that does not exist all are loaded, so that Typer can say which is near.
            for name in (cmd_name,) if cmd_name in _COMMANDS else _COMMANDS:
                self.commands[name] = _load(name)
        return super().get_command(ctx, cmd_name)

    def format_help(self, ctx: Any, formatter: Any) -> None:  # noqa: ANN401  # as above
        """Write the help, for which no command is imported."""
        super(LazyGroup, self.described()).format_help(ctx, formatter)

    def shell_complete(self, ctx: Any, incomplete: str) -> Any:  # noqa: ANN401  # as above
        """What may be typed here, for which no command is imported either."""
        ctx = copy(ctx)
        ctx.command = self.described()
        return super().shell_complete(ctx, incomplete)

    def described(self) -> Self:
        """A group like this whose commands can't do anything but say what they are for."""
        described = copy(self)
        # The plain text has room for all of a help that is called short.
        described.commands = {
            name: TyperCommand(name, help=text, short_help=text) for name, text in _COMMANDS.items()
        }
        if _is_narrow():
            described.rich_markup_mode = None
        return described

    def invoke(self, ctx: Any) -> Any:  # noqa: ANN401  # as above
        """Run a command, or say which extra it needs."""
        try:
            return super().invoke(ctx)
        except ModuleNotFoundError as error:
            from coterie_protocol.extras import MissingExtraError

            if not isinstance(error, MissingExtraError):
                raise
            fail(str(error), MISUSED)


def _load(name: str) -> Any:  # noqa: ANN401  # as above
    module = import_module(f"coterie_cli.commands.{name}")
    holder = typer.Typer()
    if hasattr(module, "app"):
        holder.add_typer(module.app, name=name)
    else:
        holder.command(name)(getattr(module, name))
    command = get_group(holder).commands[name]
    _fit_help(command, is_narrow=_is_narrow())
    return command


def _is_narrow() -> bool:
    """Whether the tables that Typer draws of options would be cut; its plain text never is."""
    return shutil.get_terminal_size().columns < _COLUMNS_OF_TABLES


def _fit_help(command: Any, *, is_narrow: bool) -> None:  # noqa: ANN401  # as above
    # Typer would break lines where a docstring does, and once more where the terminal ends.
    paragraphs = cleandoc(command.help or "").split("\n\n")
    command.help = "\n\n".join(" ".join(each.split()) for each in paragraphs)
    subcommands = getattr(command, "commands", {}).values()
    # Groups have no options to speak of, and their plain text shortens what is said of commands.
    if is_narrow and not subcommands:
        command.rich_markup_mode = None
    for each in subcommands:
        _fit_help(each, is_narrow=is_narrow)
