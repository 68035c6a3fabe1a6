"""The gain of our formats and emitters over construct's own types, plain and compiled."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final

import construct

from bench.support.measure import Effort, interleave, ratio, summary
from bench.support.report import Column, Report, Row, widest
from bench.support.wire_cases import Case, cases
from coterie_protocol import decode, encode
from coterie_protocol._compile import format_of

__all__ = ["run"]

_COTERIE: Final = "coterie"
_FORMAT: Final = "format"
_CONSTRUCT: Final = "construct"
_COMPILED: Final = "compiled"

_STRING: Final[Any] = construct.PascalString(construct.Int16sb, "utf8")
_BYTES: Final[Any] = construct.Prefixed(construct.Int32sb, construct.GreedyBytes)

#: The bodies of two messages, declared with construct alone.
_DECLARED: Final[dict[tuple[str, int], Any]] = {
    ("HeartbeatRequest", 0): construct.Struct(
        "group_id" / _STRING,
        "generation_id" / construct.Int32sb,
        "member_id" / _STRING,
    ),
    ("JoinGroupResponse", 2): construct.Struct(
        "throttle_time_ms" / construct.Int32sb,
        "error_code" / construct.Int16sb,
        "generation_id" / construct.Int32sb,
        "protocol_name" / _STRING,
        "leader" / _STRING,
        "member_id" / _STRING,
        "members"
        / construct.PrefixedArray(
            construct.Int32sb,
            construct.Struct("member_id" / _STRING, "metadata" / _BYTES),
        ),
    ),
}

_COLUMNS: Final = (
    Column("message", "body of message"),
    Column("time", "coterie"),
    Column("format", "our format,\ninterpreted\n÷ coterie"),
    Column("compiled", "construct's\ntypes, compiled\n÷ coterie"),
    Column("construct", "construct's\ntypes, interpreted\n÷ coterie"),
    Column("spread", "spread"),
)


def run(effort: Effort) -> Report:
    """Measure the steps from construct's types to generated code."""
    rows: dict[str, list[Row]] = {"decode": [], "encode": []}
    by_name = {type(case.message).__name__: case for case in cases()}
    for (name, version), declared in _DECLARED.items():
        case = replace(by_name[name], version=version)
        for direction, calls in _calls(case, declared).items():
            rows[direction].append(_row(direction, case.name, calls, effort))
    notes = (
        "Bodies without headers. construct's own types give Containers, ours give dataclasses.",
    )
    title = "The wire: from construct to generated code"
    return Report(title, _COLUMNS, (*rows["decode"], *rows["encode"]), notes)


def _calls(case: Case, declared: Any) -> dict[str, dict[str, Callable[[], object]]]:
    cls, version = type(case.message), case.version
    body = encode(case.message, version)
    readers: dict[str, Callable[[bytes], Any]] = {
        _COTERIE: partial(decode, cls, version),
        _FORMAT: format_of(cls, version).parse,
        _COMPILED: declared.compile().parse,
        _CONSTRUCT: declared.parse,
    }
    writers: dict[str, Callable[[Any], bytes]] = {
        _COTERIE: partial(_encode_in, version),
        _FORMAT: format_of(cls, version).build,
        _COMPILED: declared.compile().build,
        _CONSTRUCT: declared.build,
    }
    messages = {name: read(body) for name, read in readers.items()}
    for name, write in writers.items():
        if write(messages[name]) != body:
            raise AssertionError(f"{case.title}: {name} writes something else")
    return {
        "decode": {name: partial(read, body) for name, read in readers.items()},
        "encode": {name: partial(write, messages[name]) for name, write in writers.items()},
    }


def _encode_in(version: int, message: Any) -> bytes:
    return encode(message, version)


def _row(direction: str, name: str, calls: dict[str, Callable[[], object]], effort: Effort) -> Row:
    seconds = interleave(calls, effort)
    ours = seconds[_COTERIE]
    ratios = tuple(ratio(seconds[step], ours) for step in (_FORMAT, _COMPILED, _CONSTRUCT))
    return Row(direction, (name, summary(ours, unit="µs", scale=1e6), *ratios, widest(ratios)))
