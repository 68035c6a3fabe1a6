"""Events as JSON, by a function for each kind that is generated when it is first needed.

A coordinator writes a line for each commit and each member that joins.  The `json` module would
have the values of an event put into a dictionary first, which takes longer than all the rest.
"""

from __future__ import annotations

import dataclasses
import json
import typing
from collections.abc import Callable, Mapping
from typing import Any, Final

from coterie_protocol._journal_events import Event, MemberPhase
from coterie_protocol._journal_offsets import OffsetsOfTopic, text_of
from coterie_protocol._twin import remember

__all__ = ["event_writer"]


def _refuse(value: Any) -> Any:  # called for values that JSON does not have
    raise TypeError(f"{type(value).__name__} has no place in a journal line")


def _make_encode() -> Callable[[Any], str]:
    """What writes values as JSON, prepared once.

    `json.dumps` prepares for each call, and so does the method of a `JSONEncoder`, which takes
    longer than writing a short line.
    """
    prepare = getattr(json.encoder, "c_make_encoder", None)
    if prepare is None:  # not CPython
        return json.JSONEncoder(separators=(",", ":"), default=_refuse).encode
    # No search for cycles, no indentation, keys in their order, NaN as it may be.
    write = prepare(None, _refuse, text_of, None, ":", ",", False, False, True)  # noqa: FBT003
    return lambda value: "".join(write(value, 0))


_encode: Final = _make_encode()


def _by_topic(values: Mapping[str, Mapping[str, int]]) -> str:
    return values.as_json() if type(values) is OffsetsOfTopic else _encode(values)


def _names(names: tuple[str, ...]) -> str:
    return f"[{','.join(map(text_of, names))}]"


def _phases(phases: tuple[MemberPhase, ...]) -> str:
    return f"[{','.join(map(_phase_writer(), phases))}]"


#: What generated functions call.
_HELPERS: Final = {
    "text": text_of,
    "encode": _encode,
    "number": int.__repr__,
    "by_topic": _by_topic,
    "names": _names,
    "phases": _phases,
    "NULL": "null",
    "TRUE": "true",
    "FALSE": "false",
}

#: How values of a type are written; others by `encode`.
_CALLS: Final = {
    str: "text(%s)",
    int: "number(%s)",  # also those that are True
    bool: "TRUE if %s else FALSE",
    Mapping[str, Mapping[str, int]]: "by_topic(%s)",
    tuple[str, ...]: "names(%s)",
    tuple[MemberPhase, ...]: "phases(%s)",
}


@remember
def event_writer(cls: type[Event]) -> Callable[[Event], str]:
    """A function that writes an event's group, kind and own values, for the end of an object."""
    group, *own = _pairs(cls)
    return _compiled(",", [group, f'"kind":"{cls.kind}"', *own])


@remember
def _phase_writer() -> Callable[[MemberPhase], str]:
    return _compiled("{{", _pairs(MemberPhase))


def _pairs(cls: type[Any]) -> list[str]:
    """How the fields of a dataclass are written, with their names."""
    hints = typing.get_type_hints(cls)
    return [f'"{f.name}":{_expression(f.name, hints[f.name])}' for f in dataclasses.fields(cls)]


def _expression(name: str, hint: Any) -> str:
    value = f"it.{name}"
    types = typing.get_args(hint)
    if type(None) not in types:
        return f"{{{_call(hint, value)}}}"
    (rest,) = set(types) - {type(None)}
    return f"{{NULL if {value} is None else {_call(rest, value)}}}"


def _call(hint: Any, value: str) -> str:
    return _CALLS.get(hint, "encode(%s)").replace("%s", value)


def _compiled(beginning: str, pairs: list[str]) -> Callable[[Any], str]:
    """A function of an object `it` that returns an f-string."""
    text = beginning + ",".join(pairs) + "}}"
    scope: dict[str, Any] = dict(_HELPERS)
    exec(f"def write(it):\n    return f'{text}'", scope)  # noqa: S102  # only names are put in
    write: Callable[[Any], str] = scope["write"]
    return write
