"""What to install where an optional package is missing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from coterie_protocol.exceptions import CoterieError

__all__ = ["MissingExtraError", "needs_extra"]


class MissingExtraError(CoterieError, ModuleNotFoundError):
    """A part of Coterie needs a package that is not installed; the text says how to install it."""


@contextmanager
def needs_extra(extra: str, part: str) -> Iterator[None]:
    """Import, in the `with` block, what only the extra `extra` brings; `part` is what needs it.

    Of blocks inside each other, the outer one says what to install: it is nearer to the user.
    """
    try:
        yield
    except ModuleNotFoundError as error:
        if (error.name or "").startswith("coterie"):  # a bug: our own modules are always there
            raise
        raise MissingExtraError(
            f"{part} needs {error.name}, which is not installed: pip install 'coterie[{extra}]'.",
            name=error.name,
        ) from None
