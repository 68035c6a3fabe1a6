"""Members of different kinds in one group: eager beside cooperative, stock beside ours."""

from __future__ import annotations

from collections.abc import Iterable

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    RangeAssignor,
    RoundRobinAssignor,
    WarmSettings,
)
from coterie_client.membership import Assign, Revoke
from coterie_client.membership.events import GroupJoined
from coterie_protocol.consumer import decode_assignment, flatten
from coterie_protocol.error_codes import ErrorCode
from tests.support.group_client import Client
from tests.support.group_harness import Answer
from tests.support.membership_world import Disk, Meeting, Worker

OLD: tuple[Assignor, ...] = (RangeAssignor(),)
WARM = WarmSettings(acceptable_recovery_lag=100)


def both() -> tuple[Assignor, ...]:
    """What is configured between the two bounces."""
    return (RangeAssignor(), CooperativeStickyAssignor())


def new() -> tuple[Assignor, ...]:
    """What is configured in the end."""
    return (CooperativeStickyAssignor(),)


def replace(meeting: Meeting, worker: Worker, assignors: Iterable[Assignor]) -> Worker:
    """Restart a worker with other assignors."""
    worker.close()
    meeting.run(2_000)
    again = meeting.worker(worker.name, assignors=tuple(assignors)).start()
    meeting.settle()
    return again


# -- eager and cooperative ---------------------------------------------------------------------


def test_two_bounces_lead_from_eager_to_cooperative_without_a_pause() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(3, assignors=OLD)
    for index, worker in enumerate(workers):
        workers[index] = replace(meeting, worker, both())
        assert {each.seen(GroupJoined)[-1].assignor for each in workers} == {"range"}
    for index, worker in enumerate(workers):
        workers[index] = replace(meeting, worker, new())
        names = {each.seen(GroupJoined)[-1].assignor for each in workers}
        assert names == {"cooperative-sticky"}
    for worker in workers:
        worker.told.clear()
    meeting.worker("more").start()
    meeting.settle()
    moved = [
        partition
        for worker in workers
        for each in worker.told
        if isinstance(each, Revoke)
        for partition in each.partitions
    ]
    assert len(moved) == 1


def test_eager_leader_among_cooperative_members() -> None:
    meeting = Meeting({"t": 6})
    leader = meeting.worker("eager", assignors=both()).start()
    meeting.settle()
    keeper = meeting.worker("coop", assignors=new()).start()
    meeting.settle()
    assert leader.machine.is_leader
    had = set(keeper.working)
    keeper.told.clear()
    meeting.worker("third", assignors=new()).start()
    meeting.settle()
    assert len(leader.working) == len(keeper.working) == 2
    assert keeper.working.keys() <= had


def test_cooperative_leader_of_eager_members() -> None:
    meeting = Meeting({"t": 6})
    leader = meeting.worker("coop", assignors=new()).start()
    meeting.settle()
    meeting.worker("eager", assignors=both()).start()
    meeting.settle()
    assert leader.machine.is_leader
    meeting.worker("third", assignors=both()).start()
    meeting.settle()
    assert sorted(len(worker.working) for worker in meeting.alive) == [2, 2, 2]


def test_eager_members_let_go_of_everything() -> None:
    meeting = Meeting({"t": 6})
    (first,) = meeting.team(1, assignors=(RoundRobinAssignor(),))
    first.told.clear()
    meeting.worker("second", assignors=(RoundRobinAssignor(),)).start()
    meeting.settle()
    assert [type(each) for each in first.told] == [Revoke, Assign]
    assert len(first.told[0].partitions) == 6  # type: ignore[union-attr]


def test_member_without_a_common_protocol_is_refused() -> None:
    meeting = Meeting({"t": 4})
    (first,) = meeting.team(1, assignors=OLD)
    stranger = meeting.worker("stranger", assignors=(RoundRobinAssignor(),)).start()
    meeting.run(1_000)
    assert stranger.stopped is not None
    assert stranger.stopped.error is not None
    assert len(first.working) == 4


# -- stock members -----------------------------------------------------------------------------


class StockMember:
    """A cooperative member as the stock clients are: it obeys no NEEDS_REJOIN.

    It keeps what it has while it joins, and joins again when it had to let go of something.
    """

    def __init__(self, meeting: Meeting) -> None:
        self.meeting = meeting
        self.client = Client(meeting, "stock", protocols=("cooperative-sticky",))
        self.owned: frozenset[tuple[str, int]] = frozenset()
        self.is_honest = True

    def rebalance(self) -> None:
        """Join and sync, once or for as long as it has to let go of something."""
        while True:
            client = self.client
            client.owned, client.owned_generation = self.owned, client.generation
            self._wait_for(client.join())
            synced = self._wait_for(client.sync())
            if synced.error is ErrorCode.REBALANCE_IN_PROGRESS:
                continue
            assert synced.error is ErrorCode.NONE
            assigned = flatten(decode_assignment(client.assignment or b"").assigned_partitions)
            revoked = self.owned - assigned
            self.owned = assigned
            self.check()
            if not revoked:
                return

    def live(self, ms: int) -> None:
        """Let time pass with a heartbeat each second; rejoin when it is told to."""
        for _ in range(ms // 1_000):
            self.meeting.run(1_000)
            self.check()
            if self.client.heartbeat() is ErrorCode.REBALANCE_IN_PROGRESS:
                self.rebalance()

    def check(self) -> None:
        """Nothing works on what it owns."""
        for worker in self.meeting.workers if self.is_honest else ():
            assert not worker.working.keys() & self.owned, worker.name

    def _wait_for(self, answer: Answer) -> Answer:
        for _ in range(2_000):
            if not answer.is_parked:
                return answer
            self.meeting.run(10)
            self.check()
        raise AssertionError(self.meeting.describe_workers())


def everything(meeting: Meeting, stock: StockMember) -> set[tuple[str, int]]:
    """What all members work on."""
    return set(stock.owned).union(*(worker.working for worker in meeting.alive))


def test_stock_member_gets_its_share_after_its_owners_let_go() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(2)
    stock = StockMember(meeting)
    stock.rebalance()
    stock.live(10_000)
    assert len(stock.owned) == 2
    assert [len(worker.working) for worker in workers] == [2, 2]
    assert len(everything(meeting, stock)) == 6


def test_ours_joins_a_stock_member() -> None:
    meeting = Meeting({"t": 6})
    (first,) = meeting.team(1)
    stock = StockMember(meeting)
    stock.rebalance()
    stock.live(5_000)
    second = meeting.worker("second").start()
    stock.live(20_000)
    assert [len(stock.owned), len(first.working), len(second.working)] == [2, 2, 2]


def test_stock_member_leaves() -> None:
    meeting = Meeting({"t": 6})
    workers = meeting.team(2)
    stock = StockMember(meeting)
    stock.rebalance()
    stock.live(5_000)
    stock.client.leave()
    stock.owned = frozenset()
    meeting.settle()
    assert [len(worker.working) for worker in workers] == [3, 3]


def test_false_claim_never_gives_a_partition_two_workers() -> None:
    meeting = Meeting({"t": 6})
    (first,) = meeting.team(1)
    stock = StockMember(meeting)
    stock.rebalance()
    stock.live(5_000)
    stock.owned |= {next(iter(sorted(first.working)))}
    stock.is_honest = False
    stock.rebalance()
    stock.is_honest = True
    stock.live(20_000)
    assert len(everything(meeting, stock)) == 6
    assert len(stock.owned) == len(first.working) == 3


def test_stock_member_among_members_with_state() -> None:
    meeting = Meeting({"t": 6})
    first = meeting.worker("first", disk=Disk(), ready_interval_ms=1_000, warm=WARM).start()
    meeting.settle()
    first.cold.clear()
    stock = StockMember(meeting)
    stock.rebalance()
    stock.live(5_000)
    assert len(stock.owned) == 3
    second = meeting.worker("second", disk=Disk(), ready_interval_ms=1_000, warm=WARM).start()
    stock.live(30_000)
    assert [len(stock.owned), len(first.working), len(second.working)] == [2, 2, 2]
    assert len(everything(meeting, stock)) == 6
    # What the stock member let go of has no copy anywhere; what the first one had does.
    assert len(second.cold) <= 1
