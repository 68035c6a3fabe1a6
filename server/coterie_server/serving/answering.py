"""Tasks that find answers to requests, which are cancelled when the node stops."""

from __future__ import annotations

import asyncio
from typing import TYPE_CHECKING, Any, final

from coterie_server.log.logger import get_logger
from coterie_server.net.exchange import STOPPING

if TYPE_CHECKING:
    from collections.abc import Callable, Coroutine

    from coterie_server.net import Exchange

__all__ = ["Answering"]

_log = get_logger(__name__)


@final
class Answering:
    """Runs tasks that each owe a request its answer, and hangs up where one ends without.

    A task that is cancelled before it has begun runs none of its code, not even a `finally`.  So
    what becomes of its request is seen to here, and not in the task.
    """

    def __init__(self) -> None:
        self._owing: dict[asyncio.Task[None], Exchange] = {}
        self._is_closed = False

    def begin(
        self, exchange: Exchange, answer: Callable[[Exchange], Coroutine[Any, Any, None]]
    ) -> None:
        """Have a request answered, unless the node is about to stop."""
        if self._is_closed:
            _hang_up_as_stopping(exchange)
            return
        task = asyncio.get_running_loop().create_task(answer(exchange))
        self._owing[task] = exchange
        task.add_done_callback(self._ended)

    def close(self) -> None:
        """Find no more answers; the clients turn to other nodes."""
        self._is_closed = True
        for task in self._owing:
            task.cancel()

    def _ended(self, task: asyncio.Task[None]) -> None:
        exchange = self._owing.pop(task)
        if task.cancelled():
            _hang_up_as_stopping(exchange)
        elif (error := task.exception()) is not None:
            _log.error("a bug: a request could not be answered", exc_info=error)
            exchange.close("the server failed")


def _hang_up_as_stopping(exchange: Exchange) -> None:
    exchange.close(STOPPING)
