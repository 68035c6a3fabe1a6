"""Why a server can't be started."""

from __future__ import annotations

import os

__all__ = ["ServerError", "why_not"]


class ServerError(Exception):
    """A server can't be started with these options; the text says what to do."""


def why_not(error: OSError) -> str:
    """What is wrong, for people."""
    # Names that can't be resolved have negative numbers and texts of their own.
    if error.errno is not None and error.errno > 0:
        return os.strerror(error.errno)
    return error.strerror or str(error)
