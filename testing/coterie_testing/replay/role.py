"""One process of a history, played: when it comes and goes, and what befalls it."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import cached_property, partial
from typing import Final

from coterie_assignors import Assignor
from coterie_protocol import ApiKey
from coterie_server.net import Exchange
from coterie_testing.replay.book import WorkBook
from coterie_testing.replay.changes import ASSIGNORS, Changes
from coterie_testing.replay.completing import HEARTBEAT_MS
from coterie_testing.replay.places import places
from coterie_testing.replay.play import Life, Play, Stall
from coterie_testing.sim.coordinator import SimulatedCoordinator
from coterie_testing.sim.worker import Worker, WorkerOptions
from coterie_testing.virtual import Network, Scheduler

__all__ = ["Role", "Setting"]

#: By how much the timers of real machines differ, or so.
_DRIFT: Final = 0.03
#: Work that is looked at only for whether it goes on.
_PACE_S: Final = (30.0, 60.0)
#: From the start of a process to its membership, about: it has to be told where and who it is.
_ARRIVAL_MS: Final = 8.0
#: What a process that is too busy does not do.
_JOINING: Final = frozenset({ApiKey.JOIN_GROUP, ApiKey.SYNC_GROUP})


@dataclass
class Setting:
    """What all processes of a replay share."""

    scheduler: Scheduler
    network: Network
    book: WorkBook
    #: Have something happen at a time of the history.
    at: Callable[[float, Callable[[], object]], None]
    play: Play
    changes: Changes
    coordinator: SimulatedCoordinator
    #: The requests that are kept back, by the client that is too busy to send them.
    _kept: dict[str, list[Exchange]] = field(default_factory=dict)

    @cached_property
    def names(self) -> list[str]:
        """What each process would be called if it were static."""
        return places(self.play.lives)

    def keep_back(self, exchange: Exchange) -> bool:
        """See each request first, and keep it if its client is too busy to send it yet."""
        kept = self._kept.get(exchange.request.client_id or "")
        if kept is None or exchange.request.api_key not in _JOINING:
            return False
        kept.append(exchange)
        return True

    def stall(self, worker: Worker) -> None:
        """A process is too busy to join from now on."""
        self._kept.setdefault(worker.name, [])

    def go_on(self, worker: Worker) -> None:
        """It is not any more, and sends what it had to."""
        node, process = self.coordinator.node, self.coordinator.process
        for exchange in self._kept.pop(worker.name, ()):
            if node is not None and process is not None and not exchange.abandoned:
                process.call_soon(node.handle, exchange)

    def heard_ms(self, worker: Worker) -> int:
        """When the coordinator last heard of a process; now if it does not know it."""
        node = self.coordinator.node
        group = None if node is None else node.group(self.play.group)
        member = None if group is None else group.members.get(worker.group.member_id)
        return self.scheduler.now_ms if member is None else member.last_seen_ms


class Role:
    """One process: whoever plays it may leave and come back."""

    def __init__(self, setting: Setting, number: int) -> None:
        self._setting = setting
        self._number = number
        self._life = setting.play.lives[number]
        self._worker: Worker | None = None
        self._entries = 0
        self._topics = self._life.topics

    def prepare(self) -> None:
        """Have everything happen in its time."""
        at, life = self._setting.at, self._life
        at(life.began_ms - _ARRIVAL_MS, self._enter)
        for silence in life.silences:
            silent_ms = silence.until_ms - silence.from_ms
            at(self._once_in(silence.from_ms), partial(self._fall_silent, silent_ms))
        for stall in life.stalls:
            self._prepare_stall(stall)
        for subscription in life.subscriptions:
            at(subscription.from_ms, partial(self._subscribe, subscription.topics))
        if life.ended_ms is not None:
            at(self._once_in(life.ended_ms), self._leave if life.left else self._die)

    def _once_in(self, at_ms: int) -> float:
        """Not before it was taken in: that much is known."""
        return max(at_ms, self._life.began_ms + _ARRIVAL_MS)

    def _prepare_stall(self, stall: Stall) -> None:
        at, limit_ms = self._setting.at, self._rebalance_ms
        if stall.leaves and stall.until_ms - stall.from_ms > limit_ms:
            at(stall.from_ms + limit_ms, self._leave)
            at(stall.until_ms - _ARRIVAL_MS, self._enter)
        else:
            at(stall.from_ms, self._stall)
            at(stall.until_ms, self._end_stall)

    # -- what happens --------------------------------------------------------------------------

    def _enter(self) -> None:
        setting, self._entries = self._setting, self._entries + 1
        life = self._life
        name = f"{life.client_id or 'member'}/{self._number}"
        self._worker = worker = Worker(
            setting.scheduler,
            setting.network,
            setting.book,
            name if self._entries == 1 else f"{name}/{self._entries}",
            setting.play.group,
            self._options(),
            self._assignors(),
        )
        setting.book.came(worker)
        worker.start()

    def _leave(self) -> None:
        worker = self._worker
        if worker is not None:
            self._setting.book.left(worker)
            # It is known when it said goodbye, and that is when it had finished.
            worker.options = replace(worker.options, finish_s=(0.0, 0.0))
            worker.stop()

    def _die(self) -> None:
        if self._worker is not None:
            self._worker.kill()

    def _fall_silent(self, for_ms: int) -> None:
        """Stop for as long as it was not heard of, from when it was heard of last."""
        setting, worker = self._setting, self._worker
        if worker is None:
            return
        worker.process.pause()
        setting.book.fell_silent(worker)
        heard_ms = setting.heard_ms(worker)
        rest_s = (heard_ms + for_ms - setting.scheduler.now_ms) / 1000
        setting.scheduler.after(max(0.0, rest_s), self._go_on, worker)

    def _go_on(self, worker: Worker) -> None:
        worker.process.resume()
        self._setting.book.went_on(worker)

    def _stall(self) -> None:
        if self._worker is not None:
            self._setting.stall(self._worker)

    def _end_stall(self) -> None:
        if self._worker is not None:
            self._setting.go_on(self._worker)

    def _subscribe(self, topics: frozenset[str]) -> None:
        self._topics = topics
        worker = self._worker
        if worker is not None:
            worker.options = replace(worker.options, topics=tuple(sorted(topics)))
            worker.process.call_soon(worker.subscribe)

    # -- how it is set up ----------------------------------------------------------------------

    @property
    def _rebalance_ms(self) -> int:
        return self._setting.changes.rebalance_timeout_ms or self._life.rebalance_ms

    def _options(self) -> WorkerOptions:
        life, changes, play = self._life, self._setting.changes, self._setting.play
        session_ms = changes.session_timeout_ms or life.session_ms
        usual_ms = play.heartbeat_ms or min(HEARTBEAT_MS, life.session_ms // 3)
        heartbeat_ms = changes.heartbeat_interval_ms or min(usual_ms, session_ms // 3)
        # Without that, members that came together would all hear of everything together.
        heartbeat_s = heartbeat_ms / 1000 * self._setting.scheduler.random.uniform(1 - _DRIFT, 1)
        # Whoever heard of the rebalance by a heartbeat spent half an interval on that.
        finish_s = max(0, life.join_ms - usual_ms // 2) / 1000
        return WorkerOptions(
            topics=tuple(sorted(self._topics)),
            instance=self._instance(life),
            session_timeout=session_ms / 1000,
            heartbeat_interval=heartbeat_s,
            rebalance_timeout=self._rebalance_ms / 1000,
            request_timeout=max(1.0, session_ms / 2000),
            work_s=_PACE_S,
            finish_s=(finish_s / 2, finish_s),
        )

    def _instance(self, life: Life) -> str | None:
        if self._setting.changes.static is None:
            return life.instance
        return self._setting.names[self._number] if self._setting.changes.static else None

    def _assignors(self) -> tuple[Assignor, ...]:
        changed = self._setting.changes.assignor
        names = self._life.assignors if changed is None else (changed,)
        return tuple(ASSIGNORS[name]() for name in names)
