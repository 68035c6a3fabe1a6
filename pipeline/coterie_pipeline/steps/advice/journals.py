"""Rules about the journals themselves: how far to trust the rest."""

from __future__ import annotations

from typing import Final

from pyspark.sql import DataFrame

from coterie_pipeline.steps.advice.saying import advise, count_of, found, seconds

__all__ = ["clocks", "missing", "unreadable"]

#: Clocks that are kept by NTP agree better than this.
_OFF_MS: Final = 100


def missing(nodes: DataFrame) -> DataFrame:
    """Lines that are missing, and numbers that two lines have."""
    lost = [count_of("missing", "line", "lines"), count_of("gaps", "place", "places")]
    lacks = f"if(missing > 0, format_string(' lacks %s in %s', {', '.join(lost)}), NULL)"
    numbers = count_of("conflicts", "number", "numbers")
    has_twice = f"if(conflicts > 0, format_string(' has %s twice', {numbers}), NULL)"
    return advise(
        _of_nodes(nodes, "missing > 0 OR conflicts > 0"),
        "journal_gap",
        "wrong",
        "The journal of node %s%s: what is told of that time may be wrong.",
        ["about", f"concat_ws(' and', {lacks}, {has_twice})"],
        ["missing", "gaps", "conflicts"],
    )


def clocks(nodes: DataFrame) -> DataFrame:
    """Clocks that are off."""
    back = _clause("clock_back_ms", " was set back by up to %s")
    behind = _clause("clock_behind_ms", " is at least %s behind another node\\'s")
    return advise(
        _of_nodes(nodes, f"clock_back_ms > {_OFF_MS} OR clock_behind_ms > {_OFF_MS}"),
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


def _clause(name: str, words: str) -> str:
    """What is wrong with a clock, if that is."""
    return f"if({name} > {_OFF_MS}, format_string('{words}', {seconds(name)}), NULL)"


def unreadable(unread: DataFrame) -> DataFrame:
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
