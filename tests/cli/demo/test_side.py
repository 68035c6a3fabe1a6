"""A side of the demo whose workers fail it."""

from __future__ import annotations

import asyncio

import pytest

from coterie_cli.demonstrating.actor import DemoError
from coterie_cli.demonstrating.side import Side


@pytest.mark.asyncio
async def test_worker_that_ends_by_itself_is_named() -> None:
    """With the last that it said, instead of waiting for it."""
    side = Side("eager", "range", "no address", speed=1.0)
    await side.load("ann")
    await side.join("ann")
    with pytest.raises(DemoError, match=r"range: ann ended by itself: .*no address"):
        await side.settled(within_s=60)
    await side.close()


@pytest.mark.asyncio
async def test_group_that_does_not_settle_is_not_waited_for_forever() -> None:
    """And it is said what may help."""
    side = Side("eager", "range", "127.0.0.1:1", speed=1.0)
    with pytest.raises(DemoError, match=r"not shared out within 0.01 s.*--speed"):
        await side.settled(within_s=0.01)


@pytest.mark.asyncio
async def test_interrupted_farewell_leaves_nobody_behind() -> None:
    """Who was asked to leave, and was not waited for, is ended with the others."""
    side = Side("eager", "range", "127.0.0.1:1", speed=1.0)
    await side.load("ann")
    await side.join("ann")
    farewell = asyncio.create_task(side.stop("ann"))
    await asyncio.sleep(0)  # so that it has begun
    farewell.cancel()
    await asyncio.wait([farewell])
    await side.close()
    assert farewell.cancelled()
    assert all(actor.is_gone for actor in side.everybody)
