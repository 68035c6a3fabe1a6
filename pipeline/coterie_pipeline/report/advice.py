"""What to do, in sentences, with what they are based on."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from coterie_pipeline.report import words
from coterie_pipeline.report.markup import Markup, element
from coterie_pipeline.report.model import Advice

__all__ = ["advised"]

_SEVERITIES: Final[Mapping[str, str]] = {
    "wrong": "Wrong",
    "costly": "Costly",
    "note": "Note",
}


def advised(
    pieces: Sequence[Advice], in_all: int, anchors: Mapping[str, str] | None = None
) -> Markup:
    """A list; with `anchors`, each piece says which group it is about."""
    items = (_item(piece, anchors) for piece in pieces)
    left = in_all - len(pieces)
    more = f"+ {words.count(left, 'piece')} of advice more, of less weight."
    note = element("p", more, class_="note") if left else None
    return element("div", element("ul", *items, class_="advice"), note)


def _item(piece: Advice, anchors: Mapping[str, str] | None) -> Markup:
    badge = element(
        "b", _SEVERITIES.get(piece.severity, piece.severity), class_=f"badge {_class(piece)}"
    )
    saves = None
    if piece.saves_partition_ms:
        saved = f"Would save {words.seconds(piece.saves_partition_ms)} partition-seconds."
        saves = element("span", f" {saved}", class_="saves")
    said = element("p", _about(piece, anchors), words.cut(piece.sentence, 1_000), saves)
    return element("li", badge, element("div", said, _evidence(piece)))


def _class(piece: Advice) -> str:
    return piece.severity if piece.severity in _SEVERITIES else "note"


def _about(piece: Advice, anchors: Mapping[str, str] | None) -> Markup | None:
    if anchors is None or not piece.group:
        return None
    name = element("bdi", words.cut(piece.group, 80))
    anchor = anchors.get(piece.group)
    return Markup(element("a", name, href=f"#{anchor}") + ": " if anchor else name + ": ")


def _evidence(piece: Advice) -> Markup | None:
    facts = [
        f"{words.cut(key.replace('_', ' '), 60)}: {words.cut(value)}"
        for key, value in piece.evidence
    ]
    if piece.from_ms is not None and piece.to_ms is not None:
        seen = f"{words.date(piece.from_ms)} {words.clock(piece.from_ms)}"
        if piece.to_ms > piece.from_ms:
            seen += f" to {words.date(piece.to_ms)} {words.clock(piece.to_ms)}"
        facts.append(f"seen {seen}")
    return element("p", " · ".join(facts), class_="evidence") if facts else None
