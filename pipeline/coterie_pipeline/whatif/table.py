"""The result of a what-if: its columns and their meaning."""

from __future__ import annotations

from typing import Final

from coterie_pipeline.tables import Table, declared

__all__ = ["AS_RECORDED", "BASELINE", "RUNS", "WHAT_IF"]

#: The places of the rows that are not settings: the journal itself, and its unchanged replay.
AS_RECORDED: Final = 0
BASELINE: Final = 1

_TRIED: Final = """
group | STRING | the group
place | BIGINT | 0 for what the journal itself tells, 1 for the history replayed as it was, then the
    settings in the order of the plan
setting | STRING | what was different, in words
"""

_HISTORY: Final = """
from_ms | BIGINT | when the first line was written that was taken into account
to_ms | BIGINT | when the last one was
lines | BIGINT | how many lines of the group were taken into account
left_out | BIGINT | how many were not, as they are outside of the window or too many
assumed | ARRAY<STRING> | what the journal does not tell and had to be assumed
session_timeout_ms | BIGINT | the longest session timeout of the group's members under this setting
"""

#: One replay; `place` 0 is none, but the journal itself.
RUNS: Final = Table(
    "what_if_runs",
    "one replay of one group's history",
    declared(
        _TRIED,
        """
seed | BIGINT | the number of the seed
""",
        _HISTORY,
        """
why | STRING | why there is no outcome; null if there is one
by_cause | MAP<STRING, BIGINT> | how many rebalances of each cause
stopped_s | DOUBLE | partition-seconds without a worker
moved | BIGINT | how many partitions moved
takeover_s | DOUBLE | after how long partitions were taken over: the median
slowest_takeover_s | DOUBLE | the longest of these times
overlap_s | DOUBLE | partition-seconds with two at work
steps | BIGINT | how many steps the replay took
""",
    ),
)

WHAT_IF: Final = Table(
    "what_if",
    "one group under one setting",
    declared(
        _TRIED,
        """
replays | BIGINT | how often the history was replayed; 0 at place 0
failed | BIGINT | how many of these have no outcome
why | STRING | why not, in a sentence; null if all have one
""",
        _HISTORY,
        """
rebalances | DOUBLE | how many rebalances began: the median of the replays
rebalances_least | BIGINT | the least of them
rebalances_most | BIGINT | the most of them
by_cause | MAP<STRING, DOUBLE> | how many of each cause: the median
stopped_s | DOUBLE | partition-seconds without a worker: the median; at place 0 what the
    journal tells of it
stopped_least_s | DOUBLE | the least of them
stopped_most_s | DOUBLE | the most of them
moved | DOUBLE | how many partitions moved: the median
moved_least | BIGINT | the least of them
moved_most | BIGINT | the most of them
takeover_s | DOUBLE | how long it took from the last sign of life of a member that was given up
    until its partitions had new owners: the median over the partitions and then over the
    replays; null if no session expired
slowest_takeover_s | DOUBLE | the longest of these times: the median
slowest_takeover_least_s | DOUBLE | the least of them
slowest_takeover_most_s | DOUBLE | the most of them
overlap_s | DOUBLE | partition-seconds with two at work, the most of all replays; null at place 0,
    see `ownership_faults`
steps | BIGINT | how many steps the replays took, all together
""",
    ),
)
