"""Makes the tables of one group with so many control lines, and prints the most memory it took."""

from __future__ import annotations

import itertools
import json
import resource
import sys
from collections.abc import Iterator

import pyarrow as pa

from coterie_pipeline.steps.groups import Whole, rows_of_groups
from tests.pipeline.replay.churn import churn

#: As many as Spark hands over at once.
_BATCH_LINES = 10_000


def batches(lines: int) -> Iterator[pa.RecordBatch]:
    """The lines as Spark hands them over."""
    sources = itertools.islice(churn(lines), lines)
    while some := list(itertools.islice(sources, _BATCH_LINES)):
        count = len(some)
        yield pa.RecordBatch.from_pydict(
            {
                "group": ["g"] * count,
                "is_control": [True] * count,
                "node": [line.node for line in some],
                "seq": [line.seq for line in some],
                "ts": [line.ts for line in some],
                "text": [json.dumps(line.values) for line in some],
                "member": [""] * count,
            }
        )


if __name__ == "__main__":
    rows = sum(1 for _ in rows_of_groups(batches(int(sys.argv[1])), Whole()))
    peak_kb = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    json.dump({"rows": rows, "peak_mb": peak_kb / 1000}, sys.stdout)
