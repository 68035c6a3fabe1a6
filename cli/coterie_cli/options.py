"""The options that many commands share, and the variables that commands read."""

from __future__ import annotations

from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path
from typing import Annotated, Final

import typer

__all__ = [
    "BOOTSTRAP",
    "HTTP",
    "PASSWORD",
    "Bootstrap",
    "CaFile",
    "Http",
    "Json",
    "Mechanism",
    "Target",
    "TlsOn",
    "User",
    "Variable",
]

BOOTSTRAP: Final = "127.0.0.1:9092"
HTTP: Final = "127.0.0.1:9080"


class Variable(StrEnum):
    """A variable of the environment that a command reads, apart from the settings of `serve`.

    All are here, for the daemon refuses any other that looks like a setting and is none.
    """

    ADVERTISE = "COTERIE_ADVERTISE"
    BOOTSTRAP = "COTERIE_BOOTSTRAP"
    DATA_DIR = "COTERIE_DATA_DIR"
    HTTP = "COTERIE_HTTP"
    HTTP_LISTEN = "COTERIE_HTTP_LISTEN"
    LISTEN = "COTERIE_LISTEN"
    PASSWORD = "COTERIE_PASSWORD"  # noqa: S105 - the name, not the password
    SPARK_MASTER = "COTERIE_SPARK_MASTER"
    STORE = "COTERIE_STORE"


PASSWORD: Final = Variable.PASSWORD

Bootstrap = Annotated[
    str,
    typer.Option(
        metavar="HOST:PORT", envvar=Variable.BOOTSTRAP, help="A node; several with commas."
    ),
]
Http = Annotated[
    str,
    typer.Option(metavar="HOST:PORT", envvar=Variable.HTTP, help="Where the node answers HTTP."),
]
TlsOn = Annotated[bool, typer.Option("--tls", help="Connect with TLS.")]
CaFile = Annotated[
    Path | None, typer.Option(help="Authorities to trust, as PEM, instead of the system's.")
]
User = Annotated[
    str | None, typer.Option(help=f"Authenticate as this user, with the password in {PASSWORD}.")
]
Mechanism = Annotated[str, typer.Option(help="PLAIN, SCRAM-SHA-256 or SCRAM-SHA-512.")]
Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@dataclass(frozen=True, slots=True)
class Target:
    """Which cluster, and how to get in."""

    bootstrap: str
    tls: bool = False
    ca_file: Path | None = None
    user: str | None = None
    mechanism: str = "PLAIN"
