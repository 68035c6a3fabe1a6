"""`coterie serve`."""

from __future__ import annotations

import contextlib
import os
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated

import typer

from coterie_cli.options import BOOTSTRAP, HTTP, Variable

__all__ = ["serve"]

DATA_DIR = Path("coterie-data")

Listen = Annotated[
    str, typer.Option(metavar="HOST:PORT", envvar=Variable.LISTEN, help="Where to serve clients.")
]
Advertise = Annotated[
    str | None,
    typer.Option(
        metavar="HOST:PORT",
        envvar=Variable.ADVERTISE,
        help="Where clients find it, if not where it listens.",
    ),
]
HttpListen = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT",
        envvar=Variable.HTTP_LISTEN,
        help="Where to answer HTTP; 'off' for nowhere.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar=Variable.STORE,
        help="Where to keep groups: memory: or sqlite:PATH.",
    ),
]
DataDir = Annotated[
    Path,
    typer.Option(
        envvar=Variable.DATA_DIR, help="Where the store, unless named, and the journal are kept."
    ),
]


def serve(  # noqa: PLR0913  # one for each option
    *,
    listen: Listen = BOOTSTRAP,
    advertise: Advertise = None,
    http: HttpListen = HTTP,
    store: Store = None,
    data_dir: DataDir = DATA_DIR,
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
    accept_data_loss: Annotated[
        bool,
        typer.Option(
            "--accept-data-loss",
            help="Go on with a store that has lost what was acknowledged; all groups rebalance.",
        ),
    ] = False,
) -> None:
    """Run the coordinator until SIGTERM or Ctrl-C."""
    with _signals_heard():
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
            accept_data_loss=accept_data_loss,
        )
        code = run(options)
    raise typer.Exit(code)


@contextlib.contextmanager
def _signals_heard() -> Iterator[None]:
    """Let SIGTERM and Ctrl-C end the process until the daemon listens for them itself.

    The kernel spares the first process of a container the signals that it has no handler for, so
    by default it would never hear of them.
    """
    before = {
        number: signal.signal(number, _end_at_once) for number in (signal.SIGTERM, signal.SIGINT)
    }
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end_at_once(_number: int, _frame: object) -> None:
    # Nothing was begun that would have to be ended, and an exception could be caught by what is
    # being imported. It is the daemon's own status when it was told to stop.
    os._exit(0)
