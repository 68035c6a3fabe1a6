"""The state that partitions carry: what members report of it, and the settings of its moves.

A worker may need more than a partition's records: a cache, an index, files.  Until it has them, it
is *cold*; when its copy is less than an acceptable lag behind, it is *caught up*.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final
from uuid import UUID

__all__ = ["RUNNING", "STALLED", "UNKNOWN", "WarmReport", "WarmSettings"]

#: Instead of a lag: the member works on the partition, so its copy is the newest there is.
RUNNING: Final = -2
#: Instead of a lag: the member has a copy, and does not know how far behind that is.
UNKNOWN: Final = -3
#: Instead of a lag: the member was to make a copy, and does not get on with it.
STALLED: Final = -4

_MINUTE_MS: Final = 60_000
_SHORTEST_MS: Final = 1


@dataclass(frozen=True, slots=True)
class WarmReport:
    """What a member that keeps state tells the leader when it joins."""

    #: The process that the member runs in.  Members of one process share their state.
    process: UUID | None = None
    #: How far behind its copy of each partition's state is: 0 or more, `RUNNING`, `UNKNOWN`
    #: or `STALLED`.
    #: It has no copy of what is not in here.
    lags: Mapping[tuple[str, int], int] = field(default_factory=dict)
    #: Where it runs, such as {"zone": "eu-1a"}: standbys are spread over different values.
    tags: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True, kw_only=True)
class WarmSettings:
    """How state moves.  The leader's settings count; names and defaults are those of KIP-441."""

    #: A member whose copy is at most this far behind may work on the partition.
    acceptable_recovery_lag: int = 10_000
    #: How many copies of each partition's state are kept beside the one that is worked on.
    num_standbys: int = 0
    #: How many more copies the whole group makes at a time, to move partitions.
    max_warmup_replicas: int = 2
    #: The time between rebalances that look whether copies have caught up.
    probing_rebalance_interval_ms: int = 600_000
    #: How many partitions more than another one a process may have before one of them moves.
    balance_factor: int = 1
    #: For tests: allow a probing interval of less than a minute.
    allow_short_probing: bool = False

    def __post_init__(self) -> None:
        """Refuse values that make no sense."""
        probing_min = _SHORTEST_MS if self.allow_short_probing else _MINUTE_MS
        for name, least in (
            ("acceptable_recovery_lag", 0),
            ("num_standbys", 0),
            ("max_warmup_replicas", 1),
            ("probing_rebalance_interval_ms", probing_min),
            ("balance_factor", 1),
        ):
            value = getattr(self, name)
            if isinstance(value, bool) or not isinstance(value, int) or value < least:
                raise ValueError(f"{name} must be a whole number, at least {least}, got {value!r}")
