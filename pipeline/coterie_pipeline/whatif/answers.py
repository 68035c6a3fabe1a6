"""The results of replays for people: rows of a table, and a sentence for each setting."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, datetime
from itertools import groupby
from typing import Any, Final

from coterie_pipeline.whatif.table import AS_RECORDED, BASELINE

__all__ = ["HEADINGS", "LIMITS", "Answer", "answers"]

#: What a replay can't know, in short; `docs/what-if.md` has it at length.
LIMITS: Final = (
    "Why a process was silent or slow is in no journal: it is so for as long as it was then.",
    "Silences shorter than the session timeout are in no journal: a shorter one would show more.",
    "A process that came back within ten minutes from the same host may have been restarted.",
    "Load, network and other groups are not those of that time; work takes as long as it did.",
    "The members are Coterie's clients, whatever they were.",
)

HEADINGS: Final = ("setting", "rebalances", "stopped", "moved", "taken over after")

#: A baseline fits if it is off by no more than this share, or this number of rebalances.
_FIT_SHARE: Final = 0.2
_FIT_COUNT: Final = 2

Row = Mapping[str, Any]


@dataclass(frozen=True, slots=True, kw_only=True)
class Answer:
    """The results for one group."""

    group: str
    #: Which part of its history was replayed.
    title: str
    #: A row for each setting under `HEADINGS`; none if nothing could be replayed.
    rows: tuple[tuple[str, ...], ...]
    #: A sentence for each setting.
    sentences: tuple[str, ...]
    #: How far the results can be trusted.
    notes: tuple[str, ...]


def answers(rows: Iterable[Row]) -> list[Answer]:
    """The answers for all groups, from rows of `WHAT_IF` in any order."""
    ordered = sorted(rows, key=lambda row: (row["group"], row["place"]))
    return [
        _answer(group, {row["place"]: row for row in of_group})
        for group, of_group in groupby(ordered, key=lambda row: str(row["group"]))
    ]


def _answer(group: str, by_place: Mapping[int, Row]) -> Answer:
    recorded, baseline = by_place[AS_RECORDED], by_place[BASELINE]
    if baseline["rebalances"] is None:
        return Answer(
            group=group,
            title=_title(recorded),
            rows=(),
            sentences=(f"{baseline['why']}.",),
            notes=(),
        )
    rows = [by_place[place] for place in sorted(by_place)]
    tried = [row for row in rows if row["place"] > BASELINE]
    return Answer(
        group=group,
        title=_title(recorded),
        rows=tuple(_cells(row) for row in rows),
        sentences=tuple(_sentence(row, baseline) for row in tried),
        notes=tuple(_notes(recorded, baseline)),
    )


# -- the table ---------------------------------------------------------------------------------


def _title(recorded: Row) -> str:
    if recorded["from_ms"] is None:
        return "no line in this time"
    lines = f"{recorded['lines']:,} lines"
    left_out = f", {recorded['left_out']:,} more left out" if recorded["left_out"] else ""
    return f"{_time(recorded['from_ms'])} to {_time(recorded['to_ms'])} UTC, {lines}{left_out}"


def _time(ms: int) -> str:
    return f"{datetime.fromtimestamp(ms / 1000, UTC):%Y-%m-%d %H:%M:%S}"


def _cells(row: Row) -> tuple[str, ...]:
    name = "as it was, replayed" if row["place"] == BASELINE else str(row["setting"])
    if row["rebalances"] is None:
        return (name, *("-" for _ in HEADINGS[1:]))
    about = "about " if row["place"] == AS_RECORDED and row["stopped_s"] else ""
    return (
        name,
        _ranged(row, "rebalances"),
        about + _ranged(row, "stopped", "_s"),
        _ranged(row, "moved"),
        _ranged(row, "slowest_takeover", "_s"),
    )


def _ranged(row: Row, name: str, unit: str = "") -> str:
    """A median, and its range if the replays differ."""
    middle = row[f"{name}{unit}"]
    if middle is None:
        return "-"
    least, most = (_number(row[f"{name}_{end}{unit}"], unit) for end in ("least", "most"))
    text = _number(middle, unit)
    return text + (" s" if unit else "") + (f" ({least} to {most})" if least != most else "")


def _number(value: float, unit: str) -> str:
    if unit and abs(value) < 100:  # from there on tenths are noise
        return f"{value:.1f}"
    return f"{value:,.0f}" if value == round(value) or unit else f"{value:,.1f}"


# -- the sentences -----------------------------------------------------------------------------


def _sentence(row: Row, baseline: Row) -> str:
    """What a setting would have saved, and what it would have cost."""
    head = f"With {row['setting']}"
    if row["rebalances"] is None:
        return f"{head}: {row['why']}."
    found = [*_rebalances(row, baseline), *_stopped(row, baseline), *_detection(row, baseline)]
    saves = " and ".join(text for is_worse, text in found if not is_worse)
    costs = " and ".join(text for is_worse, text in found if is_worse)
    both = ", but ".join(filter(None, (saves, costs)))
    return f"{head}: {both or 'no difference that is more than chance'}."


def _rebalances(row: Row, baseline: Row) -> Iterator[tuple[bool, str]]:
    """Whether the difference is for the worse, and its text; nothing if there is none."""
    if _differ(row, baseline, "rebalances"):
        before, after = (_number(each["rebalances"], "") for each in (baseline, row))
        noun = "rebalance" if after == "1" else "rebalances"
        yield row["rebalances"] > baseline["rebalances"], f"{after} {noun} instead of {before}"


def _stopped(row: Row, baseline: Row) -> Iterator[tuple[bool, str]]:
    if _differ(row, baseline, "stopped", "_s"):
        before, after = (_number(each["stopped_s"], "s") for each in (baseline, row))
        text = f"{after} stopped partition-seconds instead of {before}"
        yield row["stopped_s"] > baseline["stopped_s"], text


def _detection(row: Row, baseline: Row) -> Iterator[tuple[bool, str]]:
    """The time until a dead process is replaced, if that differs."""
    before_s, after_s = baseline["slowest_takeover_s"], row["slowest_takeover_s"]
    before_ms, after_ms = baseline["session_timeout_ms"], row["session_timeout_ms"]
    if before_s is not None and after_s is not None:
        if _differ(row, baseline, "slowest_takeover", "_s"):
            times = f"{_number(after_s, 's')} s instead of {_number(before_s, 's')} s"
            yield after_s > before_s, f"a silent process's partitions wait {times}"
    elif before_ms != after_ms:
        times = f"{after_ms / 1000:g} s instead of {before_ms / 1000:g} s"
        yield after_ms > before_ms, f"if a process dies, its partitions wait about {times}"


def _differ(row: Row, baseline: Row, name: str, unit: str = "") -> bool:
    """Whether all replays with one setting are on one side of all with the other."""
    ends = [(each[f"{name}_least{unit}"], each[f"{name}_most{unit}"]) for each in (row, baseline)]
    if None in ends[0] or None in ends[1]:
        return False
    (least, most), (least_before, most_before) = ends
    is_apart = bool(least > most_before or most < least_before)
    return is_apart and _number(row[f"{name}{unit}"], unit) != _number(
        baseline[f"{name}{unit}"], unit
    )


# -- the notes ---------------------------------------------------------------------------------


def _notes(recorded: Row, baseline: Row) -> Iterator[str]:
    if recorded["rebalances"] is not None:
        yield _fit(recorded, baseline)
    if baseline["assumed"]:
        yield f"The journal does not tell all; assumed: {'; '.join(baseline['assumed'])}."
    if baseline["overlap_s"]:
        yield f"Replayed as it was, partitions had two at work for {baseline['overlap_s']:.1f} s."


def _fit(recorded: Row, baseline: Row) -> str:
    """Whether the unchanged replay has as many rebalances as the journal."""
    there, here = recorded["rebalances"], baseline["rebalances"]
    text = f"Replayed as it was, rebalances number {_ranged(baseline, 'rebalances')} where the"
    text += f" journal has {_number(there, '')}"
    if abs(here - there) <= max(_FIT_COUNT, _FIT_SHARE * there):
        return f"{text}."
    causes = ", ".join(_off(recorded["by_cause"], baseline["by_cause"]))
    return f"{text} ({causes}): compare the settings with the replay, and trust them less."


def _off(there: Mapping[str, float], here: Mapping[str, float]) -> Sequence[str]:
    """The causes whose counts differ, and by how much."""
    return [
        f"{here.get(cause, 0) - there.get(cause, 0):+g} {cause}"
        for cause in sorted({*there, *here})
        if here.get(cause, 0) != there.get(cause, 0)
    ]
