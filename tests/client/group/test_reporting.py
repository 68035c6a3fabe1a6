"""Events reach the log, the counters and the hook, and nothing comes back from there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
import structlog

from coterie_client.counters import GroupCounters
from coterie_client.errors import ConfigurationError
from coterie_client.events import (
    Assigned,
    Event,
    GroupFailed,
    LeaderDecided,
    PartitionsLost,
    PartitionsReleased,
    RevocationOverran,
    WorkStarted,
)
from coterie_client.reporting import Reporter, brief
from tests.client.group.conftest import LogLines

ORDERS = tuple(("orders", number) for number in (0, 1, 2, 3, 7))


def test_event_is_logged_with_its_fields(log: LogLines) -> None:
    """A line has the event's severity, text and fields, and the group."""
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
    """A thousand partitions fit a line."""
    report = Reporter("billing", GroupCounters())
    report(PartitionsLost(partitions=ORDERS, reason="fenced"))
    report(WorkStarted(partition=("orders", 3), token=1))
    assert [line.get("partitions", line.get("partition")) for line in log] == [
        "orders[0-3,7]",
        "orders[3]",
    ]


def test_errors_are_logged_with_their_trace(log: LogLines) -> None:
    """A failure's line has the error as text, and as an exception if it was raised anywhere."""
    error = ValueError("no")
    report = Reporter("billing", GroupCounters())
    report(GroupFailed(exception=error))
    with pytest.raises(ValueError, match="no"):
        raise error
    report(GroupFailed(exception=error))
    assert [(line["log_level"], line["error"]) for line in log] == [("error", "ValueError: no")] * 2
    assert [line.get("exc_info") for line in log] == [None, error]


@pytest.mark.parametrize(
    ("partitions", "text"),
    [
        ([], ""),
        ([("b", 1), ("a", 2), ("b", 0)], "a[2] b[0-1]"),
        ([("a", 5), ("a", 3), ("a", 4), ("a", 9)], "a[3-5,9]"),
    ],
)
def test_brief(partitions: list[tuple[str, int]], text: str) -> None:
    """Topics and numbers are sorted, and runs of numbers are drawn together."""
    assert brief(partitions) == text


@pytest.mark.parametrize(
    ("event", "counter", "count"),
    [
        (Assigned(partitions=ORDERS), "assigned", 5),
        (PartitionsReleased(partitions=ORDERS, took_ms=1), "released", 5),
        (PartitionsLost(partitions=ORDERS, reason="x"), "lost", 5),
        (RevocationOverran(partitions=ORDERS, after_ms=1), "overran", 5),
        (WorkStarted(partition=("orders", 1), token=1), "work_started", 1),
    ],
)
def test_events_are_counted(event: Event, counter: str, count: int) -> None:
    """Partitions count one by one, other events once each."""
    counters = GroupCounters()
    Reporter("billing", counters)(event)
    assert getattr(counters, counter) == count


def test_hook_is_told_everything() -> None:
    """The hook gets the events themselves."""
    told: list[Event] = []
    event = Assigned(partitions=ORDERS)
    Reporter("billing", GroupCounters(), told.append)(event)
    assert told == [event]


def test_hook_that_raises_is_logged_and_counted(log: LogLines) -> None:
    """Its error goes no further."""

    def hook(_: Event) -> None:
        raise ValueError("hook")

    counters = GroupCounters()
    report = Reporter("billing", counters, hook)
    report(Assigned(partitions=ORDERS))
    report(Assigned(partitions=ORDERS))
    assert counters.hook_failures == 2
    assert [line["event"] for line in log if line["log_level"] == "error"] == [
        "the on_event hook failed"
    ] * 2


def test_hook_that_would_have_to_be_awaited_is_refused() -> None:
    """Nobody would await it."""

    async def hook(_: Event) -> None:
        """Do nothing."""

    with pytest.raises(ConfigurationError, match="plain function"):
        Reporter("billing", GroupCounters(), hook)


@pytest.mark.asyncio
async def test_log_that_fails_is_told_to_the_loop() -> None:
    """A log that can't be written to ends no group."""

    def full(_logger: object, _name: str, _event: Any) -> Any:
        raise OSError("disk full")

    complaints: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: complaints.append(context))
    structlog.configure(processors=[full])
    told: list[Event] = []
    Reporter("billing", GroupCounters(), told.append)(Assigned(partitions=ORDERS))
    assert [str(complaint["exception"]) for complaint in complaints] == ["disk full"]
    assert len(told) == 1
