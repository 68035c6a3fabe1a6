"""Which error an answer carries, wherever its kind of answer has it."""

from __future__ import annotations

from collections.abc import Callable
from operator import attrgetter
from typing import Any, Final

from coterie_protocol.schema import Array, declaration_of

__all__ = ["error_of"]

_Reader = Callable[[Any], int]

_READERS: Final[dict[type[Any], _Reader | None]] = {}


def error_of(message: Any) -> int:  # noqa: ANN401  # any of the response dataclasses
    """The first error code in an answer that is not 0; 0 if there is none.

    Some answers have one code, some have one for each group, topic or partition.
    """
    cls = type(message)
    try:
        read = _READERS[cls]
    except KeyError:
        read = _READERS[cls] = _reader(cls)
    return read(message) if read is not None else 0


def _reader(cls: type[Any]) -> _Reader | None:
    """A function that finds the code in such an object; None if there is no place for one."""
    try:
        fields = declaration_of(cls).fields
    except KeyError:  # no message at all
        return None
    nested = [
        (field.name, reader)
        for field in fields
        if isinstance(field.type, Array)
        and isinstance(field.type.element, type)
        and (reader := _reader(field.type.element)) is not None
    ]
    has_own = any(field.name == "error_code" for field in fields)
    own: _Reader | None = attrgetter("error_code") if has_own else None
    return _combined(own, nested) if nested else own


def _combined(own: _Reader | None, nested: list[tuple[str, _Reader]]) -> _Reader:
    def read(message: Any) -> int:  # noqa: ANN401
        code = own(message) if own is not None else 0
        if code:
            return code
        for name, read_part in nested:
            for part in getattr(message, name) or ():
                code = read_part(part)
                if code:
                    return code
        return 0

    return read
