"""The report: one file that says why groups rebalanced, what it cost and what to do."""

from coterie_pipeline.report.model import Caps
from coterie_pipeline.report.writing import Summary, write_report

__all__ = ["Caps", "Summary", "write_report"]
