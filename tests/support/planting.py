"""Planting a bug: one function replaced by another for as long as a test looks."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractContextManager
from functools import partial
from typing import Any
from unittest.mock import patch

__all__ = ["Planting", "planting"]

#: What a bug is called, what the system does then, and how to plant it.
Planting = tuple[str, str, Callable[[], AbstractContextManager[object]]]


def planting(target: Any, attribute: str, function: Callable[..., Any]) -> Planting:
    """Have a function replace another one, which it gets as its first argument.

    It is named after what goes wrong, and its docstring tells it.
    """
    original = getattr(target, attribute)

    def changed(*arguments: Any, **named: Any) -> Any:
        return function(original, *arguments, **named)

    new: Any = changed
    if isinstance(original, property):
        new = property(partial(function, original.fget))
    name = function.__name__.strip("_").replace("_", " ")
    story = (function.__doc__ or "").rstrip(".")
    return name, story, partial(patch.object, target, attribute, new)
