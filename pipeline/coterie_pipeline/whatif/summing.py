"""From the replays of one setting to what they say together."""

from __future__ import annotations

import statistics
from collections.abc import Mapping, Sequence
from typing import Any, Final

from coterie_pipeline.whatif.table import AS_TOLD, WHAT_IF

__all__ = ["summed"]

#: What is the same in all replays of a group under a setting.
_COMMON: Final = ("group", "place", "setting", "lines", "left_out")
#: What only a history that could be read has.
_READ: Final = ("from_ms", "to_ms", "assumed", "session_timeout_ms")


def summed(runs: Sequence[Mapping[str, Any]]) -> dict[str, Any]:
    """The replays of one group under one setting, together: a row of `WHAT_IF`."""
    runs = sorted(runs, key=lambda run: run["seed"])
    good = [run for run in runs if run["why"] is None]
    first = (good or runs)[0]
    is_told = first["place"] == AS_TOLD
    row = dict.fromkeys(WHAT_IF.names) | {name: first[name] for name in (*_COMMON, *_READ)}
    row |= {
        "replays": 0 if is_told else len(runs),
        "failed": len(runs) - len(good),
        "why": next((run["why"] for run in runs if run["why"] is not None), None),
        "steps": sum(run["steps"] or 0 for run in runs),
    }
    if not good:
        return row
    counts = [dict(run["by_cause"]) for run in good]
    causes = sorted({cause for each in counts for cause in each})
    row["by_cause"] = {
        cause: float(statistics.median(each.get(cause, 0) for each in counts)) for cause in causes
    }
    row["overlap_s"] = max((s for run in good if (s := run["overlap_s"]) is not None), default=None)
    row["takeover_s"] = _median([run["takeover_s"] for run in good])
    return (
        row
        | _spread("rebalances", [sum(each.values()) for each in counts])
        | _spread("stopped", [run["stopped_s"] for run in good], "_s")
        | _spread("moved", [run["moved"] for run in good])
        | _spread("slowest_takeover", [run["slowest_takeover_s"] for run in good], "_s")
    )


def _spread(name: str, values: Sequence[float | None], unit: str = "") -> dict[str, Any]:
    known = [value for value in values if value is not None]
    return {
        f"{name}{unit}": _median(values),
        f"{name}_least{unit}": min(known, default=None),
        f"{name}_most{unit}": max(known, default=None),
    }


def _median(values: Sequence[float | None]) -> float | None:
    known = [value for value in values if value is not None]
    return float(statistics.median(known)) if known else None
