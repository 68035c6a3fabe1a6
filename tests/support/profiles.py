"""How many examples tests try: few, or many where the environment says `CI=true`."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import Any, Final

import pytest
from hypothesis import settings

__all__ = ["PROFILE", "by_profile", "examples", "load_profile", "mostly_slow"]

PROFILE: Final = "quick" if os.environ.get("CI", "") in ("", "0", "false") else "long"
_FACTOR: Final = {"quick": 0.2, "long": 1}[PROFILE]
#: What a test gets that does not ask for a number.
_EXAMPLES: Final = 50


def load_profile() -> None:
    """Have all tests use the profile of this run."""
    # Hypothesis has a profile of its own for CI, which tries the same examples every time.
    settings.register_profile(
        PROFILE,
        settings.get_profile("default"),
        max_examples=round(_EXAMPLES * _FACTOR),
        # The deadline measures the machine as much as the code: slow cores must not turn a test
        # red.  A failure prints the blob that replays it, so a report from CI is enough.
        deadline=None,
        print_blob=True,
    )
    settings.load_profile(PROFILE)


def examples(count: int, **options: Any) -> settings:
    """Settings for a test: `count` examples, a fifth of them in the quick profile."""
    return settings(max_examples=round(count * _FACTOR), **options)


def by_profile(*, quick: int, long: int) -> int:
    """How many cases to try in this run, for tests that Hypothesis has no part in."""
    return {"quick": quick, "long": long}[PROFILE]


def mostly_slow(values: Iterable[Any], quick: int = 1) -> list[Any]:
    """Values for a parameter: the first few for the quick tests, and the others for the slow ones.

    Where all of them are much the same, and those that are not have tests of their own.
    """
    each = list(values)
    return [*each[:quick], *(pytest.param(value, marks=pytest.mark.slow) for value in each[quick:])]
