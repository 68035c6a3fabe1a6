"""Read or follow journals in a process of its own, to be killed: JOURNAL OUT run|once|on."""

from __future__ import annotations

import sys

from coterie_pipeline import batch
from coterie_pipeline.session import spark_session
from coterie_pipeline.streaming.follow import FollowOptions, follow
from tests.support.embedded_spark import TUNED


def main(journal: str, out: str, how: str) -> None:
    """Read all, or follow with so little at once that there are many micro-batches."""
    spark = spark_session("local[2]", TUNED, memory="1g")
    if how == "run":
        batch.run(spark, [journal], out)
        return
    options = FollowOptions(every_s=0.1, refresh_s=5.0, batch_bytes=15_000, once=how == "once")
    follow(spark, [journal], out, options)


if __name__ == "__main__":
    main(*sys.argv[1:])
