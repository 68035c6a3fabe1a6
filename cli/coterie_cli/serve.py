"""`coterie serve`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["serve"]

DATA_DIR = Path("coterie-data")


def serve(
    listen: Annotated[
        str, typer.Option(metavar="HOST:PORT", help="Where to serve clients.")
    ] = "127.0.0.1:9092",
    advertise: Annotated[
        str | None,
        typer.Option(metavar="HOST:PORT", help="Where clients find it, if not where it listens."),
    ] = None,
    http: Annotated[
        str,
        typer.Option(metavar="HOST:PORT", help="Where to answer HTTP; 'off' for nowhere."),
    ] = "127.0.0.1:9080",
    store: Annotated[
        str | None,
        typer.Option(metavar="URL", help="Where to keep groups: memory: or sqlite:PATH."),
    ] = None,
    data_dir: Annotated[
        Path, typer.Option(help="Where the store, unless named, and the journal are kept.")
    ] = DATA_DIR,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PARTITIONS", help="A topic to create, or to let grow."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with settings.", dir_okay=False)
    ] = None,
    settings: Annotated[
        list[str] | None,
        typer.Option("--set", metavar="KEY=VALUE", help="A setting, by Kafka's name for it."),
    ] = None,
) -> None:
    """Run the coordinator until SIGTERM or Ctrl-C."""
    # Heavy, and not needed by any other command.
    from coterie_cli.serving import options_of, run  # noqa: PLC0415

    options = options_of(
        listen=listen,
        advertise=advertise,
        http=http,
        store=store,
        data_dir=data_dir,
        topics=topic or [],
        config=config,
        overrides=settings or [],
    )
    raise typer.Exit(run(options))
