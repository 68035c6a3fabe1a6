"""What keeps requests from being answered is logged, but not once for each request."""

from __future__ import annotations

from collections.abc import MutableMapping
from typing import Any

from coterie_server.log.repeats import QUIET_MS
from coterie_server.log.troubles import TroubleLog


class Now:
    """A time that a test sets."""

    ms = 1_000

    def __call__(self) -> int:
        """The time."""
        return self.ms


def test_line_says_what_is_wrong(log: list[MutableMapping[str, Any]]) -> None:
    TroubleLog(Now()).note("the topics can't be read", "it is away")
    assert log == [
        {
            "event": "the topics can't be read",
            "log_level": "warning",
            "error": "it is away",
            "times": 1,
        }
    ]


def test_what_comes_again_soon_is_counted(log: list[MutableMapping[str, Any]]) -> None:
    now = Now()
    troubles = TroubleLog(now)
    for _ in range(1_000):
        troubles.note("trouble", "first")
    assert [line["times"] for line in log] == [1]
    now.ms += QUIET_MS
    troubles.note("trouble", "second")
    assert [(line["times"], line["error"]) for line in log] == [(1, "first"), (1_000, "second")]


def test_each_trouble_has_its_own_line(log: list[MutableMapping[str, Any]]) -> None:
    troubles = TroubleLog(Now())
    for what in ("one", "two", "one"):
        troubles.note(what, "error")
    assert [line["event"] for line in log] == ["one", "two"]
