"""A coordinator in virtual time with the observers that a server has: history, metrics and log."""

from __future__ import annotations

from typing import Any

from coterie_protocol.journal import Event
from coterie_server.history import History, RebalanceRecord
from coterie_server.log import EventLog
from coterie_server.metrics import Metrics
from tests.support.group_harness import Client, World, assigned

__all__ = ["SECOND_MS", "WatchedWorld"]

SECOND_MS = 1_000


class WatchedWorld(World):
    """Hands every event to the observers, in a server's order.

    Unless the settings say otherwise, first rebalances are not delayed.
    """

    def __init__(self, **settings: Any) -> None:
        self.watch()
        super().__init__(**{"initial_rebalance_delay_ms": 0, **settings})

    def watch(self) -> None:
        """Begin with observers that know nothing, as a node that has just started."""
        self.history = History(10)
        self.metrics = Metrics("1.2.3", self.history)
        self.log = EventLog(self.history)

    def observe(self, ts_ms: int, event: Event) -> None:
        """Tell the observers of an event."""
        for observer in (self.history, self.metrics, self.log):
            observer.observe(ts_ms, event)

    def _note(self, event: Event) -> None:
        super()._note(event)
        self.observe(self.now_ms, event)

    def pair(self, **attributes: Any) -> tuple[Client, Client]:
        """A stable group of two: the first leads and has partitions 0 and 2, the second 1 and 3."""
        return self._share_by(self.member("a", **attributes), self.member("b", **attributes))

    def static_pair(self, **attributes: Any) -> tuple[Client, Client]:
        """The same with static members, `one` and `two`."""
        first = self.member("a", static="one", **attributes)
        return self._share_by(first, self.member("b", static="two", **attributes))

    def _share_by(self, first: Client, second: Client) -> tuple[Client, Client]:
        self.form(first)
        second.join()
        first.join()
        self.share(first, second)
        return first, second

    def cooperative_hand_over(self) -> tuple[Client, Client, Client]:
        """A third member comes to a cooperative group; the second gives up partition 3 for it.

        The first phase takes two seconds, the second one.  The follow-up has just begun.
        """
        first, second = self.pair(protocols=("cooperative-sticky",))
        first.owned, first.owned_generation = [("t", 0), ("t", 2)], 2
        second.owned, second.owned_generation = [("t", 1), ("t", 3)], 2
        third = self.member("c", protocols=("cooperative-sticky",))
        third.join()
        first.join()
        self.sleep(2 * SECOND_MS)
        second.join()
        self.sleep(SECOND_MS)
        first.sync({first: assigned("t", 0, 2), second: assigned("t", 1), third: assigned("t")})
        second.sync()
        third.sync()
        self.sleep(4 * SECOND_MS)
        second.owned, second.owned_generation = [("t", 1)], 3
        first.owned_generation = third.owned_generation = 3
        second.join()
        third.join()
        first.join()
        return first, second, third

    @property
    def last(self) -> RebalanceRecord:
        """The latest finished rebalance of the group `g`."""
        return self.history.last("g")[0]

    @property
    def running(self) -> RebalanceRecord:
        """The running rebalance of the group `g`."""
        running = self.history.running("g")
        assert running is not None
        return running
