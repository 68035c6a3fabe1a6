"""What a store may hold that this version of Coterie does not know."""

from __future__ import annotations

from coterie_protocol.exceptions import CoterieError

__all__ = ["LaterVersionError"]


class LaterVersionError(CoterieError, ValueError):
    """A later version has written a record; the text says in which way it is not known."""

    def __str__(self) -> str:
        return f"{super().__str__()}, which is not known here: a later version of Coterie wrote it"
