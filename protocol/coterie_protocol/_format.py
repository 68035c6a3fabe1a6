"""Kafka's wire types as `construct` formats.

A format describes the bytes of one declaration in one version.  It can parse and build by itself,
slowly, and says exactly which field is wrong: it explains why a message cannot be encoded, and the
tests compare the fast code with it.  `_compile` turns the same tree into the plain Python that runs
in production.

Unlike construct's own, its strings and arrays expect hostile input: every length is checked against
the bytes left before anything is read, bad UTF-8 is refused, an error knows its field and offset.
"""

from __future__ import annotations

import io
import struct
import uuid
from dataclasses import dataclass
from typing import IO, TYPE_CHECKING, Any, Final

import construct

from coterie_protocol._sequences import SEQUENCES

__all__ = [
    "TAGGED_LIMIT",
    "TEXT_LIMIT",
    "Blob",
    "Format",
    "Length",
    "Malformed",
    "Many",
    "Part",
    "Record",
    "Scalar",
    "Text",
    "UuidField",
    "Varint",
    "least_size",
    "read_varint",
    "varint_bytes",
]

if TYPE_CHECKING:
    Format = construct.Construct[Any, Any]
else:
    Format = construct.Construct  # generic in its type stubs only

TEXT_LIMIT: Final = 2**15 - 1  # Kafka's own, even where a compact length could say more
TAGGED_LIMIT: Final = 1_000  # no message has nearly as many, and each takes long to skip

#: A varint holds 32 bits at most: five groups of seven.
_VARINT_BYTES_MAX: Final = 5


class Malformed(Exception):  # noqa: N818  # never leaves this package
    """A field that cannot be read or written; the codec turns it into an error of the caller's."""

    def __init__(self, reason: str, path: str = "", offset: int | None = None) -> None:
        super().__init__(reason, path, offset)
        self.reason = reason
        self.path = path
        self.offset = offset


def read_varint(data: bytes, pos: int) -> tuple[int, int]:
    """Read an unsigned varint; return its value and the position after it."""
    value = 0
    for index in range(_VARINT_BYTES_MAX):
        byte = data[pos + index]
        value |= (byte & 0x7F) << (7 * index)
        if byte < 0x80:
            return value, pos + index + 1
    raise Malformed("a varint of more than five bytes")


def varint_bytes(value: int) -> bytes:
    """Write an unsigned varint."""
    out = bytearray()
    while value > 0x7F:
        out.append(value & 0x7F | 0x80)
        value >>= 7
    out.append(value)
    return bytes(out)


def _left(stream: IO[bytes]) -> int:
    here = stream.tell()
    end = stream.seek(0, 2)
    stream.seek(here)
    return end - here


def _take(stream: IO[bytes], size: int, path: str) -> bytes:
    left = _left(stream)
    if size > left:
        raise Malformed(f"needs {size} bytes, {left} left", path, stream.tell())
    return stream.read(size)


class Scalar(Format):
    """A number or boolean of fixed size, given by its code in the `struct` module."""

    def __init__(self, code: str) -> None:
        super().__init__()
        self.code = code
        self.packer = struct.Struct(f">{code}")

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:
        return self.packer.unpack(_take(stream, self.packer.size, path))[0]

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if self.code == "?" and obj not in (False, True):
            raise Malformed(f"{obj!r} is not a boolean", path)
        try:
            stream.write(self.packer.pack(obj))
        except struct.error as error:
            raise Malformed(f"{obj!r}: {error}", path) from None
        return obj


class UuidField(Format):
    """Sixteen bytes; all zero means "none"."""

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> uuid.UUID:
        return uuid.UUID(bytes=_take(stream, 16, path))

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if not isinstance(obj, uuid.UUID):
            raise Malformed(f"{obj!r} is not a UUID", path)
        stream.write(obj.bytes)
        return obj


class Varint(Format):
    """An unsigned varint of at most 32 bits."""

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> int:
        start = stream.tell()
        ahead = stream.read(_VARINT_BYTES_MAX)
        try:
            value, size = read_varint(ahead, 0)
        except IndexError:
            raise Malformed("a varint is cut off", path, start) from None
        except Malformed as error:
            raise Malformed(error.reason, path, start) from None
        stream.seek(start + size)
        return value

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        stream.write(varint_bytes(obj))
        return obj


class Length(Format):
    """The length before a string, bytes or array; -1 stands for null.

    `code` is the `struct` code of a plain length, or None for a compact one: a varint of the
    length plus one, so that zero is null.
    """

    def __init__(self, code: str | None) -> None:
        super().__init__()
        self.code = code
        self.size = 1 if code is None else struct.calcsize(code)
        self._number = Varint() if code is None else Scalar(code)

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> int:
        number: int = self._number._parse(stream, context, path)
        return number - 1 if self.code is None else number

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        self._number._build(obj + 1 if self.code is None else obj, stream, context, path)
        return obj

    def checked(self, stream: IO[bytes], path: str, *, nullable: bool, unit: int) -> int:
        """Read the length of something whose elements take at least `unit` bytes each."""
        start = stream.tell()
        number = self._parse(stream, None, path)
        if number == -1 and nullable:
            return number
        if number < 0:
            raise Malformed("null or negative length", path, start)
        if number * unit > _left(stream):
            reason = f"{number} elements announced, {_left(stream)} bytes left"
            raise Malformed(reason, path, start)
        return number


class Blob(Format):
    """Bytes, preceded by their length."""

    def __init__(self, length: Length, *, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> bytes | None:
        size = self.length.checked(stream, path, nullable=self.nullable, unit=1)
        return None if size < 0 else stream.read(size)

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if obj is None and self.nullable:
            self.length._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, bytes | bytearray | memoryview):
            raise Malformed(f"{obj!r} is not bytes", path)
        self.length._build(len(obj), stream, context, path)
        stream.write(obj)
        return obj


class Text(Format):
    """UTF-8, preceded by its length in bytes."""

    def __init__(self, length: Length, *, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.nullable = nullable

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> str | None:
        start = stream.tell()
        size = self.length.checked(stream, path, nullable=self.nullable, unit=1)
        if size < 0:
            return None
        if size > TEXT_LIMIT:
            raise Malformed(f"a string of {size} bytes, {TEXT_LIMIT} at most", path, start)
        try:
            return stream.read(size).decode()
        except UnicodeDecodeError as error:
            raise Malformed(f"bad UTF-8: {error.reason}", path, start) from None

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if obj is None and self.nullable:
            self.length._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, str):
            raise Malformed(f"{obj!r} is not a string", path)
        try:
            data = obj.encode()
        except UnicodeEncodeError as error:
            raise Malformed(f"not UTF-8: {error.reason}", path) from None
        if len(data) > TEXT_LIMIT:
            raise Malformed(f"a string of {len(data)} bytes, {TEXT_LIMIT} at most", path)
        self.length._build(len(data), stream, context, path)
        stream.write(data)
        return obj


class Many(Format):
    """An array: a count and that many elements; a tuple in Python."""

    def __init__(self, length: Length, element: Format, *, nullable: bool) -> None:
        super().__init__()
        self.length = length
        self.element = element
        self.nullable = nullable
        #: The least that an element takes: an array may not announce more than could be left.
        self.unit = least_size(element)

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> tuple[Any, ...] | None:
        count = self.length.checked(stream, path, nullable=self.nullable, unit=self.unit)
        if count < 0:
            return None
        return tuple(
            self.element._parse(stream, context, f"{path}[{index}]") for index in range(count)
        )

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if obj is None and self.nullable:
            self.length._build(-1, stream, context, path)
            return obj
        if not isinstance(obj, SEQUENCES):
            raise Malformed(f"{obj!r} is not a sequence", path)
        self.length._build(len(obj), stream, context, path)
        for index, element in enumerate(obj):
            self.element._build(element, stream, context, f"{path}[{index}]")
        return obj


@dataclass(frozen=True, slots=True)
class Part:
    """One field of a record: its name, its format, and its default if it is tagged."""

    name: str
    format: Format
    default: Any = None


class Record(Format):
    """A declared class in one version: its parts in order, then its tagged fields."""

    def __init__(
        self,
        cls: type[Any],
        parts: tuple[Part, ...],
        *,
        tagged: dict[int, Part] | None,
        absent: dict[str, Any],
        refused: dict[str, Any],
    ) -> None:
        super().__init__()
        self.cls = cls
        self.parts = parts
        #: Tagged fields by number; None if the version is not flexible and has no place for them.
        self.tagged = tagged
        #: Values of the fields that this version does not carry.
        self.absent = absent
        #: Those of them that must have their default value, because a message without them would
        #: mean something else.
        self.refused = refused

    def _parse(self, stream: IO[bytes], context: Any, path: str) -> Any:
        values = dict(self.absent)
        for part in self.parts:
            values[part.name] = part.format._parse(stream, context, _below(path, part.name))
        if self.tagged is not None:
            values.update({part.name: part.default for part in self.tagged.values()})
            values.update(self._parse_tagged(stream, context, path, self.tagged))
        return self.cls(**values)

    def _parse_tagged(
        self, stream: IO[bytes], context: Any, path: str, tagged: dict[int, Part]
    ) -> dict[str, Any]:
        path_of_tags = _below(path, "tagged fields")
        values = {}
        count, left = Varint()._parse(stream, context, path_of_tags), _left(stream)
        if count > min(left // 2, TAGGED_LIMIT):
            reason = f"{count} tagged fields announced, {left} bytes left, {TAGGED_LIMIT} allowed"
            raise Malformed(reason, path_of_tags, stream.tell())
        for _ in range(count):
            tag = Varint()._parse(stream, context, path_of_tags)
            size = Varint()._parse(stream, context, path_of_tags)
            start = stream.tell()
            if size > _left(stream):
                reason = f"a tagged field of {size} bytes, {_left(stream)} left"
                raise Malformed(reason, path_of_tags, start)
            if (part := tagged.get(tag)) is None:
                stream.seek(start + size)
                continue
            values[part.name] = part.format._parse(stream, context, _below(path, part.name))
            if stream.tell() != start + size:
                reason = f"tagged field {tag} does not fill its {size} bytes"
                raise Malformed(reason, _below(path, part.name), start)
        return values

    def _build(self, obj: Any, stream: IO[bytes], context: Any, path: str) -> Any:
        if not isinstance(obj, self.cls):
            raise Malformed(f"{obj!r} is not a {self.cls.__name__}", path)
        for name, default in self.refused.items():
            if not _same(getattr(obj, name), default):
                reason = f"{getattr(obj, name)!r} has no place in this version"
                raise Malformed(reason, _below(path, name))
        for part in self.parts:
            value = getattr(obj, part.name)
            part.format._build(value, stream, context, _below(path, part.name))
        if self.tagged is not None:
            self._build_tagged(obj, stream, context, path, self.tagged)
        return obj

    def _build_tagged(
        self, obj: Any, stream: IO[bytes], context: Any, path: str, tagged: dict[int, Part]
    ) -> None:
        written = []
        for tag, part in sorted(tagged.items()):
            value = getattr(obj, part.name)
            if not _same(value, part.default):
                body = io.BytesIO()
                part.format._build(value, body, context, _below(path, part.name))
                written.append((tag, body.getvalue()))
        Varint()._build(len(written), stream, context, path)
        for tag, content in written:
            Varint()._build(tag, stream, context, path)
            Varint()._build(len(content), stream, context, path)
            stream.write(content)


def least_size(form: Format) -> int:
    """The fewest bytes that a format can take; at least one for everything that Kafka declares."""
    match form:
        case Scalar():
            return form.packer.size
        case UuidField():
            return 16
        case Text() | Blob() | Many():
            return form.length.size
        case Record():
            sizes = sum(least_size(part.format) for part in form.parts)
            return sizes + (form.tagged is not None)
    raise AssertionError(form)


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _same(value: Any, default: Any) -> bool:
    """Whether a value is the default; an empty list counts as an empty tuple."""
    if default == () and isinstance(value, list | tuple):
        return not value
    return bool(value == default)
