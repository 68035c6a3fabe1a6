"""Times are divided among hours, however many they span."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from coterie_pipeline.hourly.health import Health

_HOUR_MS = 3_600_000

_GAPS = st.lists(st.tuples(st.integers(0, 20 * _HOUR_MS), st.integers(0, 5 * _HOUR_MS)), max_size=8)


@given(gaps=_GAPS)
def test_gaps_are_shared_out_to_the_hours_that_they_span(gaps: list[tuple[int, int]]) -> None:
    health = Health("g")
    expected: Counter[int] = Counter()
    for from_ms, length_ms in gaps:
        to_ms = from_ms + length_ms
        health.note("ownership_faults", {"fault": "gap", "from_ms": from_ms, "to_ms": to_ms})
        hour_ms = from_ms - from_ms % _HOUR_MS
        while hour_ms < to_ms or hour_ms == from_ms:
            expected[hour_ms] += min(to_ms, hour_ms + _HOUR_MS) - max(from_ms, hour_ms)
            hour_ms += _HOUR_MS
    stopped = {row["hour_ms"]: row["stopped_partition_ms"] for row in health.rows()}
    assert {hour: ms for hour, ms in stopped.items() if ms} == {
        hour: ms for hour, ms in expected.items() if ms
    }


def test_owned_time_counts_once_and_a_partition_once_an_hour() -> None:
    health = Health("g")
    for from_ms, to_ms in ((0, 100), (50, 150), (200, 2 * _HOUR_MS + 1)):
        row = {"topic": "t", "partition": 0, "from_ms": from_ms, "to_ms": to_ms}
        health.note("ownership", row)
    rows = sorted(health.rows(), key=lambda row: row["hour_ms"])
    assert [(row["partitions"], row["owned_partition_ms"]) for row in rows] == [
        (1, 150 + _HOUR_MS - 200),
        (1, _HOUR_MS),
        (1, 1),
    ]
    assert rows[0]["availability"] == 1.0
