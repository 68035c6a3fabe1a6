"""What jobs of Spark fail with, and why a disk refused to be written, without Java's trace."""

from __future__ import annotations

import re
from typing import Final

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from py4j.protocol import Py4JJavaError
    from pyspark.errors import PySparkException

__all__ = ["FAILURES", "why_not_written"]

#: What a job fails with.
FAILURES: Final = (PySparkException, Py4JJavaError)

#: As the C library puts it, which Java and Python repeat.
_NO_ROOM: Final = re.compile(
    "No space left on device|Disk quota exceeded|File too large|Read-only file system"
)


def why_not_written(error: BaseException) -> str | None:
    """Why there was no room for what a job wrote; None if it failed for another reason."""
    # Some exceptions have the causes only in the trace of Java, which is no part of their texts.
    match = _NO_ROOM.search(f"{error}\n{getattr(error, '_stackTrace', '')}")
    return None if match is None else match[0]
