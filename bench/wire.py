"""The wire's speed, against code written by hand, kafka-python, aiokafka, and our own format."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from typing import Any, Final

from bench.support.measure import Effort, Figure, interleave, ratio, summary
from bench.support.report import Column, Report, Row, widest
from bench.support.wire_cases import Case, cases
from bench.support.wire_libraries import (
    AIOKAFKA,
    BY_HAND,
    COTERIE,
    INTERPRETED,
    KAFKA_PYTHON,
    Contender,
    contenders,
    frame_of,
)

__all__ = ["agree", "run"]

#: The project's aims: Coterie takes at most so many times as long as code by hand, and each
#: library at least so many times as long as Coterie.
HAND_AIM: Final = 3.0
LIBRARY_AIM: Final = 3.0

_LENGTH_SIZE: Final = 4

_COLUMNS: Final = (
    Column("message", "message"),
    Column("bytes", "frame,\nbytes"),
    Column("time", "coterie"),
    Column("over_by_hand", "coterie\n÷ by hand"),
    Column("kafka_python", "kafka-python\n÷ coterie"),
    Column("aiokafka", "aiokafka\n÷ coterie"),
    Column("interpreted", "interpreted\n÷ coterie"),
    Column("spread", "spread"),
)


def run(effort: Effort) -> Report:
    """Measure how fast messages are read and written."""
    rows: dict[str, list[Row]] = {"decode": [], "encode": []}
    for case in cases():
        entrants = contenders(case)
        agree(case, entrants)
        for direction, calls in _calls(case, entrants).items():
            rows[direction].append(_row(direction, case, calls, effort))
    every_row = (*rows["decode"], *rows["encode"])
    return Report("The wire: decode and encode", _COLUMNS, every_row, _notes(every_row))


def agree(case: Case, entrants: Sequence[Contender]) -> None:
    """Check that all contenders read the same values from a frame and write the same frame."""
    expected: dict[int, Any] = {}
    for entrant in entrants:
        frame = frame_of(case, entrant.version)
        message = entrant.decode(frame[_LENGTH_SIZE:])
        values = entrant.values(message)
        if values != expected.setdefault(entrant.version, values):
            raise AssertionError(f"{case.name}: {entrant.name} reads something else")
        if entrant.encode(message) != frame:
            raise AssertionError(f"{case.name}: {entrant.name} writes something else")


def _calls(case: Case, entrants: Sequence[Contender]) -> dict[str, dict[str, Callable[[], object]]]:
    """The calls to time; each library writes the message that it has read itself."""
    calls: dict[str, dict[str, Callable[[], object]]] = {"decode": {}, "encode": {}}
    for entrant in entrants:
        payload = frame_of(case, entrant.version)[_LENGTH_SIZE:]
        calls["decode"][entrant.name] = partial(entrant.decode, payload)
        calls["encode"][entrant.name] = partial(entrant.encode, entrant.decode(payload))
    return calls


def _row(direction: str, case: Case, calls: dict[str, Callable[[], object]], effort: Effort) -> Row:
    seconds = interleave(calls, effort)
    ours = seconds[COTERIE]
    by_hand = ratio(ours, seconds[BY_HAND]) if BY_HAND in seconds else None
    if by_hand and case.title.startswith("Heartbeat"):
        by_hand = replace(by_hand, reached=by_hand.median <= HAND_AIM)
    ratios = (
        _rival(seconds[KAFKA_PYTHON], ours),
        _rival(seconds[AIOKAFKA], ours),
        ratio(seconds[INTERPRETED], ours),
    )
    size = len(frame_of(case, case.version))
    time = summary(ours, unit="µs", scale=1e6)
    older = case.aiokafka_version != case.version
    marks = {"aiokafka": f" (v{case.aiokafka_version})"} if older else {}
    spread = widest((by_hand, *ratios) if by_hand else ratios)
    return Row(direction, (case.name, size, time, by_hand, *ratios, spread), marks)


def _rival(seconds: Sequence[float], ours: Sequence[float]) -> Figure:
    figure = ratio(seconds, ours)
    return replace(figure, reached=figure.median >= LIBRARY_AIM)


def _notes(rows: Sequence[Row]) -> tuple[str, ...]:
    aims = [cell.reached for row in rows for cell in row.cells if isinstance(cell, Figure)]
    met, missed = aims.count(True), aims.count(False)
    aim = (
        f"Aims: Heartbeat at most {HAND_AIM:g}x by hand, each library at least {LIBRARY_AIM:g}x "
        f"coterie; reached by {met} of {met + missed} figures."
    )
    return (
        "Ratios are taken within one round of all contenders; shown is the median of the rounds.",
        "The spread is half the distance between the quartiles, of the row's least steady ratio.",
        "By hand there is one message of each size, in the newest version.",
        "(v1) and the like: the nearest version that aiokafka has, which is a smaller message.",
        aim,
    )
