"""Running a test for every message: by class, and where that takes long, by version as well."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest
from hypothesis import strategies as st

from tests.support.strategies import MESSAGES, messages

__all__ = ["Wanted", "by_class", "by_class_and_version", "by_version", "versioned"]

#: Whether a test is to run with this class and version.
Wanted = Callable[[type[Any], int], bool]


def _all(_cls: type[Any], _version: int) -> bool:
    return True


def by_class(wanted: Wanted = _all) -> pytest.MarkDecorator:
    """Run a test once for each class; it goes through the `versions` itself."""
    return _parametrize([_whole(*each) for each in _versions_by_class(wanted).items()])


def by_class_and_version(wanted: Wanted = _all) -> pytest.MarkDecorator:
    """Run a test for each class, with all `versions` to draw from; the slow tests draw from each.

    The former is for every day: with Hypothesis, it gets at all versions in the course of time.
    """
    cases = []
    for cls, versions in _versions_by_class(wanted).items():
        cases.append(_whole(cls, versions))
        if len(versions) > 1:
            cases += [
                pytest.param(cls, [v], id=f"{cls.__name__}-v{v}", marks=pytest.mark.slow)
                for v in versions
            ]
    return _parametrize(cases)


def by_version(wanted: Wanted = _all) -> pytest.MarkDecorator:
    """Run a test for each class and `version`."""
    pairs = [(cls, version) for cls, version in MESSAGES if wanted(cls, version)]
    ids = [f"{cls.__name__}-v{version}" for cls, version in pairs]
    return pytest.mark.parametrize(("cls", "version"), pairs, ids=ids)


def versioned(
    cls: type[Any], versions: Sequence[int], *, own: bool = False
) -> st.SearchStrategy[tuple[int, Any]]:
    """One of the versions, and a message that it can carry, perhaps with Coterie's own fields."""
    return st.sampled_from(versions).flatmap(
        lambda version: st.tuples(st.just(version), messages(cls, version, own=own))
    )


def _versions_by_class(wanted: Wanted) -> dict[type[Any], list[int]]:
    found: dict[type[Any], list[int]] = {}
    for cls, version in MESSAGES:
        if wanted(cls, version):
            found.setdefault(cls, []).append(version)
    return found


def _whole(cls: type[Any], versions: list[int]) -> Any:
    return pytest.param(cls, versions, id=cls.__name__)


def _parametrize(cases: list[Any]) -> pytest.MarkDecorator:
    return pytest.mark.parametrize(("cls", "versions"), cases)
