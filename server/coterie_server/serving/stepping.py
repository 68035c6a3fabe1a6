"""What a shard does with the steps of its core: store what comes of them, and then tell it."""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import TYPE_CHECKING, Generic, TypeVar

from coterie_server.serving.context import NodeContext, PendingRequest
from coterie_server.serving.replies import reply_to_all
from coterie_server.serving.together import for_each
from coterie_server.step import Refusal, Request

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Sequence

    from coterie_protocol.journal import Event
    from coterie_server.serving.durable_queue import DurableQueue
    from coterie_server.step import Outcome
    from coterie_server.storage import Record

__all__ = ["SteppingShard"]

R = TypeVar("R")
Q = TypeVar("Q", bound=PendingRequest)


class SteppingShard(ABC, Generic[R, Q]):
    """Takes steps of a core that makes records `R` of requests `Q`."""

    def __init__(self, context: NodeContext) -> None:
        self._clock = context.clock
        self._limit_log = context.limit_log
        self._ends = context.ends
        self._observe = context.observe
        self._arm = context.arm
        self._turns = context.turns
        #: What the core's steps store; None without a core.
        self._queue: DurableQueue | None = None
        #: Requests that await their answers, parked or held back until something is durable.
        self._open: dict[Request, Q] = {}

    # -- what the kinds of shards differ in ----------------------------------------------------

    @abstractmethod
    def _pack(self, records: list[R]) -> list[Record]:
        """What the store is to append for the records of a step."""

    @abstractmethod
    def core_failed(self) -> None:
        """A bug, which may have left half a change in memory; called where it is handled."""

    def next_deadline(self) -> int | None:
        """When something is due next, if anything ever is."""
        return None

    # -- steps ---------------------------------------------------------------------------------

    def run(self, step: Callable[..., Outcome[R]], *arguments: object) -> None:
        """Take a step of the core, at the present time, and see to what comes of it."""
        self._run_all(step, (arguments,))

    def _run_all(
        self, step: Callable[..., Outcome[R]], several: Iterable[tuple[object, ...]]
    ) -> None:
        """Take a step for each of several arguments, and see at once to what comes of them.

        A step that raises is a bug, and it may have left half a change in memory.  What is stored
        is sound, and so are the steps before it; then the shard is read again.
        """
        now_ms = self._clock.now_ms()
        outcomes: list[Outcome[R]] = []
        stored: list[Record] = []
        try:
            try:
                for arguments in several:
                    outcome = step(*arguments, now_ms)
                    stored += self._settle(outcome, now_ms)
                    outcomes.append(outcome)
            finally:
                self._release_all(outcomes, stored)
            if (due_ms := self.next_deadline()) is not None:
                self._arm(due_ms)
        except Refusal:
            raise  # the answer is no, and nothing has changed
        except Exception:  # noqa: BLE001  # a bug, whatever it is
            self.core_failed()

    def _release(self, outcome: Outcome[R], now_ms: int) -> None:
        self._release_all((outcome,), self._settle(outcome, now_ms))

    def _settle(self, outcome: Outcome[R], now_ms: int) -> list[Record]:
        """Date what came of a step, before any other is taken; returns what is to be stored."""
        if outcome.limit_hits:
            self._limit_log.note(outcome.limit_hits, now_ms)
        if outcome.date_ms is None and outcome.events:
            outcome.date_ms = self._clock.date_of(now_ms)
        return self._pack(outcome.records) if outcome.records else []

    def _release_all(self, outcomes: Sequence[Outcome[R]], stored: list[Record]) -> None:
        """Store what steps have to store; once that is durable, let their replies and events go."""
        if (queue := self._queue) is None:
            raise AssertionError("a core without a queue")
        if stored:
            queue.put(stored)
        queue.when_durable(self._send_all, outcomes, self._ends.deletions)

    def _send_all(self, outcomes: Sequence[Outcome[R]], _deletions: int) -> None:
        for_each(outcomes, self._send)

    def _send(self, outcome: Outcome[R]) -> None:
        reply_to_all(outcome.replies, self._open, self._turns)
        if outcome.events:
            self._tell_events(outcome.events, outcome.date_ms or 0)

    def _tell_events(self, events: Sequence[Event], date_ms: int) -> None:
        for event in events:
            self._observe(date_ms, event)
