"""Caching of functions of classes."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from typing import ParamSpec, TypeVar, cast

__all__ = ["remember"]

P = ParamSpec("P")
R = TypeVar("R")


def remember(function: Callable[P, R]) -> Callable[P, R]:
    """Do what `functools.cache` does; its type takes no classes as arguments, this one does."""
    return cast("Callable[P, R]", cache(function))
