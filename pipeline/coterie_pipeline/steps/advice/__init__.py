"""What to look into: rules that find something in the tables, and say it in a sentence.

The rules about groups have modules of their own; those about the journals, which say how far to
trust the rest, are here.
"""

from __future__ import annotations

from functools import reduce
from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice import members, ownership
from coterie_pipeline.steps.advice.sentences import advise, count_of, found, seconds

__all__ = ["advice"]

#: Clocks that are kept by NTP agree better than this.
_OFF_MS: Final = 100


def advice(  # one table of many
    nodes: DataFrame,
    unread: DataFrame,
    rebalances: DataFrame,
    faults: DataFrame,
    sessions: DataFrame,
    commits: DataFrame,
    refusals: DataFrame,
) -> DataFrame:
    """The table."""
    rows = (
        ownership.overlaps(faults),
        ownership.possible_overlaps(faults),
        ownership.eager(rebalances, faults),
        ownership.without_owner(faults),
        ownership.idle(rebalances),
        members.session_timeouts(sessions, rebalances),
        members.rebalance_timeouts(sessions),
        members.restarts(sessions),
        members.flapping(sessions),
        members.slow(rebalances),
        members.one_name_for_two(refusals),
        members.went_back(commits),
        _gaps_in_journals(nodes),
        _clocks(nodes),
        _unreadable(unread),
    )
    return reduce(DataFrame.unionByName, rows)


def _gaps_in_journals(nodes: DataFrame) -> DataFrame:
    """Lines that are missing, and numbers that two lines have."""
    lacks = _clause(
        "missing > 0",
        " lacks %s in %s",
        count_of("missing", "line", "lines"),
        count_of("gaps", "place", "places"),
    )
    twice = _clause("conflicts > 0", " has %s twice", count_of("conflicts", "number", "numbers"))
    return advise(
        _of_nodes(nodes, "missing > 0 OR conflicts > 0"),
        "journal_gap",
        "wrong",
        "The journal of node %s%s: figures for that time may be wrong.",
        ["about", f"concat_ws(' and', {lacks}, {twice})"],
        ["missing", "gaps", "conflicts"],
    )


def _clocks(nodes: DataFrame) -> DataFrame:
    """Clocks that are off."""
    is_back, is_behind = f"clock_back_ms > {_OFF_MS}", f"clock_behind_ms > {_OFF_MS}"
    back = _clause(is_back, " was set back by up to %s", seconds("clock_back_ms"))
    behind = _clause(
        is_behind, " is at least %s behind another node\\'s", seconds("clock_behind_ms")
    )
    return advise(
        _of_nodes(nodes, f"{is_back} OR {is_behind}"),
        "clock",
        "note",
        "The clock of node %s%s: times that span that are off by as much.",
        ["about", f"concat_ws(' and', {back}, {behind})"],
        ["clock_back_ms", "clock_behind_ms"],
    )


def _of_nodes(nodes: DataFrame, condition: str) -> DataFrame:
    return nodes.where(condition).selectExpr(
        "*", "node AS about", "first_ms AS from_ms", "last_ms AS to_ms"
    )


def _clause(condition: str, words: str, *values: str) -> str:
    """What is wrong with a node, if it is."""
    return f"if({condition}, format_string('{words}', {', '.join(values)}), NULL)"


def _unreadable(unread: DataFrame) -> DataFrame:
    """Lines that could not be taken into account; the torn line of a crash is no fault."""
    return advise(
        found(
            unread.where("why != 'torn'"),
            ["why"],
            lines="count(*)",
            files="count(DISTINCT segment)",
            about="min(segment)",
        ),
        "unread_lines",
        "note",
        "%s in %s could not be taken into account (%s), the first of them in %s.",
        [
            count_of("lines", "line", "lines"),
            count_of("files", "file", "files"),
            "replace(why, '_', ' ')",
            "about",
        ],
        ["why", "lines", "files"],
    )
