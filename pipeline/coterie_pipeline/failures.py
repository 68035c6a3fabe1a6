"""What jobs of Spark fail with, and why a disk refused to be written, without Java's trace."""

from __future__ import annotations

import re
from typing import Final

from coterie_protocol.extras import needs_extra

with needs_extra("pipeline", "coterie_pipeline"):
    from py4j.protocol import Py4JError
    from pyspark.errors import PySparkException

__all__ = ["FAILURES", "reason_of", "what_is_gone", "why_not_written"]

#: What a job, and the start of Spark, fail with.
FAILURES: Final = (PySparkException, Py4JError)

#: Where an error of Java's says what it is: after the call, and before the trace.
_JAVA: Final = re.compile(r"An error occurred while calling .+\n: (?:[\w$]+\.)*([\w$]+)(?:: (.+))?")

#: As the C library puts it, which Java and Python repeat.
_NO_ROOM: Final = re.compile(
    "No space left on device|Disk quota exceeded|File too large|Read-only file system"
)

_GONE: Final = re.compile(
    r"\[FAILED_READ_FILE\.FILE_NOT_EXIST\] [^\n]+ reading file (?P<file>[^\n]+?)\. File does not"
    r"|\[PATH_NOT_FOUND\] Path does not exist: (?P<path>.+?)\. SQLSTATE"
)


def reason_of(error: BaseException) -> str:
    """What went wrong, in a line."""
    found = _JAVA.match(str(error))
    if found is not None:
        return found[2] or found[1]
    return next(iter(str(error).splitlines()), type(error).__name__)


def why_not_written(error: BaseException) -> str | None:
    """Why there was no room for what a job wrote; None if it failed for another reason."""
    # Some exceptions have the causes only in the trace of Java, which is no part of their texts.
    match = _NO_ROOM.search(f"{error}\n{getattr(error, '_stackTrace', '')}")
    return None if match is None else match[0]


def what_is_gone(error: BaseException) -> str | None:
    """The path that a job was to read and that is not there; None if it failed otherwise."""
    match = _GONE.search(str(error))
    return None if match is None else match["file"] or match["path"]
