"""How assignors balance the loads of partitions instead of their number, and when."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from coterie_protocol.loads import LOAD_MAX

__all__ = ["Weights"]

#: Times travel as 32 bits of milliseconds.
_SECONDS_MAX: Final = (2**31 - 1) // 1000


@dataclass(frozen=True, slots=True, kw_only=True)
class Weights:
    """Balance the loads of partitions, as members report them, instead of their number.

    Give all members of a group the same: who leads it decides.  All times are in seconds.
    """

    #: By topic, what each of its partitions weighs as long as no member has reported its load.
    topics: Mapping[str, float] = field(default_factory=dict)
    #: How much above the mean a member's load may be before partitions move: 0.2 is a fifth.
    tolerance: float = 0.2
    #: How many partitions may move in one rebalance to even out loads; None for a tenth of them.
    #: A member that owns nothing gets its share at once, all the same.
    max_moves: int | None = None
    #: How long a partition stays after it has moved, and does not go back to whom it left.
    rest: float = 300.0
    #: Over which time loads are smoothed.
    smoothing: float = 60.0
    #: Whether the leader starts a rebalance when loads are out of balance, and another member when
    #: its load has changed by more than the tolerance; each at most once a `rest`.
    rebalance: bool = False
    #: How old the loads that other members told may get before such a leader starts a rebalance to
    #: hear new ones: members tell them only when they join.  None for any age.
    refresh: float | None = 3600.0

    def __post_init__(self) -> None:
        _check_topics(self.topics)
        object.__setattr__(self, "topics", dict(self.topics))
        _check_number("tolerance", self.tolerance, "a number from 0.01 to 10", 0.01, 10)
        if self.max_moves is not None:
            _check_whole("max_moves", self.max_moves)
        for name in ("rest", "smoothing"):
            _check_seconds(name, getattr(self, name))
        if not isinstance(self.rebalance, bool):
            _refuse("rebalance", "True or False", self.rebalance)
        if self.refresh is not None:
            _check_seconds("refresh", self.refresh)

    @property
    def rest_ms(self) -> int:
        """How long a partition stays, in milliseconds."""
        return round(self.rest * 1000)

    @property
    def smoothing_ms(self) -> float:
        """Over which time loads are smoothed, in milliseconds."""
        return self.smoothing * 1000

    @property
    def refresh_ms(self) -> int | None:
        """How old loads may get, in milliseconds."""
        return None if self.refresh is None else round(self.refresh * 1000)


def _check_topics(topics: object) -> None:
    what = "a mapping from topics to weights"
    if not isinstance(topics, Mapping):
        _refuse("topics", what, topics)
        return
    for topic, weight in topics.items():
        if not isinstance(topic, str) or not topic:
            _refuse("topics", what, topics)
        what_of = f"a number above 0, at most {LOAD_MAX:g}"
        _check_number(f"topics[{topic!r}]", weight, what_of, 1 / LOAD_MAX, LOAD_MAX)


def _check_seconds(name: str, value: object) -> None:
    _check_number(
        name, value, f"a number of seconds from 0.001 to {_SECONDS_MAX}", 1e-3, _SECONDS_MAX
    )


def _check_whole(name: str, value: object) -> None:
    if isinstance(value, bool) or not isinstance(value, int) or value < 1:
        _refuse(name, "a whole number from 1, or None", value)


def _check_number(name: str, value: Any, what: str, least: float, most: float) -> None:  # noqa: ANN401
    is_number = isinstance(value, int | float) and not isinstance(value, bool)
    if not is_number or not least <= value <= most:
        _refuse(name, what, value)


def _refuse(name: str, what: str, value: object) -> None:
    raise ValueError(f"weights: {name} must be {what}, got {value!r:.60}")
