"""Formats compiled to plain Python on first use, and the explanation of what they refuse."""

from __future__ import annotations

import io
import struct
from collections.abc import Callable
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Final

from coterie_protocol._derive import format_of
from coterie_protocol._format import Malformed, Record
from coterie_protocol._memo import remember
from coterie_protocol._source import Mark
from coterie_protocol.exceptions import EncodeError, ProtocolError
from coterie_protocol.schema import declaration_of

__all__ = ["BUILD_FAILURES", "PARSE_FAILURES", "Codec", "codec_of"]

#: All that a generated parser can raise, whatever bytes it is given.
PARSE_FAILURES: Final = (Malformed, struct.error, IndexError, UnicodeDecodeError)

#: All that a generated builder can raise for a message with values of wrong type or size.
BUILD_FAILURES: Final = (
    Malformed,
    struct.error,
    AttributeError,
    OverflowError,
    TypeError,
    ValueError,
)


@dataclass(frozen=True, slots=True)
class Codec:
    """One message in one version: how to read and write it, and how to say what is wrong."""

    record: Record
    version: int
    #: `(bytes, position) -> (message, position behind it)`; raises one of `PARSE_FAILURES`.
    parse: Callable[[bytes, int], tuple[Any, int]]
    #: Appends the message's pieces to a list; raises one of `BUILD_FAILURES`.
    build: Callable[[Any, list[bytes]], list[bytes]]
    marks: dict[int, Mark]
    parse_code: CodeType

    def decode(self, data: bytes, pos: int = 0) -> tuple[Any, int]:
        """Read a message; the answer's second part is the position behind it."""
        try:
            return self.parse(data, pos)
        except PARSE_FAILURES as error:
            raise self.explain_parse(error, data) from error

    def encode(self, message: Any) -> bytes:
        """Write a message."""
        try:
            return b"".join(self.build(message, []))
        except BUILD_FAILURES as error:
            raise self.explain_build(error, message) from error

    def explain_parse(self, error: Exception, data: bytes) -> ProtocolError:
        """Say which field of `data` an exception of `parse` was about.

        The generated source is straight code, so the line that raised tells the field, and the
        local variables tell the offset and the indexes of the arrays around it.
        """
        line, variables = self._place(error.__traceback__)
        mark = self.marks.get(line, Mark("", reads=()))
        offset = variables.get(mark.base, 0) - mark.back
        path, reason = mark.path, str(error)
        match error:
            case Malformed():
                reason = error.reason
                offset = offset if error.offset is None else error.offset
            case UnicodeDecodeError():
                reason = f"bad UTF-8: {error.reason}"
            case _:
                path, offset, reason = _cut_off(mark, offset, len(data))
        return ProtocolError(
            reason,
            subject=declaration_of(self.record.cls).subject,
            version=self.version,
            field=path.format_map(variables) or None,
            offset=offset,
        )

    def _place(self, traceback: TracebackType | None) -> tuple[int, dict[str, Any]]:
        while traceback is not None:
            if traceback.tb_frame.f_code is self.parse_code:
                line = traceback.tb_lineno - self.parse_code.co_firstlineno
                return line, dict(traceback.tb_frame.f_locals)
            traceback = traceback.tb_next
        raise AssertionError("an exception that did not come from this parser")

    def explain_build(self, error: Exception, message: Any) -> EncodeError:
        """Say which field of `message` an exception of `build` was about."""
        reason, path = f"{type(error).__name__}: {error}", ""
        try:
            self.record._build(message, io.BytesIO(), None, "")  # noqa: SLF001  # the slow twin
        except Malformed as malformed:
            reason, path = malformed.reason, malformed.path
        return EncodeError(
            reason,
            subject=declaration_of(self.record.cls).subject,
            version=self.version,
            field=path or None,
        )


def _cut_off(mark: Mark, offset: int, end: int) -> tuple[str, int, str]:
    """Which of the fields that a line reads at once is the one that the data ends in."""
    start = offset
    for path, size in mark.reads:
        if offset + size > end:
            return path, offset, f"needs {size} bytes, {max(end - offset, 0)} left"
        offset += size
    return mark.path, start, "a varint is cut off"


@remember
def codec_of(cls: type[Any], version: int) -> Codec:
    """The codec of a declared class in a version; compiled when first asked for."""
    record = format_of(cls, version)
    names = vars(record.compile().module)
    parse = names["parse_message"]
    return Codec(
        record=record,
        version=version,
        parse=parse,
        build=names["build_message"],
        marks=names["parse_marks"],
        parse_code=parse.__code__,
    )
