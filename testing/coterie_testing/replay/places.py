"""Names for processes that have none: what static members of a history would be called."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass

from coterie_testing.replay.play import Life

__all__ = ["places"]


@dataclass(slots=True)
class _Place:
    name: str
    client_id: str
    host: str
    #: From when on it is free; None if it never is.
    free_ms: int | None


def places(lives: Sequence[Life]) -> list[str]:
    """Each process's name, so that one that follows another takes its place.

    That is how a well-run service numbers its processes: whoever comes takes the name of one of
    the same client that is gone, of one from the same host if there is one, else of the last.
    """
    taken: list[_Place] = []
    names = [""] * len(lives)
    numbers: Counter[str] = Counter()
    for index in sorted(range(len(lives)), key=lambda i: lives[i].began_ms):
        life = lives[index]
        place = _free(taken, life)
        if place is None:
            client = life.client_id or "member"
            numbers[client] += 1
            name = life.instance or f"{client}-{numbers[client]}"
            place = _Place(name, life.client_id, life.host, None)
            taken.append(place)
        place.host, place.free_ms = life.host, life.ended_ms
        names[index] = place.name
    return names


def _free(taken: list[_Place], life: Life) -> _Place | None:
    if life.instance is not None:
        return next((place for place in taken if place.name == life.instance), None)
    free = [
        (place.host == life.host, place.free_ms, place)
        for place in taken
        if place.client_id == life.client_id
        and place.free_ms is not None
        and place.free_ms <= life.began_ms
    ]
    return max(free, key=lambda each: each[:2])[2] if free else None
