"""How much each group may show."""

from __future__ import annotations

from coterie_pipeline.report.shares import shares


def test_the_worst_group_shows_most() -> None:
    # The second shows half as much, the third a third.
    assert shares({"worst": 9_000, "bad": 9_000, "better": 9_000}, 1_100) == {
        "worst": 600,
        "bad": 300,
        "better": 200,
    }


def test_who_wants_little_gets_all_of_it() -> None:
    assert shares({"small": 10, "large": 900, "larger": 2_000}, 510) == {
        "small": 10,
        "large": 300,
        "larger": 200,
    }


def test_nobody_gets_more_than_it_wants() -> None:
    assert shares({"a": 3, "b": 4}, 500) == {"a": 3, "b": 4}


def test_nobody_gets_nothing() -> None:
    # Each group shows something, even if there are too many.
    assert set(shares({str(number): 5 for number in range(9)}, 3).values()) == {1}


def test_nobody_has_nothing_to_share() -> None:
    assert shares({}, 500) == {}
