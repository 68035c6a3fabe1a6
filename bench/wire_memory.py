"""The memory that messages take, and the peaks while they are read and written."""

from __future__ import annotations

import gc
import tracemalloc
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

from bench.support.measure import RATIO, Effort, Figure, calm
from bench.support.report import Column, Report, Row
from bench.support.wire_cases import Case, cases
from bench.support.wire_libraries import AIOKAFKA, COTERIE, KAFKA_PYTHON, contenders, frame_of

__all__ = ["run"]

_LENGTH_SIZE: Final = 4

_COLUMNS: Final = (
    Column("message", "message"),
    Column("bytes", "frame,\nbytes"),
    Column("held", "message\n÷ frame"),
    Column("reading", "peak while\nreading\n÷ frame"),
    Column("writing", "peak while\nwriting\n÷ frame"),
    Column("kafka_python", "kafka-python's\nmessage\n÷ coterie's"),
    Column("aiokafka", "aiokafka's\nmessage\n÷ coterie's"),
)


@dataclass(frozen=True, slots=True)
class _Memory:
    held: int
    peak: int


def run(effort: Effort) -> Report:  # noqa: ARG001  # memory needs no repetition
    """Measure the memory of each message."""
    notes = (
        "Counted by tracemalloc, which repeats to within a percent, so no spread is given.",
        "Peaks include the result but not the input.",
        "(v1) and the like: the nearest version that aiokafka has.",
    )
    with calm():
        rows = tuple(_row(case) for case in cases())
    return Report("The wire: memory", _COLUMNS, rows, notes)


def _row(case: Case) -> Row:
    held: dict[str, int] = {}
    size = len(frame_of(case, case.version))
    reading = writing = 0
    for entrant in contenders(case):
        payload = frame_of(case, entrant.version)[_LENGTH_SIZE:]
        message = entrant.decode(payload)  # compiles and fills caches
        entrant.encode(message)
        read = _measured(partial(entrant.decode, payload))
        held[entrant.name] = read.held
        if entrant.name == COTERIE:
            reading, writing = read.peak, _measured(partial(entrant.encode, message)).peak
    ours = held[COTERIE]
    older = case.aiokafka_version != case.version
    cells = (
        case.name,
        size,
        _times(ours, size),
        _times(reading, size),
        _times(writing, size),
        _times(held[KAFKA_PYTHON], ours),
        _times(held[AIOKAFKA], ours),
    )
    return Row("", cells, {"aiokafka": f" (v{case.aiokafka_version})"} if older else {})


def _measured(call: Callable[[], Any]) -> _Memory:
    gc.collect()
    tracemalloc.start()
    try:
        result = call()
        held, peak = tracemalloc.get_traced_memory()
        del result
    finally:
        tracemalloc.stop()
    return _Memory(held, peak)


def _times(over: int, under: int) -> Figure:
    value = over / under
    return Figure(value, value, value, RATIO)
