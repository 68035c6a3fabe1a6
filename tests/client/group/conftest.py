"""What the tests of groups share: a log that is collected, and nothing left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Iterator, MutableMapping
from typing import Any

import pytest
import pytest_asyncio
import structlog

LogLines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log() -> Iterator[LogLines]:
    """Collect what is logged, instead of printing it among the tests."""
    before = structlog.get_config()
    with structlog.testing.capture_logs() as lines:
        yield lines
    structlog.configure(**before)


@pytest_asyncio.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind; a socket left behind warns, which is an error."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
