"""Generates the Python source that writes a message, as a list of pieces to be joined.

The source checks nothing that fails by itself.  When something does fail, the message is built once
more by the slow format, which knows the field's name.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterator
from typing import Any, Final

from coterie_protocol._format import (
    TEXT_LIMIT,
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
    varint_bytes,
)
from coterie_protocol._sequences import SEQUENCES
from coterie_protocol._source import Source

__all__ = ["PIECES_AT_ONCE", "builder_in_turns", "emit_builder"]

#: How many pieces a builder that takes turns makes at a time: a millisecond's worth at most.
PIECES_AT_ONCE: Final = 2000


class _Varints(dict[int, bytes]):
    """Varints by value: short ones are ready, others are made on request."""

    def __init__(self, limit: int = 2**31) -> None:
        super().__init__((value, varint_bytes(value)) for value in range(256))
        self._limit = limit

    def __missing__(self, value: int) -> bytes:
        if not 0 <= value <= self._limit:
            raise Malformed(f"a length of {value - 1}")
        return varint_bytes(value)


class _Flags(dict[bool, int]):
    """Booleans by value; the `struct` module would accept anything as one."""

    def __missing__(self, value: Any) -> int:
        raise Malformed(f"{value!r} is not a boolean")


_VARINTS: Final = _Varints()
_TEXT_VARINTS: Final = _Varints(TEXT_LIMIT + 1)
_FLAGS: Final = _Flags({False: 0, True: 1})


def emit_builder(record: Record, code: Any) -> str:
    """Add `build_message(obj, out)`; return the expression for construct's own calls."""
    emitter = _BuildEmitter()
    emitter.record(record, "obj")
    emitter.flush()
    emitter.source.line("return out")
    code.append(emitter.source.text())
    code.append("""
        def build_to_stream(obj, io):
            io.write(b"".join(build_message(obj, [])))
            return obj
    """)
    code.linkedinstances.update(emitter.source.linked)
    return "build_to_stream(obj, io)"


def builder_in_turns(record: Record) -> Callable[[Any, list[bytes]], Iterator[None]]:
    """A builder that yields whenever there are many pieces; its caller takes them from the list."""
    emitter = _BuildEmitter(takes_turns=True)
    emitter.record(record, "obj")
    emitter.flush()
    emitter.source.line("yield")
    names = dict(emitter.source.linked)
    exec(emitter.source.text(), names)  # noqa: S102  # as construct does with the other builder
    found: Callable[[Any, list[bytes]], Iterator[None]] = names["build_message"]
    return found


class _BuildEmitter:
    def __init__(self, *, takes_turns: bool = False) -> None:
        self.source = Source("def build_message(obj, out):", "b")
        self._takes_turns = takes_turns
        self._out = "out"
        #: Expressions of pieces not yet appended, and numbers not yet packed into a piece.
        self._pieces: list[str] = []
        self._numbers: list[tuple[str, str]] = []
        self._varints = self.source.link(_VARINTS, "varints")
        self._text_varints = self.source.link(_TEXT_VARINTS, "text_varints")

    def record(self, form: Record, obj: str) -> None:
        source = self.source
        for name, default in form.refused.items():
            with source.block(f"if {self._differs(f'{obj}.{name}', default)}:"):
                source.line(f"raise {source.link(Malformed, 'Malformed')}('not in this version')")
        for part in form.parts:
            self._value(part.format, f"{obj}.{part.name}")
        if form.tagged:
            self._tagged(form.tagged, obj)
        elif form.tagged is not None:
            self._numbers.append(("B", "0"))

    def _differs(self, value: str, default: Any) -> str:
        if default is None:
            return f"{value} is not None"
        if default == ():
            return f"len({value})"  # fails for None, which is not an empty array
        return f"{value} != {self.source.constant(default)}"

    def _value(self, form: Format, value: str) -> None:
        match form:
            case Scalar(code="?"):
                flags = self.source.link(_FLAGS, "flags")
                self._numbers.append(("B", f"{flags}[{value}]"))
            case Scalar():
                self._numbers.append((form.code, value))
            case UuidField():
                self._piece(f"{value}.bytes")
            case Text() | Blob():
                self._sized(form, value)
            case Many():
                self._many(form, value)
            case Record():
                self.record(form, value)
            case _:
                raise AssertionError(form)

    def _sized(self, form: Text | Blob, value: str) -> None:
        source = self.source
        data = source.fresh("data")
        is_text = isinstance(form, Text)
        encoded = f"{value}.encode()" if is_text else value
        size = f"len({data})"
        if form.nullable:
            size = source.fresh("size")
            with source.block(f"if {value} is None:"):
                source.line(f"{data} = b''")
                source.line(f"{size} = -1")
            with source.block("else:"):
                source.line(f"{data} = {encoded}")
                source.line(f"{size} = len({data})")
        else:
            source.line(f"{data} = {encoded}")
        self._length(form.length, size, self._text_varints if is_text else self._varints)
        self._pieces.append(data)

    def _length(self, length: Length, number: str, varints: str) -> None:
        if length.code is not None:
            self._numbers.append((length.code, number))
            self._close_numbers()
        else:
            self._piece(f"{varints}[{number} + 1]")

    def _many(self, form: Many, value: str) -> None:
        source = self.source
        items = source.fresh("items")
        source.line(f"{items} = {value}")
        if not form.nullable:
            self._elements(form, items)
            return
        self.flush()
        with source.block(f"if {items} is None:"):
            self._length(form.length, "-1", self._varints)
            self.flush()
        with source.block("else:"):
            self._elements(form, items)

    def _elements(self, form: Many, items: str) -> None:
        source = self.source
        sequences, count = source.link(SEQUENCES, "sequences"), source.fresh("count")
        with source.block(f"if not isinstance({items}, {sequences}):"):
            source.line(f"raise {source.link(Malformed, 'Malformed')}('not a sequence')")
        source.line(f"{count} = len({items})")
        self._length(form.length, count, self._varints)
        if isinstance(form.element, Scalar):
            pack = source.link(struct.pack, "pack")
            self._piece(f'{pack}(f">{{{count}}}{form.element.code}", *{items})')
            self.flush()
            return
        self.flush()
        item = source.fresh("item")
        with source.block(f"for {item} in {items}:"):
            self._value(form.element, item)
            self.flush()
            if self._takes_turns and self._out == "out":  # tagged fields are never long
                with source.block(f"if len(out) >= {PIECES_AT_ONCE}:"):
                    source.line("yield")

    def _tagged(self, tagged: dict[int, Part], obj: str) -> None:
        """Build each tagged field separately, because its size precedes it."""
        self.flush()
        source, out = self.source, self._out
        fields = source.fresh("fields")
        source.line(f"{fields} = []")
        for tag, part in sorted(tagged.items()):
            with source.block(f"if {self._differs(f'{obj}.{part.name}', part.default)}:"):
                self._out = body = source.fresh("body")
                source.line(f"{body} = []")
                self._value(part.format, f"{obj}.{part.name}")
                self.flush()
                source.line(f"{body} = b''.join({body})")
                size = f"{self._varints}[len({body})]"
                source.line(f"{fields}.append({self._varints}[{tag}] + {size} + {body})")
        self._out = out
        self._piece(f"{self._varints}[len({fields})]")
        self._piece(f"*{fields}")
        self.flush()

    def _piece(self, expression: str) -> None:
        self._close_numbers()
        self._pieces.append(expression)

    def _close_numbers(self) -> None:
        if self._numbers == [("B", "0")]:
            self._pieces.append(repr(b"\0"))
            self._numbers.clear()
        elif self._numbers:
            packer = struct.Struct(">" + "".join(code for code, _ in self._numbers))
            values = ", ".join(value for _, value in self._numbers)
            self._pieces.append(f"{self.source.link(packer.pack, 'pack')}({values})")
            self._numbers.clear()

    def flush(self) -> None:
        """Append the pending pieces: before a loop or branch, and at the end."""
        self._close_numbers()
        if self._pieces:
            self.source.line(f"{self._out} += ({', '.join(self._pieces)},)")
            self._pieces.clear()
