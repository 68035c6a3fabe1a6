"""What the fields of journal lines may hold, by the annotations of the dataclasses.

Whatever passes can be stored and computed with: numbers have limits, and texts can be encoded.
"""

from __future__ import annotations

import dataclasses
import types
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

__all__ = ["DATE_MS_MAX", "SEQ_MAX", "misfit"]

#: Dates are before 2109, and durations shorter than that is from 1970.
DATE_MS_MAX: Final = 2**42 - 1

#: Numbers of lines: their differences have 64 bits.
SEQ_MAX: Final = 2**62 - 1

#: Members commit whatever they like, within 64 bits.
_OFFSET_MAX: Final = 2**63 - 1

#: Other numbers; many of them can be added up.
_NUMBER_MAX: Final = 2**53 - 1

#: Partitions have numbers of 32 bits.
_PARTITION_MAX: Final = 2**31 - 1

_Check = Callable[[Any], bool]

#: The fields of a class: the name of each, its check, and whether it is required.
_Checks = tuple[tuple[str, _Check, bool], ...]


def misfit(cls: type[object], values: Mapping[str, Any]) -> str | None:
    """The name of a field that lacks its value, or has one that it can't have; None if all fit."""
    for name, check, is_required in _CHECKS.get(cls) or _checks(cls):
        if name in values:
            if not check(values[name]):
                return name
        elif is_required:
            return name
    return None


_CHECKS: Final[dict[type[object], _Checks]] = {}


def _checks(cls: Any) -> _Checks:  # a dataclass
    hints = typing.get_type_hints(cls)
    found = _CHECKS[cls] = tuple(
        (each.name, _check(hints[each.name], each.name), _is_required(each, hints[each.name]))
        for each in dataclasses.fields(cls)
    )
    return found


def _is_required(field: dataclasses.Field[Any], hint: Any) -> bool:  # an annotation
    has_default = (
        field.default is not dataclasses.MISSING or field.default_factory is not dataclasses.MISSING
    )
    return not has_default and type(None) not in typing.get_args(hint)


def _check(hint: Any, name: str) -> _Check:  # whatever annotates a field
    """Whether a value of JSON's may be in a field of that annotation and name."""
    if hint in _PLAIN:
        return _number(name) if hint is int else _PLAIN[hint]
    if dataclasses.is_dataclass(hint) and isinstance(hint, type):
        return lambda value: type(value) is dict and misfit(hint, value) is None
    origin, arguments = typing.get_origin(hint), typing.get_args(hint)
    if origin in (typing.Union, types.UnionType):
        (inner,) = (each for each in arguments if each is not type(None))
        of_inner = _check(inner, name)
        return lambda value: value is None or of_inner(value)
    if origin is tuple:
        # Lists of numbers are partitions.
        of_each = _is_partition if arguments[0] is int else _check(arguments[0], name)
        return lambda value: type(value) is list and all(map(of_each, value))
    if isinstance(origin, type) and issubclass(origin, Mapping):
        if name == "offsets" and arguments[1] is int:
            return lambda value: type(value) is dict and all(map(_is_offset, value.items()))
        of_value = _check(arguments[1], name)
        return lambda value: type(value) is dict and all(map(of_value, value.values()))
    raise TypeError(f"there is no check for {hint}")


_PLAIN: Final[Mapping[object, _Check]] = {
    str: lambda value: type(value) is str,
    int: lambda value: type(value) is int,
    bool: lambda value: type(value) is bool,
    Any: lambda _value: True,
}


def _number(name: str) -> _Check:
    most = DATE_MS_MAX if name.endswith("_ms") or name == "deadline" else _NUMBER_MAX
    return lambda value: type(value) is int and -most <= value <= most


def _is_partition(value: object) -> bool:
    return type(value) is int and 0 <= value <= _PARTITION_MAX


def _is_offset(item: tuple[str, Any]) -> bool:
    """Whether a partition, which is a text as JSON's keys are, has an offset that it can have."""
    number, offset = item
    is_number = number.isascii() and number.isdecimal() and len(number) <= _DIGITS_MAX
    return (
        is_number
        and int(number) <= _PARTITION_MAX
        and type(offset) is int
        and -_OFFSET_MAX - 1 <= offset <= _OFFSET_MAX
    )


_DIGITS_MAX: Final = 10
