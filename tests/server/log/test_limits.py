"""A limit that is hit is logged, but not once for each hit."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from coterie_server.log.limits import LimitLog
from coterie_server.log.repeats import QUIET_MS
from coterie_server.step import LimitHit

GROUPS = LimitHit("max.groups", 7, "group g")
TOPICS = LimitHit("max.topics", 3, "topic t")


def test_line_says_which_limit(log: list[MutableMapping[str, Any]]) -> None:
    LimitLog().note([GROUPS], 1_000)
    assert log == [
        {
            "event": "limit reached",
            "log_level": "warning",
            "setting": "max.groups",
            "limit": 7,
            "wanted": "group g",
            "refused": 1,
        }
    ]


def test_what_follows_is_counted(log: list[MutableMapping[str, Any]]) -> None:
    limits = LimitLog()
    for now_ms in (0, 1, 2, QUIET_MS - 1):
        limits.note([GROUPS], now_ms)
    assert [line["refused"] for line in log] == [1]
    limits.note([GROUPS], QUIET_MS)
    assert [line["refused"] for line in log] == [1, 4]
    limits.note([GROUPS], 2 * QUIET_MS)
    assert [line["refused"] for line in log] == [1, 4, 1]


def test_each_limit_has_its_own_line(log: list[MutableMapping[str, Any]]) -> None:
    limits = LimitLog()
    limits.note([GROUPS, TOPICS], 0)
    limits.note([GROUPS], 1)
    assert [line["setting"] for line in log] == ["max.groups", "max.topics"]
