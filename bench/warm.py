"""The time a leader takes to refine assignments of partitions with state, and Kafka's to do so.

The sizes are those of Kafka's own test, which allows 120 s for each.
"""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from bench.assignors import take_turns, timed
from bench.support.java_assignors import JavaAssignors
from bench.support.measure import Effort, ratio, summary
from bench.support.report import Cell, Column, Report, Row
from coterie_assignors import (
    RUNNING,
    Adjustment,
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    InstanceStickyAssignor,
    MemberInfo,
    WarmReport,
    WarmSettings,
    lead,
)
from coterie_protocol.consumer import flatten
from tests.interop import java_assignors
from tests.interop.java_tools import toolchain_problem

__all__ = ["run"]

_COTERIE: Final = "cooperative-sticky"
_INSTANCE: Final = "instance-sticky"
_KAFKA: Final = "kafka"
_ALONE: Final = "kafka, alone"
_JAVA: Final = Path(java_assignors.__file__).with_name("java") / "WarmAssignments.java"
#: What Kafka's own test allows for an answer.
_TIMEOUT_S: Final = 120.0
_ROUNDS_MAX: Final = 7
#: The time for all rounds of a case; there are at least two rounds.
_BUDGET_S: Final = 10.0

_COLUMNS: Final = (
    Column("case", "partitions x processes"),
    Column("standbys", "standbys"),
    Column("cooperative", "cooperative-sticky"),
    Column("instance", "instance-sticky"),
    Column("kafka", "Kafka"),
    Column("alone", "of that its\nassignor"),
    Column("cooperative_ratio", "Kafka ÷\ncooperative-sticky"),
    Column("instance_ratio", "Kafka ÷\ninstance-sticky"),
)


@dataclass(frozen=True, slots=True)
class _Size:
    partitions: int
    processes: int
    standbys: int
    #: The members, or threads, of each process.
    members: int = 1


_SIZES: Final = (
    _Size(6000, 2, 1),
    _Size(1000, 1000, 1),
    _Size(1000, 100, 50),
    _Size(1000, 10, 1, members=100),
)
_QUICK_SIZES: Final = (_Size(12, 3, 1), _Size(6, 4, 2, members=2))

#: What each member reports, by member id; those without state report nothing.
_Group = Mapping[str, MemberInfo]


def run(effort: Effort) -> Report:
    """Measure the time that answers take."""
    problem = "left out of a quick try" if effort.quick else toolchain_problem(compiler=True)
    rows: list[Row] = []
    with ExitStack() as stack:
        java = None
        if problem is None:
            java = stack.enter_context(JavaAssignors(_JAVA, _TIMEOUT_S))
        for size in _QUICK_SIZES if effort.quick else _SIZES:
            for question, members in _questions(size).items():
                rows.append(_row(question, size, members, effort, java))
    return Report("Partitions with state", _COLUMNS, rows=_by_question(rows), notes=_notes(problem))


def _by_question(rows: list[Row]) -> tuple[Row, ...]:
    questions = dict.fromkeys(row.group for row in rows)
    return tuple(row for question in questions for row in rows if row.group == question)


def _notes(problem: str | None) -> tuple[str, ...]:
    return (
        "One topic; first: no member has any state; settled: the answer to that is in effect;",
        "one joins, one left: a settled group, and a process that is new or gone.",
        "All that a leader does, from what members said, decoded, to what each of them is to have.",
        "Kafka: in one warmed-up virtual machine, whose serial garbage collector counts;",
        "its assignor: HighAvailabilityTaskAssignor alone, once its input is prepared.",
        *(() if problem is None else (f"Without Kafka: {problem}.",)),
    )


def _cluster(size: _Size) -> Cluster:
    return Cluster({"topic": size.partitions})


def _settings(size: _Size) -> WarmSettings:
    return WarmSettings(num_standbys=size.standbys)


def _newcomers(size: _Size, process: int) -> dict[str, MemberInfo]:
    return {
        name: MemberInfo(
            member_id=name, topics=("topic",), warm=WarmReport(process=UUID(int=process + 1))
        )
        for name in (f"p{process:04}-{n:04}" for n in range(size.members))
    }


def _questions(size: _Size) -> dict[str, _Group]:
    first: dict[str, MemberInfo] = {}
    for process in range(size.processes):
        first |= _newcomers(size, process)
    led = lead(InstanceStickyAssignor(), _cluster(size), first, _settings(size))
    settled = _in_effect(first, led)
    gone = _newcomers(size, 0)
    return {
        "first": first,
        "settled": settled,
        "one joins": settled | _newcomers(size, size.processes),
        "one left": {name: info for name, info in settled.items() if name not in gone},
    }


def _in_effect(members: _Group, led: Adjustment) -> dict[str, MemberInfo]:
    """The members once they have done what they were told."""
    settled: dict[str, MemberInfo] = {}
    for name, info in members.items():
        assert info.warm is not None
        owned = led.assignment[name]
        lags = dict.fromkeys(flatten(led.standbys.get(name, ())), 0)
        lags |= dict.fromkeys(flatten(owned), RUNNING)
        settled[name] = MemberInfo(
            member_id=name,
            topics=info.topics,
            owned=owned,
            generation=1,
            warm=WarmReport(info.warm.process, lags),
        )
    return settled


def _row(
    question: str, size: _Size, members: _Group, effort: Effort, java: JavaAssignors | None
) -> Row:
    assignors: dict[str, Assignor] = {
        _COTERIE: CooperativeStickyAssignor(),
        _INSTANCE: InstanceStickyAssignor(),
    }
    entrants = {
        name: timed(partial(lead, assignor, _cluster(size), members, _settings(size)))
        for name, assignor in assignors.items()
    }
    if java is not None and java.put(_java_question(size, members)):
        entrants |= {_KAFKA: java.seconds, _ALONE: partial(java.seconds, alone=True)}
    slowest = max(seconds(0.0) or 0.0 for seconds in entrants.values())
    rounds = max(2, min(effort.rounds, _ROUNDS_MAX, int(_BUDGET_S / max(slowest, 1e-9))))
    seconds = take_turns(entrants, rounds, effort.turn_ms)
    late = "late" if java is not None else None
    cells: tuple[Cell, ...] = (
        _name_of(size),
        size.standbys,
        *(_ms(seconds.get(name, []), late) for name in (_COTERIE, _INSTANCE, _KAFKA, _ALONE)),
        *(
            ratio(seconds[_KAFKA], seconds[name]) if _KAFKA in seconds else None
            for name in (_COTERIE, _INSTANCE)
        ),
    )
    return Row(question, cells)


def _ms(seconds: list[float], otherwise: str | None) -> Cell:
    return summary(seconds, unit="ms", scale=1e3) if len(seconds) > 1 else otherwise


def _name_of(size: _Size) -> str:
    each = f" of {size.members} members" if size.members > 1 else ""
    return f"{size.partitions} x {size.processes}{each}"


def _java_question(size: _Size, members: _Group) -> dict[str, Any]:
    by_process: dict[UUID | None, list[MemberInfo]] = {}
    for info in members.values():
        assert info.warm is not None
        by_process.setdefault(info.warm.process, []).append(info)
    settings = _settings(size)
    return {
        "topics": [size.partitions],
        "clients": [[_java_member(info) for info in infos] for infos in by_process.values()],
        "acceptable_recovery_lag": settings.acceptable_recovery_lag,
        "max_warmup_replicas": settings.max_warmup_replicas,
        "num_standbys": settings.num_standbys,
    }


def _java_member(info: MemberInfo) -> dict[str, Any]:
    """What a member says; the sentinels among lags are Kafka's own."""
    lags = info.warm.lags if info.warm else {}
    return {
        "id": info.member_id,
        "owned": [["0", number] for entry in info.owned for number in entry.partitions],
        "copies": [[0, number, lag] for (_, number), lag in sorted(lags.items())],
    }
