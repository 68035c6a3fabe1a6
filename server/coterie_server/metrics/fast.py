"""Counting that costs next to nothing: plain numbers, made into metrics when somebody asks.

prometheus_client's own counters take a lock for each step.  All that counts here happens in the
event loop's thread, and so does the scrape, so no lock is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import CounterMetricFamily, HistogramMetricFamily

__all__ = ["LATENCY_BOUNDS_S", "REBALANCE_BOUNDS_S", "Distribution", "counter", "histogram"]

#: A request that waits for nobody takes less than a millisecond; one that is parked, minutes.
LATENCY_BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip

#: From a group of clients in one process to a member that makes use of its rebalance timeout.
REBALANCE_BOUNDS_S: Final = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip


class Distribution:
    """How often values were how large."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Count a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def sum(self) -> float:
        """All values together."""
        return self._sum

    def buckets(self) -> list[tuple[str, float]]:
        """For each bound, how many values were not above it, as Prometheus has them."""
        rows, total = [], 0
        names = (*(str(bound) for bound in self._bounds), "+Inf")
        for name, count in zip(names, self._counts, strict=True):
            total += count
            rows.append((name, float(total)))
        return rows


def counter(
    name: str,
    text: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[tuple[str, ...], float]],
) -> CounterMetricFamily:
    """A counter as it stands; `rows` are the values of the labels and the count."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in rows:
        family.add_metric(values, count)
    return family


def histogram(
    name: str,
    text: str,
    labels: tuple[str, ...],
    rows: Mapping[tuple[str, ...], Distribution],
) -> HistogramMetricFamily:
    """A histogram as it stands, by the values of the labels."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, distribution in rows.items():
        family.add_metric(values, buckets=distribution.buckets(), sum_value=distribution.sum)
    return family
