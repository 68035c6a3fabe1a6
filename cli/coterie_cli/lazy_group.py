"""The commands by name; each is imported only when it is run, or described by `--help`."""

from __future__ import annotations

from importlib import import_module
from typing import Any, Final

import typer
from typer.core import TyperGroup
from typer.main import get_group

from coterie_cli.output import MISUSED, fail

__all__ = ["LazyGroup"]

#: The commands in the order of `--help`.  Each has a module of its name, with a function of its
#: name or the `app` of several commands.
_COMMANDS: Final = (
    "serve",
    "topics",
    "groups",
    "members",
    "offsets",
    "journal",
    "profile",
    "pipeline",
    "simulate",
    "demo",
)


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
    return get_group(holder).commands[name]
