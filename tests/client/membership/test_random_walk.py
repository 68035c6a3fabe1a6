"""Anything at all happens to a group, in any order, and then it is left alone.

After every step the walk checks that no partition has two workers, that work is begun only where
there is none, that no member works on its standbys, and that a commit is settled once. In the end
every partition has a worker again, and where members have state, nothing warms up any more.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from coterie_assignors import (
    Assignor,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    RangeAssignor,
    WarmSettings,
)
from coterie_client.membership import Committed, Send
from coterie_client.membership.events import StandbysPromoted
from coterie_client.wire.addresses import Lane
from coterie_protocol.streams import LATEST_VERSION
from tests.support.membership_world import Disk, Meeting, Worker

#: The same in every run, so that a change that breaks much shows every time.
FIXED = range(16)
#: Each run tries others as well.
FRESH = 8

KINDS: dict[str, Callable[[], tuple[Assignor, ...]]] = {
    "cooperative": lambda: (CooperativeStickyAssignor(),),
    "eager": lambda: (RangeAssignor(),),
    "both": lambda: (RangeAssignor(), CooperativeStickyAssignor()),
    "by instance": lambda: (InstanceStickyAssignor(),),
}

#: How many members there are at once, at most.
CROWD = 6


class Walk:
    """One walk, by one seed."""

    def __init__(self, seed: int) -> None:
        self.random = random.Random(seed)
        #: Draws on what terms members join, apart from all else that a seed decides.
        self.terms = random.Random(f"terms {seed}")
        self.rebalance_ms = self.terms.choice([60_000, 60_000, 8_000, 4_000])
        self.session_ms = self.terms.choice([10_000, 10_000, 30_000])
        self.meeting = Meeting({"t": self.random.choice([1, 4, 7]), "u": 3}, seed=seed)
        self.kind = self.random.choice(list(KINDS))
        self.instances: dict[Worker, str] = {}
        #: How likely it is that a member has state, and the disks of machines.
        self.warm = self.random.choice([0.0, 0.7, 1.0, 1.0])
        self.disks: dict[str, Disk] = {}
        self.settings = WarmSettings(
            acceptable_recovery_lag=100,
            num_standbys=self.random.choice([0, 0, 1]),
            probing_rebalance_interval_ms=20_000,
            allow_short_probing=True,
        )
        self.comes()

    def run(self) -> None:
        """Have things happen, then have everything settle."""
        steps: tuple[Callable[[], None], ...] = (
            self.comes,
            self.comes,
            self.closes,
            self.dies,
            self.connection_breaks,
            self.requests_vanish,
            self.node_restarts,
            self.member_misses_a_restart,
            self.commits,
            self.gives_up,
            self.topic_grows,
            self.subscribes,
        )
        for _ in range(self.random.randint(3, 12)):
            self.random.choice(steps)()
            self.meeting.run(self.random.choice([1, 30, 200, 3_000, 15_000]))
        self.meeting.swallows = lambda _worker, _send: False
        if not self.staying:
            self.comes()
        self.meeting.run(60_000)
        self.meeting.settle(60_000)
        self.meeting.rest(300_000)
        self.check_promises()

    def check_promises(self) -> None:
        """Every commit of a living member has been answered."""
        for worker in self.meeting.alive:
            assert worker.asked <= worker.results.keys(), worker.name

    @property
    def staying(self) -> list[Worker]:
        """The members that are there and mean to stay."""
        return [worker for worker in self.meeting.alive if not worker.is_closing]

    def any_member(self) -> Worker | None:
        """One of the staying members, if there is one."""
        staying = self.staying
        return self.random.choice(staying) if staying else None

    # -- what may happen -----------------------------------------------------------------------

    def comes(self) -> None:
        """A member joins, perhaps under a name that is free."""
        if len(self.staying) >= CROWD:
            return
        taken = {self.instances.get(worker) for worker in self.meeting.alive}
        instance = f"i{self.random.randint(0, 3)}" if self.random.random() < 0.3 else None
        if instance in taken:
            instance = None
        name = f"w{len(self.meeting.workers)}"
        has_state = self.random.random() < self.warm
        rate = self.random.choice([5, 50, 500])
        finish_ms = self.random.choice([1, 50, 2_000])
        # Longer than any rebalance waits, where that is not for long.
        never_ends = self.rebalance_ms < self.session_ms and self.terms.random() < 0.3
        worker = self.meeting.worker(
            name,
            *self.random.choice([("t",), ("t", "u")]),
            assignors=KINDS[self.kind](),
            finish_ms=None if never_ends else finish_ms,
            rebalance_timeout_ms=self.rebalance_ms,
            session_timeout_ms=self.session_ms,
            instance=instance,
            disk=self.disks.setdefault(instance or name, Disk(rate)) if has_state else None,
            warm=self.settings,
            warm_version=self.random.choice([7, 10, LATEST_VERSION, LATEST_VERSION]),
            ready_interval_ms=self.random.choice([500, 5_000]),
        )
        if instance:
            self.instances[worker] = instance
        worker.start()

    def closes(self) -> None:
        """A member leaves, or goes and keeps its place."""
        if worker := self.any_member():
            within_ms = self.terms.choice([10_000, 10_000, 30_000])
            worker.close(leave=self.random.random() < 0.7, within_ms=within_ms)

    def dies(self) -> None:
        """A member is killed."""
        if worker := self.any_member():
            worker.die()

    def connection_breaks(self) -> None:
        """One of a member's connections breaks."""
        if worker := self.any_member():
            self.meeting.cut(worker, self.random.choice(list(Lane)))

    def requests_vanish(self) -> None:
        """Some or all of what a member sends is lost, for a while."""
        victim = self.any_member()
        until_ms = self.meeting.now_ms + self.random.choice([500, 5_000, 30_000])
        share = self.random.choice([0.3, 1.0])

        def swallows(worker: Worker, _send: Send) -> bool:
            in_time = self.meeting.now_ms < until_ms
            return worker is victim and in_time and self.random.random() < share

        self.meeting.swallows = swallows

    def node_restarts(self) -> None:
        """The coordinator is away for a while, and takes a while to read its groups."""
        self.meeting.stop_node()
        self.meeting.run(self.random.choice([1, 1_000, 20_000]))
        self.meeting.start_node(self.random.choice([0, 0, 3_000, 20_000]))

    def member_misses_a_restart(self) -> None:
        """The coordinator restarts while a member is cut off, perhaps for so long as to be dropped.

        It is back before the coordinator has read its groups.
        """
        victim = self.any_member()
        self.meeting.swallows = lambda worker, _send: worker is victim
        self.meeting.run(self.random.choice([3_000, 9_000, 15_000]))
        self.meeting.stop_node()
        self.meeting.swallows = lambda _worker, _send: False
        self.meeting.start_node(self.random.choice([1_000, 8_000]))

    def commits(self) -> None:
        """A member commits for all of its partitions."""
        if worker := self.any_member():
            for number, partition in enumerate(sorted(worker.working)):
                worker.commit((self.meeting.now_ms, number), partition, number)

    def gives_up(self) -> None:
        """A member can't work on a partition."""
        worker = self.any_member()
        if worker and worker.working:
            worker.give_up(self.random.choice(sorted(worker.working)))

    def topic_grows(self) -> None:
        """There is one more partition."""
        self.meeting.change_topic("t", "grew", self.meeting.topics["t"] + 1)

    def subscribes(self) -> None:
        """A member changes its subscription."""
        worker = self.any_member()
        if worker:
            worker.subscribe(*self.random.choice([("t",), ("t", "u"), ("u",)]))


def walk(seed: int) -> Walk:
    """Walk, and say by which seed if that fails."""
    try:
        done = Walk(seed)
        done.run()
    except Exception as error:
        error.add_note(f"seed {seed}: run test_every_walk_ends_with_all_partitions_at_work with it")
        raise
    return done


@pytest.mark.parametrize("seed", FIXED)
def test_every_walk_ends_with_all_partitions_at_work(seed: int) -> None:
    walk(seed)


def test_fresh_seeds() -> None:
    for _ in range(FRESH):
        walk(random.SystemRandom().randrange(2**32))


def test_walks_are_repeatable() -> None:
    one, other = walk(5), walk(5)
    assert one.meeting.describe_workers() == other.meeting.describe_workers()
    assert one.meeting.now_ms == other.meeting.now_ms


def test_fixed_walks_promote() -> None:
    events = [
        event
        for seed in FIXED
        for worker in walk(seed).meeting.workers
        for event in worker.seen(StandbysPromoted)
    ]
    assert len(events) >= 3


def test_fixed_walks_commit() -> None:
    """Or they would show little."""
    results = [
        result
        for seed in FIXED
        for worker in walk(seed).meeting.workers
        for result in worker.results.values()
        if isinstance(result, Committed)
    ]
    assert any(result.error is None for result in results)
