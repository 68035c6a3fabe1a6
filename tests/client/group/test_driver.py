"""The driver: does what a membership says, in its order and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Coroutine, Mapping
from functools import wraps
from typing import Any, ParamSpec, cast

import pytest

from coterie_client import ClosedError, PartitionLostError, Position
from coterie_client.counters import GroupCounters
from coterie_client.driver import Driver
from coterie_client.errors import (
    AnswerTimedOutError,
    ClientClosedError,
    ConnectionFailedError,
    ConnectionLostError,
    TlsFailedError,
    VersionNotSpokenError,
)
from coterie_client.events import CoordinatorFound, Event, GroupFailed
from coterie_client.membership import (
    Abandon,
    Action,
    Assign,
    Committed,
    Failure,
    FailureKind,
    Fetched,
    Hangup,
    KeepWarm,
    Lose,
    Membership,
    ReportEvent,
    Revoke,
    Role,
    Send,
    Stop,
)
from coterie_client.wire.addresses import ANY, AnyNode, Lane, NodeAddress, TopicPartition
from coterie_protocol.errors import CoordinatorNotAvailableError, SaslAuthenticationFailedError
from coterie_protocol.exceptions import EncodeError
from tests.support.virtual_time import run_virtually, settle

P = ParamSpec("P")

ORDER: TopicPartition = ("orders", 0)
NODE = NodeAddress("broker", 9092)


class ScriptedMembership:
    """A membership that notes what it is told, and says what it was given to say."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.next: list[Action] = []
        self.owned: dict[TopicPartition, int] = {ORDER: 1}
        self.deadline_ms: int | None = None
        self.standbys: dict[TopicPartition, Role] = {}
        #: Whether a lag that is noted makes a warm-up ready.
        self.is_ready = False
        self.on_call: Callable[[], None] = lambda: None

    def _say(self, *call: Any) -> list[Action]:
        self.calls.append(call)
        self.on_call()
        actions, self.next = self.next, []
        return actions

    def start(self, topics: Collection[str], now_ms: int) -> list[Action]:
        return self._say("start", sorted(topics), now_ms)

    def rejoin(self, reason: str, now_ms: int) -> list[Action]:
        return self._say("rejoin", reason, now_ms)

    def subscribe(self, topics: Collection[str], now_ms: int) -> list[Action]:
        return self._say("subscribe", sorted(topics), now_ms)

    def close(self, now_ms: int, **_: object) -> list[Action]:
        return self._say("close", now_ms)

    def answered(self, ticket: int, message: object, now_ms: int) -> list[Action]:
        return self._say("answered", ticket, message, now_ms)

    def failed(self, ticket: int, failure: Failure, now_ms: int) -> list[Action]:
        return self._say("failed", ticket, failure.kind, now_ms)

    def released(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        return self._say("released", list(partitions), now_ms)

    def give_up(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        return self._say("give_up", list(partitions), now_ms)

    def fire(self, now_ms: int) -> list[Action]:
        return self._say("fire", now_ms)

    def check_lease(self, now_ms: int) -> list[Action]:
        return self._say("check_lease", now_ms)

    def keep_warm(self, held: Callable[[], object], now_ms: int) -> list[Action]:
        return self._say("keep_warm", held(), now_ms)

    def note_lag(self, partition: TopicPartition, lag: int) -> bool:
        self.calls.append(("note_lag", partition, lag))
        return self.is_ready

    def commit(
        self, key: object, partition: TopicPartition, token: int, position: Position
    ) -> None:
        self.calls.append(("commit", partition, token, position.offset))
        self.promise = key

    def fetch(self, key: object, partition: TopicPartition, _: int | None) -> None:
        self.calls.append(("fetch", partition))
        self.promise = key

    def next_deadline(self) -> int | None:
        """What the script says."""
        return self.deadline_ms


class ScriptedNetwork:
    """A network that answers what the test says."""

    def __init__(self) -> None:
        self.requests: list[tuple[Any, ...]] = []
        self.hung_up: list[tuple[NodeAddress, Lane | None]] = []
        self.answer: Callable[[], Awaitable[Any]] = self._hang

    async def _hang(self) -> Any:
        await asyncio.get_running_loop().create_future()

    async def request(
        self, message: Any, *, to: NodeAddress | AnyNode, lane: Lane, timeout_s: float
    ) -> Any:
        self.requests.append((message, to, lane, timeout_s))
        return await self.answer()

    def hang_up(self, address: NodeAddress, lane: Lane | None = None) -> None:
        self.hung_up.append((address, lane))


class Harness:
    """A driver between a scripted membership and a scripted network."""

    def __init__(self) -> None:
        self.membership = ScriptedMembership()
        self.network = ScriptedNetwork()
        self.told: list[tuple[Any, ...]] = []
        self.events: list[Event] = []
        self.faults: list[BaseException] = []
        self.counters = GroupCounters()
        self.asleep_ms = 0
        self.driver = Driver(
            cast(Membership, self.membership),
            self.network,
            self,
            self.counters,
        )
        self.on_revoke: Callable[[Collection[TopicPartition]], None] = lambda _: None
        self.on_lose: Callable[[Collection[TopicPartition]], None] = lambda _: None

    def start(self) -> None:
        self.driver.start(["orders"], self, lambda: self.asleep_ms)

    def do(self, *actions: Action) -> None:
        """Have the membership say something."""
        self.membership.next = list(actions)
        self.driver.rejoin("go")

    def names(self) -> list[str]:
        """What the membership was told, by name."""
        return [call[0] for call in self.membership.calls]

    # Who is told

    def __call__(self, event: Event) -> None:
        self.events.append(event)

    def crash(self, error: BaseException) -> None:
        self.faults.append(error)

    def unraised(self, _text: str, error: BaseException) -> None:
        self.faults.append(error)

    # What the owner is told

    def assign(self, partitions: Mapping[TopicPartition, int], generation: int) -> None:
        self.told.append(("assign", dict(partitions), generation))

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("revoke", set(partitions)))
        self.on_revoke(partitions)

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        self.told.append(("abandon", set(partitions)))

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        self.told.append(("lose", set(partitions), reason))
        self.on_lose(partitions)

    def keep_warm(self, roles: Mapping[TopicPartition, Role], generation: int) -> None:
        self.told.append(("keep_warm", dict(roles), generation))

    def end(self) -> None:
        self.told.append(("end",))


def send(ticket: int = 1) -> Send:
    """A request to any node."""
    return Send(ticket, "question", ANY, Lane.KEEPALIVE, 2_500)


def fires(harness: Harness) -> list[int]:
    """When the machine was called because its time had come."""
    return [call[1] for call in harness.membership.calls if call[0] == "fire"]


@pytest.fixture
def harness() -> Harness:
    return Harness()


def driven(test: Callable[P, Coroutine[Any, Any, None]]) -> Callable[P, None]:
    """Run a test in virtual time; start the driver of its `harness` before and close it after."""

    @wraps(test)
    def run(*args: P.args, **kwargs: P.kwargs) -> None:
        harness = kwargs["harness"]
        assert isinstance(harness, Harness)

        async def main() -> None:
            harness.start()
            await test(*args, **kwargs)
            await harness.driver.aclose()

        run_virtually(main())

    return run


# -- what it does -------------------------------------------------------------------------------


@driven
async def test_actions_are_done_in_their_order(harness: Harness) -> None:
    event = CoordinatorFound(node="x")
    harness.do(
        Assign({ORDER: 7}, 3),
        Revoke(frozenset({ORDER}), 1_000),
        Abandon(frozenset({ORDER})),
        ReportEvent(event),
        Lose(frozenset({ORDER}), "fenced"),
        Hangup(NODE),
    )
    assert harness.told == [
        ("assign", {ORDER: 7}, 3),
        ("revoke", {ORDER}),
        ("abandon", {ORDER}),
        ("lose", {ORDER}, "fenced"),
    ]
    assert harness.events == [event]
    assert harness.network.hung_up == [(NODE, None)]


@driven
async def test_start_begins_to_join(harness: Harness) -> None:
    assert harness.membership.calls == [("start", ["orders"], 0)]
    assert harness.driver.owns(ORDER, 1)
    assert not harness.driver.owns(ORDER, 2)
    assert not harness.driver.owns(("orders", 1), 1)


@driven
async def test_what_comes_up_meanwhile_is_done_afterwards(harness: Harness) -> None:
    def call_back(_: Collection[TopicPartition]) -> None:
        harness.membership.next = [Assign({ORDER: 9}, 4)]
        harness.driver.rejoin("again")

    harness.on_revoke = call_back
    harness.do(Revoke(frozenset({ORDER}), 1_000), Lose(frozenset(), "x"))
    assert [told[0] for told in harness.told] == ["revoke", "lose", "assign"]


@driven
async def test_call_from_within_the_machine_waits_until_its_turn_is_over(harness: Harness) -> None:
    """The user's own code is called there: assignors, and what tells of state that is held."""
    inner: list[list[str]] = []

    def call_back() -> None:
        harness.membership.on_call = lambda: inner.append([told[0] for told in harness.told])
        harness.driver.close(leave=True, within_s=1, reason="stopped")
        harness.driver.subscribe(["parcels"])
        assert harness.names() == ["start", "rejoin"]

    harness.membership.on_call = call_back
    harness.do(Assign({ORDER: 9}, 4))
    assert harness.names() == ["start", "rejoin", "close", "subscribe"]
    assert inner == [["assign"], ["assign"]]


@driven
async def test_call_from_within_an_action_waits_for_the_other_actions(harness: Harness) -> None:
    def call_back(_: Collection[TopicPartition]) -> None:
        harness.driver.rejoin("again")
        assert harness.names() == ["start", "rejoin"]

    harness.on_revoke = call_back
    harness.do(Revoke(frozenset({ORDER}), 1_000), Lose(frozenset(), "x"))
    assert harness.names() == ["start", "rejoin", "rejoin"]


@driven
async def test_what_waits_for_a_turn_is_dropped_when_that_ends_the_membership(
    harness: Harness,
) -> None:
    harness.on_revoke = lambda _: harness.driver.rejoin("again")
    harness.do(Revoke(frozenset({ORDER}), 1_000), Stop(None))
    assert harness.names() == ["start", "rejoin"]


@driven
async def test_requests_go_out_as_they_were_ordered(harness: Harness) -> None:
    async def answer() -> str:
        return "answer"

    harness.network.answer = answer
    harness.do(send(5))
    await settle()
    assert harness.network.requests == [("question", ANY, Lane.KEEPALIVE, 2.5)]
    assert harness.membership.calls[-1] == ("answered", 5, "answer", 0)


@pytest.mark.parametrize(
    ("error", "kind"),
    [
        (ConnectionFailedError("x"), FailureKind.LOST),
        (ConnectionLostError("x"), FailureKind.LOST),
        (CoordinatorNotAvailableError("x"), FailureKind.LOST),
        (AnswerTimedOutError("x"), FailureKind.TIMED_OUT),
        (VersionNotSpokenError("x"), FailureKind.REFUSED),
        (TlsFailedError("x"), FailureKind.REFUSED),
        (SaslAuthenticationFailedError("x"), FailureKind.REFUSED),
        (ClientClosedError("x"), FailureKind.REFUSED),
        (EncodeError("x", subject="y"), FailureKind.REFUSED),
        (asyncio.CancelledError(), FailureKind.LOST),
    ],
)
@driven
async def test_failed_requests_are_told_by_their_kind(
    harness: Harness, error: BaseException, kind: FailureKind
) -> None:
    async def fail() -> None:
        raise error

    harness.network.answer = fail
    harness.do(send(5))
    await settle()
    assert harness.membership.calls[-1] == ("failed", 5, kind, 0)
    await harness.driver.aclose()
    assert harness.faults == []


# -- time ---------------------------------------------------------------------------------------


# In seconds and back, 1001 ms are a little less than that.
@pytest.mark.parametrize("deadline_ms", [1_500, 1_001])
@driven
async def test_machine_is_called_when_its_deadline_has_come(
    harness: Harness, deadline_ms: int
) -> None:
    harness.membership.deadline_ms = deadline_ms
    harness.do()
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    await asyncio.sleep(0.9)
    assert "fire" not in harness.names()
    await asyncio.sleep(100)
    assert fires(harness) == [deadline_ms]


@driven
async def test_machine_is_told_the_time(harness: Harness) -> None:
    await asyncio.sleep(1.5)
    harness.do()
    assert harness.membership.calls[-1] == ("rejoin", "go", 1_500)


@driven
async def test_deadline_that_stays_is_met_again(harness: Harness) -> None:
    def enough() -> None:
        if len(fires(harness)) == 3:
            harness.membership.deadline_ms = None

    harness.membership.deadline_ms = 1_000
    harness.membership.on_call = enough
    harness.do()
    await asyncio.sleep(100)
    assert fires(harness) == [1_000] * 3


@driven
async def test_deadline_that_goes_and_comes_back_is_met(harness: Harness) -> None:
    for deadline_ms in (1_000, None, 1_000):
        harness.membership.deadline_ms = deadline_ms
        harness.do()
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    await asyncio.sleep(100)
    assert fires(harness) == [1_000]


@driven
async def test_deadline_that_moved_moves_the_timer(harness: Harness) -> None:
    for deadline_ms in (5_000, 1_000, 3_000):
        harness.membership.deadline_ms = deadline_ms
        harness.do()
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    await asyncio.sleep(100)
    assert fires(harness) == [3_000]


@driven
async def test_sleep_of_the_machine_is_time(harness: Harness) -> None:
    harness.membership.deadline_ms = 60_000
    harness.do()
    await asyncio.sleep(1)
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    before = len(harness.membership.calls)
    harness.asleep_ms = 3_600_000
    await asyncio.sleep(0.5)
    ((name, now_ms),) = harness.membership.calls[before:]
    assert name == "check_lease"
    assert 3_601_000 <= now_ms <= 3_601_300


@driven
async def test_what_was_due_while_the_machine_was_asleep_is_done_after_that(
    harness: Harness,
) -> None:
    harness.membership.deadline_ms = 60_000
    harness.do()
    before = len(harness.membership.calls)
    harness.asleep_ms = 3_600_000
    await asyncio.sleep(0.26)
    assert {name for name, *_ in harness.membership.calls[before:]} == {"check_lease"}
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    await asyncio.sleep(0.25)
    assert len(fires(harness)) == 1


@driven
async def test_deadline_set_after_a_sleep_is_met(harness: Harness) -> None:
    harness.asleep_ms = 3_600_000
    await asyncio.sleep(1)
    harness.membership.deadline_ms = 3_605_000
    harness.do()
    harness.membership.on_call = lambda: setattr(harness.membership, "deadline_ms", None)
    await asyncio.sleep(3.9)
    assert not fires(harness)
    await asyncio.sleep(0.2)
    assert fires(harness) == [3_605_000]


# -- commits ------------------------------------------------------------------------------------


@driven
async def test_commits_of_one_turn_are_one_call(harness: Harness) -> None:
    before = len(harness.membership.calls)
    promises = [harness.driver.commit(("orders", n), 1, Position(n)) for n in range(3)]
    harness.driver.released([("orders", 7)])
    harness.driver.released([("orders", 8)])
    await settle()
    assert [call[0] for call in harness.membership.calls[before:]] == ["commit"] * 3 + ["released"]
    assert harness.membership.calls[-1][1] == [("orders", 7), ("orders", 8)]
    assert len(promises) == 3


@driven
async def test_lag_that_changes_nothing_is_only_noted(harness: Harness) -> None:
    before = len(harness.membership.calls)
    harness.driver.note_lag(ORDER, 5)
    await settle()
    assert harness.membership.calls[before:] == [("note_lag", ORDER, 5)]


@driven
async def test_warm_up_that_is_ready_gets_the_machine_a_turn(harness: Harness) -> None:
    before = len(harness.membership.calls)
    harness.membership.is_ready = True
    harness.driver.note_lag(ORDER, 5)
    harness.driver.note_lag(ORDER, 4)
    await settle()
    names = [call[0] for call in harness.membership.calls[before:]]
    assert names == ["note_lag", "note_lag", "released"]


@driven
async def test_lag_after_the_end_is_dropped(harness: Harness) -> None:
    harness.do(Stop())
    before = len(harness.membership.calls)
    harness.driver.note_lag(ORDER, 5)
    assert harness.membership.calls[before:] == []
    assert not harness.driver.holds(ORDER)


@driven
async def test_owner_is_told_what_to_keep_warm(harness: Harness) -> None:
    harness.do(KeepWarm({ORDER: Role.WARM_UP}, 4))
    assert harness.told[-1] == ("keep_warm", {ORDER: Role.WARM_UP}, 4)
    harness.membership.standbys = {ORDER: Role.WARM_UP}
    assert harness.driver.holds(ORDER)


@driven
async def test_each_turn_of_the_loop_is_a_call_of_its_own(harness: Harness) -> None:
    for _ in range(2):
        before = len(harness.membership.calls)
        harness.driver.fetch(ORDER, None)
        await settle()
        assert [call[0] for call in harness.membership.calls[before:]] == ["fetch", "released"]


@driven
async def test_commit_alone_is_sent(harness: Harness) -> None:
    before = len(harness.membership.calls)
    harness.driver.commit(ORDER, 1, Position(1))
    await settle()
    assert [call[0] for call in harness.membership.calls[before:]] == ["commit", "released"]


@driven
async def test_partitions_are_given_up_together(harness: Harness) -> None:
    harness.driver.give_up([("orders", 1)])
    harness.driver.give_up([("orders", 2)])
    await settle()
    given_up = [call for call in harness.membership.calls if call[0] == "give_up"]
    assert given_up == [("give_up", [("orders", 1), ("orders", 2)], 0)]


@driven
async def test_commit_returns_when_it_is_stored(harness: Harness) -> None:
    promise = harness.driver.commit(ORDER, 1, Position(1))
    harness.do(Committed(harness.membership.promise))
    await promise
    assert (harness.counters.commits, harness.counters.commit_failures) == (1, 0)


@driven
async def test_commit_that_failed_raises(harness: Harness) -> None:
    promise = harness.driver.commit(ORDER, 1, Position(1))
    harness.do(Committed(harness.membership.promise, PartitionLostError("x")))
    with pytest.raises(PartitionLostError):
        await promise
    assert (harness.counters.commits, harness.counters.commit_failures) == (0, 1)


@driven
async def test_committed_offset_is_told(harness: Harness) -> None:
    promise = harness.driver.fetch(ORDER, None)
    harness.do(Fetched(harness.membership.promise, Position(5)))
    assert await promise == Position(5)


@pytest.mark.parametrize("error", [None, PartitionLostError("x")])
@driven
async def test_cancelled_caller_is_not_told(harness: Harness, error: Exception | None) -> None:
    async def commit() -> None:
        await harness.driver.commit(ORDER, 1, Position(1))

    task = asyncio.create_task(commit())
    await settle()
    task.cancel()
    await settle()
    harness.do(Committed(harness.membership.promise, error))
    await harness.driver.aclose()
    assert harness.faults == []


@driven
async def test_error_that_meets_a_cancellation_is_no_complaint(harness: Harness) -> None:
    async def commit() -> None:
        await harness.driver.commit(ORDER, 1, Position(1))

    task = asyncio.create_task(commit())
    await settle()
    harness.do(Committed(harness.membership.promise, PartitionLostError("x")))
    task.cancel()
    await asyncio.wait([task])
    assert task.cancelled()


# -- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ValueError("broken")])
@driven
async def test_end_of_the_membership_is_told(harness: Harness, error: Exception | None) -> None:
    promise = harness.driver.fetch(ORDER, None)
    harness.do(Stop(error))
    assert harness.driver.over.is_set()
    assert harness.driver.error is error
    assert [type(event) for event in harness.events] == ([GroupFailed] if error else [])
    assert harness.told == [("end",)]
    with pytest.raises(ClosedError):
        await promise


@driven
async def test_machine_is_left_alone_after_its_end(harness: Harness) -> None:
    harness.do(Stop(), send(1))
    calls = len(harness.membership.calls)
    harness.driver.rejoin("x")
    harness.driver.released([ORDER])
    with pytest.raises(PartitionLostError):
        await harness.driver.commit(ORDER, 1, Position(1))
    with pytest.raises(ClosedError):
        await harness.driver.fetch(ORDER, None)
    await settle()
    assert len(harness.membership.calls) == calls
    assert not harness.driver.owns(ORDER, 1)


@driven
async def test_owner_that_fails_at_everything_does_not_keep_the_group_from_ending(
    harness: Harness,
) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    harness.on_revoke = harness.on_lose = fail
    harness.do(Revoke(frozenset({ORDER}), 1_000))
    assert harness.driver.over.is_set()
    assert isinstance(harness.driver.error, ZeroDivisionError)
    assert len(harness.faults) == 2


@pytest.mark.parametrize("where", ["machine", "owner", "network"])
@driven
async def test_fault_of_ours_ends_the_group_loudly(harness: Harness, where: str) -> None:
    def fail(*_: object) -> None:
        raise ZeroDivisionError

    async def fail_to_answer() -> None:
        raise ZeroDivisionError

    match where:
        case "machine":
            harness.membership.on_call = fail
            harness.do()
        case "owner":
            harness.on_revoke = fail
            harness.do(Revoke(frozenset({ORDER}), 1_000))
        case "network":
            harness.network.answer = fail_to_answer
            harness.do(send())
    await settle()
    assert harness.driver.over.is_set()
    assert isinstance(harness.driver.error, ZeroDivisionError)
    assert [type(fault) for fault in harness.faults] == [ZeroDivisionError]
    assert [told[:2] for told in harness.told[-2:]] == [("lose", {ORDER}), ("end",)]


@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt()])
@driven
async def test_exit_from_within_the_machine_ends_the_group_and_the_program(
    harness: Harness, error: BaseException
) -> None:
    def leave() -> None:
        raise error

    harness.membership.on_call = leave
    with pytest.raises(type(error)):
        harness.do()
    assert harness.driver.over.is_set()
    assert [told[:2] for told in harness.told] == [("lose", {ORDER}), ("end",)]


@driven
async def test_cancellation_that_the_users_code_raises_ends_the_group_as_an_error(
    harness: Harness,
) -> None:
    error = asyncio.CancelledError()

    def fail() -> None:
        raise error

    harness.membership.on_call = fail
    harness.do()
    assert harness.driver.over.is_set()
    assert isinstance(harness.driver.error, RuntimeError)
    assert harness.driver.error.__cause__ is error


@driven
async def test_closing_drops_requests_and_promises(harness: Harness) -> None:
    promise = harness.driver.commit(ORDER, 1, Position(1))
    harness.membership.deadline_ms = 60_000
    harness.do(send())
    await settle()
    await harness.driver.aclose()
    assert asyncio.all_tasks() == {asyncio.current_task()}
    with pytest.raises(ClosedError):
        await promise
    assert "failed" not in harness.names()
    await asyncio.sleep(100)
    assert "fire" not in harness.names()


@driven
async def test_last_resort_ends_it(harness: Harness) -> None:
    """When leaving takes too long, the end comes without it; a normal end comes first."""
    error = ClosedError("late")
    harness.driver.give_in(error)
    assert (harness.driver.over.is_set(), harness.driver.error) == (True, error)
    harness.driver.give_in(ClosedError("later"))
    assert harness.driver.error is error
