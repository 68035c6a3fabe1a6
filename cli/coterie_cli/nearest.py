"""The known name that is nearest to an unknown one, if any is near."""

from __future__ import annotations

from collections.abc import Iterable

__all__ = ["did_you_mean", "nearest"]


def nearest(name: str, known: Iterable[str]) -> str | None:
    """The known name that was probably meant."""
    import difflib

    names = {each.lower(): each for each in known}
    found = difflib.get_close_matches(name.lower(), names, n=1)
    return names[found[0]] if found else None


def did_you_mean(name: str, known: Iterable[str]) -> str:
    """How to end a sentence about an unknown name: with the nearest known one, if there is one."""
    found = nearest(name, known)
    return "." if found is None else f". The nearest known one is {found!r}."
