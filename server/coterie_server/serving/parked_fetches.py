"""Fetches that wait, for records that never come, as long as nothing has to wait behind them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Protocol, final

from coterie_server.topics import outdated

if TYPE_CHECKING:
    from collections.abc import Callable, Collection

    from coterie_protocol.messages import FetchResponse
    from coterie_server.net import Exchange

__all__ = ["ParkedFetches", "Timer"]


class Timer(Protocol):
    """A call that will be made later."""

    def cancel(self) -> None:
        """Don't make it."""


@final
class ParkedFetches:
    """Keeps Fetches until their time is up, something has changed, or their connection has gone.

    A Fetch ends its wait for other requests behind it as well.  For half a second, as most clients
    wait, none of them would be answered: not even which coordinator a group has, which librdkafka
    asks where it fetches.  If that takes it more than 100 ms while a commit waits for the answer,
    it gives each coordinator up as soon as it has found it.

    Only its client waits for a Fetch, so nothing of one outlives its connection: neither
    the request, nor the answer that was prepared, nor the timer.
    """

    def __init__(self, call_later: Callable[..., Timer]) -> None:
        self._call_later = call_later
        self._parked: dict[Exchange, tuple[FetchResponse, Timer]] = {}
        self._is_closed = False

    def __len__(self) -> int:
        return len(self._parked)

    def park(self, exchange: Exchange, answer: FetchResponse, wait_ms: int) -> None:
        """Give a Fetch its answer after so long, unless something ends its wait before."""
        if self._is_closed:
            exchange.reply(answer)
            return
        timer = self._call_later(wait_ms / 1000, self._answer, exchange)
        self._parked[exchange] = answer, timer
        exchange.when_gone(self._drop)
        exchange.when_followed(self._answer)

    def wake(self, topics: Collection[str]) -> None:
        """Tell all who wait for records of these topics that they are not what they were."""
        for exchange, (answer, _) in list(self._parked.items()):
            if any(each.topic in topics for each in answer.responses):
                self._answer(exchange, outdated(answer, topics))

    def answer_all(self) -> None:
        """Answer all Fetches now."""
        for exchange in list(self._parked):
            self._answer(exchange)

    def close(self) -> None:
        """Answer all Fetches now, and those that still come at once."""
        self._is_closed = True
        self.answer_all()

    def take_all(self) -> list[Exchange]:
        """Hand over all exchanges; the caller answers them."""
        taken = list(self._parked)
        for exchange in taken:
            self._forget(exchange)
            exchange.when_gone(None)
            exchange.when_followed(None)
        return taken

    def _answer(self, exchange: Exchange, answer: FetchResponse | None = None) -> None:
        # An answer may end its connection, and with it others that wait.
        if exchange in self._parked:
            prepared = self._forget(exchange)
            exchange.reply(answer or prepared)

    def _drop(self, exchange: Exchange) -> None:
        self._forget(exchange)

    def _forget(self, exchange: Exchange) -> FetchResponse:
        answer, timer = self._parked.pop(exchange)
        timer.cancel()
        return answer
