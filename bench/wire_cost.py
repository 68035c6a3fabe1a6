"""The cost of generated code: time to compile on first use, and memory."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from typing import Any, Final, cast

from bench.support.measure import Effort, interleave, ratio, summary
from bench.support.report import Column, Report, Row, widest
from bench.support.wire_cases import Case, cases
from bench.support.wire_libraries import COTERIE, INTERPRETED, contenders, frame_of
from coterie_protocol import API_VERSIONS, request_class, response_class
from coterie_protocol._compile import Codec, codec_of, format_of

__all__ = ["run"]

_COMPILE: Final = "compile"
_LENGTH_SIZE: Final = 4

_COLUMNS: Final = (
    Column("message", "message"),
    Column("time", "compile once"),
    Column("spread", "spread"),
    Column("pays_after", "pays after reading\nand writing"),
    Column("memory_bytes", "code in memory,\nbytes"),
)


def run(effort: Effort) -> Report:
    """Measure the time and memory that the code of each message takes."""
    chosen = [case for case in cases() if not effort.quick or case.version in (0, 4)]
    rows = [_row(case, effort) for case in chosen]
    if not effort.quick:
        rows.append(_row_of_all())
    notes = (
        "Compiling makes the code for both directions of one message in one version.",
        "It pays after so many messages that the interpreted format would have lost more time.",
    )
    return Report("The wire: compiling on first use", _COLUMNS, tuple(rows), notes)


def _compile(cls: type[Any], version: int) -> Codec:
    """Derive and compile again what is normally cached."""
    cast("Any", format_of).cache_clear()
    return cast("Codec", cast("Any", codec_of).__wrapped__(cls, version))


def _row(case: Case, effort: Effort) -> Row:
    cls = type(case.message)
    calls: dict[str, Callable[[], object]] = {_COMPILE: partial(_compile, cls, case.version)}
    payload = frame_of(case, case.version)[_LENGTH_SIZE:]
    for entrant in contenders(case):
        if entrant.name in (COTERIE, INTERPRETED):
            calls[entrant.name] = partial(_there_and_back, entrant.decode, entrant.encode, payload)
    seconds = interleave(calls, effort)
    gains = [slow - fast for slow, fast in zip(seconds[INTERPRETED], seconds[COTERIE], strict=True)]
    time = summary(seconds[_COMPILE], unit="ms", scale=1e3)
    pays = replace(ratio(seconds[_COMPILE], gains), unit="messages")
    memory = _memory_bytes(partial(_compile, cls, case.version))
    return Row("", (case.name, time, widest([time]), pays, memory))


def _there_and_back(
    decode: Callable[[bytes], Any], encode: Callable[[Any], Any], payload: bytes
) -> None:
    encode(decode(payload))


def _row_of_all() -> Row:
    every = [
        (cls, version)
        for api, versions in API_VERSIONS.items()
        for cls in (request_class(api), response_class(api))
        for version in range(versions.first, versions.last + 1)
    ]

    def compile_all() -> list[Codec]:
        return [_compile(cls, version) for cls, version in every]

    effort = Effort(rounds=5, turn_ms=0.0, quick=False)
    time = summary(interleave({_COMPILE: compile_all}, effort)[_COMPILE], unit="ms", scale=1e3)
    name = f"all {len(every)} messages and versions"
    return Row("", (name, time, widest([time]), None, _memory_bytes(compile_all)))


def _memory_bytes(make: Callable[[], object]) -> int:
    """The memory that the result of a call keeps allocated."""
    gc.collect()
    tracemalloc.start()
    try:
        made = make()
        gc.collect()
        held, _ = tracemalloc.get_traced_memory()
        del made
    finally:
        tracemalloc.stop()
    return held
