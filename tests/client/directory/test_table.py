"""The table that a directory makes of events."""

from __future__ import annotations

import json
from typing import Any

import pytest

from coterie_client.directory.table import Owner, Table
from coterie_client.errors import UnexpectedAnswerError


def row(partition: int, owner: str | None = "m", **more: Any) -> dict[str, Any]:
    state = "owned" if owner else "on_its_way"
    return {"topic": "t", "partition": partition, "state": state, "owner": owner, **more}


def event(*rows: dict[str, Any], generation: int = 1, **more: Any) -> str:
    told = {"generation": generation, "topics": {"t": 3}, "owners": rows, **more}
    return json.dumps(told)


def test_snapshot_replaces_what_was_known() -> None:
    table = Table()
    table.apply("snapshot", "a.1", event(row(0), row(1)))
    table.apply("snapshot", "b.0", event(row(2), generation=5))
    assert set(table.owners) == {("t", 2)}
    assert (table.generation, table.last_id, dict(table.topics)) == (5, "b.0", {"t": 3})


def test_change_replaces_what_it_names() -> None:
    table = Table()
    table.apply("snapshot", "a.1", event(row(0), row(1), row(2)))
    before = table.owners
    table.apply("change", "a.2", event(row(1, None), gone=[["t", 2]]))
    assert [each.state for each in table.owners.values()] == ["owned", "on_its_way"]
    assert len(before) == 3, "what a user was given has changed"


def test_owner_has_what_it_says_of_itself() -> None:
    table = Table()
    told = row(0, address="h:1", labels={"zone": "z"}, token=2**40, instance="one", new="later")
    table.apply("snapshot", "a.1", event(told))
    assert table.owner_of("t", 0) == Owner("t", 0, "owned", "m", "one", "h:1", {"zone": "z"}, 2**40)


def test_state_that_is_not_known_yet_may_have_an_owner() -> None:
    table = Table()
    table.apply("snapshot", "a.1", event(row(0) | {"state": "warming"}))
    assert table.owner_of("t", 0).is_owned


def test_partition_is_unknown_until_something_was_told() -> None:
    table = Table()
    assert table.owner_of("t", 0).state == "unknown"
    table.clear()
    assert table.owner_of("t", 0).state == "unowned"


@pytest.mark.parametrize(
    "data",
    [
        "",
        "[]",
        "7",
        "{}",
        '{"owners":[]}',
        '{"owners":[7],"topics":{},"generation":1}',
        '{"owners":[],"topics":[],"generation":1}',
        '{"owners":[],"topics":{},"generation":"x"}',
        '{"owners":[{"topic":"t"}],"topics":{},"generation":1}',
        '{"owners":[],"gone":[7],"topics":{},"generation":1}',
        '{"owners":[],"topics":{"t":1e999},"generation":1}',
        '{"owners":[],"topics":{},"generation":Infinity}',
        '{"owners":[],"topics":{},"generation":NaN}',
        '{"owners":[],"gone":[[{},1]],"topics":{},"generation":1}',
        "[" * 100_000,
    ],
)
def test_nonsense_is_refused_and_changes_nothing(data: str) -> None:
    table = Table()
    table.apply("snapshot", "a.1", event(row(0)))
    with pytest.raises(UnexpectedAnswerError):
        table.apply("change", "a.2", data)
    assert (table.last_id, len(table.owners)) == ("a.1", 1)
