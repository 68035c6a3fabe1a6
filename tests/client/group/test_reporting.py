"""Events reach the log, the counters and the hook, and nothing comes back from there."""

from __future__ import annotations

import asyncio

import pytest

from coterie_client.counters import GroupCounters
from coterie_client.events import (
    CommitsUnconfirmed,
    CoordinatorFound,
    CoordinatorLost,
    Event,
    GroupFailed,
    LeaderDecided,
    PartitionsAssigned,
    PartitionsLost,
    PartitionsReleased,
    RetryPlanned,
    RevocationOverran,
    WorkFailedEnding,
    WorkStarted,
)
from coterie_client.reporting import Reporter, brief
from tests.client.group.conftest import LogLines

ORDERS = tuple(("orders", number) for number in (0, 1, 2, 3, 7))


def test_event_is_logged_with_its_fields(log: LogLines) -> None:
    Reporter("billing", GroupCounters())(
        LeaderDecided(generation=3, members=2, partitions=6, withheld=1)
    )
    assert log == [
        {
            "event": "shared out the partitions",
            "log_level": "info",
            "group": "billing",
            "generation": 3,
            "members": 2,
            "partitions": 6,
            "withheld": 1,
        }
    ]


def test_partitions_are_logged_briefly(log: LogLines) -> None:
    report = Reporter("billing", GroupCounters())
    report(PartitionsLost(partitions=ORDERS, reason="fenced"))
    report(WorkStarted(partition=("orders", 3), token=1))
    assert [line.get("partitions", line.get("partition")) for line in log] == [
        "orders[0-3,7]",
        "orders[3]",
    ]


def test_errors_are_logged_with_their_trace(log: LogLines) -> None:
    error = ValueError("no")
    report = Reporter("billing", GroupCounters())
    report(WorkFailedEnding(partition=("orders", 3), exception=error))
    with pytest.raises(ValueError, match="no"):
        raise error
    report(WorkFailedEnding(partition=("orders", 3), exception=error))
    assert [(line["log_level"], line["error"]) for line in log] == [("error", "ValueError: no")] * 2
    first, second = (line.get("stack", "") for line in log)
    assert (first, second.count("Traceback"), "exc_info" in log[1]) == ("", 1, False)


def test_error_that_is_raised_is_logged_without_its_trace(log: LogLines) -> None:
    report = Reporter("billing", GroupCounters())
    with pytest.raises(ValueError, match="no") as caught:
        raise ValueError("no")
    report(GroupFailed(exception=caught.value, is_raised=True))
    report.crash(caught.value)
    assert [line["error"] for line in log] == ["ValueError: no"] * 2
    assert not any(line.keys() & {"stack", "exc_info", "is_raised"} for line in log)


def test_error_that_can_not_say_what_it_is(log: LogLines) -> None:
    class SilentError(Exception):
        def __str__(self) -> str:
            raise LookupError

    Reporter("billing", GroupCounters())(
        WorkFailedEnding(partition=("orders", 3), exception=SilentError())
    )
    assert [line["error"] for line in log] == ["SilentError (its str() raises LookupError)"]


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], ""),
        ([("b", 1), ("a", 2), ("b", 0)], "a[2] b[0-1]"),
        ([("a", 5), ("a", 3), ("a", 4), ("a", 9)], "a[3-5,9]"),
    ],
)
def test_partitions_are_listed_briefly(partitions: list[tuple[str, int]], text: str) -> None:
    assert brief(partitions) == text


@pytest.mark.parametrize(
    ("event", "counter", "count"),
    [
        (PartitionsAssigned(partitions=ORDERS), "assigned", 5),
        (PartitionsReleased(partitions=ORDERS, took_ms=1), "released", 5),
        (PartitionsLost(partitions=ORDERS, reason="x"), "lost", 5),
        (RevocationOverran(partitions=ORDERS, after_ms=1), "overran", 5),
        (CommitsUnconfirmed(partitions=ORDERS, after_ms=1), "released", 5),
        (WorkStarted(partition=("orders", 1), token=1), "work_started", 1),
    ],
)
def test_events_are_counted(event: Event, counter: str, count: int) -> None:
    """Partitions count one by one, other events once each."""
    counters = GroupCounters()
    Reporter("billing", counters)(event)
    assert getattr(counters, counter) == count


def test_hook_is_told_everything() -> None:
    told: list[Event] = []
    event = PartitionsAssigned(partitions=ORDERS)
    Reporter("billing", GroupCounters(), told.append)(event)
    assert told == [event]


@pytest.mark.parametrize("error", [ValueError("hook"), asyncio.CancelledError(), GeneratorExit()])
def test_hook_that_raises_is_logged_and_counted(log: LogLines, error: BaseException) -> None:
    def hook(_: Event) -> None:
        raise error

    counters = GroupCounters()
    report = Reporter("billing", counters, hook)
    report(PartitionsAssigned(partitions=ORDERS))
    report(PartitionsAssigned(partitions=ORDERS))
    assert counters.hook_failures == 2
    assert [line["event"] for line in log if line["log_level"] == "error"] == [
        "the on_event hook failed"
    ] * 2


@pytest.mark.parametrize("error", [SystemExit(7), KeyboardInterrupt()])
def test_hook_ends_the_program_when_what_is_under_way_is_done(error: BaseException) -> None:
    """And it does so once, or the second exit would break off the end."""
    done: list[str] = []

    def hook(_: Event) -> None:
        raise error

    async def main() -> None:
        counters = GroupCounters()
        report = Reporter("billing", counters, hook)
        report(PartitionsAssigned(partitions=ORDERS))
        report(PartitionsAssigned(partitions=ORDERS))
        done.append("the turn")
        assert counters.hook_failures == 0
        try:
            await asyncio.sleep(60)
        finally:
            await asyncio.sleep(0)
            done.append("the rest")

    with pytest.raises(type(error)):
        asyncio.run(main())
    assert done == ["the turn", "the rest"]


def test_attempts_are_told_more_and_more_rarely(log: LogLines) -> None:
    told: list[Event] = []
    report = Reporter("billing", GroupCounters(), told.append)
    for number in range(1_000):
        report(RetryPlanned(what="join", reason=str(number), delay_ms=1))
        report(RetryPlanned(what="look for the coordinator", reason="x", delay_ms=1))
    heard = [line["reason"] for line in log if line["log_level"] == "warning"]
    assert heard == ["0", "x", "9", "x", "99", "x", "999", "x"]
    assert {line["log_level"] for line in log} == {"warning", "debug"}
    assert (len(log), len(told)) == (2_000, 2_000)


def test_attempts_are_news_again_after_a_coordinator_was_at_work(log: LogLines) -> None:
    report = Reporter("billing", GroupCounters())
    for _ in range(2):
        report(CoordinatorLost(node="n:1", reason="y", had_served=True))
        report(RetryPlanned(what="join", reason="x", delay_ms=1))
        report(RetryPlanned(what="join", reason="x", delay_ms=1))
        report(CoordinatorFound(node="n:1"))
    levels = [line["log_level"] for line in log if "reason" in line]
    assert levels == ["warning", "warning", "debug"] * 2


def test_coordinator_that_is_found_and_does_not_serve_is_one_trouble(log: LogLines) -> None:
    report = Reporter("billing", GroupCounters())
    for number in range(1_000):
        report(CoordinatorLost(node="n:1", reason=str(number), had_served=number == 0))
        report(CoordinatorFound(node="n:1"))
    heard = [line["reason"] for line in log if line["log_level"] == "warning"]
    assert heard == ["0", "9", "99", "999"]
