"""Generates the Python source that reads a message straight from a buffer into frozen dataclasses.

Three things make it fast.  Neighbouring numbers, and the length that follows them, are read by one
`unpack_from`.  Nested structures and arrays are inlined into one function that keeps `pos` in a
local variable.  And a frozen dataclass is filled as a plain twin with the same slots and then given
its real class, which costs a fraction of its own `__init__`.
"""

from __future__ import annotations

import struct
import uuid
from typing import Any, Final

from coterie_protocol._format import (
    TAGGED_LIMIT,
    TEXT_LIMIT,
    Blob,
    Format,
    Length,
    Malformed,
    Many,
    Record,
    Scalar,
    Text,
    UuidField,
    read_varint,
)
from coterie_protocol._source import Mark, Source
from coterie_protocol._twin import twin_of

__all__ = ["emit_parser", "skip_tagged"]

_NULL: Final = {True: "0", False: "-1"}


def emit_parser(record: Record, code: Any) -> str:
    """Add `parse_message(buf, pos)`; return the expression for construct's own calls."""
    emitter = _ParseEmitter()
    emitter.source.line("end = len(buf)")
    emitter.record(record, "result", "")
    emitter.source.line("return result, pos")
    code.append(emitter.source.text())
    code.append("""
        def parse_from_stream(io):
            data = io.read()
            result, pos = parse_message(data, 0)
            io.seek(pos - len(data), 1)
            return result
    """)
    code.linkedinstances.update(emitter.source.linked)
    code.linkedinstances["parse_marks"] = emitter.source.marks
    return "parse_from_stream(io)"


class _ParseEmitter:
    def __init__(self) -> None:
        self.source = Source("def parse_message(buf, pos):", "p")
        #: Numbers still to be read: (target, struct code, path).
        self._pending: list[tuple[str, str, str]] = []
        self._bad_length = self.source.link(_bad_length, "bad_length")
        self._read_varint = self.source.link(read_varint, "read_varint")

    def record(self, form: Record, target: str, path: str) -> None:
        source = self.source
        # Pending reads must not see the variables of this record.
        self._flush()
        source.line(f"{target} = {source.link(twin_of(form.cls), 'Twin')}()")
        for name, default in form.absent.items():
            source.line(f"{target}.{name} = {source.constant(default)}")
        for part in form.parts:
            self._value(part.format, f"{target}.{part.name}", _below(path, part.name))
        if form.tagged is not None:
            self._tagged(form, target, path)
        self._flush()
        source.line(f"{target}.__class__ = {source.link(form.cls, 'Class')}")

    def _value(self, form: Format, target: str, path: str) -> None:
        match form:
            case Scalar():
                self._pending.append((target, form.code, path))
            case UuidField():
                self._uuid(target, path)
            case Text() | Blob():
                self._sized(form, target, path)
            case Many():
                self._many(form, target, path)
            case Record():
                part = self.source.fresh("part")
                self.record(form, part, path)
                self.source.line(f"{target} = {part}")
            case _:
                raise AssertionError(form)

    def _flush(self) -> None:
        if self._pending:
            self.source.line(f"pos += {self._unpack()}")

    def _unpack(self) -> int:
        """Read all pending numbers at once; return their size in bytes."""
        packer = struct.Struct(">" + "".join(code for _, code, _ in self._pending))
        reads = tuple((path, struct.calcsize(code)) for _, code, path in self._pending)
        targets = ", ".join(target for target, _, _ in self._pending)
        unpack = self.source.link(packer.unpack_from, "unpack")
        mark = Mark(reads[0][0], reads=reads)
        self.source.line(f"{targets}, = {unpack}(buf, pos)", mark)
        self._pending.clear()
        return packer.size

    def _length(self, length: Length, path: str, *, limit: int | None = None) -> Mark:
        """Read a length into `n` and the position after it into `start`.

        A compact `n` is one more than the length.  `pos` is stale until the caller sets it; the
        returned mark finds the field nevertheless.
        """
        source = self.source
        if length.code is not None:
            self._pending.append(("n", length.code, path))
            source.line(f"start = pos + {self._unpack()}")
            return Mark(path, base="start", back=length.size)
        self._flush()
        mark = Mark(path, reads=((path, 1),))
        source.line("n = buf[pos]", mark)
        source.line("start = pos + 1")
        with source.block("if n > 127:"):
            # Two bytes are common, and a function call would cost more than everything else here.
            source.line("n += (buf[start] << 7) - 128", mark)
            source.line("start += 1")
            with source.block("if n > 16383:"):
                source.line(f"n, start = {self._read_varint}(buf, pos)", mark)
                if limit is not None:
                    with source.block(f"if n > {limit + 1}:"):
                        too_long = source.link(_too_long, "too_long")
                        source.line(f"raise {too_long}(n - 1)", mark)
        return Mark(path)

    def _sized(self, form: Text | Blob, target: str, path: str) -> None:
        source = self.source
        is_text = isinstance(form, Text)
        mark = self._length(form.length, path, limit=TEXT_LIMIT if is_text else None)
        compact = form.length.code is None
        if form.nullable:
            with source.block(f"if n == {_NULL[compact]}:"):
                source.line(f"{target} = None")
                source.line("pos = start")
            with source.block("else:"):
                self._slice(target, mark, compact=compact, is_text=is_text)
        else:
            self._slice(target, mark, compact=compact, is_text=is_text)

    def _slice(self, target: str, mark: Mark, *, compact: bool, is_text: bool) -> None:
        source = self.source
        length = "n - 1" if compact else "n"
        source.line(f"stop = start + {length}")
        with source.block("if not start <= stop <= end:"):
            source.line(f"raise {self._bad_length}({length}, end - start)", mark)
        source.line(f"{target} = buf[start:stop]{'.decode()' if is_text else ''}", mark)
        source.line("pos = stop")

    def _uuid(self, target: str, path: str) -> None:
        self._flush()
        source = self.source
        mark = Mark(path)
        with source.block("if end - pos < 16:"):
            source.line(f"raise {self._bad_length}(16, end - pos)", mark)
        source.line(f"{target} = {source.link(uuid.UUID, 'UUID')}(bytes=buf[pos:pos + 16])", mark)
        source.line("pos += 16")

    def _many(self, form: Many, target: str, path: str) -> None:
        source = self.source
        mark = self._length(form.length, path)
        if form.length.code is None:
            source.line("n -= 1")
        if form.nullable:
            with source.block("if n == -1:"):
                source.line(f"{target} = None")
                source.line("pos = start")
            with source.block("else:"):
                self._elements(form, target, path, mark)
        else:
            self._elements(form, target, path, mark)

    def _elements(self, form: Many, target: str, path: str, mark: Mark) -> None:
        source = self.source
        with source.block(f"if n < 0 or n * {form.unit} > end - start:"):
            source.line(f"raise {self._bad_length}(n, end - start)", mark)
        if isinstance(form.element, Scalar):
            unpack = source.link(struct.unpack_from, "unpack_from")
            source.line(f'{target} = {unpack}(f">{{n}}{form.element.code}", buf, start)', mark)
            source.line(f"pos = start + n * {form.unit}")
            return
        items, index = source.fresh("items"), source.fresh("i")
        source.line("pos = start")
        source.line(f"{items} = []")
        with source.block(f"for {index} in range(n):"):
            item = source.fresh("item")
            below = f"{path}[{{{index}}}]"
            if isinstance(form.element, Record):
                self.record(form.element, item, below)
            else:
                self._value(form.element, item, below)
            source.line(f"{items}.append({item})")
        source.line(f"{target} = tuple({items})")

    def _tagged(self, form: Record, target: str, path: str) -> None:
        source = self.source
        path = _below(path, "tagged fields")
        for part in (form.tagged or {}).values():
            source.line(f"{target}.{part.name} = {source.constant(part.default)}")
        self._flag_byte(path)
        mark = Mark(path, back=1)
        with source.block("if n:"):
            if not form.tagged:
                skip = source.link(skip_tagged, "skip_tagged")
                source.line(f"pos = {skip}(buf, pos - 1, end)", mark)
            else:
                self._known_tags(form, target, path, mark)

    def _flag_byte(self, path: str) -> None:
        """Read the first byte of a tagged section into `n`, together with any pending numbers."""
        if self._pending:
            self._pending.append(("n", "B", path))
            self._flush()
        else:
            self.source.line("n = buf[pos]", Mark(path, reads=((path, 1),)))
            self.source.line("pos += 1")

    def _known_tags(self, form: Record, target: str, path: str, mark: Mark) -> None:
        source = self.source
        read = source.link(_read_tag, "read_tag")
        count = source.link(_count_tagged, "count_tagged")
        tag, begin, stop = source.fresh("tag"), source.fresh("begin"), source.fresh("stop")
        source.line(f"n, pos = {count}(buf, pos - 1, end)", mark)
        with source.block(f"for {source.fresh('i')} in range(n):"):
            source.line(f"{tag}, pos, {stop} = {read}(buf, pos, end)", mark)
            keyword = "if"
            for number, part in sorted((form.tagged or {}).items()):
                with source.block(f"{keyword} {tag} == {number}:"):
                    name = _below(path.removesuffix("tagged fields").rstrip("."), part.name)
                    source.line(f"{begin} = pos")
                    self._value(part.format, f"{target}.{part.name}", name)
                    self._flush()
                    with source.block(f"if pos != {stop}:"):
                        unfilled = source.link(_unfilled, "unfilled")
                        source.line(f"raise {unfilled}({tag}, {begin}, {stop})", Mark(name))
                keyword = "elif"
            with source.block("else:"):
                source.line(f"pos = {stop}")


def _below(path: str, name: str) -> str:
    return f"{path}.{name}" if path else name


def _bad_length(length: int, left: int) -> Malformed:
    """The error for an impossible length or count."""
    if length < 0:
        return Malformed("null or negative length")
    return Malformed(f"{length} elements announced, {left} bytes left")


def _too_long(size: int) -> Malformed:
    return Malformed(f"a string of {size} bytes, {TEXT_LIMIT} at most")


def _unfilled(tag: int, begin: int, stop: int) -> Malformed:
    reason = f"tagged field {tag} does not fill its {stop - begin} bytes"
    return Malformed(reason, offset=begin)


def _tag_varint(buf: bytes, pos: int) -> tuple[int, int]:
    try:
        return read_varint(buf, pos)
    except IndexError:
        raise Malformed("a varint is cut off", offset=pos) from None
    except Malformed as error:
        raise Malformed(error.reason, offset=pos) from None


def _count_tagged(buf: bytes, pos: int, end: int) -> tuple[int, int]:
    count, pos = _tag_varint(buf, pos)
    if count > min((end - pos) // 2, TAGGED_LIMIT):
        left = f"{end - pos} bytes left, {TAGGED_LIMIT} allowed"
        raise Malformed(f"{count} tagged fields announced, {left}", offset=pos)
    return count, pos


def _read_tag(buf: bytes, pos: int, end: int) -> tuple[int, int, int]:
    tag, pos = _tag_varint(buf, pos)
    size, pos = _tag_varint(buf, pos)
    if size > end - pos:
        raise Malformed(f"a tagged field of {size} bytes, {end - pos} left", offset=pos)
    return tag, pos, pos + size


def skip_tagged(buf: bytes, pos: int, end: int) -> int:
    """Skip a section of unknown tagged fields; return the position after it."""
    count, pos = _count_tagged(buf, pos, end)
    for _ in range(count):
        _, _, pos = _read_tag(buf, pos, end)
    return pos
