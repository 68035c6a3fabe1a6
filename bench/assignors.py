"""The assignors' speed, against kafka-python's and aiokafka's, and at the size of Kafka's tests."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import partial
from typing import Final

from bench.support.measure import Effort, Figure, interleave, ratio, summary
from bench.support.report import Cell, Column, Report, Row, widest
from coterie_client.assignors import (
    Assignor,
    Cluster,
    CooperativeStickyAssignor,
    MemberInfo,
    RangeAssignor,
    RoundRobinAssignor,
    StickyAssignor,
)
from tests.client.assignors.rivals import (
    AIOKAFKA,
    KAFKA_PYTHON,
    ask_aiokafka,
    ask_kafka_python,
    for_aiokafka,
    for_kafka_python,
)
from tests.client.assignors.world import assert_fair, assigned

__all__ = ["run"]

_COTERIE: Final = "coterie"
_KAFKA_PYTHON: Final = "kafka-python"
_AIOKAFKA: Final = "aiokafka"

#: Members and topics of the groups, the small ones first.
_SIZES: Final = tuple(
    (members, topics) for topics in (10, 100, 1000) for members in (10, 100, 1000)
)
_QUICK_SIZES: Final = ((3, 2), (4, 3))
_PARTITIONS: Final = 10

#: A library that took longer than this for a group is not asked for a larger one.
_PATIENCE_S: Final = 0.5
#: Turns are as many as fit into this, two at least.
_BUDGET_S: Final = 1.5

_COLUMNS: Final = (
    Column("case", "members x topics"),
    Column("partitions", "partitions"),
    Column("time", "coterie"),
    Column("kafka_python", "kafka-python\n÷ coterie"),
    Column("aiokafka", "aiokafka\n÷ coterie"),
    Column("spread", "spread"),
)

Call = Callable[[], object]


@dataclass(frozen=True, slots=True)
class _Case:
    """One group, and what to ask for it."""

    question: str
    assignor: Assignor
    topics: Mapping[str, int]
    members: Mapping[str, MemberInfo]

    @property
    def name(self) -> str:
        return f"{len(self.members)} x {len(self.topics)}"


def run(effort: Effort) -> Report:
    """Measure how long assignments take."""
    rows: list[Row] = []
    for question in ("range", "roundrobin", "sticky, first", "sticky, one left"):
        tired: set[str] = set()
        for members, topics in _QUICK_SIZES if effort.quick else _SIZES:
            rows.append(_row(_case(question, members, topics), effort, tired))
    rows += _at_scale(effort)
    notes = (
        f"Each topic has {_PARTITIONS} partitions; everybody subscribes to all of them.",
        f"A library that took over {_PATIENCE_S:g} s is not asked for larger groups (-).",
        "Two assignments: the first one, and another one with what it gave; in processor time.",
        "One differs: one of the members subscribes to one topic only.",
    )
    return Report("Assignors", _COLUMNS, tuple(rows), notes)


def _case(question: str, members: int, topics: int) -> _Case:
    """A group with equal subscriptions; for the last question one of a settled group has left."""
    counts = {f"topic-{n:04}": _PARTITIONS for n in range(topics)}
    infos = {
        f"member-{n:04}": MemberInfo(member_id=f"member-{n:04}", topics=tuple(counts))
        for n in range(members)
    }
    assignor: Assignor = StickyAssignor()
    if question in ("range", "roundrobin"):
        assignor = RangeAssignor() if question == "range" else RoundRobinAssignor()
    if question.endswith("left"):
        given = assignor.assign(Cluster(counts), infos)
        infos = {
            name: replace(info, user_data=assignor.subscription_user_data((), given[name], 1))
            for name, info in infos.items()
        }
        del infos["member-0001"]
    return _Case(question, assignor, counts, infos)


def _row(case: _Case, effort: Effort, tired: set[str]) -> Row:
    entrants = {name: call for name, call in _calls(case).items() if name not in tired}
    taken = {name: _seconds(call) for name, call in entrants.items()}
    tired |= {name for name, seconds in taken.items() if seconds > _PATIENCE_S}
    rounds = max(2, min(effort.rounds, int(_BUDGET_S / sum(taken.values()))))
    seconds = interleave(entrants, replace(effort, rounds=rounds))
    if len(case.members) * len(case.topics) <= 1000:
        _agree(case)
    ours = seconds[_COTERIE]
    ratios: list[Figure | None] = [
        ratio(seconds[name], ours) if name in seconds else None
        for name in (_KAFKA_PYTHON, _AIOKAFKA)
    ]
    known = [figure for figure in ratios if figure is not None]
    cells: tuple[Cell, ...] = (
        case.name,
        sum(case.topics.values()),
        summary(ours, unit="ms", scale=1e3),
        *ratios,
        widest(known) if known else None,
    )
    return Row(case.question, cells)


def _calls(case: _Case) -> dict[str, Call]:
    name = case.assignor.name
    # kafka-python reads its own user data only, which has a version in front.
    theirs = {
        member: replace(info, user_data=b"\x00\x01" + info.user_data) if info.user_data else info
        for member, info in case.members.items()
    }
    return {
        _COTERIE: partial(case.assignor.assign, Cluster(case.topics), case.members),
        _KAFKA_PYTHON: partial(KAFKA_PYTHON[name]().assign, *for_kafka_python(case.topics, theirs)),
        _AIOKAFKA: partial(AIOKAFKA[name].assign, *for_aiokafka(case.topics, case.members)),
    }


def _agree(case: _Case) -> None:
    """Make sure that all answer the question: alike where there is one answer, fairly otherwise."""
    name = case.assignor.name
    ours = assigned(case.assignor, case.topics, case.members)
    if name == "sticky":
        given = case.assignor.assign(Cluster(case.topics), case.members)
        assert_fair(case.topics, case.members, given)
        return
    for ask in (ask_kafka_python, ask_aiokafka):
        if ask(name, case.topics, case.members) != ours:
            raise AssertionError(f"{case.question}, {case.name}: the answers differ")


def _at_scale(effort: Effort) -> list[Row]:
    """The sizes of Kafka's own test, where two assignments may take 30 s, or 90 s if uneven."""
    size, topics, partitions = (20, 5, 20) if effort.quick else (2000, 500, 2000)
    counts = {f"topic-{n:03}": partitions for n in range(topics)}
    rows = []
    for kind in ("equal", "one differs"):
        members = {
            f"member-{n:04}": MemberInfo(member_id=f"member-{n:04}", topics=tuple(counts))
            for n in range(size)
        }
        if kind != "equal":
            members["member-0000"] = replace(members["member-0000"], topics=tuple(counts)[:1])
        rows.append(_scale_row(kind, counts, members))
    return rows


def _scale_row(kind: str, topics: Mapping[str, int], members: Mapping[str, MemberInfo]) -> Row:
    assignor = CooperativeStickyAssignor()

    def twice() -> None:
        given = assignor.assign(Cluster(topics), members)
        again = {name: replace(info, owned=given[name]) for name, info in members.items()}
        assignor.assign(Cluster(topics), again)

    seconds: Sequence[float] = [_seconds(twice), _seconds(twice)]
    name = f"{len(members)} x {len(topics)}, {kind}"
    time_taken = summary(seconds, unit="s")
    return Row(
        "cooperative-sticky, two assignments",
        (name, sum(topics.values()), time_taken, None, None, None),
    )


def _seconds(call: Call) -> float:
    start = time.process_time()
    call()
    return max(time.process_time() - start, 1e-9)
