"""The scenarios in `docs/traces` happen as they are told there.

`COTERIE_REWRITE_TRACES=1 pytest tests/testing/sim/test_traces.py` writes them anew.  Commit a
change to them only if you understand what caused it.
"""

from __future__ import annotations

import os
from pathlib import Path
from typing import Final

import pytest

from tests.support.profiles import mostly_slow
from tests.testing.sim.scenarios import SCENARIOS, trace

_DOCS: Final = Path(__file__).resolve().parents[3] / "docs"
_TRACES: Final = _DOCS / "traces"
_LINES_MAX: Final = 40


@pytest.mark.parametrize("name", mostly_slow(SCENARIOS, quick=4))
def test_trace_of_the_page_is_what_happens(name: str) -> None:
    lines = trace(SCENARIOS[name])
    path = _TRACES / f"{name}.txt"
    if os.environ.get("COTERIE_REWRITE_TRACES"):
        path.parent.mkdir(exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    assert path.read_text(encoding="utf-8").splitlines() == lines
    assert 0 < len(lines) <= _LINES_MAX


def test_page_shows_all_traces() -> None:
    page = (_DOCS / "traces.md").read_text(encoding="utf-8")
    shown = {name for name in SCENARIOS if f'--8<-- "traces/{name}.txt"' in page}
    assert shown == SCENARIOS.keys()
    assert {path.stem for path in _TRACES.glob("*.txt")} == SCENARIOS.keys()
