"""Where a PostgreSQL store is: its URL, taken apart, and how it is shown to people."""

from __future__ import annotations

import os
from dataclasses import dataclass, field
from typing import Final
from urllib.parse import parse_qsl, unquote, urlencode, urlsplit, urlunsplit

from coterie_server.storage.abc import StoreError
from coterie_server.storage.urls import hosts_of, port_of, take_place, without_password

__all__ = ["Address", "quoted"]

SCHEMA: Final = "coterie"
#: How long a call waits for a connection: enough for a server or pooler to restart.
CONNECT_S: Final = 5.0

#: PostgreSQL cuts longer names short.
_NAME_BYTES_MAX: Final = 63


@dataclass(frozen=True, slots=True)
class Address:
    """How to connect, and which tables to use."""

    #: For people: the URL without its secrets.
    shown: str
    schema: str
    connect_s: float
    #: Servers to try in turn, with their ports if they have one; none if the environment or a
    #: parameter says where the one server is.
    hosts: tuple[tuple[str, int | None], ...]
    #: The URL without hosts and password, and without what is only for Coterie.
    dsn: str = field(repr=False)
    password: str | None = field(repr=False)

    @classmethod
    def parse(cls, url: str) -> Address:
        """Take a URL apart; raises `StoreError`."""
        shown = without_password(url)
        try:
            place, rest = take_place(url)
        except ValueError as error:
            raise StoreError(f"{shown}: {error}") from None
        try:
            parts = urlsplit(rest)
            options = dict(parse_qsl(parts.query, keep_blank_values=True, strict_parsing=True))
        except ValueError:
            if url.endswith("?") or "?" not in url:
                raise StoreError(f"{shown} is not a URL of PostgreSQL") from None
            raise StoreError(f"{shown}: expected parameters like ?schema=coterie") from None
        try:
            hosts = hosts_of(place) or _listed(options)
        except ValueError as error:
            raise StoreError(f"{shown}: {error}") from None
        login, at, _ = place.rpartition("@")
        user, _, password = login.partition(":")
        schema = options.pop("schema", SCHEMA)
        if not 0 < len(schema.encode()) <= _NAME_BYTES_MAX or "\0" in schema:
            raise StoreError(f"{shown}: schema must be a name of 1 to {_NAME_BYTES_MAX} bytes")
        connect_s = _seconds(shown, options.pop("connect_timeout", str(CONNECT_S)))
        secret = options.pop("password", None) or unquote(password) or None
        dsn = urlunsplit(("postgresql", user + at, parts.path, urlencode(options), ""))
        return cls(shown, schema, connect_s, hosts, dsn, secret)


def _listed(options: dict[str, str]) -> tuple[tuple[str, int | None], ...]:
    """Several servers that parameters, which are taken, or the environment list, as libpq has it.

    asyncpg would go on with the first that answers, be it a standby.
    """
    listed = options.get("host") or os.environ.get("PGHOST", "")
    if "," not in listed:
        return ()
    options.pop("host", None)
    text = options.pop("port", "") or os.environ.get("PGPORT", "")
    hosts = hosts_of(listed)
    ports = [port_of(each, shown=each) for each in text.split(",")] if text else [None]
    if len(ports) not in (1, len(hosts)):
        raise ValueError(f"{len(ports)} ports for {len(hosts)} hosts")
    given = ports * len(hosts) if len(ports) == 1 else ports
    return tuple((host, own or port) for (host, own), port in zip(hosts, given, strict=True))


def _seconds(shown: str, text: str) -> float:
    try:
        seconds = float(text)
    except ValueError:
        seconds = 0
    if not 0 < seconds < float("inf"):
        raise StoreError(
            f"{shown}: connect_timeout must be a positive number of seconds, got {text!r}"
        )
    return seconds


def quoted(name: str) -> str:
    """A name as SQL writes it, whatever characters it has."""
    return '"' + name.replace('"', '""') + '"'
