"""The driver: does what a membership says, in its order and its time."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Collection, Mapping
from typing import Any, cast

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
    Lose,
    Membership,
    Report,
    Revoke,
    Send,
    Stop,
)
from coterie_client.wire.addresses import ANY, Anybody, Lane, NodeAddress, TopicPartition
from coterie_protocol.errors import CoordinatorNotAvailableError, SaslAuthenticationFailedError
from coterie_protocol.exceptions import EncodeError
from tests.client.group.virtual import run_virtually, settle

ORDER: TopicPartition = ("orders", 0)
NODE = NodeAddress("broker", 9092)


class ScriptedMembership:
    """A membership that notes what it is told, and says what it was given to say."""

    def __init__(self) -> None:
        self.calls: list[tuple[Any, ...]] = []
        self.next: list[Action] = []
        self.owned: dict[TopicPartition, int] = {ORDER: 1}
        self.deadline_ms: int | None = None
        self.on_call: Callable[[], None] = lambda: None

    def _say(self, *call: Any) -> list[Action]:
        self.calls.append(call)
        self.on_call()
        actions, self.next = self.next, []
        return actions

    def start(self, topics: Collection[str], now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("start", sorted(topics), now_ms)

    def rejoin(self, reason: str, now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("rejoin", reason, now_ms)

    def answered(self, ticket: int, message: object, now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("answered", ticket, message, now_ms)

    def failed(self, ticket: int, failure: Failure, now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("failed", ticket, failure.kind, now_ms)

    def released(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("released", list(partitions), now_ms)

    def give_up(self, partitions: Collection[TopicPartition], now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("give_up", list(partitions), now_ms)

    def fire(self, now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("fire", now_ms)

    def check_lease(self, now_ms: int) -> list[Action]:
        """Note it."""
        return self._say("check_lease", now_ms)

    def commit(
        self, key: object, partition: TopicPartition, token: int, position: Position
    ) -> None:
        """Note it."""
        self.calls.append(("commit", partition, token, position.offset))
        self.promise = key

    def fetch(self, key: object, partition: TopicPartition) -> None:
        """Note it."""
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
        self, message: Any, *, to: NodeAddress | Anybody, lane: Lane, timeout_s: float
    ) -> Any:
        """Answer."""
        self.requests.append((message, to, lane, timeout_s))
        return await self.answer()

    def hang_up(self, address: NodeAddress, lane: Lane | None = None) -> None:
        """Note it."""
        self.hung_up.append((address, lane))


class Rig:
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
        """Start it."""
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
        """Note it."""
        self.events.append(event)

    def crash(self, error: BaseException) -> None:
        """Note it."""
        self.faults.append(error)

    def unraised(self, _text: str, error: BaseException) -> None:
        """Note it."""
        self.faults.append(error)

    # The sink

    def assign(self, partitions: Mapping[TopicPartition, int], generation: int) -> None:
        """Note it."""
        self.told.append(("assign", dict(partitions), generation))

    def revoke(self, partitions: Collection[TopicPartition]) -> None:
        """Note it."""
        self.told.append(("revoke", set(partitions)))
        self.on_revoke(partitions)

    def abandon(self, partitions: Collection[TopicPartition]) -> None:
        """Note it."""
        self.told.append(("abandon", set(partitions)))

    def lose(self, partitions: Collection[TopicPartition], reason: str) -> None:
        """Note it."""
        self.told.append(("lose", set(partitions), reason))
        self.on_lose(partitions)

    def end(self) -> None:
        """Note it."""
        self.told.append(("end",))


def send(ticket: int = 1) -> Send:
    """A request to nobody in particular."""
    return Send(ticket, "question", ANY, Lane.KEEPALIVE, 2_500)


def fires(rig: Rig) -> list[int]:
    """When the machine was called because its time had come."""
    return [call[1] for call in rig.membership.calls if call[0] == "fire"]


def in_virtual_time(scenario: Callable[[Rig], Awaitable[None]]) -> Rig:
    """Run a scenario with a started driver, and close that."""

    async def main() -> Rig:
        rig = Rig()
        rig.start()
        await scenario(rig)
        await rig.driver.aclose()
        return rig

    return run_virtually(main())


# -- what it does -------------------------------------------------------------------------------


def test_actions_reach_whom_they_concern_in_their_order() -> None:
    """The sink, the log and the network are told, in the order in which the machine says it."""

    async def scenario(rig: Rig) -> None:
        event = CoordinatorFound(node="x")
        rig.do(
            Assign({ORDER: 7}, 3),
            Revoke(frozenset({ORDER}), 1_000),
            Abandon(frozenset({ORDER})),
            Report(event),
            Lose(frozenset({ORDER}), "fenced"),
            Hangup(NODE),
        )
        assert rig.told == [
            ("assign", {ORDER: 7}, 3),
            ("revoke", {ORDER}),
            ("abandon", {ORDER}),
            ("lose", {ORDER}, "fenced"),
        ]
        assert rig.events == [event]
        assert rig.network.hung_up == [(NODE, None)]

    in_virtual_time(scenario)


def test_start_begins_to_join() -> None:
    """The machine is told what to subscribe to, and from then on what is owned can be told."""

    async def scenario(rig: Rig) -> None:
        assert rig.membership.calls == [("start", ["orders"], 0)]
        assert rig.driver.owns(ORDER, 1)
        assert not rig.driver.owns(ORDER, 2)
        assert not rig.driver.owns(("orders", 1), 1)

    in_virtual_time(scenario)


def test_what_comes_up_meanwhile_is_done_afterwards() -> None:
    """A sink that calls back does not overtake what was said before."""

    async def scenario(rig: Rig) -> None:
        def call_back(_: Collection[TopicPartition]) -> None:
            rig.membership.next = [Assign({ORDER: 9}, 4)]
            rig.driver.rejoin("again")

        rig.on_revoke = call_back
        rig.do(Revoke(frozenset({ORDER}), 1_000), Lose(frozenset(), "x"))
        assert [told[0] for told in rig.told] == ["revoke", "lose", "assign"]

    in_virtual_time(scenario)


def test_requests_go_out_as_they_were_ordered() -> None:
    """To their node, over their lane, with their time-out; the answer comes back by its ticket."""

    async def scenario(rig: Rig) -> None:
        async def answer() -> str:
            return "answer"

        rig.network.answer = answer
        rig.do(send(5))
        await settle()
        assert rig.network.requests == [("question", ANY, Lane.KEEPALIVE, 2.5)]
        assert rig.membership.calls[-1] == ("answered", 5, "answer", 0)

    in_virtual_time(scenario)


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
def test_failed_requests_are_told_by_their_kind(error: BaseException, kind: FailureKind) -> None:
    """What may pass is lost or timed out; what will not is refused."""

    async def scenario(rig: Rig) -> None:
        async def fail() -> None:
            raise error

        rig.network.answer = fail
        rig.do(send(5))
        await settle()
        assert rig.membership.calls[-1] == ("failed", 5, kind, 0)

    assert in_virtual_time(scenario).faults == []


# -- time ---------------------------------------------------------------------------------------


# In seconds and back, 1001 ms are a little less than that.
@pytest.mark.parametrize("deadline_ms", [1_500, 1_001])
def test_machine_is_called_when_its_deadline_has_come(deadline_ms: int) -> None:
    """Not before it, and with a time that is not before it either."""

    async def scenario(rig: Rig) -> None:
        rig.membership.deadline_ms = deadline_ms
        rig.do()
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        await asyncio.sleep(0.9)
        assert "fire" not in rig.names()
        await asyncio.sleep(100)
        assert fires(rig) == [deadline_ms]

    in_virtual_time(scenario)


def test_machine_is_told_the_time() -> None:
    """Each call carries the present time."""

    async def scenario(rig: Rig) -> None:
        await asyncio.sleep(1.5)
        rig.do()
        assert rig.membership.calls[-1] == ("rejoin", "go", 1_500)

    in_virtual_time(scenario)


def test_deadline_that_stays_is_met_again() -> None:
    """A machine that names the same time once more is called once more."""

    async def scenario(rig: Rig) -> None:
        def enough() -> None:
            if len(fires(rig)) == 3:
                rig.membership.deadline_ms = None

        rig.membership.deadline_ms = 1_000
        rig.membership.on_call = enough
        rig.do()
        await asyncio.sleep(100)
        assert fires(rig) == [1_000] * 3

    in_virtual_time(scenario)


def test_deadline_that_goes_and_comes_back_is_met() -> None:
    """The timer does not mistake it for the one that was called off."""

    async def scenario(rig: Rig) -> None:
        for deadline_ms in (1_000, None, 1_000):
            rig.membership.deadline_ms = deadline_ms
            rig.do()
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        await asyncio.sleep(100)
        assert fires(rig) == [1_000]

    in_virtual_time(scenario)


def test_deadline_that_moved_moves_the_timer() -> None:
    """There is one timer, and it is set to the latest word."""

    async def scenario(rig: Rig) -> None:
        for deadline_ms in (5_000, 1_000, 3_000):
            rig.membership.deadline_ms = deadline_ms
            rig.do()
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        await asyncio.sleep(100)
        assert fires(rig) == [3_000]

    in_virtual_time(scenario)


def test_sleep_of_the_machine_is_time() -> None:
    """The loop's clock leaves it out, and leases run out all the same: that is judged at once."""

    async def scenario(rig: Rig) -> None:
        rig.membership.deadline_ms = 60_000
        rig.do()
        await asyncio.sleep(1)
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        before = len(rig.membership.calls)
        rig.asleep_ms = 3_600_000
        await asyncio.sleep(0.5)
        ((name, now_ms),) = rig.membership.calls[before:]
        assert name == "check_lease"
        assert 3_601_000 <= now_ms <= 3_601_300

    in_virtual_time(scenario)


def test_what_was_due_while_the_machine_was_asleep_is_done_after_that() -> None:
    """What is not a lease is judged when what has arrived has been read, like after any pause."""

    async def scenario(rig: Rig) -> None:
        rig.membership.deadline_ms = 60_000
        rig.do()
        before = len(rig.membership.calls)
        rig.asleep_ms = 3_600_000
        await asyncio.sleep(0.26)
        assert {name for name, *_ in rig.membership.calls[before:]} == {"check_lease"}
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        await asyncio.sleep(0.25)
        assert len(fires(rig)) == 1

    in_virtual_time(scenario)


def test_deadline_set_after_a_sleep_is_met() -> None:
    """What the machine was told of the time and when it is called go by the same clock."""

    async def scenario(rig: Rig) -> None:
        rig.asleep_ms = 3_600_000
        await asyncio.sleep(1)
        rig.membership.deadline_ms = 3_605_000
        rig.do()
        rig.membership.on_call = lambda: setattr(rig.membership, "deadline_ms", None)
        await asyncio.sleep(3.9)
        assert not fires(rig)
        await asyncio.sleep(0.2)
        assert fires(rig) == [3_605_000]

    in_virtual_time(scenario)


# -- commits ------------------------------------------------------------------------------------


def test_commits_of_one_turn_are_one_call() -> None:
    """However many commit and release at once, the machine settles once."""

    async def scenario(rig: Rig) -> None:
        before = len(rig.membership.calls)
        promises = [rig.driver.commit(("orders", n), 1, Position(n)) for n in range(3)]
        rig.driver.released([("orders", 7)])
        rig.driver.released([("orders", 8)])
        await settle()
        assert [call[0] for call in rig.membership.calls[before:]] == ["commit"] * 3 + ["released"]
        assert rig.membership.calls[-1][1] == [("orders", 7), ("orders", 8)]
        assert len(promises) == 3

    in_virtual_time(scenario)


def test_each_turn_of_the_loop_is_a_call_of_its_own() -> None:
    """What comes later goes with the next call; a question alone is enough for one."""

    async def scenario(rig: Rig) -> None:
        for _ in range(2):
            before = len(rig.membership.calls)
            rig.driver.fetch(ORDER)
            await settle()
            assert [call[0] for call in rig.membership.calls[before:]] == ["fetch", "released"]

    in_virtual_time(scenario)


def test_commit_alone_is_sent() -> None:
    """It waits for nothing else to happen."""

    async def scenario(rig: Rig) -> None:
        before = len(rig.membership.calls)
        rig.driver.commit(ORDER, 1, Position(1))
        await settle()
        assert [call[0] for call in rig.membership.calls[before:]] == ["commit", "released"]

    in_virtual_time(scenario)


def test_partitions_are_given_up_together() -> None:
    """What fails in one turn of the loop costs one rebalance."""

    async def scenario(rig: Rig) -> None:
        rig.driver.give_up([("orders", 1)])
        rig.driver.give_up([("orders", 2)])
        await settle()
        given_up = [call for call in rig.membership.calls if call[0] == "give_up"]
        assert given_up == [("give_up", [("orders", 1), ("orders", 2)], 0)]

    in_virtual_time(scenario)


def test_commit_returns_when_it_is_stored() -> None:
    """Its promise is kept when the machine says so, and it is counted."""

    async def scenario(rig: Rig) -> None:
        promise = rig.driver.commit(ORDER, 1, Position(1))
        rig.do(Committed(rig.membership.promise))
        await promise
        assert (rig.counters.commits, rig.counters.commit_failures) == (1, 0)

    in_virtual_time(scenario)


def test_commit_that_failed_raises() -> None:
    """The machine's error is what the caller gets."""

    async def scenario(rig: Rig) -> None:
        promise = rig.driver.commit(ORDER, 1, Position(1))
        rig.do(Committed(rig.membership.promise, PartitionLostError("x")))
        with pytest.raises(PartitionLostError):
            await promise
        assert (rig.counters.commits, rig.counters.commit_failures) == (0, 1)

    in_virtual_time(scenario)


def test_committed_offset_is_told() -> None:
    """A question's promise gets the position."""

    async def scenario(rig: Rig) -> None:
        promise = rig.driver.fetch(ORDER)
        rig.do(Fetched(rig.membership.promise, Position(5)))
        assert await promise == Position(5)

    in_virtual_time(scenario)


@pytest.mark.parametrize("error", [None, PartitionLostError("x")])
def test_whoever_does_not_wait_any_more_is_not_told(error: Exception | None) -> None:
    """A caller that was cancelled leaves nothing behind that could go wrong."""

    async def scenario(rig: Rig) -> None:
        async def commit() -> None:
            await rig.driver.commit(ORDER, 1, Position(1))

        task = asyncio.create_task(commit())
        await settle()
        task.cancel()
        await settle()
        rig.do(Committed(rig.membership.promise, error))

    assert in_virtual_time(scenario).faults == []


def test_error_that_meets_a_cancellation_is_no_complaint() -> None:
    """A waiter that is cancelled in the turn in which its error comes never looks at it."""

    async def scenario(rig: Rig) -> None:
        async def commit() -> None:
            await rig.driver.commit(ORDER, 1, Position(1))

        task = asyncio.create_task(commit())
        await settle()
        rig.do(Committed(rig.membership.promise, PartitionLostError("x")))
        task.cancel()
        await asyncio.wait([task])
        assert task.cancelled()

    in_virtual_time(scenario)


# -- the end ------------------------------------------------------------------------------------


@pytest.mark.parametrize("error", [None, ValueError("broken")])
def test_end_of_the_membership_is_told(error: Exception | None) -> None:
    """Who waits for it is woken, the reason is kept and reported, the sink hears of it."""

    async def scenario(rig: Rig) -> None:
        promise = rig.driver.fetch(ORDER)
        rig.do(Stop(error))
        assert rig.driver.over.is_set()
        assert rig.driver.error is error
        assert [type(event) for event in rig.events] == ([GroupFailed] if error else [])
        assert rig.told == [("end",)]
        with pytest.raises(ClosedError):
            await promise

    in_virtual_time(scenario)


def test_machine_is_left_alone_after_its_end() -> None:
    """Whatever comes later is refused without it."""

    async def scenario(rig: Rig) -> None:
        rig.do(Stop(), send(1))
        calls = len(rig.membership.calls)
        rig.driver.rejoin("x")
        rig.driver.released([ORDER])
        with pytest.raises(PartitionLostError):
            await rig.driver.commit(ORDER, 1, Position(1))
        with pytest.raises(ClosedError):
            await rig.driver.fetch(ORDER)
        await settle()
        assert len(rig.membership.calls) == calls
        assert not rig.driver.owns(ORDER, 1)

    in_virtual_time(scenario)


def test_sink_that_fails_at_everything_does_not_keep_the_group_from_ending() -> None:
    """Not even what it is told at the end."""

    async def scenario(rig: Rig) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        rig.on_revoke = rig.on_lose = fail
        rig.do(Revoke(frozenset({ORDER}), 1_000))
        assert rig.driver.over.is_set()
        assert isinstance(rig.driver.error, ZeroDivisionError)
        assert len(rig.faults) == 2

    in_virtual_time(scenario)


@pytest.mark.parametrize("where", ["machine", "sink", "network"])
def test_fault_of_ours_ends_the_group_loudly(where: str) -> None:
    """An exception that nobody foresaw is told, everything is lost, and the group is over."""

    async def scenario(rig: Rig) -> None:
        def fail(*_: object) -> None:
            raise ZeroDivisionError

        async def fail_to_answer() -> None:
            raise ZeroDivisionError

        match where:
            case "machine":
                rig.membership.on_call = fail
                rig.do()
            case "sink":
                rig.on_revoke = fail
                rig.do(Revoke(frozenset({ORDER}), 1_000))
            case "network":
                rig.network.answer = fail_to_answer
                rig.do(send())
        await settle()
        assert rig.driver.over.is_set()
        assert isinstance(rig.driver.error, ZeroDivisionError)
        assert [type(fault) for fault in rig.faults] == [ZeroDivisionError]
        assert [told[:2] for told in rig.told[-2:]] == [("lose", {ORDER}), ("end",)]

    in_virtual_time(scenario)


def test_closing_drops_requests_and_promises() -> None:
    """Nobody waits for a driver that was closed."""

    async def scenario(rig: Rig) -> None:
        promise = rig.driver.commit(ORDER, 1, Position(1))
        rig.membership.deadline_ms = 60_000
        rig.do(send())
        await settle()
        await rig.driver.aclose()
        assert asyncio.all_tasks() == {asyncio.current_task()}
        with pytest.raises(ClosedError):
            await promise
        assert "failed" not in rig.names()
        await asyncio.sleep(100)
        assert "fire" not in rig.names()

    in_virtual_time(scenario)


def test_last_resort_ends_it() -> None:
    """When saying goodbye takes too long, the end comes without it; a normal end comes first."""

    async def scenario(rig: Rig) -> None:
        error = ClosedError("late")
        rig.driver.give_in(error)
        assert (rig.driver.over.is_set(), rig.driver.error) == (True, error)
        rig.driver.give_in(ClosedError("later"))
        assert rig.driver.error is error

    in_virtual_time(scenario)
