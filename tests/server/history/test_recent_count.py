"""How often something has happened in the last hour."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from coterie_server.history.recent_count import RecentCount

MINUTE_MS = 60_000


def counted(*minutes: int) -> RecentCount:
    count = RecentCount()
    for minute in minutes:
        count.note(minute * MINUTE_MS)
    return count


def test_what_is_older_than_an_hour_is_not_counted() -> None:
    count = counted(0, 0, 30)
    assert [count.until(minute * MINUTE_MS) for minute in (30, 59, 60, 89, 90)] == [3, 3, 1, 1, 0]


@given(st.lists(st.integers(0, 300)).map(sorted), st.integers(0, 400), st.integers(0, 400))
def test_count_is_that_of_the_last_hour_however_it_is_joined(
    minutes: list[int], now: int, cut: int
) -> None:
    earlier, later = counted(*minutes[:cut]), counted(*minutes[cut:])
    later.put_first(earlier)
    now = max([now, *minutes])
    expected = sum(now - 60 < minute for minute in minutes)
    assert later.until(now * MINUTE_MS) == expected
    assert counted(*minutes).until(now * MINUTE_MS) == expected
