"""The chart of members: a row for each process, a bar for each of its memberships."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.gantt import Owner, tip
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import GroupDetail, Process, Session
from coterie_pipeline.report.scale import Scale, plot

__all__ = ["members", "note"]

_HEIGHT: Final = 16
_BAR: Final = 10
_TOP: Final = 3

#: Signs for the ends of memberships; those not listed were ended by the coordinator.
_SIGNS: Final[Mapping[str, str]] = {
    "left": "→",
    "replaced": "↻",
    "emptied": "",
    "deleted": "",
    "lost": "?",
    "open": "",
}
_GIVEN_UP: Final = "\N{MULTIPLICATION SIGN}"


def members(detail: GroupDetail, scale: Scale, owners: Mapping[str, Owner]) -> Markup:
    """The rows."""
    rows = (_row(process, scale, owners) for process in detail.processes)
    return element("div", *rows, class_="lanes members")


def note(detail: GroupDetail) -> Markup | None:
    """What is not drawn; None if everything is."""
    left = detail.processes_in_all - len(detail.processes)
    sentences = []
    if left:
        sentences.append(
            f"+ {words.count(left, 'process', 'processes')} more with fewer memberships."
        )
    hidden = sum(each.memberships - len(each.sessions) for each in detail.processes)
    if hidden:
        sentences.append(f"The latest memberships are drawn, and {hidden:,} earlier ones are not.")
    return element("p", " ".join(sentences), class_="note") if sentences else None


def _row(process: Process, scale: Scale, owners: Mapping[str, Owner]) -> Markup:
    bars = [_bar(each, scale, owners[each.holder]) for each in process.sessions]
    signs = (_sign(each, scale) for each in process.sessions)
    sentence = words.cut(f"{process.identity}: {', '.join(_facts(process))}")
    holders = sorted({session.holder for session in process.sessions})
    label = element(
        "div",
        element("bdi", _name(process, owners), class_="name"),
        _badge(process),
        class_="label",
        title=words.cut(process.identity),
    )
    return element(
        "div",
        label,
        plot(_HEIGHT, sentence, *bars, *signs),
        class_="lane process",
        data_h=owners[process.sessions[0].holder].number,
        data_name=words.cut(" ".join((process.identity, *holders)), 400),
    )


def _name(process: Process, owners: Mapping[str, Owner]) -> str:
    """A static member's own name; of others that of their bars, and where they come from."""
    if process.kind == "static":
        return words.short_name(process.identity)
    latest = process.sessions[-1]
    host = words.cut(latest.host.lstrip("/"), 40)
    return f"{owners[latest.holder].name} {host}".rstrip()


def _facts(process: Process) -> Iterator[str]:
    yield process.kind
    yield words.count(process.memberships, "membership")
    if process.expired:
        yield f"given up as silent {words.count(process.expired, 'time')}"
    if process.is_flapping:
        yield "flapping: it came back three times or more within an hour"


def _badge(process: Process) -> Markup:
    kind = "static" if process.kind == "static" else ""
    times = f"{process.memberships}\N{MULTIPLICATION SIGN}" if process.memberships > 1 else ""
    if process.is_flapping:
        return element("small", f"⚠ flapping {times}", class_="warn")
    return element("small", " ".join(part for part in (kind, times) if part))


def _times(session: Session, scale: Scale) -> tuple[int, int]:
    """Its beginning and end, which are the edges of the chart where they are not known."""
    span = scale.span
    return (
        span.from_ms if session.joined_ms is None else session.joined_ms,
        span.to_ms if session.ended_ms is None else session.ended_ms,
    )


def _bar(session: Session, scale: Scale, owner: Owner) -> Markup:
    start, end = _times(session, scale)
    return element(
        "rect",
        _tip(session, start, end),
        x=scale.at(start),
        width=scale.width(start, end),
        y=_TOP,
        height=_BAR,
        class_=f"bar o{owner.colour}",
        data_h=owner.number,
    )


def _sign(session: Session, scale: Scale) -> Markup | None:
    """The sign for its end; drawn after all bars, as the next one may begin at once."""
    sign = _SIGNS.get(session.ended, _GIVEN_UP)
    if not sign:
        return None
    _, end = _times(session, scale)
    kind = "end bad" if sign == _GIVEN_UP else "end"
    return element("text", sign, x=scale.at(end), y=_TOP + _BAR - 1, class_=kind)


def _tip(session: Session, start: int, end: int) -> Markup:
    since = "there when the journal begins" if session.joined_ms is None else words.clock_ms(start)
    until = "" if session.ended_ms is None else f" to {words.clock_ms(end)}"
    silent = None
    if session.ended != "left" and session.silent_ms is not None and session.session_timeout_ms:
        timeout = words.duration(session.session_timeout_ms)
        silent = f"silent for {words.duration(session.silent_ms)}, might have been for {timeout}"
    return tip(
        words.cut(session.member),
        words.cut(session.host.lstrip("/"), 60),
        f"{since}{until} ({words.duration(end - start)})",
        words.gone(session.ended),
        silent,
        f"came because: {words.cut(session.join_reason)}" if session.join_reason else None,
        f"left because: {words.cut(session.leave_reason)}" if session.leave_reason else None,
    )
