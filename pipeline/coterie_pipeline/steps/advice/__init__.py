"""What to look into: rules that find something in the tables, and say it in a sentence."""

from __future__ import annotations

from functools import reduce

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice import assignments, journals, members, timeouts

__all__ = ["advice"]


def advice(  # one table of many
    nodes: DataFrame,
    unread: DataFrame,
    rebalances: DataFrame,
    faults: DataFrame,
    sessions: DataFrame,
    commits: DataFrame,
    control: DataFrame,
) -> DataFrame:
    """The table."""
    found = (
        assignments.overlaps(faults),
        assignments.possible_overlaps(faults),
        assignments.eager(rebalances, faults),
        assignments.without_owner(faults),
        assignments.idle(rebalances),
        timeouts.sessions(sessions, rebalances),
        timeouts.joins(sessions),
        members.restarts(sessions),
        members.flapping(sessions),
        members.slow(rebalances),
        members.one_name_for_two(control),
        members.went_back(commits),
        journals.missing(nodes),
        journals.clocks(nodes),
        journals.unreadable(unread),
    )
    return reduce(DataFrame.unionByName, found)
