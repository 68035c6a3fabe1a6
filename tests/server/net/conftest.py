"""What the tests of the net layer share."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Mapping, MutableMapping
from typing import Any

import pytest
import structlog
import uvloop

LogLines = list[MutableMapping[str, Any]]


def pytest_asyncio_loop_factories() -> Mapping[str, Callable[[], asyncio.AbstractEventLoop]]:
    """Run each asynchronous test on both loops that the daemon may run on."""
    return {"asyncio": asyncio.new_event_loop, "uvloop": uvloop.new_event_loop}


@pytest.fixture(autouse=True)
def log() -> Iterator[LogLines]:
    """Collect what is logged, instead of printing it among the tests."""
    with structlog.testing.capture_logs() as lines:
        yield lines
