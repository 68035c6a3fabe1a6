"""What is said of what a keeper of leases can't do."""

from __future__ import annotations

import structlog.testing

from coterie_server.serving.troubles import Trouble

TAKEN = "the store is in use as node-1 by another process, whose entry is valid for {} ms"
SILENT = "the store does not answer"


def logged_of(*reasons: str) -> list[str]:
    """What the log says of a trouble that has these reasons in turn, before it ends."""
    trouble = Trouble("it can't be done", "it is done again", 1.0, lambda: None)
    with structlog.testing.capture_logs() as lines:
        for reason in reasons:
            trouble.begin(reason)
            assert trouble.why == reason
        trouble.end()
        assert trouble.why == ""
    return [line.get("error", line["event"]) for line in lines]


def test_reason_is_told_once_whatever_its_numbers_are() -> None:
    reasons = [TAKEN.format(left_ms) for left_ms in (2917, 2401, 2844)]
    assert logged_of(*reasons) == [reasons[0], "it is done again"]


def test_each_of_several_reasons_is_told_once() -> None:
    taken = TAKEN.format(9)
    assert logged_of(*[SILENT, taken] * 5) == [SILENT, taken, "it is done again"]


def test_reason_is_told_again_when_the_trouble_comes_back() -> None:
    trouble = Trouble("it can't be done", "it is done again", 1.0, lambda: None)
    with structlog.testing.capture_logs() as lines:
        for _ in range(2):
            trouble.begin(SILENT)
            trouble.end()
    assert [line["event"] for line in lines] == ["it can't be done", "it is done again"] * 2
