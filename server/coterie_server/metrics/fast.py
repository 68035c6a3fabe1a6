"""Fast metrics: plain numbers, made into Prometheus' metrics when a scrape comes.

prometheus_client's own counters take a lock for each increment.  Here, counting and scraping both
happen in the event loop's thread, so no lock is needed.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Mapping
from typing import Final

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
)

__all__ = [
    "LATENCY_BOUNDS_S",
    "REBALANCE_BOUNDS_S",
    "Distribution",
    "counter",
    "gauge",
    "gauge_by",
    "histogram",
    "total",
]

#: A request that is answered at once takes less than a millisecond; one that is parked, minutes.
LATENCY_BOUNDS_S: Final = (
    0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5,
    1.0, 2.5, 5.0, 10.0, 30.0, 60.0, 300.0,
)  # fmt: skip

#: From clients in one process to a member that uses up its rebalance timeout.
REBALANCE_BOUNDS_S: Final = (
    0.01, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 30.0, 45.0, 60.0, 120.0, 300.0, 600.0,
)  # fmt: skip


class Distribution:
    """A histogram: how many values fell into each bucket, and their sum."""

    __slots__ = ("_bounds", "_counts", "_sum")

    def __init__(self, bounds: tuple[float, ...]) -> None:
        self._bounds = bounds
        self._counts = [0] * (len(bounds) + 1)
        self._sum = 0.0

    def add(self, value: float) -> None:
        """Add a value."""
        self._counts[bisect_left(self._bounds, value)] += 1
        self._sum += value

    @property
    def sum(self) -> float:
        """The sum of all values."""
        return self._sum

    def buckets(self) -> list[tuple[str, float]]:
        """For each bound, how many values were not above it, as Prometheus wants them."""
        rows, below = [], 0
        names = (*(str(bound) for bound in self._bounds), "+Inf")
        for name, count in zip(names, self._counts, strict=True):
            below += count
            rows.append((name, float(below)))
        return rows


def counter(
    name: str,
    text: str,
    labels: tuple[str, ...],
    rows: Iterable[tuple[tuple[str, ...], float]],
) -> CounterMetricFamily:
    """A counter with labels; each row has the values of the labels and the count."""
    family = CounterMetricFamily(name, text, labels=labels)
    for values, count in rows:
        family.add_metric(values, count)
    return family


def total(name: str, text: str, count: float) -> CounterMetricFamily:
    """A counter without labels."""
    return counter(name, text, (), [((), count)])


def gauge(name: str, text: str, value: float) -> GaugeMetricFamily:
    """A gauge without labels."""
    return GaugeMetricFamily(name, text, value=value)


def gauge_by(label: str, name: str, text: str, rows: Mapping[str, float]) -> GaugeMetricFamily:
    """A gauge with one label; the rows are by the values of the label."""
    family = GaugeMetricFamily(name, text, labels=(label,))
    for value, number in rows.items():
        family.add_metric((value,), number)
    return family


def histogram(
    name: str,
    text: str,
    labels: tuple[str, ...],
    rows: Mapping[tuple[str, ...], Distribution],
) -> HistogramMetricFamily:
    """A histogram with labels; the rows are by the values of the labels."""
    family = HistogramMetricFamily(name, text, labels=labels)
    for values, distribution in rows.items():
        family.add_metric(values, buckets=distribution.buckets(), sum_value=distribution.sum)
    return family
