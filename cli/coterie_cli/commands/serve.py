"""`coterie serve`."""

from __future__ import annotations

import contextlib
import os
import re
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final

import typer

from coterie_cli.options import BOOTSTRAP, HTTP, Variable
from coterie_cli.output import say

if TYPE_CHECKING:
    from coterie_server.address import Address
    from coterie_server.config.listeners import ListenerOptions, NamedAddress
    from coterie_server.config.settings import Settings
    from coterie_server.server import ServerOptions

__all__ = ["serve"]

DATA_DIR: Final = "coterie-data"
# int() also takes other scripts' digits; more than these are never allowed.
_PARTITIONS: Final = re.compile(r"[0-9]{1,19}")

Listen = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME://]HOST:PORT",
        envvar=Variable.LISTEN,
        help="Where to serve clients; more than once for several listeners."
        f"  [default: {BOOTSTRAP}]",
    ),
]
Advertise = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME://]HOST:PORT",
        envvar=Variable.ADVERTISE,
        help="Where a listener's clients find it, if not where it listens.",
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
AdvertiseHttp = Annotated[
    list[str] | None,
    typer.Option(
        metavar="[NAME://]HOST:PORT",
        envvar=Variable.ADVERTISE_HTTP,
        help="Where a listener's clients find HTTP, if not where it is answered.",
    ),
]
Store = Annotated[
    str | None,
    typer.Option(
        metavar="URL",
        envvar=Variable.STORE,
        help=(
            "Where to keep groups: memory:, sqlite:PATH or postgresql://USER@HOST/NAME; anything"
            " else is the path of a data directory."
        ),
    ),
]
DataDir = Annotated[
    str,  # as a path, an empty one would be the current directory
    typer.Option(
        metavar="PATH",
        envvar=Variable.DATA_DIR,
        help="Where the store, unless named, and the journal are kept.",
    ),
]


def serve(  # noqa: PLR0913  # one for each option
    *,
    listen: Listen = None,
    advertise: Advertise = None,
    http: HttpListen = HTTP,
    advertise_http: AdvertiseHttp = None,
    store: Store = None,
    data_dir: DataDir = DATA_DIR,
    topic: Annotated[
        list[str] | None,
        typer.Option(metavar="NAME:PARTITIONS", help="A topic to create, or to let grow."),
    ] = None,
    config: Annotated[
        Path | None, typer.Option(help="A TOML file with settings.", dir_okay=False)
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(
            metavar="N", min=1, help="How many processes serve, for as many cores.  [default: 1]"
        ),
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
    with _signals_end_process():
        from coterie_server.config.listeners import ListenerError
        from coterie_server.config.settings import SettingsError
        from coterie_server.server import ServerOptions

        try:
            chosen = _settings(config, settings or [], workers)
            options = ServerOptions(
                settings=chosen,
                listeners=_listeners(chosen, listen, advertise, advertise_http or []),
                http=_http_address(http),
                store=None if store is None else _without_secret(_given("--store", store)),
                data_dir=Path(_given("--data-dir", data_dir)),
                topics=_topics(topic or []),
                accept_data_loss=accept_data_loss,
            )
            _check_http(options)
        except (SettingsError, ListenerError, _ArgumentError) as error:
            say(f"coterie: {error}", err=True)
            raise typer.Exit(2) from None
        code = _run(options)
    raise typer.Exit(code)


@contextlib.contextmanager
def _signals_end_process() -> Iterator[None]:
    """Have SIGTERM and Ctrl-C end the process until the daemon handles them itself.

    The kernel does not deliver signals without a handler to the first process of a container, so
    the default would not do there.
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
    # Nothing has been started yet that would have to be stopped, and a module that is just being
    # imported could catch an exception. The daemon exits with the same status when told to stop.
    os._exit(0)


def _run(options: ServerOptions) -> int:
    from coterie_server import daemon
    from coterie_server.workers import supervisor

    return daemon.run(options) if options.settings.workers == 1 else supervisor.run(options)


def _settings(config: Path | None, given: list[str], workers: int | None) -> Settings:
    from coterie_server.config.settings import Settings

    overrides = given if workers is None else [*given, f"workers={workers}"]
    return Settings.load(config, os.environ, overrides, foreign_variables=frozenset(Variable))


def _listeners(
    settings: Settings,
    listen: list[str] | None,
    advertise: list[str] | None,
    advertise_http: list[str],
) -> tuple[ListenerOptions, ...]:
    """The listeners by options and variables or, where those are not given, by settings."""
    from coterie_server.config.listeners import NamedAddress, make_listeners, named_addresses

    bound = _named_addresses("--listen", Variable.LISTEN, listen or [])
    if listen is None:
        default = NamedAddress.parse(BOOTSTRAP)
        bound = named_addresses("listeners", settings.listeners) or [default]
    advertised = _named_addresses("--advertise", Variable.ADVERTISE, advertise or [])
    if advertise is None:
        advertised = named_addresses("advertised.listeners", settings.advertised_listeners)
    return make_listeners(
        bound,
        advertised,
        _named_addresses("--advertise-http", Variable.ADVERTISE_HTTP, advertise_http),
        protocol_map=settings.listener_security_protocol_map,
    )


class _ArgumentError(Exception):
    """An argument that cannot be used; the message names it."""


def _given(option: str, text: str) -> str:
    if not text:
        raise _ArgumentError(f"{option} must not be empty")
    return text


def _http_address(text: str) -> Address | None:
    from coterie_server.address import Address

    if text.lower() == "off":
        return None
    with _refused_by_name("--http", Variable.HTTP_LISTEN, text):
        return Address.parse(text)


def _check_http(options: ServerOptions) -> None:
    if options.http is None:
        for listener in options.listeners:
            if listener.advertise_http is not None:
                raise _ArgumentError(
                    f"--advertise-http: {listener.advertise_http} can't be where HTTP is found, as"
                    " --http is off; leave one of the two out"
                )
    elif options.http.port:
        for listener in options.listeners:
            if listener.bind == options.http:
                raise _ArgumentError(
                    f"--http: {options.http} is where clients are served; choose another address"
                )


def _named_addresses(option: str, variable: Variable, texts: list[str]) -> list[NamedAddress]:
    """Read addresses, of which a text may hold several, with commas between them."""
    from coterie_server.config.listeners import NamedAddress

    parsed = []
    for text in ",".join(texts).split(","):
        if text.strip():
            with _refused_by_name(option, variable, text):
                parsed.append(NamedAddress.parse(text))
    return parsed


@contextlib.contextmanager
def _refused_by_name(option: str, variable: Variable, text: str) -> Iterator[None]:
    """Raise an `_ArgumentError` for a `ValueError`, with where the text comes from."""
    try:
        yield
    except ValueError as error:
        # Typer does not tell which of the two it read; where they agree, either may be corrected.
        given = re.split(r"[,\s]+", os.environ.get(variable, ""))
        source = variable if text and text in given else option
        raise _ArgumentError(f"{source}: {error}") from None


def _without_secret(store: str | None) -> str | None:
    """The store's URL, unless it shows a password to all who list processes."""
    from coterie_server.storage.urls import has_password, without_password

    if store is not None and has_password(store) and store != os.environ.get(Variable.STORE):
        raise _ArgumentError(
            f"--store: {without_password(store)} was given with a password, which others can read"
            f" in the list of processes. Give it by PGPASSWORD or PGPASSFILE, or the URL by"
            f" {Variable.STORE}"
        )
    return store


def _topics(texts: list[str]) -> dict[str, int]:
    topics: dict[str, int] = {}
    for text in texts:
        name, colon, partitions = text.rpartition(":")
        if not colon or not _PARTITIONS.fullmatch(partitions):
            raise _ArgumentError(f"--topic: expected NAME:PARTITIONS, got {text!r}")
        if name in topics:
            raise _ArgumentError(f"--topic: {name!r} is given twice")
        topics[name] = int(partitions)
    return topics
