"""Settings to be tried are what the command line says, or one sentence says what is wrong."""

from __future__ import annotations

from typing import Any

import pytest

from coterie_pipeline.whatif import Plan
from coterie_testing.replay.changes import ASSIGNORS


def test_sets_hold_everywhere_and_grids_are_combined() -> None:
    plan = Plan.parse(
        ["static=true"],
        ["session.timeout.ms=10000,20000", "assignor=range, sticky"],
        groups=["a", "b", "a"],
        seeds=2,
    )
    assert [dict(setting) for setting in plan.settings] == [
        {"static": "true", "session.timeout.ms": "10000", "assignor": "range"},
        {"static": "true", "session.timeout.ms": "10000", "assignor": "sticky"},
        {"static": "true", "session.timeout.ms": "20000", "assignor": "range"},
        {"static": "true", "session.timeout.ms": "20000", "assignor": "sticky"},
    ]
    assert (plan.groups, plan.seeds) == (("a", "b"), 2)


def test_sets_alone_make_one_setting() -> None:
    plan = Plan.parse(["session.timeout.ms=45000", "assignor=range"])
    assert plan.settings == ((("session.timeout.ms", "45000"), ("assignor", "range")),)


def test_nothing_to_try_is_a_plan() -> None:
    assert Plan.parse().settings == ()


@pytest.mark.parametrize(
    ("sets", "grids", "more", "sentence"),
    [
        (["assignor"], [], {}, "'assignor': expected KEY=VALUE"),
        (["=range"], [], {}, "'=range': expected KEY=VALUE"),
        (
            ["sesion.timeout.ms=1"],
            [],
            {},
            "unknown setting sesion.timeout.ms; the nearest known one is session.timeout.ms",
        ),
        (
            [],
            ["assignor=range,fair"],
            {},
            f"assignor must be one of {', '.join(ASSIGNORS)}, got 'fair'",
        ),
        (
            [],
            ["session.timeout.ms=1000,soon"],
            {},
            "session.timeout.ms must be a positive number of milliseconds, got 'soon'",
        ),
        (
            [],
            ["assignor=range,,sticky"],
            {},
            "assignor=range,,sticky: expected different values with commas between them",
        ),
        (["assignor=range"], ["assignor=sticky"], {}, "assignor is given twice"),
        ([], [], {"seeds": 0}, "0 seeds: expected 1 to 100"),
        (
            [],
            [f"session.timeout.ms={','.join(str(n) for n in range(1, 302))}"],
            {},
            "301 settings to try: expected 200 at most",
        ),
    ],
)
def test_wrong_plans_are_refused_with_a_sentence(
    sets: list[str], grids: list[str], more: dict[str, Any], sentence: str
) -> None:
    with pytest.raises(ValueError) as caught:  # noqa: PT011  # the sentence is compared below
        Plan.parse(sets, grids, **more)
    assert str(caught.value) == sentence
