"""Runs a membership on an event loop: its requests, its time, its user's commits.

The machine is never entered while it is inside a turn of its own, and nothing is awaited between
what it says and what is done about it.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Iterable, Mapping
from typing import Any, Final, Protocol, TypeVar

from coterie_client.asleep import SleepWatch
from coterie_client.counters import GroupCounters
from coterie_client.errors import AnswerTimedOutError
from coterie_client.log import in_a_line
from coterie_client.membership import (
    Abandon,
    Action,
    Assign,
    ClosedError,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    Lose,
    Membership,
    PartitionLostError,
    Position,
    Report,
    Revoke,
    Send,
    Stop,
)
from coterie_client.membership.events import Event
from coterie_client.wire.addresses import Anybody, Lane, NodeAddress, TopicPartition
from coterie_client.wire.deadlines import SECOND_LOOK_S
from coterie_client.work.events import GroupFailed
from coterie_protocol.exceptions import CoterieError

__all__ = ["Driver", "Requester", "Sink", "Teller"]

T = TypeVar("T")

#: A timer that comes this late was held up by something else than the turns before it.
_LATE_MS: Final = 200


class Requester(Protocol):
    """What a driver needs of a network."""

    async def request(
        self,
        message: Any,  # noqa: ANN401  # any request
        *,
        to: NodeAddress | Anybody,
        lane: Lane,
        timeout_s: float,
    ) -> Any:  # noqa: ANN401  # its answer
        """Send a request and return its answer."""
        ...

    def hang_up(self, address: NodeAddress, lane: Lane | None = None) -> None:
        """Drop the connections to a node, or the one of a lane."""
        ...


class Sink(Protocol):
    """Whoever is told what is owned; it must neither block nor raise."""

    def assign(self, partitions: Mapping[TopicPartition, int], generation: int) -> None:
        """Start work on these, each with its token."""
        ...

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Finish work on these, then have each `released`."""
        ...

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        """These took too long; they are not ours any more."""
        ...

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Stop work on these at once."""
        ...

    def end(self) -> None:
        """The membership is over."""
        ...


class Teller(Protocol):
    """Whoever is told what happens; it must neither block nor raise."""

    def __call__(self, event: Event) -> None:
        """Tell of an event."""
        ...

    def crash(self, error: BaseException) -> None:
        """Tell of an error that should not have been possible, and that will be raised."""
        ...

    def unraised(self, text: str, error: BaseException) -> None:
        """Tell of an error that is raised nowhere."""
        ...


class Driver:
    """Does what a membership says, and tells it what came of that."""

    def __init__(
        self,
        membership: Membership,
        network: Requester,
        report: Teller,
        counters: GroupCounters,
    ) -> None:
        self._membership = membership
        self._network = network
        self._report = report
        self._counters = counters
        #: Set when the membership is over.
        self.over = asyncio.Event()
        #: Why it is over, if not because somebody wanted that.
        self.error: Exception | None = None
        self._sink: Sink | None = None
        self._loop: asyncio.AbstractEventLoop | None = None
        #: For how long the machine was asleep, which the loop's clock leaves out; others go on.
        self._asleep_ms: Callable[[], int] = _never_asleep
        self._sleep_watch: SleepWatch | None = None
        self._latest_ms = 0
        self._timer: asyncio.TimerHandle | None = None
        self._timer_ms: int | None = None
        self._queue: list[Action] = []
        self._is_performing = False
        self._asks: set[asyncio.Task[None]] = set()
        self._promises: set[asyncio.Future[Any]] = set()
        # What the next turn of the loop tells the machine in one call.
        self._released: list[TopicPartition] = []
        self._given_up: list[TopicPartition] = []
        self._is_batch_due = False

    # -- what users and shells want ------------------------------------------------------------

    def start(
        self,
        topics: Collection[str],
        sink: Sink,
        asleep_ms: Callable[[], int] | None = None,
    ) -> None:
        """Begin to join; call it in a running loop.

        `asleep_ms` tells what the loop's clock leaves out, if it leaves anything out.
        """
        self._sink = sink
        self._loop = asyncio.get_running_loop()
        if asleep_ms is not None:
            self._asleep_ms = asleep_ms
            self._sleep_watch = SleepWatch(asleep_ms, self._woke_up)
            self._sleep_watch.start()
        self._turn(lambda now_ms: self._membership.start(topics, now_ms))

    def subscribe(self, topics: Collection[str]) -> None:
        """Want other topics from now on."""
        self._turn(lambda now_ms: self._membership.subscribe(topics, now_ms))

    def rejoin(self, reason: str) -> None:
        """Have the group rebalance."""
        self._turn(lambda now_ms: self._membership.rejoin(reason, now_ms))

    def close(self, *, leave: bool, within_s: float, reason: str) -> None:
        """Let go of everything and end; `over` is set then."""
        within_ms = round(within_s * 1000)
        self._turn(
            lambda now_ms: self._membership.close(
                now_ms, leave=leave, within_ms=within_ms, reason=reason
            )
        )

    def owns(self, partition: TopicPartition, token: int) -> bool:
        """Whether this very ownership still stands."""
        return not self.over.is_set() and self._membership.owned.get(partition) == token

    def loss(self, partition: TopicPartition) -> PartitionLostError:
        """The error that says why the partition is not owned."""
        reason = None
        if self.over.is_set():
            reason = "the group has been left"
            if self.error is not None:
                reason = f"the group has ended ({in_a_line(self.error)})"
        return PartitionLostError(f"{partition[0]}[{partition[1]}]", reason)

    def commit(self, partition: TopicPartition, token: int, position: Position) -> Awaitable[None]:
        """Have an offset committed, along with what others commit in this turn of the loop."""
        promise: asyncio.Future[None] = self._promise()
        if self.over.is_set():
            _fail(promise, self.loss(partition))
        else:
            self._membership.commit(promise, partition, token, position)
            self._batch()
        return promise

    def fetch(self, partition: TopicPartition) -> Awaitable[Position | None]:
        """Have the committed offset told."""
        promise: asyncio.Future[Position | None] = self._promise()
        if self.over.is_set():
            _fail(promise, ClosedError("the group has been left"))
        else:
            self._membership.fetch(promise, partition)
            self._batch()
        return promise

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Work on these has ended; all of one turn of the loop are told together."""
        self._released += partitions
        self._batch()

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Work on these has ended, and does better elsewhere: have the group give them to others.

        The sink hears nothing more of them.
        """
        self._given_up += partitions
        self._batch()

    # -- the machine's turns -------------------------------------------------------------------

    def _turn(self, call: Callable[[int], list[Action]]) -> None:
        """Enter the machine, and do what it says."""
        if self.over.is_set() or self._loop is None:
            return
        try:
            self._queue += call(self._now_ms())
            if not self._is_performing:
                self._perform_all()
                self._arm()
        except Exception as error:  # noqa: BLE001  # a fault of ours must end the group, loudly
            self.crash(error)

    def _perform_all(self) -> None:
        """Do everything in its order; what comes up meanwhile is done after that."""
        self._is_performing = True
        try:
            while self._queue:
                actions, self._queue = self._queue, []
                for action in actions:
                    self._perform(action)
        finally:
            self._is_performing = False

    def _perform(self, action: Action) -> None:  # noqa: C901  # one case for each action
        assert self._sink is not None
        match action:
            case Send():
                self._send(action)
            case Hangup():
                self._network.hang_up(action.node, action.lane)
            case Assign():
                self._sink.assign(action.partitions, action.generation)
            case Revoke():
                self._sink.revoke(action.partitions)
            case Abandon():
                self._sink.abandon(action.partitions)
            case Lose():
                self._sink.lose(action.partitions, action.reason)
            case Committed():
                self._committed(action)
            case Fetched():
                _settle(action.key, action.position, action.error)
            case Report():
                self._report(action.event)
            case Stop():
                self._end(action.error)

    def _committed(self, action: Committed) -> None:
        if action.error is None:
            self._counters.commits += 1
        else:
            self._counters.commit_failures += 1
        _settle(action.key, None, action.error)

    def _batch(self) -> None:
        if not self._is_batch_due and self._loop is not None:
            self._is_batch_due = True
            self._loop.call_soon(self._tell_batch)

    def _tell_batch(self) -> None:
        self._is_batch_due = False
        released, self._released = self._released, []
        given_up, self._given_up = self._given_up, []
        if given_up:
            self._turn(lambda now_ms: self._membership.give_up(given_up, now_ms))
        # This sends the commits as well.
        self._turn(lambda now_ms: self._membership.released(released, now_ms))

    # -- requests ------------------------------------------------------------------------------

    def _send(self, send: Send) -> None:
        assert self._loop is not None
        name = f"coterie {type(send.message).__name__}"
        task = self._loop.create_task(self._ask(send), name=name)
        self._asks.add(task)
        task.add_done_callback(self._asks.discard)

    async def _ask(self, send: Send) -> None:
        try:
            answer = await self._network.request(
                send.message, to=send.to, lane=send.lane, timeout_s=send.timeout_ms / 1000
            )
        except CoterieError as error:
            failure = Failure(_kind_of(error), error)
            self._turn(lambda now_ms: self._membership.failed(send.ticket, failure, now_ms))
        except asyncio.CancelledError:
            # Not by us, or the membership would be over: the loop is being torn down. There may
            # still be time to say goodbye.
            failure = Failure(FailureKind.LOST)
            self._turn(lambda now_ms: self._membership.failed(send.ticket, failure, now_ms))
            raise
        except Exception as error:  # noqa: BLE001  # a fault of ours must end the group, loudly
            self.crash(error)
        else:
            self._turn(lambda now_ms: self._membership.answered(send.ticket, answer, now_ms))

    # -- time ----------------------------------------------------------------------------------

    def _now_ms(self) -> int:
        assert self._loop is not None
        now_ms = int(self._loop.time() * 1000) + self._asleep_ms()
        self._latest_ms = max(self._latest_ms, now_ms)
        return self._latest_ms

    def _arm(self) -> None:
        """Set the one timer to the machine's next deadline."""
        if self.over.is_set():
            self._disarm()
            return
        deadline_ms = self._membership.next_deadline()
        if deadline_ms == self._timer_ms:
            return
        self._disarm()
        if deadline_ms is not None:
            assert self._loop is not None
            self._timer_ms = deadline_ms
            at_s = (deadline_ms - self._asleep_ms()) / 1000
            self._timer = self._loop.call_at(at_s, self._fire, deadline_ms)

    def _disarm(self) -> None:
        if self._timer is not None:
            self._timer.cancel()
        self._timer = self._timer_ms = None

    def _fire(self, deadline_ms: int) -> None:
        assert self._loop is not None
        if self._loop.time() * 1000 + self._asleep_ms() - deadline_ms < _LATE_MS:
            self._fire_now(deadline_ms)
            return
        # This process was suspended.  Others may own our partitions by now, so a lease that has run
        # out stops work at once.  All else is judged when what has arrived has been read.
        self._timer = self._loop.call_later(SECOND_LOOK_S, self._fire_now, deadline_ms)
        self._timer_ms = deadline_ms
        self._turn(self._membership.check_lease)

    def _woke_up(self) -> None:
        """The machine was asleep: a lease may have run out that no timer knows of."""
        self._disarm()  # It was set by how long the machine had been asleep before.
        self._turn(self._membership.check_lease)

    def _stop_watching(self) -> None:
        if self._sleep_watch is not None:
            self._sleep_watch.stop()

    def _fire_now(self, deadline_ms: int) -> None:
        self._timer = self._timer_ms = None
        # A loop may wake up within its clock's resolution before the time.
        self._latest_ms = max(self._latest_ms, deadline_ms)
        self._turn(self._membership.fire)

    # -- promises ------------------------------------------------------------------------------

    def _promise(self) -> asyncio.Future[Any]:
        promise: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._promises.add(promise)
        promise.add_done_callback(self._promises.discard)
        return promise

    # -- the end -------------------------------------------------------------------------------

    def _end(self, error: Exception | None) -> None:
        """The membership is over."""
        if self.over.is_set():
            return
        self.error = error
        self.over.set()
        self._disarm()
        self._stop_watching()
        if error is not None:
            self._report(GroupFailed(exception=error, is_raised=True))
        for promise in list(self._promises):
            _fail(promise, ClosedError("the group has been left"))
        if self._sink is not None:
            self._sink.end()

    def crash(self, error: Exception) -> None:
        """Stop with a fault of ours: whatever is owned is not looked after any more."""
        if self.over.is_set():
            return
        self._report.crash(error)
        self._queue.clear()
        try:
            if self._sink is not None:
                self._sink.lose(list(self._membership.owned), f"the client has a fault: {error!r}")
            self._end(error)
        except Exception as another:  # noqa: BLE001  # the first one is what ended it
            self._report.unraised("the client has another fault", another)
        finally:
            self.error = error
            self.over.set()

    def give_in(self, error: Exception) -> None:
        """Stop without saying goodbye: there is no time left."""
        if not self.over.is_set():
            self._end(error)

    async def aclose(self) -> None:
        """Let no request be under way; the membership should be over."""
        self.over.set()
        self._disarm()
        self._stop_watching()
        asks = list(self._asks)
        for ask in asks:
            ask.cancel()
        if asks:
            await asyncio.wait(asks)
        for promise in list(self._promises):
            _fail(promise, ClosedError("the group has been left"))


def _never_asleep() -> int:
    return 0


def _kind_of(error: CoterieError) -> FailureKind:
    if isinstance(error, AnswerTimedOutError):
        return FailureKind.TIMED_OUT
    return FailureKind.LOST if getattr(error, "retriable", False) else FailureKind.REFUSED


def _settle(key: object, value: Any, error: Exception | None) -> None:  # noqa: ANN401
    assert isinstance(key, asyncio.Future)
    if error is not None:
        _fail(key, error)
    elif not key.done():
        key.set_result(value)


def _fail(promise: asyncio.Future[Any], error: Exception) -> None:
    if not promise.done():
        promise.set_exception(error)
        # Its waiter may be cancelled in this very turn of the loop; then nobody would fetch the
        # error, and asyncio would complain.
        promise.exception()
