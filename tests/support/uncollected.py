"""Python's garbage collector, kept from looking for a while."""

from __future__ import annotations

import contextlib
import gc
from collections.abc import Iterator

__all__ = ["uncollected"]


@contextlib.contextmanager
def uncollected() -> Iterator[None]:
    """Have nothing collected within this context, and before it all that could be."""
    gc.collect()
    gc.disable()
    try:
        yield
    finally:
        gc.enable()
