"""The virtual cluster, as a user's test uses it: seconds of rebalancing take milliseconds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator

import pytest
import structlog

from coterie_client import Group, Partition
from coterie_client.admin import Admin
from coterie_protocol import ApiKey
from coterie_protocol.error_codes import ErrorCode
from coterie_protocol.journal import RebalanceStarted
from coterie_server.serving.node import Node
from coterie_server.topics import TopicRefusal
from coterie_testing.kit import Cluster
from coterie_testing.virtual import IdleError

TOPICS = {"orders": 4}


class Shop:
    """Workers of a group, and which of them works on what."""

    def __init__(self, bootstrap: str) -> None:
        self.bootstrap = bootstrap
        self.owners: dict[int, str] = {}
        self.taken: list[tuple[str, int]] = []

    async def work(self, name: str, partition: Partition) -> None:
        """Work on a partition until it is taken away."""
        assert partition.number not in self.owners, "two workers"
        self.owners[partition.number] = name
        self.taken.append((name, partition.number))
        try:
            for offset in range(1_000_000):
                await asyncio.sleep(1)
                await partition.commit(offset)
        finally:
            del self.owners[partition.number]

    async def worker(self, name: str, instance: str | None = None) -> None:
        """A worker's whole life."""
        async with Group(
            self.bootstrap, "shop", topics=list(TOPICS), instance=instance, client_id=name
        ) as group:
            await group.run(lambda partition: self.work(name, partition))

    def has(self, *names: str) -> bool:
        """Whether these workers share all the work."""
        return len(self.owners) == TOPICS["orders"] and set(self.owners.values()) == set(names)


@pytest.fixture
def cluster(coterie_cluster: Callable[..., Cluster]) -> Cluster:
    """A cluster with a topic."""
    return coterie_cluster(TOPICS)


@pytest.fixture
def shop(cluster: Cluster) -> Iterator[Shop]:
    """Workers that do not work yet."""
    shop = Shop(cluster.bootstrap)
    yield shop
    shop.owners.clear()


@pytest.mark.parametrize(
    ("topics", "what"),
    [
        ({"orders shard": 3}, "Topic name is invalid"),
        ({"orders": 0}, "can't have 0 partitions"),
        ({"orders": "3"}, "names with their numbers of partitions"),
    ],
)
def test_mistake_in_a_topic_is_raised(
    coterie_cluster: Callable[..., Cluster], topics: dict[str, int], what: str
) -> None:
    with pytest.raises((TopicRefusal, TypeError), match=what):
        coterie_cluster(topics)


def test_workers_share_the_work(cluster: Cluster, shop: Shop) -> None:
    cluster.start("a", shop.worker("a"))
    cluster.run_until(lambda: shop.has("a"))
    cluster.start("b", shop.worker("b"))
    cluster.run_until(lambda: shop.has("a", "b"))
    assert sum(name == "b" for name, _ in shop.taken) == 2


def test_killed_worker_is_replaced_only_after_its_session(cluster: Cluster, shop: Shop) -> None:
    a, _ = (cluster.start(name, shop.worker(name)) for name in "ab")
    cluster.run_until(lambda: shop.has("a", "b"))
    killed_s = cluster.now_s
    a.kill()
    shop.owners = {number: name for number, name in shop.owners.items() if name != "a"}
    cluster.run_until(lambda: shop.has("b"))
    assert 40 < cluster.now_s - killed_s < 50


def test_cancelled_worker_leaves_at_once(cluster: Cluster, shop: Shop) -> None:
    a, _ = (cluster.start(name, shop.worker(name)) for name in "ab")
    cluster.run_until(lambda: shop.has("a", "b"))
    stopped_s = cluster.now_s
    a.stop()
    cluster.run_until(lambda: shop.has("b"))
    assert cluster.now_s - stopped_s < 5
    assert a.is_done
    with pytest.raises(asyncio.CancelledError):
        a.result()


def test_restart_of_the_coordinator_keeps_the_generation(cluster: Cluster, shop: Shop) -> None:
    cluster.start("a", shop.worker("a"))
    cluster.run_until(lambda: shop.has("a"))
    cluster.restart_coordinator(after_s=5)
    cluster.run(60)
    assert shop.has("a")
    assert len(shop.taken) == TOPICS["orders"]
    assert sum(isinstance(event, RebalanceStarted) for event in cluster.events) == 1


def served(cluster: Cluster) -> list[bool]:
    """Whether the coordinator answers, for each of the next 20 seconds."""
    answers = []
    for _ in range(20):
        cluster.run(seconds=1)
        answers.append(cluster.is_up)
    return answers


def test_second_restart_replaces_the_first(cluster: Cluster) -> None:
    cluster.restart_coordinator(after_s=5)
    cluster.run(seconds=2)
    cluster.restart_coordinator(after_s=9.5)
    assert served(cluster) == [False] * 9 + [True] * 11


def test_killed_coordinator_is_not_started_by_an_earlier_restart(cluster: Cluster) -> None:
    cluster.restart_coordinator(after_s=5)
    cluster.kill_coordinator()
    assert not any(served(cluster))
    cluster.start_coordinator()
    assert all(served(cluster))


def test_coordinator_that_was_started_by_hand_is_not_started_twice(cluster: Cluster) -> None:
    cluster.restart_coordinator(after_s=5)
    cluster.start_coordinator()
    assert all(served(cluster))


def test_running_coordinator_can_not_be_started(cluster: Cluster) -> None:
    with pytest.raises(RuntimeError, match="the coordinator runs already: kill it first"):
        cluster.start_coordinator()


def test_paused_worker_loses_its_work(cluster: Cluster, shop: Shop) -> None:
    a, _ = (cluster.start(name, shop.worker(name)) for name in "ab")
    cluster.run_until(lambda: shop.has("a", "b"))
    a.pause(seconds=120)
    shop.owners = {number: name for number, name in shop.owners.items() if name != "a"}
    cluster.run_until(lambda: shop.has("b"), within_s=60)


def test_without_heartbeats_work_stops_before_another_worker_begins(
    cluster: Cluster, shop: Shop
) -> None:
    for name in "ab":
        cluster.start(name, shop.worker(name))
    cluster.run_until(lambda: shop.has("a", "b"))
    fault = cluster.faults.drop(api=ApiKey.HEARTBEAT, client_id="a", seconds=60)
    commits = cluster.faults.drop(api=ApiKey.OFFSET_COMMIT, client_id="a", seconds=60)
    cluster.run_until(lambda: "a" not in shop.owners.values(), within_s=45)
    assert fault.hits > 0
    assert commits.hits > 0
    cluster.run_until(lambda: shop.has("a", "b"))


def test_commit_that_is_refused_once_is_retried(cluster: Cluster, shop: Shop) -> None:
    fault = cluster.faults.refuse(
        ErrorCode.COORDINATOR_LOAD_IN_PROGRESS, api=ApiKey.OFFSET_COMMIT, times=3
    )
    cluster.start("a", shop.worker("a"))
    cluster.run_until(lambda: fault.hits == 3)
    cluster.run(5)
    assert len(shop.taken) == TOPICS["orders"]


def test_admin_client_works_in_a_cluster(cluster: Cluster) -> None:
    async def grow() -> int:
        async with Admin(cluster.bootstrap) as admin:
            await admin.topics.grow("orders", 8)
            return len((await admin.topics.describe("orders")).partitions)

    assert cluster.call(grow()) == 8


def test_run_until_fails_if_the_condition_never_holds(cluster: Cluster) -> None:
    with pytest.raises(IdleError, match="30 s"):
        cluster.run_until(lambda: False, within_s=30)


def test_program_that_failed_is_named_where_a_condition_never_holds(cluster: Cluster) -> None:
    async def fail(error: Exception) -> None:
        await asyncio.sleep(1)
        raise error

    async def leave_alone(error: Exception) -> None:
        asyncio.get_running_loop().call_soon(lambda: 1 / 0)
        await asyncio.sleep(1_000)
        raise error

    cluster.start("a", asyncio.sleep(1_000))
    cluster.start("b", fail(ImportError("no module named shop")))
    cluster.start("c", leave_alone(ValueError("never")))
    cluster.start("d", asyncio.sleep(1_000)).stop()
    with pytest.raises(IdleError, match="30 s") as caught:
        cluster.run_until(lambda: False, within_s=30)
    assert str(caught.value).endswith(
        "did not come true; b failed with ImportError('no module named shop'),"
        " and c failed with ZeroDivisionError('division by zero')"
    )
    assert isinstance(caught.value.__cause__, ImportError)


def test_coordinator_that_can_not_start_is_named(
    coterie_cluster: Callable[..., Cluster], monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object) -> None:
        raise ZeroDivisionError("a bug")

    monkeypatch.setattr(Node, "start", fail)
    with pytest.raises(IdleError, match="the coordinator failed with ZeroDivisionError"):
        coterie_cluster()


def test_failure_of_a_program_is_logged(cluster: Cluster, caplog: pytest.LogCaptureFixture) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    cluster.start("a", asyncio.sleep(1_000)).stop()
    program = cluster.start("b", fail())
    cluster.run(1)
    (record,) = caplog.records
    assert record.getMessage() == "the program b has failed"
    assert "ValueError: a bug" in caplog.text
    with pytest.raises(ValueError, match="a bug"):
        program.result()


def test_error_of_a_program_is_raised_by_result(cluster: Cluster) -> None:
    async def fail() -> None:
        raise ValueError("a bug")

    with pytest.raises(ValueError, match="a bug"):
        cluster.call(fail())


async def _fail() -> None:
    raise ValueError("a bug")


def test_error_that_nobody_asks_for_fails_the_test_when_it_is_over() -> None:
    cluster = Cluster(TOPICS)
    cluster.start("fails", _fail())
    cluster.start("waits", asyncio.sleep(1_000))
    cluster.run(30)
    with pytest.raises(ExceptionGroup, match="programs raised: fails") as told:
        cluster.close()
    assert told.group_contains(ValueError, match="a bug")
    cluster.close()  # it was said once


def test_error_of_a_test_is_not_hidden_by_that_of_a_program() -> None:
    def wait_in_vain() -> None:
        with Cluster(TOPICS) as cluster:
            cluster.start("fails", _fail())
            cluster.run(30)
            raise LookupError("nothing came")

    with pytest.raises(LookupError) as told:
        wait_in_vain()
    assert "programs raised: fails: ValueError('a bug')" in told.value.__notes__[0]


def test_error_that_was_asked_for_fails_no_test() -> None:
    with Cluster(TOPICS) as cluster:
        program = cluster.start("fails", _fail())
        cluster.run_until(lambda: program.is_done)
        with pytest.raises(ValueError, match="a bug"):
            program.result()


def test_programs_that_are_stopped_or_killed_fail_no_test() -> None:
    with Cluster(TOPICS) as cluster:
        stopped, killed = (cluster.start(name, asyncio.sleep(1_000)) for name in "ab")
        cluster.run(1)
        stopped.stop()
        killed.kill()
        cluster.run(1)
        assert stopped.is_done
        assert not killed.is_done


def test_group_that_was_made_outside_of_its_program_is_told_where_to_make_it() -> None:
    with Cluster(TOPICS) as cluster:
        group = Group(cluster.bootstrap, "shop", topics=list(TOPICS))

        async def work() -> None:
            async with group:
                await group.run(lambda _: asyncio.sleep(1_000))

        program = cluster.start("a", work())
        cluster.run(60)
        with pytest.raises(NotImplementedError) as told:
            program.result()
    assert "inside the program's coroutine" in told.value.__notes__[0]


def test_coordinator_and_client_log_and_print_nothing(
    coterie_cluster: Callable[..., Cluster], capfd: pytest.CaptureFixture[str]
) -> None:
    structlog.reset_defaults()
    cluster = coterie_cluster({"orders": 2})

    async def main() -> None:
        async with Group(cluster.bootstrap, "g", topics=["orders"]) as group:
            await group.run(lambda _: asyncio.sleep(1_000))

    member = cluster.start("a", main())
    cluster.run(seconds=10)
    member.kill()
    cluster.restart_coordinator()
    cluster.run(seconds=60)
    assert capfd.readouterr() == ("", "")
