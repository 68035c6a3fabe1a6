"""From the words of `coterie serve` to a running server."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import typer

from coterie_cli.options import Variable
from coterie_server.config.settings import Settings, SettingsError
from coterie_server.daemon import run
from coterie_server.server import Address, ServerOptions

if TYPE_CHECKING:
    from pathlib import Path

__all__ = ["options_of", "run"]


def options_of(  # noqa: PLR0913  # one for each option
    *,
    listen: str,
    advertise: str | None,
    http: str,
    store: str | None,
    data_dir: Path,
    topics: list[str],
    config: Path | None,
    overrides: list[str],
    accept_data_loss: bool,
) -> ServerOptions:
    """The server that the words ask for; exits with a sentence if they make no sense."""
    try:
        return ServerOptions(
            settings=Settings.load(
                config, os.environ, overrides, foreign_variables=frozenset(Variable)
            ),
            listen=_address("--listen", Variable.LISTEN, listen),
            advertise=(
                _address("--advertise", Variable.ADVERTISE, advertise) if advertise else None
            ),
            http=None if http == "off" else _address("--http", Variable.HTTP_LISTEN, http),
            store=store,
            data_dir=data_dir,
            topics=_topics(topics),
            accept_data_loss=accept_data_loss,
        )
    except (SettingsError, _ArgumentError) as error:
        typer.echo(f"coterie: {error}", err=True)
        raise typer.Exit(2) from None


class _ArgumentError(Exception):
    """An argument that makes no sense; the message names it."""


def _address(option: str, variable: Variable, text: str) -> Address:
    try:
        return Address.parse(text)
    except ValueError as error:
        # Where the option says the same as its variable, either is the one to mend.
        source = variable if os.environ.get(variable) == text else option
        raise _ArgumentError(f"{source}: {error}") from None


def _topics(texts: list[str]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for text in texts:
        name, colon, partitions = text.rpartition(":")
        if not colon or not partitions.isdecimal():
            raise _ArgumentError(f"--topic: {text!r} is no NAME:PARTITIONS")
        if name in topics:
            raise _ArgumentError(f"--topic: {name!r} is given twice")
        topics[name] = int(partitions)
    return topics
