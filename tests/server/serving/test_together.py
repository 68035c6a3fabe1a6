"""Requests that come in one turn of the event loop are taken together, and overtaken by none."""

from __future__ import annotations

import asyncio
import math
from collections.abc import AsyncIterator, Iterable
from itertools import count
from typing import Any, Final

import pytest
import pytest_asyncio

from coterie_protocol import messages as m
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import Event, OffsetsCommitted
from coterie_server.config.assembly import RandomIds
from coterie_server.group import BundleRow, Config, GroupCoordinator, to_stored
from coterie_server.group import Record as Row
from coterie_server.serving import GroupShard, NodeContext
from coterie_server.serving.clock import Clock
from coterie_server.serving.lease_trust import LeaseTrust
from coterie_server.storage import Lease, Record
from tests.support.brittle_store import BrittleStore
from tests.support.requests import Asked, Pending

pytestmark = pytest.mark.asyncio

#: As many are taken at once at most.
AT_MOST: Final = 64
UNAVAILABLE: Final = ErrorCode.COORDINATOR_NOT_AVAILABLE


class CountingStore(BrittleStore):
    """A store that notes how many records are in each append."""

    def __init__(self) -> None:
        super().__init__()
        self.appended: list[int] = []

    async def append(self, lease: Lease, records: Iterable[Record]) -> None:
        """Note it, and append."""
        taken = list(records)
        self.appended.append(len(taken))
        await super().append(lease, taken)


class Observed:
    """What was told, with its dates."""

    def __init__(self) -> None:
        self.told: list[tuple[int, Event]] = []
        #: Whether telling the next event is a bug.
        self.fails = False

    def __call__(self, date_ms: int, event: Event) -> None:
        """Take note of an event."""
        if self.fails:
            self.fails = False
            raise ArithmeticError
        self.told.append((date_ms, event))


class Harness:
    """A shard of which each step is noted."""

    def __init__(self, observed: Observed, clock: Clock | None = None) -> None:
        self.trust, self.observed = LeaseTrust(), observed
        self.clock = Clock() if clock is None else clock
        #: The requests of which a step was taken.
        self.taken: list[object] = []

    async def start(self, store: BrittleStore) -> None:
        """Serve an empty shard."""
        (lease,) = await store.claim([0], "node-1", 10_000)
        context = NodeContext(store, self.clock, trust=self.trust, observe=self.observed)
        self.shard = GroupShard(0, context, self._make)
        self.shard.own(lease)
        await self.shard.load()

    def _make(self) -> GroupCoordinator:
        coordinator = GroupCoordinator(Config(), RandomIds(), {"t": 4}, date_of=self.clock.date_of)
        handle = coordinator.handle

        def note(request: Asked, now_ms: int) -> Any:
            self.taken.append(request)
            return handle(request, now_ms)

        coordinator.handle = note  # type: ignore[method-assign, assignment]  # and notes
        return coordinator

    def commit(self, partition: int = 0) -> Pending:
        """Commit two offsets soon, as a client that is in no generation."""
        partitions = tuple(
            m.OffsetCommitRequestPartition(
                partition_index=number, committed_offset=7, committed_metadata=None
            )
            for number in (partition, partition + 1)
        )
        topic = m.OffsetCommitRequestTopic(name="t", partitions=partitions)
        return self.soon(m.OffsetCommitRequest(group_id="g", topics=(topic,)), 7)

    def join(self, group: str = "g", **fields: Any) -> Pending:
        """Have a new member join soon."""
        protocol = m.JoinGroupRequestProtocol(name="range", metadata=b"")
        wanted: dict[str, Any] = {
            "group_id": group,
            "session_timeout_ms": 10_000,
            "rebalance_timeout_ms": 10_000,
            "member_id": "",
            "protocol_type": "consumer",
            "protocols": (protocol,),
        }
        return self.soon(m.JoinGroupRequest(**wanted | fields), 3)

    def soon(self, message: object, version: int) -> Pending:
        """Hand in a request that may wait for others."""
        asked = Pending(message, version)
        self.shard.handle_soon(asked)
        return asked

    async def members(self) -> int:
        """How many members the group has, as one is told who asks now."""
        asked = Pending(m.DescribeGroupsRequest(groups=("g",)), 5)
        self.shard.handle(asked)
        answer = await asyncio.wait_for(asked.answer, 60)
        return len(answer.groups[0].members)


@pytest_asyncio.fixture
async def store() -> AsyncIterator[CountingStore]:
    """A store that can fail."""
    async with CountingStore() as store:
        yield store


@pytest_asyncio.fixture
async def harness(store: CountingStore) -> AsyncIterator[Harness]:
    """An empty shard."""
    harness = Harness(Observed())
    await harness.start(store)
    yield harness
    await harness.shard.close()


async def turns(count: int = 3) -> None:
    """Let the event loop turn."""
    for _ in range(count):
        await asyncio.sleep(0)


async def error_of(asked: Pending) -> ErrorCode:
    """The error with which a request is answered."""
    return ErrorCode((await asyncio.wait_for(asked.answer, 60)).error_code)


async def test_those_of_one_turn_are_taken_in_the_next(harness: Harness) -> None:
    together = [harness.join(), harness.commit(), harness.join()]
    assert harness.taken == []
    await turns()
    assert harness.taken == together
    together.append(harness.join())
    await turns()
    assert harness.taken == together
    assert await harness.members() == 3


async def test_what_they_made_is_stored_at_once_and_what_one_committed_in_one_record(
    harness: Harness, store: CountingStore
) -> None:
    commits = [harness.commit(0), harness.commit(2)]
    for commit in commits:
        await asyncio.wait_for(commit.answer, 60)
    group, bundles = 1, 2
    assert store.appended == [group + bundles]
    commits = [harness.commit(2), harness.commit(0)]
    for commit in commits:
        await asyncio.wait_for(commit.answer, 60)
    assert store.appended == [group + bundles, bundles]


async def test_very_many_do_not_wait_for_the_next_turn(harness: Harness) -> None:
    for _ in range(2 * AT_MOST + 1):
        harness.join()
    assert len(harness.taken) == 2 * AT_MOST
    await turns()
    assert len(harness.taken) == 2 * AT_MOST + 1


async def test_what_comes_later_finds_them_done(harness: Harness) -> None:
    """Requests that need not wait, what is due, and what an operator wants."""
    harness.join()
    assert await harness.members() == 1
    joining = harness.join()
    due_ms = harness.shard.next_deadline()
    assert due_ms is not None
    assert harness.shard.fire_due(due_ms)
    assert harness.taken[-1] is joining


async def test_each_is_answered(harness: Harness) -> None:
    bad = [harness.join(session_timeout_ms=0), harness.join(group="")]
    errors = [await error_of(each) for each in bad]
    assert errors == [ErrorCode.INVALID_SESSION_TIMEOUT, ErrorCode.INVALID_GROUP_ID]


async def test_bug_in_one_costs_only_those_behind_it(harness: Harness) -> None:
    """Each has a step of its own, and what those before it have stored is sound."""
    refused = harness.join(session_timeout_ms=0)
    commit = harness.commit()
    coordinator = harness.shard.core
    assert coordinator is not None
    coordinator.table.groups["broken"] = object()  # type: ignore[assignment]  # the bug
    broken, behind = harness.join("broken"), harness.join(session_timeout_ms=0)
    assert await error_of(refused) is ErrorCode.INVALID_SESSION_TIMEOUT
    assert (await asyncio.wait_for(commit.answer, 60)).topics[0].partitions[0].error_code == 0
    assert await error_of(broken) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    assert await error_of(behind) is ErrorCode.COORDINATOR_NOT_AVAILABLE
    async with asyncio.timeout(60):
        while not harness.shard.is_served:  # noqa: ASYNC110  # no event tells of it
            await asyncio.sleep(0.001)
    assert harness.shard.core is not None
    assert harness.shard.core.groups["g"].offsets["t", 0].offset == 7


async def test_step_behind_a_bug_is_not_taken_by_the_broken_core(harness: Harness) -> None:
    """Half a change would be stored with it."""
    coordinator = harness.shard.core
    assert coordinator is not None
    coordinator.table.groups["broken"] = object()  # type: ignore[assignment]  # the bug
    broken = harness.join("broken")
    asked = Pending(m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    harness.shard.handle(asked)
    assert harness.taken == [broken]
    assert await error_of(asked) is ErrorCode.COORDINATOR_NOT_AVAILABLE


async def test_shard_that_is_lost_meanwhile_refuses_them(harness: Harness) -> None:
    joining = harness.join()
    harness.shard.fence()
    assert await error_of(joining) is ErrorCode.NOT_COORDINATOR
    await turns()
    assert harness.taken == []


async def test_shard_that_is_given_up_meanwhile_refuses_them(harness: Harness) -> None:
    joining = harness.join()
    await harness.shard.give_up()
    assert await error_of(joining) is ErrorCode.NOT_COORDINATOR
    assert harness.taken == []


async def test_leases_that_run_out_meanwhile_have_them_wait(harness: Harness) -> None:
    """Another node may have taken such a member in already."""
    bad = harness.join(session_timeout_ms=0)
    harness.trust.doubt = lambda: None
    harness.trust.until_s = 0.0
    await turns()
    assert not bad.answer.done()
    harness.trust.until_s = math.inf
    assert harness.shard.trusted()
    assert await error_of(bad) is ErrorCode.INVALID_SESSION_TIMEOUT


async def test_what_comes_when_leases_have_run_out_is_held_behind_them(harness: Harness) -> None:
    """Whether it could have waited for others, too, or comes in a pipeline."""
    harness.trust.doubt = lambda: None
    first = harness.join()
    harness.trust.until_s = 0.0
    second = harness.join()
    harness.trust.until_s = math.inf
    third = harness.join()
    harness.trust.until_s = 0.0
    fourth = Pending(m.HeartbeatRequest(group_id="g", generation_id=1, member_id="m"), 3)
    harness.shard.handle(fourth)
    await turns()
    assert harness.taken == []
    harness.trust.until_s = math.inf
    harness.shard.trusted()
    await turns()
    assert harness.taken == [first, second, third, fourth]


async def test_bug_in_what_is_to_be_stored_costs_only_those_behind_it(
    harness: Harness, monkeypatch: pytest.MonkeyPatch
) -> None:
    commits = [harness.commit(partition) for partition in (0, 2, 1)]

    def fail(record: Row) -> Record:
        if isinstance(record, BundleRow) and ("t", 2) in record.shape.places:
            raise ArithmeticError
        return to_stored(record)

    monkeypatch.setattr("coterie_server.serving.group_shard.to_stored", fail)
    errors = [(await asyncio.wait_for(each.answer, 60)).topics[0].partitions for each in commits]
    assert [each[0].error_code for each in errors] == [0, *2 * [UNAVAILABLE]]


async def test_bug_in_telling_of_one_costs_none_of_the_others(harness: Harness) -> None:
    """All of it is durable."""
    commits = [harness.commit(partition) for partition in (0, 2, 1)]
    harness.observed.fails = True
    answers = [await asyncio.wait_for(each.answer, 60) for each in commits]
    assert [each.topics[0].partitions[0].error_code for each in answers] == [0, 0, 0]
    told = [each.offsets for _, each in harness.observed.told if isinstance(each, OffsetsCommitted)]
    assert told == [{"t": {"2": 7, "3": 7}}, {"t": {"1": 7, "2": 7}}]


async def test_dates_keep_the_order_of_the_steps(store: CountingStore) -> None:
    """Also while running time stands still, as it does around a pause: dates go on meanwhile."""
    elapsed_ms = count(0, 1)
    clock = Clock(elapsed_ns=lambda: next(elapsed_ms) * 1_000_000)
    harness = Harness(Observed(), clock)
    await harness.start(store)
    harness.join("other")
    await turns()
    harness.observed.told.clear()
    harness.join("other")  # of which nothing is stored yet
    await asyncio.wait_for(harness.commit().answer, 60)
    dates_ms = [date_ms for date_ms, _ in harness.observed.told]
    assert len(dates_ms) == 2
    assert dates_ms == sorted(dates_ms)
    await harness.shard.close()


async def test_without_a_core_they_are_refused_at_once(harness: Harness) -> None:
    harness.shard.fence()
    assert await error_of(harness.join()) is ErrorCode.NOT_COORDINATOR
