"""Runs a membership on an event loop: its requests, its time, its user's commits.

Each thing that happens is one turn: a call of the machine, then all that the returned actions say,
in their order, without an await.  What comes up during a turn waits until that is over, wherever
it comes from: the user's own code is called in the middle of turns, by the machine (assignors,
`held`) and by what is done (`on_event`), and may call any method of its group.
"""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import Awaitable, Callable, Collection, Iterable
from typing import Any, TypeAlias

from coterie_client.clock import MemberClock
from coterie_client.counters import GroupCounters
from coterie_client.driver_protocols import EventReporter, Owner, Requester
from coterie_client.errors import AnswerTimedOutError
from coterie_client.home import Home
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
    KeepWarm,
    Lose,
    Membership,
    PartitionLostError,
    Position,
    ReportEvent,
    Revoke,
    Send,
    Stop,
)
from coterie_client.membership.standbys import Held
from coterie_client.wire.addresses import TopicPartition
from coterie_client.work.events import GroupFailed
from coterie_protocol.exceptions import CoterieError

__all__ = ["Driver"]

#: Tells the machine something, at the present time, and returns what it says is to be done.
_Call: TypeAlias = Callable[[int], list[Action]]


class Driver:
    """Does what a membership says, and tells it what came of that."""

    def __init__(
        self,
        membership: Membership,
        network: Requester,
        report: EventReporter,
        counters: GroupCounters,
    ) -> None:
        self._membership = membership
        self._network = network
        self._report = report
        self._counters = counters
        #: Set when the membership is over.
        self.over = asyncio.Event()
        #: The error that ended it, if it was one.
        self.error: Exception | None = None
        self._owner: Owner | None = None
        #: Where all of this happens; whatever its user asks for has to come from there.
        self.home = Home("A group")
        self._loop: asyncio.AbstractEventLoop | None = None
        self._clock: MemberClock | None = None
        #: Calls of the machine that wait for the present turn to end.
        self._calls: deque[_Call] = deque()
        #: What is still to be done in the present turn.
        self._actions: deque[Action] = deque()
        self._is_in_turn = False
        self._requests: set[asyncio.Task[None]] = set()
        self._futures: set[asyncio.Future[Any]] = set()
        # What the next turn of the loop tells the machine in one call.
        self._released: list[TopicPartition] = []
        self._given_up: list[TopicPartition] = []
        self._is_batch_due = False

    # -- what users want -----------------------------------------------------------------------

    def start(
        self,
        topics: Collection[str],
        owner: Owner,
        asleep_ms: Callable[[], int] | None = None,
    ) -> None:
        """Begin to join; call it in a running loop.

        `asleep_ms` tells how long the machine was asleep, if the loop's clock leaves that out.
        """
        self._owner = owner
        self._loop = asyncio.get_running_loop()
        self.home.settle()
        self._clock = MemberClock(
            asleep_ms,
            fire=lambda: self._turn(self._membership.fire),
            check_lease=lambda: self._turn(self._membership.check_lease),
        )
        self._turn(lambda now_ms: self._membership.start(topics, now_ms))

    def subscribe(self, topics: Collection[str]) -> None:
        """Replace the subscription."""
        self._turn(lambda now_ms: self._membership.subscribe(topics, now_ms))

    def rejoin(self, reason: str) -> None:
        """Make the group rebalance."""
        self._turn(lambda now_ms: self._membership.rejoin(reason, now_ms))

    def keep_warm(self, held: Held) -> None:
        """Hold state from now on; `held` tells the lags of what no task tells of."""
        self._turn(lambda now_ms: self._membership.keep_warm(held, now_ms))

    def note_lag(self, partition: TopicPartition, lag: int) -> None:
        """Note how far behind a partition's state is; negative if that is not known any more."""
        self.home.require()
        if not self.over.is_set() and self._membership.note_lag(partition, lag):
            self._batch()

    def note_failure(self, partition: TopicPartition) -> None:
        """Note that the restore of a partition failed."""
        if not self.over.is_set():
            self._membership.note_failure(partition)

    def holds(self, partition: TopicPartition) -> bool:
        """Whether the partition's state is to be kept up to date here."""
        return not self.over.is_set() and partition in self._membership.standbys

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
        reason = "the group has been left" if self.over.is_set() else None
        if reason is not None and self.error is not None:
            reason = f"the group has ended ({in_a_line(self.error)})"
        return PartitionLostError(f"{partition[0]}[{partition[1]}]", reason)

    def load(self, partition: TopicPartition, token: int, value: float) -> None:
        """Note the load of a partition; of one that is not owned any more, it says nothing."""
        self.home.require()
        if self._clock is not None and self.owns(partition, token):
            self._membership.load(partition, value, self._clock.now_ms())

    def commit(self, partition: TopicPartition, token: int, position: Position) -> Awaitable[None]:
        """Commit an offset, along with all others of this turn of the loop."""
        future: asyncio.Future[None] = self._new_future()
        if self.over.is_set():
            _fail(future, self.loss(partition))
        else:
            self._membership.commit(future, partition, token, position)
            self._batch()
        return future

    def fetch(self, partition: TopicPartition, token: int | None) -> Awaitable[Position | None]:
        """Fetch the committed offset; with a token, as long as that ownership stands."""
        future: asyncio.Future[Position | None] = self._new_future()
        if self.over.is_set():
            _fail(future, ClosedError("the group has been left"))
        else:
            self._membership.fetch(future, partition, token)
            self._batch()
        return future

    def released(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that work on these has ended; all of one turn of the loop are told together."""
        self._released += partitions
        self._batch()

    def give_up(self, partitions: Iterable[TopicPartition]) -> None:
        """Note that work on these has ended, and have the group give them to other members.

        The owner hears nothing more of them.
        """
        self._given_up += partitions
        self._batch()

    # -- the machine's turns -------------------------------------------------------------------

    def _turn(self, call: _Call) -> None:
        """Call the machine, and do what it says; within a turn, when that is over."""
        self._calls.append(call)
        if self._is_in_turn:
            return
        self._is_in_turn = True
        try:
            self._take_turns()
        except Exception as error:  # noqa: BLE001  # a bug of ours must end the group, loudly
            self.crash(error)
        except BaseException as error:
            # The machine may be anywhere in the middle of something, so it can't go on.
            fault = RuntimeError(f"a turn was broken off by {error!r}")
            fault.__cause__ = error
            self.crash(fault)
            # No task is cancelled within a turn, so the user's own code has just raised this.
            if not isinstance(error, asyncio.CancelledError):
                raise
        finally:
            self._is_in_turn = False

    def _take_turns(self) -> None:
        """Take one turn after the other, until nothing has come up meanwhile."""
        while self._calls:
            call = self._calls.popleft()
            if self.over.is_set() or self._clock is None:
                continue
            self._actions += call(self._clock.now_ms())
            while self._actions:
                self._perform(self._actions.popleft())
        if not self.over.is_set() and self._clock is not None:
            self._clock.arm(self._membership.next_deadline())

    def _perform(self, action: Action) -> None:  # noqa: C901  # one case for each action
        assert self._owner is not None
        match action:
            case Send():
                self._send(action)
            case Hangup():
                self._network.hang_up(action.node, action.lane)
            case Assign():
                self._owner.assign(action.partitions, action.generation)
            case Revoke():
                self._owner.revoke(action.partitions)
            case Abandon():
                self._owner.abandon(action.partitions)
            case Lose():
                self._owner.lose(action.partitions, action.reason)
            case KeepWarm():
                self._owner.keep_warm(action.roles, action.generation)
            case Committed():
                self._committed(action)
            case Fetched():
                _settle(action.key, action.position, action.error)
            case ReportEvent():
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
        task = self._loop.create_task(self._request(send), name=name)
        self._requests.add(task)
        task.add_done_callback(self._requests.discard)

    async def _request(self, send: Send) -> None:
        try:
            answer = await self._network.request(
                send.message, to=send.to, lane=send.lane, timeout_s=send.timeout_ms / 1000
            )
        except CoterieError as error:
            failure = Failure(_kind_of(error), error)
            self._turn(lambda now_ms: self._membership.failed(send.ticket, failure, now_ms))
        except asyncio.CancelledError:
            # Not by us, or the membership would be over: the loop is being torn down.  There may
            # still be time to leave the group.
            failure = Failure(FailureKind.LOST)
            self._turn(lambda now_ms: self._membership.failed(send.ticket, failure, now_ms))
            raise
        except Exception as error:  # noqa: BLE001  # a bug of ours must end the group, loudly
            self.crash(error)
        else:
            self._turn(lambda now_ms: self._membership.answered(send.ticket, answer, now_ms))

    # -- futures -------------------------------------------------------------------------------

    def _new_future(self) -> asyncio.Future[Any]:
        self.home.require()
        future: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._futures.add(future)
        future.add_done_callback(self._futures.discard)
        return future

    # -- the end -------------------------------------------------------------------------------

    def _end(self, error: Exception | None) -> None:
        """The membership is over."""
        if self.over.is_set():
            return
        self.error = error
        self.over.set()
        if self._clock is not None:
            self._clock.stop()
        if error is not None:
            self._report(GroupFailed(exception=error, is_raised=True))
        for future in list(self._futures):
            _fail(future, ClosedError("the group has been left"))
        if self._owner is not None:
            self._owner.end()

    def crash(self, error: Exception) -> None:
        """Stop because of a bug of ours, and lose all that is owned."""
        if self.over.is_set():
            return
        self._report.crash(error)
        self._calls.clear()
        self._actions.clear()
        try:
            if self._owner is not None:
                self._owner.lose(list(self._membership.owned), f"the client has a fault: {error!r}")
            self._end(error)
        except Exception as another:  # noqa: BLE001  # the first one is what ended it
            self._report.unraised("the client has another fault", another)
        finally:
            self.error = error
            self.over.set()

    def give_in(self, error: Exception) -> None:
        """Stop without leaving the group: there is no time left."""
        if not self.over.is_set():
            self._end(error)

    async def aclose(self) -> None:
        """Cancel all requests; the membership should be over."""
        self.over.set()
        if self._clock is not None:
            self._clock.stop()
        requests = list(self._requests)
        for request in requests:
            request.cancel()
        if requests:
            await asyncio.wait(requests)
        for future in list(self._futures):
            _fail(future, ClosedError("the group has been left"))


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


def _fail(future: asyncio.Future[Any], error: Exception) -> None:
    if not future.done():
        future.set_exception(error)
        # Its waiter may be cancelled in this very turn of the loop, and would not fetch the error
        # then, of which asyncio would complain.
        future.exception()
