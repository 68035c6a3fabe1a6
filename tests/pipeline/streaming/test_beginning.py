"""Following is asked to stop in good order only when it has begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from coterie_pipeline.streaming.follow import _await_beginning


@pytest.mark.parametrize("begins", [{"taken": 1}, {"lastProgress": object()}, {"isActive": False}])
def test_it_has_begun_when_something_was_read_or_there_is_nothing(
    monkeypatch: pytest.MonkeyPatch, begins: dict[str, Any]
) -> None:
    # One stands for the query and for its batches.
    stream: Any = SimpleNamespace(isActive=True, lastProgress=None, taken=0)
    slept: list[float] = []

    def sleep(seconds: float) -> None:
        slept.append(seconds)
        if len(slept) == 3:
            stream.__dict__.update(begins)

    monkeypatch.setattr("time.sleep", sleep)
    _await_beginning(stream, stream)
    assert len(slept) == 3
