"""The options that say where to connect, for all commands that do."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any, Final

from coterie_cli.options import (
    BOOTSTRAP,
    Bootstrap,
    CaFile,
    Mechanism,
    Target,
    TlsOn,
    User,
)

__all__ = ["connected"]


#: A parameter of this name stands for all those options.
_TARGET: Final = "target"


def _options(
    *,
    bootstrap: Bootstrap = BOOTSTRAP,
    tls: TlsOn = False,
    ca_file: CaFile = None,
    user: User = None,
    mechanism: Mechanism = "PLAIN",
) -> None:
    """What a command has in place of its `target`."""


def connected(command: Callable[..., None]) -> Callable[..., None]:
    """Let a command be told its `target` by options."""
    own = dict(inspect.signature(command, eval_str=True).parameters)
    del own[_TARGET]
    parameters = own | inspect.signature(_options, eval_str=True).parameters

    @functools.wraps(command)
    def run(**given: Any) -> None:  # noqa: ANN401  # whatever its options are
        where = {each.name: given.pop(each.name) for each in fields(Target)}
        command(**given, **{_TARGET: Target(**where)})

    # What typer goes by: the parameters in their order, and their types.
    signature = inspect.Signature(list(parameters.values()))
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
    return run
