"""From a declaration and a version to the code that reads and writes its bytes.

`format_of` turns a declaration into a construct format, which can parse and build by itself, but
slowly.  `codec_of` compiles that format to plain Python on first use.  The generated code raises
whatever Python raises; `Codec` finds out which field that was about.
"""

from __future__ import annotations

import io
import struct
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from types import CodeType, TracebackType
from typing import Any, Final

from coterie_protocol._emit_build import builder_in_turns, emit_builder
from coterie_protocol._emit_parse import emit_parser
from coterie_protocol._format import (
    Blob,
    Format,
    Length,
    Malformed,
    Many,
    Part,
    Record,
    Scalar,
    Text,
    UuidField,
)
from coterie_protocol._source import Mark
from coterie_protocol._twin import remember
from coterie_protocol.exceptions import EncodeError, ProtocolError
from coterie_protocol.schema import (
    Array,
    Declaration,
    FieldSpec,
    Primitive,
    WireType,
    declaration_of,
)

__all__ = ["BUILD_FAILURES", "PARSE_FAILURES", "Codec", "codec_of", "format_of"]

#: Everything that a generated parser can raise, whatever bytes it is given.
PARSE_FAILURES: Final = (Malformed, struct.error, IndexError, UnicodeDecodeError)

#: Everything that a generated builder can raise for values of the wrong type or size.
BUILD_FAILURES: Final = (
    Malformed,
    struct.error,
    AttributeError,
    OverflowError,
    TypeError,
    ValueError,
)

#: Numbers and booleans by their codes in the `struct` module.
_CODES: Final = {
    Primitive.BOOL: "?",
    Primitive.INT8: "b",
    Primitive.INT16: "h",
    Primitive.INT32: "i",
    Primitive.INT64: "q",
    Primitive.FLOAT64: "d",
}


@dataclass(frozen=True, slots=True)
class Codec:
    """Reads and writes one message in one version, and says which field is wrong if that fails."""

    record: Record
    version: int
    #: `(bytes, position) -> (message, position after it)`; raises one of `PARSE_FAILURES`.
    parse: Callable[[bytes, int], tuple[Any, int]]
    #: Appends the message's pieces to a list; raises one of `BUILD_FAILURES`.
    build: Callable[[Any, list[bytes]], list[bytes]]
    marks: dict[int, Mark]
    parse_code: CodeType

    def decode(self, data: bytes, pos: int = 0) -> tuple[Any, int]:
        """Read a message; return it and the position after it."""
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

    def build_in_turns(self, message: Any, out: list[bytes]) -> Iterator[None]:
        """Do as `build` does, but yield whenever there are many pieces; the caller takes them."""
        return _builder_in_turns(self.record.cls, self.version)(message, out)

    def explain_parse(self, error: Exception, data: bytes) -> ProtocolError:
        """Turn an exception of `parse` into one that names the field and the offset.

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
        raise AssertionError("the exception did not come from this parser")

    def explain_build(self, error: Exception, message: Any) -> EncodeError:
        """Turn an exception of `build` into one that names the field."""
        reason, path = f"{type(error).__name__}: {error}", ""
        try:
            self.record._build(message, io.BytesIO(), None, "")  # noqa: SLF001  # the slow way names the field
        except Malformed as malformed:
            reason, path = malformed.reason, malformed.path
        return EncodeError(
            reason,
            subject=declaration_of(self.record.cls).subject,
            version=self.version,
            field=path or None,
        )


@remember
def codec_of(cls: type[Any], version: int) -> Codec:
    """The codec of a declared class in a version; compiled on the first call."""
    record = format_of(cls, version)
    compiled: Any = record.compile()
    names = vars(compiled.module)
    parse = names["parse_message"]
    return Codec(
        record=record,
        version=version,
        parse=parse,
        build=names["build_message"],
        marks=names["parse_marks"],
        parse_code=parse.__code__,
    )


@remember
def _builder_in_turns(cls: type[Any], version: int) -> Callable[[Any, list[bytes]], Iterator[None]]:
    """Compiled only for the few messages that are ever so long that they are built in turns."""
    return builder_in_turns(format_of(cls, version))


def _cut_off(mark: Mark, offset: int, end: int) -> tuple[str, int, str]:
    """Of the fields that a line reads at once, find the one in which the data ends."""
    start = offset
    for path, size in mark.reads:
        if offset + size > end:
            return path, offset, f"needs {size} bytes, {max(end - offset, 0)} left"
        offset += size
    return mark.path, start, "a varint is cut off"


@remember
def format_of(cls: type[Any], version: int) -> Record:
    """The format of a declared class in one of its versions; `KeyError` for any other version."""
    declaration = declaration_of(cls)
    if version not in declaration.versions:
        raise KeyError(f"{declaration.subject} has no version {version}")
    return _record(declaration, version, flexible=version in declaration.flexible)


def _record(declaration: Declaration, version: int, *, flexible: bool) -> Record:
    parts: list[Part] = []
    tagged: dict[int, Part] = {}
    absent: dict[str, Any] = {}
    refused: dict[str, Any] = {}
    for spec in declaration.fields:
        if version not in spec.versions:
            absent[spec.name] = spec.default
            if not spec.ignorable:
                refused[spec.name] = spec.default
            continue
        part = Part(spec.name, _field(spec, version, flexible=flexible), spec.default)
        if spec.tag is None:
            parts.append(part)
        elif flexible:
            tagged[spec.tag] = part
        else:
            name = f"{declaration.cls.__name__}.{spec.name}"
            raise TypeError(f"{name} is tagged, and version {version} is not flexible")
    return _Compilable(
        declaration.cls,
        tuple(parts),
        tagged=tagged if flexible else None,
        absent=absent,
        refused=refused,
    )


def _field(spec: FieldSpec, version: int, *, flexible: bool) -> Format:
    nullable = version in spec.nullable
    compact = flexible and spec.compact
    return _typed(spec.type, version, compact=compact, nullable=nullable)


def _typed(wire_type: WireType, version: int, *, compact: bool, nullable: bool = False) -> Format:
    match wire_type:
        case Primitive.STRING:
            return Text(Length(None if compact else "h"), nullable=nullable)
        case Primitive.BYTES | Primitive.RECORDS:
            return Blob(Length(None if compact else "i"), nullable=nullable)
        case Primitive.UUID:
            return UuidField()
        case Primitive():
            return Scalar(_CODES[wire_type])
        case Array():
            element = _typed(wire_type.element, version, compact=compact)
            return Many(Length(None if compact else "i"), element, nullable=nullable)
        case _:
            return _record(declaration_of(wire_type), version, flexible=compact)


class _Compilable(Record):
    """A record for which construct's `compile()` generates our own code."""

    def compile(self, filename: Any = None) -> Any:
        """Compile as construct does, and give the generated code the names that it refers to."""
        compiled: Any = super().compile(filename)
        vars(compiled.module).update(compiled.module.linkedinstances)
        return compiled

    def _emitparse(self, code: Any) -> str:
        return emit_parser(self, code)

    def _emitbuild(self, code: Any) -> str:
        return emit_builder(self, code)
