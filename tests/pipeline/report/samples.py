"""Small reports to render, and what can be read back from a page."""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from xml.etree.ElementTree import Element, fromstring

from coterie_pipeline.report.model import (
    Advice,
    Bar,
    CommitLine,
    Cost,
    Fault,
    GroupDetail,
    GroupLine,
    NodeRead,
    Process,
    Rebalance,
    Report,
    Row,
    Session,
    Some,
    Span,
    Totals,
    Unread,
)

#: 2025-11-19 00:00:00 UTC.
START_MS = 1_763_510_400_000
SPAN = Span(START_MS, START_MS + 1_000_000)

HOSTILE = '<script>alert("x")</script>&\x00\u202e\ud800'


def at(share: float) -> int:
    """A moment, as a share of the time of the scene."""
    return START_MS + round(share * SPAN.length_ms)


def bar(holder: str, start: float, end: float, **more: object) -> Bar:
    """An interval of ownership, from one share of the time to another."""
    made = Bar(
        holder=holder,
        identity=holder,
        member=holder,
        host="/10.0.0.1",
        from_ms=at(start),
        to_ms=at(end),
        released_ms=at(end),
        generation=3,
        last_generation=5,
        began="assigned",
        ended="taken",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def fault(kind: str, start: float, end: float, **more: object) -> Fault:
    """A gap or an overlap that is certain."""
    made = Fault(
        fault=kind,
        from_ms=at(start),
        to_ms=at(end),
        sure_ms=at(end) - at(start),
        cause="session_expired" if kind == "gap" else "taken_while_held",
        rebalance=1,
        is_open=False,
        holder="a",
        next_holder="b",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def row(partition: int, bars: tuple[Bar, ...], faults: tuple[Fault, ...] = ()) -> Row:
    """A partition of the topic orders."""
    return Row(
        topic="orders",
        partition=partition,
        bars=bars,
        faults=faults,
        intervals=len(bars),
        overlaps=sum(each.fault == "overlap" and each.sure_ms > 0 for each in faults),
        stopped_ms=sum(each.sure_ms for each in faults if each.fault == "gap"),
    )


def rebalance(number: int = 1, start: float = 0.1, **more: object) -> Rebalance:
    """A rebalance that waited 2 s for `b` and took 250 ms after that."""
    made = Rebalance(
        number=number,
        started_ms=at(start),
        joined_ms=at(start) + 2_000,
        ended_ms=at(start) + 2_250,
        outcome="completed",
        from_state="Stable",
        generation=number + 1,
        cause="session_expired",
        detail="c was silent",
        root=number,
        cause_chain=("session_expired",),
        protocol="range",
        members=2,
        came=Some(),
        went=Some(1, ("c",)),
        dropped=Some(),
        awaited=Some(2, ("a", "b")),
        late=(),
        late_count=0,
        detection_ms=10_400,
        prepare_ms=2_000,
        complete_ms=250,
        total_ms=2_250,
        partitions=4,
        moved=2,
        revoked=2,
        kept=1,
        keepable=2,
        needs_rejoin=False,
        stopped_partition_ms=8_000,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def session(member: str, start: float | None, end: float | None, **more: object) -> Session:
    """A membership; None is before the journal begins, or after it ends."""
    made = Session(
        member=member,
        holder=member,
        host="/10.0.0.1",
        joined_ms=None if start is None else at(start),
        ended_ms=None if end is None else at(end),
        began="joined",
        ended="open" if end is None else "session_expired",
        silent_ms=None if end is None else 10_400,
        session_timeout_ms=10_000,
        join_reason="",
        leave_reason="",
    )
    return replace(made, **more)  # type: ignore[arg-type]


def process(identity: str, *sessions: Session, **more: object) -> Process:
    """A process with all its memberships."""
    made = Process(
        identity=identity,
        kind="dynamic",
        sessions=sessions,
        memberships=len(sessions),
        expired=sum(each.ended == "session_expired" for each in sessions),
        is_flapping=False,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def line(group: str = "billing", **more: object) -> GroupLine:
    """A group's line in the overview."""
    made = GroupLine(
        group=group,
        rebalances=1,
        stopped_partition_ms=8_000,
        silent_partition_ms=0,
        owned_partition_ms=3_992_000,
        overlaps=0,
        possible_overlaps=0,
        members=2,
        partitions=4,
        flapping=0,
        regressions=0,
        main_cause="session_expired",
        main_cause_rebalances=1,
        stopped_by_time_ms=(0, 8_000, 0),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def detail(group: str = "billing", **more: object) -> GroupDetail:
    """A group in which `c` died and `a` and `b` went on."""
    rows = (
        row(0, (bar("a", 0, 0.5), bar("b", 0.6, 1)), (fault("gap", 0.5, 0.6),)),
        row(1, (bar("c", 0, 0.4), bar("b", 0.3, 1)), (fault("overlap", 0.3, 0.4),)),
    )
    sessions = (
        process("a", session("a", None, None)),
        process("b", session("b", 0, None)),
        process("c", session("c", 0, 0.4)),
    )
    made = GroupDetail(
        line=line(group),
        span=SPAN,
        advice=(),
        rows=rows,
        rows_in_all=2,
        faulty_rows_left_out=0,
        merged_below_ms=0,
        rebalances=(rebalance(),),
        costs=(Cost("session_expired", 1, 0, 8_000, 0),),
        processes=sessions,
        processes_in_all=3,
        commits=(
            CommitLine(
                topic="orders",
                partition=0,
                commits=17,
                per_minute=1.5,
                advanced=1_700,
                regressions=1,
                deepest_regression=12,
                outside=0,
                lag=3,
            ),
        ),
        commits_in_all=1,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def advice(group: str = "billing", **more: object) -> Advice:
    """A piece of advice."""
    made = Advice(
        group=group,
        rule="session_timeout",
        severity="costly",
        about="c",
        sentence="c was given up though it lived. Give it 20 s.",
        saves_partition_ms=8_000,
        from_ms=at(0.1),
        to_ms=at(0.4),
        evidence=(("session_timeout_ms", "10000"),),
    )
    return replace(made, **more)  # type: ignore[arg-type]


def node(name: str = "1", **more: object) -> NodeRead:
    """A node whose journal is whole."""
    made = NodeRead(
        node=name,
        lines=1_234,
        first_ms=SPAN.from_ms,
        last_ms=SPAN.to_ms,
        missing=0,
        gaps=0,
        duplicates=0,
        conflicts=0,
        starts=1,
        crashes=0,
        clock_back_ms=0,
        clock_behind_ms=0,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def report(*details: GroupDetail, **more: object) -> Report:
    """A report of these groups and no more."""
    lines = tuple(each.line for each in details)
    made = Report(
        span=SPAN,
        nodes=(node(),),
        unread=(),
        totals=Totals(
            groups=len(lines),
            rebalances=sum(each.rebalances for each in lines),
            stopped_partition_ms=sum(each.stopped_partition_ms for each in lines),
            silent_partition_ms=sum(each.silent_partition_ms for each in lines),
            owned_partition_ms=sum(each.owned_partition_ms for each in lines),
            overlaps=sum(each.overlaps for each in lines),
            possible_overlaps=sum(each.possible_overlaps for each in lines),
            groups_with_overlaps=sum(each.overlaps > 0 for each in lines),
            flapping=sum(each.flapping for each in lines),
        ),
        lines=lines,
        advice=(),
        details=details,
    )
    return replace(made, **more)  # type: ignore[arg-type]


def hostile_report() -> Report:
    """A report in which every text is an attack."""
    name = HOSTILE
    bad_bar = bar(name, 0, 1, member=f"{name}-m", host=name, ended=name, began=name)
    bad_fault = fault("gap", 0.2, 0.3, cause=name, holder=name, next_holder=name)
    bad_overlap = fault("overlap", 0.4, 0.5, cause=name, holder=name, next_holder=name)
    some = Some(9, (name,))
    bad = detail(
        name,
        line=line(name, main_cause=name),
        rows=(replace(row(0, (bad_bar,), (bad_fault, bad_overlap)), topic=name),),
        rebalances=(
            rebalance(
                cause=name,
                detail=name,
                cause_chain=(name, name),
                root=7,
                outcome=name,
                came=some,
                went=some,
                dropped=some,
                awaited=some,
            ),
        ),
        costs=(Cost(name, 1, 1, 10, 5),),
        processes=(
            process(
                name,
                session(name, 0, 1, ended=name, join_reason=name, leave_reason=name, host=name),
                kind=name,
            ),
        ),
        advice=(advice(name, sentence=name, about=name, severity=name, evidence=((name, name),)),),
        commits=(replace(detail().commits[0], topic=name),),
    )
    return report(
        bad,
        nodes=(node(name, missing=1, crashes=1),),
        unread=(Unread(name, 1, f"/var/{name}", name),),
        advice=bad.advice,
    )


def tree(markup: str) -> Element:
    """Markup as XML; of a whole page without what its style and its script say."""
    bare = re.sub(r"<(style|script)>.*?</\1>", "", markup, flags=re.DOTALL)
    return fromstring(bare.removeprefix("<!DOCTYPE html>"))  # noqa: S314  # our own output


def of_class(root: Element, name: str) -> Iterator[Element]:
    """All elements of a class, in the order of the page."""
    return (each for each in root.iter() if name in (each.get("class") or "").split())


def place(shape: Element) -> tuple[float, float]:
    """Where a shape begins and ends, as shares of its chart."""
    x, width = (float((shape.get(name) or "").removesuffix("%")) for name in ("x", "width"))
    return round(x / 100, 6), round((x + width) / 100, 6)


def words_of(element: Element) -> str:
    """All that is to be read in an element."""
    return " ".join(" ".join(element.itertext()).split())
