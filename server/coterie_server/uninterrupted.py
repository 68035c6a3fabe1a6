"""Work that is finished though who waits for it is cancelled."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Coroutine

__all__ = ["uninterrupted"]


async def uninterrupted(work: Coroutine[object, object, None]) -> None:
    """Do all of some work, as what is half stopped would go on; then raise a cancellation."""
    doing = asyncio.ensure_future(work)
    cancelled: asyncio.CancelledError | None = None
    while not doing.done():
        try:
            await asyncio.wait([doing])
        except asyncio.CancelledError as error:
            cancelled = error
    if cancelled is not None:
        raise cancelled
    doing.result()
