"""What administrators had ordered, as a journal ends."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from aiohttp.test_utils import TestClient, TestServer

from coterie_protocol.journal import (
    Event,
    GroupDeleted,
    GroupRecovered,
    Line,
    OperationEnded,
    OperationStarted,
    Partitions,
)
from coterie_server.archive import Journals, create_archive_app
from tests.server.http.pages import read
from tests.support.journals import write_journal

pytestmark = pytest.mark.asyncio

DATE_MS = 1_700_000_000_000
RECOVERED = GroupRecovered(
    group="g",
    state="Stable",
    generation=3,
    members=("ann", "bob"),
    assigned={"ann": {"t": (0, 1, 2)}, "bob": {"t": (3,)}},
    away=(),
    fence=1,
)


def started(
    operation: str, member: str | None = None, partitions: Partitions | None = None
) -> OperationStarted:
    return OperationStarted(
        group="g", operation=operation, member=member, instance=None, partitions=partitions,
        at_a_time=2 if operation == "drain" else 0,
        until=DATE_MS + 60_000 if operation == "freeze" else None, by="ops", reason="why not",
    )  # fmt: skip


def ended(
    operation: str, member: str | None = None, partitions: Partitions | None = None
) -> OperationEnded:
    return OperationEnded(
        group="g", operation=operation, member=member, instance=None, partitions=partitions,
        how="lifted", by="", reason="",
    )  # fmt: skip


async def standing(folder: Path, *events: Event) -> list[dict[str, Any]]:
    """What the page of a group shows after these."""
    lines = [Line(DATE_MS + n, "1", n, event) for n, event in enumerate((RECOVERED, *events), 1)]
    return await shown_after(folder, lines)


async def shown_after(folder: Path, lines: Iterable[Line]) -> list[dict[str, Any]]:
    """What the page of a group shows after lines of any nodes."""
    write_journal(lines, folder)
    journals = Journals.read([folder], lambda _: None)
    try:
        async with TestClient(TestServer(create_archive_app(journals))) as browser:
            found: list[dict[str, Any]] = (await read(await browser.get("/v1/groups/g")))[
                "operations"
            ]
            return found
    finally:
        journals.close()


async def test_what_stands_is_shown_as_a_node_shows_it(tmp_path: Path) -> None:
    (shown,) = await standing(tmp_path, started("drain", "ann"))
    assert shown == {
        "operation": "drain", "member": "ann", "instance": None, "partitions": None,
        "at_a_time": 2, "left": 3, "by": "ops", "reason": "why not",
        "since_ms": DATE_MS + 2, "until_ms": None, "followed": True,
    }  # fmt: skip


async def test_what_ended_does_not_stand(tmp_path: Path) -> None:
    shown = await standing(
        tmp_path,
        started("drain", "ann"),
        started("drain", "bob"),
        started("freeze"),
        ended("drain", "ann"),
    )
    assert [(each["operation"], each["member"], each["left"]) for each in shown] == [
        ("drain", "bob", 1),
        ("freeze", None, None),
    ]


async def test_what_another_node_ended_does_not_stand_whatever_its_clock_says(
    tmp_path: Path,
) -> None:
    again = replace(RECOVERED, fence=2)
    lines = [
        Line(DATE_MS, "1", 1, RECOVERED),
        Line(DATE_MS + 5, "1", 2, started("drain", "ann")),
        Line(DATE_MS - 60_000, "2", 1, again),
        Line(DATE_MS - 59_000, "2", 2, ended("drain", "ann")),
    ]
    assert await shown_after(tmp_path, lines) == []


async def test_a_part_of_what_was_pinned_can_end(tmp_path: Path) -> None:
    shown = await standing(
        tmp_path,
        started("pin", "ann", {"t": (0, 1), "u": (5,)}),
        ended("pin", "ann", {"t": (1,), "u": (5,)}),
    )
    assert [each["partitions"] for each in shown] == [{"t": [0]}]
    assert await standing(tmp_path / "all", started("pin", "ann", {"t": (0,)}),
                          ended("pin", "ann", {"t": (0,)})) == []  # fmt: skip


async def test_a_group_that_was_deleted_begins_anew(tmp_path: Path) -> None:
    gone = GroupDeleted(group="g", generation=3, how="requested")
    shown = await standing(tmp_path, started("freeze"), gone, RECOVERED)
    assert shown == []
