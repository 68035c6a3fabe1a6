"""Groups whose partitions carry state: whole clients and a coordinator, in virtual time."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace
from typing import Any

import pytest

from coterie_client import (
    Group,
    GroupMisuseError,
    Partition,
    Role,
    Standby,
    TopicPartition,
    WarmSettings,
)
from coterie_client.errors import ConfigurationError
from coterie_client.events import Event, RestoreStarted, StandbysPromoted, WorkStarted
from coterie_protocol.journal import RebalanceStarted
from coterie_testing.kit import Cluster, Program

END = 1_000
SETTINGS = WarmSettings(acceptable_recovery_lag=100)


@dataclass
class Store:
    """The state of partitions on one machine; it outlives processes."""

    rate: int = 100
    positions: dict[TopicPartition, int] = field(default_factory=dict)

    def lag(self, key: TopicPartition) -> int:
        """How much is left to restore."""
        return END - self.positions.get(key, 0)

    def held(self) -> dict[TopicPartition, int | None]:
        """What is on the disk."""
        return {key: self.lag(key) for key in self.positions}

    async def step(self, key: TopicPartition) -> None:
        """Restore some more, which takes a tenth of a second."""
        await asyncio.sleep(0.1)
        self.positions[key] = min(END, self.positions.get(key, 0) + self.rate)


class Member:
    """A program with state, and what happens in it."""

    def __init__(
        self, cluster: Cluster, name: str, store: Store | None = None, **options: Any
    ) -> None:
        self.name = name
        self.store = store or Store()
        self.events: list[Event] = []
        #: What its tasks did: "+work 0", "-restore 1" and so on.
        self.log: list[str] = []
        #: The lag with which work on a partition began.
        self.began_with: list[int] = []
        self._group: Group | None = None
        self._options = options
        self.program: Program = cluster.start(name, self._main(cluster.bootstrap))

    async def _main(self, bootstrap: str) -> None:
        values: dict[str, Any] = {"warm": SETTINGS, "ready_interval": 1.0} | self._options
        self._group = Group(
            bootstrap, "g", topics=["t"], client_id=self.name, on_event=self.events.append, **values
        )
        async with self._group as group:
            await group.run(self._work, warm=self._restore, held=self.store.held)

    async def _work(self, partition: Partition) -> None:
        self._note(f"+work {partition.number}")
        self.began_with.append(self.store.lag(partition.key))
        try:
            while self.store.lag(partition.key):
                partition.lag(self.store.lag(partition.key))
                await self.store.step(partition.key)
            partition.lag(0)
            await partition.commit(partition.generation)
            await asyncio.get_running_loop().create_future()
        finally:
            self._note(f"-work {partition.number}")

    async def _restore(self, standby: Standby) -> None:
        self._note(f"+restore {standby.number}")
        try:
            while True:
                await self.store.step(standby.key)
                standby.lag(self.store.lag(standby.key))
        finally:
            await asyncio.sleep(0.05)  # it has a file to close
            self._note(f"-restore {standby.number}")

    def _note(self, what: str) -> None:
        self.log.append(what)
        busy = [each[1:].split()[1] for each in self.running()]
        assert len(set(busy)) == len(busy), f"{self.name}: two tasks for one partition: {self.log}"

    def running(self) -> list[str]:
        """The tasks that have begun and not ended."""
        found: list[str] = []
        for entry in self.log:
            if entry.startswith("+"):
                found.append(entry)
            else:
                found.remove("+" + entry[1:])
        return found

    @property
    def group(self) -> Group:
        """The member."""
        assert self._group is not None, f"{self.name} has not started"
        return self._group

    @property
    def owned(self) -> list[int]:
        """What it works on."""
        return [each.number for each in self._group.owned] if self._group is not None else []

    def seen(self, kind: type[Event]) -> list[Any]:
        """The events of a kind."""
        return [event for event in self.events if isinstance(event, kind)]


@pytest.fixture
def cluster() -> Iterator[Cluster]:
    with Cluster({"t": 4}, seed=3) as found:
        yield found


def until_shared(cluster: Cluster, *members: Member, within_s: float = 120) -> None:
    """Let time pass until all have as much as each other, and are at work."""

    def is_so() -> bool:
        counts = [len(each.owned) for each in members]
        return sum(counts) == 4 and max(counts) - min(counts) <= 1

    cluster.run_until(is_so, within_s)
    cluster.run(seconds=1)


def test_newcomer_takes_over_warm(cluster: Cluster) -> None:
    first = Member(cluster, "a")
    until_shared(cluster, first)
    cluster.run(seconds=5)
    second = Member(cluster, "b")
    cluster.run_until(lambda: bool(second.log))
    assert {each.role for each in second.group.standbys} == {Role.WARM_UP}
    assert second.owned == []
    until_shared(cluster, first, second)
    assert all(lag <= SETTINGS.acceptable_recovery_lag for lag in second.began_with)
    assert len(second.began_with) == 2
    assert second.seen(StandbysPromoted)
    assert second.group.counters.promoted == 2
    assert second.group.counters.warm_ups_ready >= 1
    assert second.group.counters.restores_started == second.group.counters.standbys >= 2


def test_restore_has_ended_when_work_begins(cluster: Cluster) -> None:
    first = Member(cluster, "a")
    until_shared(cluster, first)
    second = Member(cluster, "b")
    until_shared(cluster, first, second)
    for number in second.owned:
        mine = [entry for entry in second.log if entry.endswith(f" {number}")]
        assert mine[-3:] == [f"+restore {number}", f"-restore {number}", f"+work {number}"]


def test_rebalances_say_why(cluster: Cluster) -> None:
    first = Member(cluster, "a")
    until_shared(cluster, first)
    cluster.run(seconds=5)
    second = Member(cluster, "b")
    until_shared(cluster, first, second)
    told = [each for each in cluster.events if isinstance(each, RebalanceStarted)]
    assert any("warm: t[" in str(each) for each in told)


def test_owner_becomes_a_standby_when_it_has_let_go() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    with Cluster({"t": 4}, seed=3) as cluster:
        first = Member(cluster, "a", warm=settings)
        until_shared(cluster, first)
        cluster.run(seconds=5)
        second = Member(cluster, "b", warm=settings)
        until_shared(cluster, first, second)
        cluster.run(seconds=30)
        assert [each.number for each in first.group.standbys] == second.owned
        assert [each.number for each in second.group.standbys] == first.owned
        for number in second.owned:
            mine = [entry for entry in first.log if entry.endswith(f" {number}")]
            assert mine[-3:] == [f"+work {number}", f"-work {number}", f"+restore {number}"]


def test_standby_takes_over_from_a_dead_owner() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    with Cluster({"t": 4}, seed=3) as cluster:
        first, second = (Member(cluster, name, warm=settings) for name in "ab")
        until_shared(cluster, first, second)
        cluster.run(seconds=30)
        second.began_with.clear()
        first.program.kill()
        until_shared(cluster, second)
        assert second.began_with == [0, 0]


def test_process_that_comes_back_tells_what_is_on_its_disk(cluster: Cluster) -> None:
    store = Store()
    first = Member(cluster, "a")
    until_shared(cluster, first)
    second = Member(cluster, "b", store)
    until_shared(cluster, first, second)
    cluster.run(seconds=5)
    had = second.owned
    second.program.kill()
    until_shared(cluster, first)
    again = Member(cluster, "b", store)
    until_shared(cluster, first, again)
    assert sorted(again.owned) == sorted(had)
    assert again.began_with == [0, 0]
    assert not again.seen(RestoreStarted) or again.store.held() == store.held()


def test_static_member_that_comes_back_in_time_goes_on_with_its_state(cluster: Cluster) -> None:
    first = Member(cluster, "a", instance="a")
    until_shared(cluster, first)
    second = Member(cluster, "b", instance="b")
    until_shared(cluster, first, second)
    generation, had = second.group.generation, second.owned
    second.program.kill()
    cluster.run(seconds=5)
    again = Member(cluster, "b", second.store, instance="b")
    cluster.run_until(lambda: again.owned == had)
    assert again.group.generation == generation
    cluster.run(seconds=1)
    assert again.began_with == [0, 0]


@pytest.mark.parametrize("name", ["a", "b"])
def test_static_member_without_its_disk_leaves_work_to_copies_meanwhile(
    cluster: Cluster, name: str
) -> None:
    """Whether it leads, as the first one does, or not."""
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    members = [Member(cluster, each, instance=each, warm=settings) for each in "ab"]
    until_shared(cluster, *members)
    cluster.run(seconds=20)
    [lost] = [each for each in members if each.name == name]
    [other] = [each for each in members if each.name != name]
    lost.program.kill()
    cluster.run(seconds=5)
    again = Member(cluster, name, instance=name, warm=settings)
    cluster.run_until(lambda: len(other.owned) == 4)
    until_shared(cluster, again, other)
    assert max(again.began_with + other.began_with[2:]) <= 100


def test_stopping_ends_restores() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    with Cluster({"t": 4}, seed=3) as cluster:
        first, second = (Member(cluster, name, warm=settings) for name in "ab")
        until_shared(cluster, first, second)
        cluster.run(seconds=20)
        assert any("restore" in each for each in second.running())
        second.program.stop()
        cluster.run_until(lambda: second.program.is_done)
        assert second.running() == []
        assert second.group.standbys == ()


def test_restores_go_on_while_the_coordinator_is_away() -> None:
    settings = WarmSettings(acceptable_recovery_lag=100, num_standbys=1)
    with Cluster({"t": 4}, seed=3) as cluster:
        first, second = (Member(cluster, name, warm=settings) for name in "ab")
        until_shared(cluster, first, second)
        cluster.run(seconds=20)
        had = [each for each in second.running() if "restore" in each]
        cluster.kill_coordinator()
        cluster.run(seconds=120)
        assert [each for each in second.running() if "restore" in each] == had
        assert second.owned == []
        cluster.start_coordinator()
        until_shared(cluster, first, second)


def test_members_without_state_share_the_group(cluster: Cluster) -> None:
    async def plain_work(_: Partition) -> None:
        await asyncio.get_running_loop().create_future()

    owned: list[Group] = []

    async def plain() -> None:
        async with Group(cluster.bootstrap, "g", topics=["t"]) as group:
            owned.append(group)
            await group.run(plain_work)

    first = Member(cluster, "a")
    until_shared(cluster, first)
    cluster.start("plain", plain())
    cluster.run_until(lambda: bool(owned) and len(owned[0].owned) == 2)
    assert len(first.owned) == 2
    assert first.group.standbys == ()
    assert owned[0].standbys == ()


# -- options -----------------------------------------------------------------------------------


async def _restore(_: Standby) -> None:
    """Do nothing."""


async def _work(_: Partition) -> None:
    """Do nothing."""


def _run(cluster: Cluster, group: dict[str, Any], run: dict[str, Any]) -> None:
    async def main() -> None:
        async with Group(cluster.bootstrap, "g", topics=["t"], **group) as member:
            await member.run(_work, **run)

    cluster.call(main(), within_s=10)


@pytest.mark.parametrize(
    ("group", "run", "message"),
    [
        ({}, {"warm": 3}, "warm must be an async function that takes a Standby"),
        ({}, {"warm": lambda _: None}, "warm must be an async function"),
        ({}, {"held": dict}, "held must be given with warm"),
        ({}, {"warm": _restore, "held": 3}, "held must be callable"),
        ({}, {"warm": _restore, "held": _restore}, "held must be a plain function"),
        ({}, {"warm": _restore, "held": list}, r"held\(\) must be a mapping"),
        (
            {},
            {"warm": _restore, "held": lambda: {"t": 3}},
            r"each key of held\(\) must be a topic and the number of a partition",
        ),
        (
            {},
            {"warm": _restore, "held": lambda: {("t", 2**31): 0}},
            r"each key of held\(\) must be a topic and the number of a partition",
        ),
        (
            {},
            {"warm": _restore, "held": lambda: {("t", 3): -1}},
            r"the lag of t\[3\] in held\(\) must be a whole number from 0",
        ),
        ({"warm": 3}, {}, "warm must be a WarmSettings"),
        ({"ready_interval": 0}, {}, "ready_interval must be a positive number"),
        ({"tags": "zone"}, {}, "tags must be a mapping of strings"),
        ({"tags": {"zone": 3}}, {}, "each value of tags must be a string"),
    ],
)
def test_bad_options_are_refused_by_name(
    cluster: Cluster, group: dict[str, Any], run: dict[str, Any], message: str
) -> None:
    with pytest.raises(ConfigurationError, match=message):
        _run(cluster, group, run)


def test_lag_that_is_not_known_may_be_none(cluster: Cluster) -> None:
    store = Store()
    store.held = lambda: {("t", 0): None}  # type: ignore[method-assign]
    until_shared(cluster, Member(cluster, "a", store))


class Broken(Store):
    """A disk that fails after a while."""

    asked = 0

    def held(self) -> dict[TopicPartition, int | None]:
        """Work twice: when it is checked, and at the first join."""
        self.asked += 1
        if self.asked > 2:
            raise OSError("no disk")
        return super().held()


def test_held_that_fails_later_ends_the_group(cluster: Cluster) -> None:
    first = Member(cluster, "a", Broken())
    until_shared(cluster, first)
    first.program.process.call_soon(first.group.rejoin)
    cluster.run_until(lambda: first.program.is_done)
    with pytest.raises(OSError, match="no disk"):
        first.program.result()


def test_held_that_fails_ends_work_in_order(cluster: Cluster) -> None:
    committed: list[int] = []

    class Careful(Member):
        """Its work takes a while to end, and commits then."""

        async def _work(self, partition: Partition) -> None:
            try:
                await super()._work(partition)
            finally:
                await asyncio.sleep(3)
                await partition.commit(7)
                committed.append(partition.number)

    first = Careful(cluster, "a", Broken())
    until_shared(cluster, first)
    second = Member(cluster, "b")
    cluster.run_until(lambda: len(second.owned) == 4)
    assert sorted(committed) == [0, 1, 2, 3]
    assert not first.running()
    cluster.run_until(lambda: first.program.is_done)
    with pytest.raises(OSError, match="no disk"):
        first.program.result()


def test_restores_that_fail_do_not_keep_others_from_moving(cluster: Cluster) -> None:
    class Unlucky(Member):
        """It can restore two partitions only."""

        async def _restore(self, standby: Standby) -> None:
            standby.lag(END)
            if standby.number in (0, 2):
                raise OSError("no disk")
            await super()._restore(standby)

    settings = replace(SETTINGS, probing_rebalance_interval_ms=60_000)
    first = Member(cluster, "a", warm=settings)
    until_shared(cluster, first)
    second = Unlucky(cluster, "b", warm=settings)
    cluster.run(seconds=15)
    assert [each.number for each in second.group.standbys] == [0, 2]
    cluster.run_until(lambda: second.owned == [1, 3], within_s=300)


def test_standby_refuses_to_commit(cluster: Cluster) -> None:
    refusals: list[Exception] = []

    async def restore(standby: Standby) -> None:
        try:
            await standby.commit(3)
        except GroupMisuseError as error:
            refusals.append(error)
        await asyncio.get_running_loop().create_future()

    first = Member(cluster, "a")
    until_shared(cluster, first)
    cluster.run(seconds=5)

    async def main() -> None:
        async with Group(cluster.bootstrap, "g", topics=["t"], warm=SETTINGS) as group:
            await group.run(_work, warm=restore)

    cluster.start("b", main())
    cluster.run_until(lambda: bool(refusals))
    assert "is a standby here" in str(refusals[0])


def test_each_start_of_work_has_a_token_of_its_own(cluster: Cluster) -> None:
    first = Member(cluster, "a")
    until_shared(cluster, first)
    second = Member(cluster, "b")
    until_shared(cluster, first, second)
    by_partition: dict[Any, list[int]] = {}
    for member in (first, second):
        for event in member.seen(WorkStarted):
            by_partition.setdefault(event.partition, []).append(event.token)
    assert all(len(set(tokens)) == len(tokens) for tokens in by_partition.values())
