"""What members work on and keep copies of, and who is away, in words."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_cli.commands.groups import print_members
from coterie_cli.output import time_text
from coterie_cli.rebalances import explain, known_since
from coterie_cli.work_text import absences, moves, work_text
from coterie_client.admin import GroupDescription, MemberDescription
from coterie_client.wire.addresses import NodeAddress
from coterie_protocol.streams.reading import Orders
from tests.cli.test_watching import NOW_MS, rebalance


def member(**more: Any) -> dict[str, Any]:
    return {"member": "m", "instance": "i", "owned": {"t": [0, 1, 2, 5]}} | more


@pytest.mark.parametrize(
    ("more", "text"),
    [
        ({}, "t[0-2,5]"),
        ({"owned": None}, "?"),
        ({"owned": {}}, "-"),
        ({"standbys": {"t": [7]}, "warming": {}, "lags": {}}, "t[0-2,5]; standby t[7]"),
        (
            {"owned": {}, "warming": {"t": [3, 4]}, "lags": {"t": {"3": 1_234, "4": None}}},
            "warming up t-3 (1,234 behind), t-4",
        ),
        (
            {"owned": {}, "warming": {"t": list(range(8))}, "lags": None},
            "warming up t-0, t-1, t-2, t-3, t-4 and 3 more",
        ),
    ],
)
def test_work(more: dict[str, Any], text: str) -> None:
    assert work_text(member(**more)) == text


def test_each_member_that_is_away_has_a_sentence() -> None:
    away = member(away_since_ms=NOW_MS, away_until_ms=NOW_MS + 60_000)
    idle = member(instance="h", owned={}, away_since_ms=NOW_MS, away_until_ms=NOW_MS + 60_000)
    since, until = time_text(NOW_MS), time_text(NOW_MS + 60_000)
    assert list(absences([away, member(), member(away_since_ms=None), idle])) == [
        f"h is away since {since}; its place is kept until {until}.",
        f"i is away since {since}; its place is kept until {until}, and t[0-2,5] with it.",
    ]


def test_moves_name_owner_and_target() -> None:
    owner = member(member="a", instance=None, targets={})
    heir = member(instance="i", owned={}, targets={"t": [2, 9]}, lags={"t": {"2": 12_345}})
    assert moves([owner, heir]) == "t-2 from a to i (12,345 behind), t-9 from no member to i"
    assert moves([owner]) == ""
    many = member(targets={"t": list(range(9))})
    assert moves([many]).endswith("t-4 from no member to i and 4 more")


def test_moves_that_wait_are_explained() -> None:
    waits = {"count": 3, "names": ["t-3 from a to b (its copy was 1,234 behind)"]}
    lines = list(explain(rebalance(NOW_MS) | {"waiting_moves": waits}))
    expected = "Still to move: t-3 from a to b (its copy was 1,234 behind) and 2 more."
    assert f"  {expected}" in lines


def described(**more: Any) -> GroupDescription:
    values: dict[str, Any] = {
        "member_id": "m-1",
        "instance_id": "one",
        "client_id": "c",
        "host": "/10.0.0.1",
        "topics": ("t",),
        "partitions": (("t", 0),),
        "metadata": b"",
        "assignment": b"",
    }
    return GroupDescription(
        group_id="g",
        state="Stable",
        protocol_type="consumer",
        protocol="range",
        members=(MemberDescription(**values | more),),
        coordinator=NodeAddress("h", 1),
    )


def test_description_of_a_group_without_absences(capsys: pytest.CaptureFixture[str]) -> None:
    print_members(described())
    assert capsys.readouterr().out.split() == [
        *("MEMBER", "INSTANCE", "CLIENT", "HOST", "PARTITIONS"),
        *("m-1", "one", "c", "10.0.0.1", "t[0]"),
    ]


def test_description_says_since_when_a_member_is_away(capsys: pytest.CaptureFixture[str]) -> None:
    print_members(described(away_since_ms=NOW_MS))
    heading, row = capsys.readouterr().out.splitlines()
    assert "AWAY SINCE" in heading
    assert row.split()[-3:] == [*time_text(NOW_MS).split(), "t[0]"]


def test_description_has_what_members_tell(capsys: pytest.CaptureFixture[str]) -> None:
    print_members(described(address="h1:80", labels={"zone": "z"}))
    heading, row = capsys.readouterr().out.splitlines()
    assert "ADDRESS" in heading
    assert row.split()[-3:] == ["h1:80", "zone=z", "t[0]"]


def test_description_has_copies(capsys: pytest.CaptureFixture[str]) -> None:
    targets = {("t", 0): "elsewhere", ("t", 2): "m-1"}
    orders = Orders(frozenset({("t", 1)}), frozenset({("t", 2)}), targets)
    print_members(described(orders=orders, lags={("t", 2): 12_000}))
    _, row, _, still = capsys.readouterr().out.splitlines()
    assert still == "Still to move: t-2 from no member to one (12,000 behind)."
    assert row.endswith("t[0]; standby t[1]; warming up t-2 (12,000 behind)")


@pytest.mark.parametrize(
    ("history", "started_ms", "said"),
    [
        ({"since_ms": None, "limit": "complete"}, [], "g has never rebalanced."),
        ({"since_ms": None, "limit": "complete"}, [5], ""),
        ({"since_ms": NOW_MS, "limit": "journal"}, [], "g has not rebalanced since NOW. Why."),
        (
            {"since_ms": NOW_MS, "limit": "journal"},
            [NOW_MS + 1],
            "Nothing is known of the time before NOW. Why.",
        ),
        ({"since_ms": NOW_MS, "limit": "missing"}, [NOW_MS + 2, NOW_MS + 1], ""),
        (
            {"since_ms": NOW_MS, "limit": "missing"},
            [NOW_MS + 1, NOW_MS - 1],
            "Not all is known of the time before NOW. Why.",
        ),
    ],
)
def test_from_when_on_rebalances_are_known_is_said_where_that_matters(
    history: dict[str, Any], started_ms: list[int], said: str
) -> None:
    shown = [rebalance(each) for each in started_ms]
    found = known_since("g", {**history, "message": "Why."}, shown, wanted=2)
    assert found == said.replace("NOW", time_text(NOW_MS))
