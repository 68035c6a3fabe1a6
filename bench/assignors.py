"""The speed of the assignors, compared with other clients', and at the sizes of Kafka's tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from typing import Final

from bench.support.assignor_cases import (
    PARTITIONS,
    AssignorCase,
    case_of_equals,
    case_of_kafkas_benchmark,
    cases_of_loads,
)
from bench.support.java_assignors import TIMEOUT_S, JavaAssignors
from bench.support.measure import Effort, Figure, calm, ratio, summary
from bench.support.report import Cell, Column, Report, Row, widest
from coterie_assignors import Cluster, CooperativeStickyAssignor, MemberInfo
from tests.assignors.rivals import (
    AIOKAFKA,
    KAFKA_PYTHON,
    ask_aiokafka,
    ask_kafka_python,
    for_aiokafka,
    for_kafka_python,
)
from tests.assignors.world import assert_fair, assigned
from tests.interop.java_tools import toolchain_problem

__all__ = ["run", "take_turns", "timed"]

_COTERIE: Final = "coterie"
_KAFKA_PYTHON: Final = "kafka-python"
_AIOKAFKA: Final = "aiokafka"
_JAVA: Final = "java"

#: Members and topics of the groups with equal subscriptions, small ones first.
_SIZES: Final = tuple(
    (members, topics) for topics in (10, 100, 1000) for members in (10, 100, 1000)
)
_QUICK_SIZES: Final = ((3, 2), (4, 3))

#: Of the sizes of Kafka's ClientSideAssignorBenchmark: members, partitions for each, and topics.
_KAFKAS_SIZES: Final = ((100, 10, 10), (500, 10, 100), (1000, 10, 100), (10000, 10, 100))
_KAFKAS_QUICK_SIZES: Final = ((10, 10, 5),)
_KAFKAS_QUESTIONS: Final = (
    ("range, Kafka's groups", 0),
    ("range, Kafka's groups, five kinds", 0),
    ("range, Kafka's groups, 2 of 3 racks", 2),
    ("cooperative-sticky, first", 0),
    ("cooperative-sticky, one joins", 0),
    ("cooperative-sticky, first, five kinds", 0),
    ("cooperative-sticky, one joins, five kinds", 0),
    ("cooperative-sticky, first, 3 of 3 racks", 3),
    ("cooperative-sticky, first, 2 of 3 racks", 2),
    ("cooperative-sticky, one joins, 2 of 3 racks", 2),
)

#: Members and partitions of the groups that balance loads, and those of a quick try.
_LOADS: Final = ((1000, 10_000), (5, 30))

#: A library that took longer than this for a group is left out for larger ones.
_SLOW_S: Final = 0.5
#: Other Python clients' cooperative assignors are left out above this: partitions x members.
_WORK_MAX: Final = 100_000
#: The time for all rounds of a case; there are at least two rounds.
_BUDGET_S: Final = 1.5
_ROUNDS_MAX: Final = 15

_COLUMNS: Final = (
    Column("case", "members x topics"),
    Column("partitions", "partitions"),
    Column("time", "coterie"),
    Column("kafka_python", "kafka-python\n÷ coterie"),
    Column("aiokafka", "aiokafka\n÷ coterie"),
    Column("java", "Kafka\n÷ coterie"),
    Column("spread", "spread"),
)

Call = Callable[[], object]
#: Returns the seconds of one call, measured in a turn of so many milliseconds.
Timed = Callable[[float], float | None]


def run(effort: Effort) -> Report:
    """Measure the time that assignments take."""
    problem = "left out of a quick try" if effort.quick else toolchain_problem(compiler=True)
    rows: list[Row] = []
    with ExitStack() as stack:
        java = None if problem else stack.enter_context(JavaAssignors())
        for question in ("range", "roundrobin", "sticky, first", "sticky, one left"):
            slow: set[str] = set()
            rows += [
                _row(case_of_equals(question, *size), effort, slow, java)
                for size in (_QUICK_SIZES if effort.quick else _SIZES)
            ]
        for question, replicas in _KAFKAS_QUESTIONS:
            slow = set()
            for kafkas in _KAFKAS_QUICK_SIZES if effort.quick else _KAFKAS_SIZES:
                case = case_of_kafkas_benchmark(question, kafkas, replicas=replicas)
                rows.append(_row(case, effort, slow, java))
    rows += [_row_of_loads(case) for case in cases_of_loads(*_LOADS[effort.quick])]
    return Report("Assignors", _COLUMNS, (*rows, *_at_scale(effort)), _notes(problem))


def _notes(problem: str | None) -> tuple[str, ...]:
    return (
        f"The first four: topics of {PARTITIONS} partitions; all members subscribe to all of them.",
        "Then the groups of Kafka's ClientSideAssignorBenchmark, with 10 partitions a member;",
        "five kinds: each fifth of the members subscribes to its own fifth of the topics.",
        "Racks: there are 3; members are spread over them, replicas are in 2 or in all 3.",
        f"A library that took over {_SLOW_S:g} s is left out for larger groups (-),",
        "other Python clients also for large sticky ones, and all where they lack the assignor: of",
        "these only kafka-python has cooperative-sticky, and none knows racks.",
        "Kafka: one warmed-up virtual machine; its serial garbage collector counts;",
        f"it is given up after {TIMEOUT_S:g} s (late).",
        "By number and by load: one topic, whose partitions differ in load by up to 600 times.",
        "Two assignments: a first one, and another one that starts from it; in processor time.",
        "One differs: one of the members subscribes to one topic only.",
        *(() if problem is None else (f"Without Kafka: {problem}.",)),
    )


def _row(case: AssignorCase, effort: Effort, slow: set[str], java: JavaAssignors | None) -> Row:
    calls = {name: call for name, call in _calls(case).items() if name not in slow}
    entrants = {name: timed(call) for name, call in calls.items()}
    taken = {name: _seconds(call) for name, call in calls.items()}
    slow |= {name for name, seconds in taken.items() if seconds > _SLOW_S} - {_COTERIE}
    is_late = False
    if java is not None and _JAVA not in slow:
        is_late = not java.ask(case.assignor.name, case.cluster, case.members)
        if is_late:
            slow.add(_JAVA)
        else:
            entrants[_JAVA] = java.seconds
            taken[_JAVA] = java.seconds(0.0) or 0.0
    most = min(effort.rounds, _ROUNDS_MAX)
    seconds = take_turns(
        entrants, max(2, min(most, int(_BUDGET_S / sum(taken.values())))), effort.turn_ms
    )
    if len(case.members) * len(case.cluster.topics) <= 1000:
        _agree(case)
    ours = seconds[_COTERIE]
    ratios: list[Figure | None] = [
        ratio(seconds[name], ours) if name in seconds else None
        for name in (_KAFKA_PYTHON, _AIOKAFKA, _JAVA)
    ]
    known = [figure for figure in ratios if figure is not None]
    shown: list[Cell] = [*ratios]
    if is_late:
        shown[-1] = "late"
    cells: tuple[Cell, ...] = (
        case.name,
        case.partitions,
        summary(ours, unit="ms", scale=1e3),
        *shown,
        widest(known) if known else None,
    )
    return Row(case.question, cells)


def take_turns(
    entrants: Mapping[str, Timed], rounds: int, turn_ms: float
) -> dict[str, list[float]]:
    """Time all contenders in turns, so that a disturbance concerns all of them."""
    names = list(entrants)
    seconds: dict[str, list[float]] = {name: [] for name in names}
    with calm():
        for turn in range(rounds):
            first = turn % len(names)
            for name in names[first:] + names[:first]:
                took = entrants[name](turn_ms)
                if took is None:
                    raise RuntimeError(f"{name} stopped answering")
                seconds[name].append(took)
    return seconds


def timed(call: Call) -> Timed:
    """Return how to time a call."""

    def seconds(turn_ms: float) -> float:
        calls, start = 0, time.process_time()
        end = time.perf_counter() + turn_ms / 1000
        while not calls or time.perf_counter() < end:
            call()
            calls += 1
        return max(time.process_time() - start, 1e-9) / calls

    return seconds


def _calls(case: AssignorCase) -> dict[str, Call]:
    name, topics = case.assignor.name, case.cluster.topics
    calls: dict[str, Call] = {_COTERIE: partial(case.assignor.assign, case.cluster, case.members)}
    is_large = "cooperative" in name and case.partitions * len(case.members) > _WORK_MAX
    if case.cluster.racks or is_large:
        return calls
    # kafka-python reads only its own user data, which begins with a version.
    theirs = {
        member: replace(info, user_data=b"\x00\x01" + info.user_data) if info.user_data else info
        for member, info in case.members.items()
    }
    calls[_KAFKA_PYTHON] = partial(KAFKA_PYTHON[name]().assign, *for_kafka_python(topics, theirs))
    if name in AIOKAFKA:
        calls[_AIOKAFKA] = partial(AIOKAFKA[name].assign, *for_aiokafka(topics, case.members))
    return calls


def _agree(case: AssignorCase) -> None:
    """Check the assignments: equal if there is only one right one, else fair."""
    name, topics = case.assignor.name, case.cluster.topics
    if name not in ("range", "roundrobin"):
        assert_fair(topics, case.members, case.assignor.assign(case.cluster, case.members))
        return
    if case.cluster.racks:
        return
    ours = assigned(case.assignor, topics, case.members)
    for ask in (ask_kafka_python, ask_aiokafka):
        if ask(name, topics, case.members) != ours:
            raise AssertionError(f"{case.question}, {case.name}: the assignments differ")


def _row_of_loads(case: AssignorCase) -> Row:
    """Time one of the groups that balance loads, and the same by number."""
    call = partial(case.assignor.assign, case.cluster, case.members)
    with calm():
        time_taken = summary([_seconds(call) for _ in range(5)], unit="ms", scale=1e3)
    return Row(case.question, (case.name, case.partitions, time_taken, None, None, None, None))


def _at_scale(effort: Effort) -> list[Row]:
    """The sizes of Kafka's own test, which allows 30 s for two assignments, or 90 s if uneven."""
    size, topics, partitions = (20, 5, 20) if effort.quick else (2000, 500, 2000)
    counts = {f"topic-{n:03}": partitions for n in range(topics)}
    where = [frozenset({f"rack{n}", f"rack{(n + 1) % 3}"}) for n in range(3)]
    racks = {topic: [where[n % 3] for n in range(partitions)] for topic in counts}
    rows = []
    for kind in ("equal", "one differs", "2 of 3 racks"):
        members = {
            f"member-{n:04}": MemberInfo(
                member_id=f"member-{n:04}",
                topics=tuple(counts),
                rack=f"rack{n % 3}" if "racks" in kind else None,
            )
            for n in range(size)
        }
        if kind == "one differs":
            members["member-0000"] = replace(members["member-0000"], topics=tuple(counts)[:1])
        rows.append(_scale_row(kind, Cluster(counts, racks if "racks" in kind else {}), members))
    return rows


def _scale_row(kind: str, cluster: Cluster, members: Mapping[str, MemberInfo]) -> Row:
    assignor = CooperativeStickyAssignor()

    def twice() -> None:
        given = assignor.assign(cluster, members)
        again = {name: replace(info, owned=given[name]) for name, info in members.items()}
        assignor.assign(cluster, again)

    seconds: Sequence[float] = [_seconds(twice), _seconds(twice)]
    name = f"{len(members)} x {len(cluster.topics)}, {kind}"
    time_taken = summary(seconds, unit="s")
    return Row(
        "cooperative-sticky, two assignments",
        (name, sum(cluster.topics.values()), time_taken, None, None, None, None),
    )


def _seconds(call: Call) -> float:
    start = time.process_time()
    call()
    return max(time.process_time() - start, 1e-9)
