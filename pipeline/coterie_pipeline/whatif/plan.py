"""Parsing the settings that are to be tried."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Final, Self

from coterie_testing.replay import Changes

__all__ = ["Plan"]

#: More than a person reads, or most clusters replay in a night.
_SETTINGS_MAX: Final = 200

#: Enough to tell a difference from chance.
_SEEDS: Final = 3
_SEEDS_MAX: Final = 100

Overrides = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True, kw_only=True)
class Plan:
    """Which settings are to be tried, on which groups."""

    #: For each setting, keys and values with Kafka's names.
    settings: tuple[Overrides, ...]
    #: Empty for all groups.
    groups: tuple[str, ...] = ()
    #: How often each history is replayed.
    seeds: int = _SEEDS

    @classmethod
    def parse(
        cls,
        sets: Sequence[str] = (),
        grids: Sequence[str] = (),
        *,
        groups: Sequence[str] = (),
        seeds: int = _SEEDS,
    ) -> Self:
        """Parse `KEY=VALUE`, part of all settings, and `KEY=VALUE,VALUE...`, to be combined.

        Raises `ValueError` with one sentence if there is no such setting or value.
        """
        if not 1 <= seeds <= _SEEDS_MAX:
            raise ValueError(f"{seeds} seeds: expected 1 to {_SEEDS_MAX}")
        axes: list[tuple[str, tuple[str, ...]]] = [
            *((key, (value,)) for key, value in map(_pair, sets)),
            *((key, _values(key, text)) for key, text in map(_pair, grids)),
        ]
        for key, values in axes:
            if sum(key == other for other, _ in axes) > 1:
                raise ValueError(f"{key} is given twice")
            for value in values:
                Changes.parse({key: value})
        count = 1
        for _, values in axes:
            count *= len(values)
        if count > _SETTINGS_MAX:
            raise ValueError(f"{count:,} settings to try: expected {_SETTINGS_MAX} at most")
        combined = itertools.product(*([(key, value) for value in values] for key, values in axes))
        settings = tuple(combined) if axes else ()
        return cls(settings=settings, groups=tuple(dict.fromkeys(groups)), seeds=seeds)


def _pair(text: str) -> tuple[str, str]:
    key, equals, value = (part.strip() for part in text.partition("="))
    if not (key and equals and value):
        raise ValueError(f"{text!r}: expected KEY=VALUE")
    return key, value


def _values(key: str, text: str) -> tuple[str, ...]:
    values = tuple(part.strip() for part in text.split(","))
    if "" in values or len(set(values)) < len(values):
        raise ValueError(f"{key}={text}: expected different values with commas between them")
    return values
