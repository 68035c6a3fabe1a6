"""What the tests of the administrator's client share: nothing may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator

import pytest
import pytest_asyncio
import structlog


@pytest.fixture(autouse=True)
def quiet() -> Iterator[None]:
    """Keep the log out of the tests' output."""
    with structlog.testing.capture_logs():
        yield


@pytest_asyncio.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind; a socket left behind warns, which is an error."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
