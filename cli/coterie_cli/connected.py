"""The options that say where to connect, for all commands that do."""

from __future__ import annotations

from typing import Final

from coterie_cli.options import (
    BOOTSTRAP,
    Bootstrap,
    CaFile,
    Mechanism,
    Target,
    TlsOn,
    User,
)
from coterie_cli.standing_for import standing_for

__all__ = ["connected"]


def _options(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
) -> None:
    """What a command has in place of its `target`."""


#: Lets a command be told its `target` by options.
connected: Final = standing_for("target", Target, _options)
