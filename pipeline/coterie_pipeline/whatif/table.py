"""What a what-if answers: its columns and what they mean."""

from __future__ import annotations

from typing import Final

from coterie_pipeline.tables import Column, Table

__all__ = ["AS_IT_WAS", "AS_TOLD", "RUNS", "WHAT_IF"]

#: The places of what is not a setting to be tried.
AS_TOLD: Final = 0
AS_IT_WAS: Final = 1

_TRIED: Final = (
    Column("group", "STRING", "the group"),
    Column(
        "place",
        "BIGINT",
        "0 for what the journal itself tells, 1 for the history replayed as it was, then the "
        "settings in the order of the plan",
    ),
    Column("setting", "STRING", "what was different, in words"),
)

_HISTORY: Final = (
    Column("from_ms", "BIGINT", "when the first line was written that was taken into account"),
    Column("to_ms", "BIGINT", "when the last one was"),
    Column("lines", "BIGINT", "how many lines of the group were taken into account"),
    Column(
        "left_out", "BIGINT", "how many were not, as they are outside of the window or too many"
    ),
    Column("assumed", "ARRAY<STRING>", "what the journal does not tell and had to be assumed"),
    Column(
        "session_timeout_ms",
        "BIGINT",
        "the longest session timeout of the group's members under this setting",
    ),
)

#: One replay; `place` 0 is none, but the journal itself.
RUNS: Final = Table(
    "what_if_runs",
    "one replay of one group's history",
    (
        *_TRIED,
        Column("seed", "BIGINT", "the number of the seed"),
        *_HISTORY,
        Column("why", "STRING", "why there is no outcome; null if there is one"),
        Column("by_cause", "MAP<STRING, BIGINT>", "how many rebalances of each cause"),
        Column("stopped_s", "DOUBLE", "partition-seconds without anybody at work"),
        Column("moved", "BIGINT", "how many partitions moved"),
        Column("takeover_s", "DOUBLE", "after how long partitions were taken over: the median"),
        Column("slowest_takeover_s", "DOUBLE", "the longest of these times"),
        Column("overlap_s", "DOUBLE", "partition-seconds with two at work"),
        Column("steps", "BIGINT", "how many steps the replay took"),
    ),
)

WHAT_IF: Final = Table(
    "what_if",
    "one group under one setting",
    (
        *_TRIED,
        Column("replays", "BIGINT", "how often the history was replayed; 0 at place 0"),
        Column("failed", "BIGINT", "how many of these have no outcome"),
        Column("why", "STRING", "why not, in a sentence; null if all have one"),
        *_HISTORY,
        Column("rebalances", "DOUBLE", "how many rebalances began: the median of the replays"),
        Column("rebalances_least", "BIGINT", "the least of them"),
        Column("rebalances_most", "BIGINT", "the most of them"),
        Column("by_cause", "MAP<STRING, DOUBLE>", "how many of each cause: the median"),
        Column(
            "stopped_s",
            "DOUBLE",
            "partition-seconds without anybody at work: the median; at place 0 what the journal "
            "tells of it",
        ),
        Column("stopped_least_s", "DOUBLE", "the least of them"),
        Column("stopped_most_s", "DOUBLE", "the most of them"),
        Column("moved", "DOUBLE", "how many partitions moved: the median"),
        Column("moved_least", "BIGINT", "the least of them"),
        Column("moved_most", "BIGINT", "the most of them"),
        Column(
            "takeover_s",
            "DOUBLE",
            "how long it took from the last sign of life of a member that was given up until "
            "somebody was given its partitions: the median over the partitions and then over the "
            "replays; null if nobody was given up",
        ),
        Column("slowest_takeover_s", "DOUBLE", "the longest of these times: the median"),
        Column("slowest_takeover_least_s", "DOUBLE", "the least of them"),
        Column("slowest_takeover_most_s", "DOUBLE", "the most of them"),
        Column(
            "overlap_s",
            "DOUBLE",
            "partition-seconds with two at work, the most of all replays; null at place 0, see "
            "`ownership_faults`",
        ),
        Column("steps", "BIGINT", "how many steps the replays took, all together"),
    ),
)
