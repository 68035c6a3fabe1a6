"""The signs of causes: a shape, a letter and a colour, any one of which is enough to tell them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from coterie_pipeline.report.markup import Markup, element

__all__ = ["Sign", "icon", "mark", "order", "sign"]


@dataclass(frozen=True, slots=True)
class Sign:
    """The letter that stands for a cause, and the family that it belongs to."""

    letter: str
    #: `lost`: a member was given up; `went` or `came`: one did; `changed`: something else did;
    #: `follow`: a follow-up.
    family: str


_SIGNS: Final[Mapping[str, Sign]] = {
    "session_expired": Sign("S", "lost"),
    "registration_expired": Sign("G", "lost"),
    "join_expired": Sign("N", "lost"),
    "sync_expired": Sign("Y", "lost"),
    "over_capacity": Sign("O", "lost"),
    "member_left": Sign("L", "went"),
    "member_removed": Sign("X", "went"),
    "member_joined": Sign("J", "came"),
    "static_expansion": Sign("E", "came"),
    "subscription_changed": Sign("U", "changed"),
    "leader_rejoined": Sign("R", "changed"),
    "static_replaced": Sign("P", "changed"),
    "topic_changed": Sign("T", "changed"),
    "admin": Sign("A", "changed"),
    "drain": Sign("D", "changed"),
    "pin": Sign("I", "changed"),
    "freeze": Sign("Z", "changed"),
    "load": Sign("B", "changed"),
    "revocation_follow_up": Sign("F", "follow"),
    "warm": Sign("W", "follow"),
    "probing": Sign("Q", "follow"),
}

#: Outlines in a square of 2 by 2 around 0, 0; a family has one.
_OUTLINES: Final[Mapping[str, tuple[tuple[float, float], ...]]] = {
    "lost": ((0, -1.15), (1.15, 0), (0, 1.15), (-1.15, 0)),
    "went": ((-0.85, -0.85), (0.85, -0.85), (0.85, 0.85), (-0.85, 0.85)),
    "changed": ((-0.6, -1), (0.6, -1), (1.1, 0), (0.6, 1), (-0.6, 1), (-1.1, 0)),
    "follow": ((-0.95, -0.85), (0.45, -0.85), (1.3, 0), (0.45, 0.85), (-0.95, 0.85)),
}


def sign(cause: str) -> Sign:
    """The sign of a cause, also of an unknown one."""
    return _SIGNS.get(cause, Sign("?", "changed"))


def order(cause: str) -> tuple[int, str]:
    """The key that sorts causes."""
    known = list(_SIGNS)
    return (known.index(cause) if cause in _SIGNS else len(known), cause)


def mark(cause: str, radius: float) -> tuple[Markup, Markup]:
    """The shape and the letter of a cause, centred at the origin."""
    chosen = sign(cause)
    outline = _OUTLINES.get(chosen.family)
    if outline is None:
        shape = element("circle", r=f"{radius:.1f}")
    else:
        points = " L".join(f"{x * radius:.1f},{y * radius:.1f}" for x, y in outline)
        shape = element("path", d=f"M{points}Z")
    return shape, element("text", chosen.letter, y="3.5")


def icon(cause: str) -> Markup:
    """The sign of a cause for a line of text."""
    place = element("svg", *mark(cause, 7), x=10, y=10, overflow="visible")
    class_ = f"icon {sign(cause).family}"
    return element("svg", place, width=20, height=20, class_=class_, aria_hidden="true")
