"""What the tests of the wire share: nothing may be left behind."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import pytest_asyncio
import structlog
import uvloop


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each asynchronous test on both loops that users may bring."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


LogLines = list[MutableMapping[str, Any]]


@pytest.fixture(autouse=True)
def log() -> Iterator[LogLines]:
    """Collect what is logged, instead of printing it among the tests."""
    with structlog.testing.capture_logs() as lines:
        yield lines


@pytest_asyncio.fixture(autouse=True)
async def nothing_left() -> AsyncIterator[None]:
    """Fail a test that leaves a task behind; a socket left behind warns, which is an error."""
    before = asyncio.all_tasks()
    yield
    assert asyncio.all_tasks() - before - {asyncio.current_task()} == set()
