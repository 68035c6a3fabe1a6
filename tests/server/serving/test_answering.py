"""Requests whose answers are being found when a node stops."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
import structlog.testing

from coterie_protocol import messages as m
from coterie_server.net import Exchange
from coterie_server.serving.answering import Answering
from tests.support.requests import Pending

pytestmark = pytest.mark.asyncio


class Asked:
    """Requests whose answers are found when a test says so."""

    def __init__(self) -> None:
        self.answering = Answering()
        self.found = asyncio.Event()

    def begin(self) -> Pending:
        """Take a request."""
        request = Pending(m.MetadataRequest(topics=None), 9)
        self.answering.begin(cast("Exchange", request), self._answer)
        return request

    async def _answer(self, exchange: Exchange) -> None:
        await self.found.wait()
        exchange.reply("the answer")


async def turns() -> None:
    """Let tasks go as far as they can."""
    for _ in range(5):
        await asyncio.sleep(0)


async def test_answer_that_is_found_leaves_the_connection_open() -> None:
    asked = Asked()
    request = asked.begin()
    asked.found.set()
    await turns()
    asked.answering.close()
    await turns()
    assert (request.answer.result(), request.closed) == ("the answer", [])


@pytest.mark.parametrize("has_begun", [False, True])
async def test_client_is_hung_up_on_when_the_node_stops(*, has_begun: bool) -> None:
    """Also one that asked in the same turn of the event loop, so that nothing of it has run."""
    asked = Asked()
    request = asked.begin()
    if has_begun:
        await turns()
    asked.answering.close()
    await turns()
    assert request.closed == ["the node is stopping"]


async def test_client_that_asks_behind_the_end_is_hung_up_on() -> None:
    asked = Asked()
    asked.answering.close()
    assert asked.begin().closed == ["the node is stopping"]


async def test_bug_leaves_no_client_waiting() -> None:
    async def fail(_: Any) -> None:
        raise ZeroDivisionError

    answering, request = Answering(), Pending(m.MetadataRequest(topics=None), 9)
    with structlog.testing.capture_logs() as logs:
        answering.begin(cast("Exchange", request), fail)
        await turns()
    assert request.closed == ["the server failed"]
    assert [line["event"] for line in logs] == ["a bug: a request could not be answered"]
