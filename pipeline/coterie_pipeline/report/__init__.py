"""The report: one file that says why groups rebalanced, what it cost and what to do.

`collect` takes from the tables what a report shows, as a `model.Report`; `page` makes HTML of it.
"""

from __future__ import annotations

import os
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from pyspark.sql import DataFrame

from coterie_pipeline.report.collect import collect
from coterie_pipeline.report.model import Caps
from coterie_pipeline.report.page import page

__all__ = ["Caps", "Summary", "write_report"]


@dataclass(frozen=True, slots=True)
class Summary:
    """What was written."""

    groups: int
    groups_drawn: int
    rebalances: int
    overlaps: int
    possible_overlaps: int
    size_bytes: int


def write_report(tables: Mapping[str, DataFrame], path: Path, caps: Caps | None = None) -> Summary:
    """Write a report of the tables, each under its name, as one file that needs nothing else.

    The file appears whole or not at all.  The same tables give the same bytes.
    """
    report = collect(tables, caps or Caps())
    content = page(report).encode()
    partial = path.with_name(f".{path.name}.{os.getpid()}.partial")
    try:
        partial.write_bytes(content)
        partial.replace(path)
    finally:
        partial.unlink(missing_ok=True)
    totals = report.totals
    return Summary(
        groups=totals.groups,
        groups_drawn=len(report.details),
        rebalances=totals.rebalances,
        overlaps=totals.overlaps,
        possible_overlaps=totals.possible_overlaps,
        size_bytes=len(content),
    )
