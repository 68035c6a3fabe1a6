"""Options that several commands share, given to each of them as one parameter."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from dataclasses import fields
from typing import Any

__all__ = ["standing_for"]

_Command = Callable[..., None]


def standing_for(
    parameter: str, kind: type[Any], options: _Command
) -> Callable[[_Command], _Command]:
    """Let commands have one parameter in place of all those of `options`.

    `kind` is a dataclass whose fields are called as the options are.
    """

    def decorate(command: _Command) -> _Command:
        own = dict(inspect.signature(command, eval_str=True).parameters)
        del own[parameter]
        parameters = own | inspect.signature(options, eval_str=True).parameters

        @functools.wraps(command)
        def run(**given: Any) -> None:  # noqa: ANN401  # whatever its options are
            values = {each.name: given.pop(each.name) for each in fields(kind)}
            command(**given, **{parameter: kind(**values)})

        # What typer goes by: the parameters in their order, and their types.
        signature = inspect.Signature(list(parameters.values()))
        run.__signature__ = signature  # type: ignore[attr-defined]
        run.__annotations__ = {name: each.annotation for name, each in parameters.items()}
        return run

    return decorate
